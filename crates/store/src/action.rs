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

/// An operation on the queue of turns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueAction<'a> {
    Post(&'a ThreadId),
    Wake(&'a ThreadId),
    Claim,
    ClaimThread(&'a ThreadId),
    Keep(&'a ThreadId),
    Read(&'a ThreadId),
    Take(&'a ThreadId),
    Finish(&'a ThreadId),
    GiveBack(&'a ThreadId),
    Retry(&'a ThreadId),
    Drop(&'a ThreadId),
    List,
    State(&'a ThreadId),
    Forget(&'a ThreadId),
}

impl fmt::Display for QueueAction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(thread) => write!(f, "could not post to the thread `{thread}`"),
            Self::Wake(thread) => write!(f, "could not queue the thread `{thread}`"),
            Self::Claim => f.write_str("could not claim a thread"),
            Self::ClaimThread(thread) => write!(f, "could not claim the thread `{thread}`"),
            Self::Keep(thread) => write!(f, "could not keep the claim of the thread `{thread}`"),
            Self::Read(thread) => write!(f, "could not read the inbox of the thread `{thread}`"),
            Self::Take(thread) => write!(f, "could not take a post to the thread `{thread}`"),
            Self::Finish(thread) => write!(f, "could not end the work on the thread `{thread}`"),
            Self::GiveBack(thread) => write!(f, "could not give back the thread `{thread}`"),
            Self::Retry(thread) => write!(f, "could not queue the thread `{thread}` again"),
            Self::Drop(thread) => write!(f, "could not drop the work of the thread `{thread}`"),
            Self::List => f.write_str("could not look at the queue"),
            Self::State(thread) => write!(f, "could not look up the thread `{thread}` in the queue"),
            Self::Forget(thread) => write!(f, "could not forget the posts to the thread `{thread}`"),
        }
    }
}
