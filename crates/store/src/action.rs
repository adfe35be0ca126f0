//! What a store was doing with a thread when it failed, for error messages.

use std::fmt;

use prowess_agent::ThreadId;

/// An operation on threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ThreadAction<'a> {
    Lease(&'a ThreadId),
    Release(&'a ThreadId),
    Append(&'a ThreadId),
    Read(&'a ThreadId),
    Fork(&'a ThreadId),
    Delete(&'a ThreadId),
    List,
    Prune,
}

impl fmt::Display for ThreadAction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease(thread) => write!(f, "could not lease the thread `{thread}`"),
            Self::Release(thread) => write!(f, "could not release the thread `{thread}`"),
            Self::Append(thread) => write!(f, "could not store events of the thread `{thread}`"),
            Self::Read(thread) => write!(f, "could not read the thread `{thread}`"),
            Self::Fork(thread) => write!(f, "could not fork the thread `{thread}`"),
            Self::Delete(thread) => write!(f, "could not delete the thread `{thread}`"),
            Self::List => f.write_str("could not list threads"),
            Self::Prune => f.write_str("could not delete old threads"),
        }
    }
}
