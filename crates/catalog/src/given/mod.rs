//! Files that a caller supplies, with paths that may be anything.

mod path;
mod scan;
mod stamp;

pub(crate) use path::{RefusedPaths, TWICE, check};
pub use scan::scan_given;
pub(crate) use stamp::GivenStamp;
