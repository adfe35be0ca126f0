//! What summarisation tells a person.

use serde::Deserialize as _;

use super::Summarisation;
use super::state::{NAME, SummarisationDelta};
use super::window_use::WindowUse;
use crate::thread_state::StateChange;

/// Something that a person should know about the context window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SummarisationNotice {
    /// The conversation is due to be summarised, but that would free less than a tenth of the context window. The agent
    /// says so once, until a compaction succeeds, and whenever it ends a turn for this reason.
    Full(WindowUse),
    /// An error of the provider showed that the context window is smaller than known.
    Learned {
        /// The model.
        model: String,
        /// The context window, in tokens.
        window: u64,
    },
}

impl Summarisation {
    /// What a state change means for a person, if it is one of this middleware. For front ends, which see each change in
    /// [`Event::StateChanged`](crate::Event::StateChanged).
    pub fn notice(change: &StateChange) -> Option<SummarisationNotice> {
        if change.owner != NAME {
            return None;
        }
        match SummarisationDelta::deserialize(&change.delta) {
            Ok(SummarisationDelta::Full(used)) => Some(SummarisationNotice::Full(used)),
            Ok(SummarisationDelta::Learned { model, learned }) => {
                let window = learned.window.unwrap_or(learned.estimated);
                Some(SummarisationNotice::Learned { model, window })
            }
            _ => None,
        }
    }
}
