//! What was to be done with threads, for whoever is told that it was not.

use std::fmt;

use prowess_agent::ThreadId;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing<'a> {
    Taking(&'a ThreadId),
    GivingBack(&'a ThreadId),
    Storing(&'a ThreadId),
    Reading(&'a ThreadId),
    Forking(&'a ThreadId),
    Deleting(&'a ThreadId),
    Listing,
    Pruning,
}

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taking(thread) => write!(f, "the thread `{thread}` could not be taken"),
            Self::GivingBack(thread) => write!(f, "the thread `{thread}` could not be given back"),
            Self::Storing(thread) => write!(f, "events of the thread `{thread}` could not be stored"),
            Self::Reading(thread) => write!(f, "the thread `{thread}` could not be read"),
            Self::Forking(thread) => write!(f, "the thread `{thread}` could not be forked"),
            Self::Deleting(thread) => write!(f, "the thread `{thread}` could not be deleted"),
            Self::Listing => f.write_str("threads could not be listed"),
            Self::Pruning => f.write_str("old threads could not be deleted"),
        }
    }
}
