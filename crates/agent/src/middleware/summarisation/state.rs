//! What a thread keeps of its summaries: what a person asked for, and the compaction that is decided.

use serde::{Deserialize, Serialize};

use crate::id::ThreadId;
use crate::middleware::{MiddlewareAction, MiddlewareContext};
use crate::model::ModelUsage;
use crate::state::State;
use crate::thread_state::StateChange;

/// The part's name, under which its state is.
pub(super) const NAME: &str = "summarisation";

/// What a thread keeps of its summaries.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Whether a person wants the conversation summarised, however short it is.
    pub(super) is_wanted: bool,
    /// Why what a person wanted last could not be done.
    pub(super) failure: Option<String>,
    decided: Option<Decided>,
}

/// A compaction that is decided. It is stored before anything is written to the history, and has all that is needed to
/// finish it: after a crash nobody is asked again, and nothing is written twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Decided {
    /// The thread whose history it is. One that was forked off it has its own.
    pub(super) thread: ThreadId,
    /// The first message that the history does not have.
    pub(super) since: usize,
    /// The first message that is taken out.
    pub(super) from: usize,
    /// The first that stays.
    pub(super) cut: usize,
    /// When; the heading of its section.
    pub(super) at: String,
    /// The size of the history before, in bytes: the section is behind it, or not written yet.
    pub(super) size: u64,
    /// The summary, without its frame.
    pub(super) summary: String,
    /// What the summary cost.
    #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
    pub(super) spent: ModelUsage,
}

/// A change of what a thread keeps.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delta {
    /// A person wants a summary.
    Wanted,
    /// What the person wanted is over: there is nothing to summarise, or the person changed their mind.
    Dropped,
    /// What the person wanted could not be done.
    Failed {
        /// Why.
        why: String,
    },
    /// A compaction is decided.
    Decided(Decided),
}

impl State for Kept {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Wanted => (self.is_wanted, self.failure) = (true, None),
            Delta::Dropped => self.is_wanted = false,
            Delta::Failed { why } => (self.is_wanted, self.failure) = (false, Some(why)),
            Delta::Decided(decided) => (self.is_wanted, self.decided) = (false, Some(decided)),
        }
    }
}

impl Kept {
    /// The compaction that is decided and not done.
    pub(super) fn pending(&self, moment: MiddlewareContext<'_>) -> Option<&Decided> {
        let run = moment.run;
        let is_pending = |decided: &&Decided| {
            decided.from == run.cut() && decided.from < decided.cut && decided.cut <= run.messages().len()
        };
        self.decided_in(moment.thread).filter(is_pending)
    }

    /// The first message that the thread's history does not have, when nothing is pending.
    pub(super) fn since(&self, moment: MiddlewareContext<'_>) -> usize {
        self.decided_in(moment.thread).map_or(0, |decided| decided.cut.min(moment.run.cut()))
    }

    fn decided_in(&self, thread: &ThreadId) -> Option<&Decided> {
        self.decided.as_ref().filter(|decided| decided.thread == *thread)
    }
}

impl Delta {
    pub(super) fn change(&self) -> StateChange {
        StateChange::new::<Kept>(NAME, self)
    }

    pub(super) fn act(&self) -> MiddlewareAction {
        MiddlewareAction::Change(self.change())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is stored today is read for good: this form only ever grows.
    #[test]
    fn the_stored_form() {
        let decided = json!({"decided": {
            "thread": "notes", "since": 0, "from": 2, "cut": 7, "at": "2026-01-02T03:04:05Z", "size": 11, "summary": "All."
        }});
        let failed = json!({"failed": {"why": "no summary"}});
        for stored in [json!("wanted"), json!("dropped"), failed, decided] {
            let delta: Delta = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(delta.change().delta, stored);
        }
    }
}
