//! The parts that come with the crate, one file each.

mod approval;
mod memory;
mod skills;
mod todos;

pub use self::approval::Approval;
pub use self::memory::{MAX_MEMORY_BYTES, Memory};
pub use self::skills::Skills;
pub use self::todos::{Todo, TodoStatus, Todos};
