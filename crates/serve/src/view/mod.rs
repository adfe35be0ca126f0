//! The public forms of what a server shows: events, messages, questions and threads. The stored forms may change, and have
//! paths of the server; these stay, and have none. Only the problems in the queue, which administrators see, may name some.

mod event;
mod message;
mod places;
mod question;
mod queue;
mod replay;
mod thread;

pub(crate) use self::event::NO_REASON;
pub use self::event::{ChangesView, EventView, LoggedEvent, UsageView};
pub use self::message::{CallView, MessageRole, MessageView};
pub use self::places::Places;
pub use self::question::{DetailView, QuestionView};
pub use self::queue::{QueueNumbersView, QueueView, QueuedThreadState, QueuedThreadView};
pub(crate) use self::replay::{Asked, Replay};
pub use self::thread::{LoadedSkillView, ThreadStatus, ThreadView, TodoView};

use std::time::SystemTime;

/// A time as clients read it.
pub fn time(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
