//! The state of summarisation in a thread: a person's request, the decided compaction, and the learned context windows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::factor::TokenFactor;
use super::learned::LearnedWindow;
use super::window_use::WindowUse;
use crate::id::ThreadId;
use crate::middleware::{MiddlewareAction, MiddlewareContext, MiddlewareError};
use crate::model::ModelUsage;
use crate::state::State;
use crate::thread_state::StateChange;

/// The name of the middleware, under which the thread stores its state.
pub(super) const NAME: &str = "summarisation";

/// The state of summarisation in a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct SummarisationState {
    /// Whether a person asked for a summary, however short the conversation is.
    pub(super) is_wanted: bool,
    /// Why the last request of a person failed.
    pub(super) failure: Option<String>,
    /// Whether the person was told that a compaction would free too little, since the last one.
    pub(super) is_told: bool,
    /// What errors said about the context windows of models, by the model's name.
    pub(super) learned: BTreeMap<String, LearnedWindow>,
    /// How providers count in comparison with prowess, by the model's name.
    pub(super) factors: BTreeMap<String, TokenFactor>,
    /// How many responses the thread had when a compaction was decided because the provider rejected a request.
    pub(super) retried: Option<u64>,
    /// The same when a rejected request was sent again without a compaction.
    pub(super) sent_again: Option<u64>,
    decided: Option<DecidedCompaction>,
}

/// A compaction that is decided and perhaps not finished.
///
/// It is stored before the history is written, and contains all that is needed to finish it. So after a crash no model is
/// called again, and nothing is written twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DecidedCompaction {
    /// The thread of the history file. A fork of the thread has its own file.
    pub(super) thread: ThreadId,
    /// The first message that the history file does not have.
    pub(super) since: usize,
    /// The first message that the model no longer sees.
    pub(super) from: usize,
    /// The first message that stays.
    pub(super) cut: usize,
    /// The time, for the heading of the section.
    pub(super) at: String,
    /// The size of the history file before, in bytes.
    pub(super) size: u64,
    /// The summary, without its frame.
    pub(super) summary: String,
    /// What the summary cost.
    #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
    pub(super) spent: ModelUsage,
}

/// A change of the state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SummarisationDelta {
    /// A person asks for a summary.
    Wanted,
    /// The request is dropped: there is nothing to summarise, or the person withdrew it.
    Dropped,
    /// The request failed.
    Failed {
        /// Why.
        why: String,
    },
    /// A compaction is decided.
    Decided(DecidedCompaction),
    /// A compaction would free too little. The person is told what fills the window.
    Full(WindowUse),
    /// An error said something about the context window of a model.
    Learned {
        /// The model.
        model: String,
        /// All that errors said about it.
        learned: LearnedWindow,
    },
    /// A report or an error of a provider said how it counts.
    Factor {
        /// The model.
        model: String,
        /// The factor.
        factor: TokenFactor,
    },
    /// A rejected request is sent again, after a compaction.
    Retried {
        /// How many responses the thread has.
        responses: u64,
    },
    /// A rejected request is sent again as it is.
    SentAgain {
        /// How many responses the thread has.
        responses: u64,
    },
}

impl State for SummarisationState {
    type Delta = SummarisationDelta;

    fn apply(&mut self, delta: SummarisationDelta) {
        match delta {
            SummarisationDelta::Wanted => (self.is_wanted, self.failure) = (true, None),
            SummarisationDelta::Dropped => self.is_wanted = false,
            SummarisationDelta::Failed { why } => (self.is_wanted, self.failure) = (false, Some(why)),
            SummarisationDelta::Decided(decided) => {
                (self.is_wanted, self.is_told, self.decided) = (false, false, Some(decided));
            }
            SummarisationDelta::Full(_) => self.is_told = true,
            SummarisationDelta::Learned { model, learned } => {
                self.learned.insert(model, learned);
            }
            SummarisationDelta::Factor { model, factor } => {
                self.factors.insert(model, factor);
            }
            SummarisationDelta::Retried { responses } => self.retried = Some(responses),
            SummarisationDelta::SentAgain { responses } => self.sent_again = Some(responses),
        }
    }
}

impl SummarisationState {
    /// The compaction that is decided and not finished.
    pub(super) fn pending(&self, context: MiddlewareContext<'_>) -> Option<&DecidedCompaction> {
        let state = context.thread_state;
        let is_pending = |decided: &&DecidedCompaction| {
            decided.from == state.cut() && decided.from < decided.cut && decided.cut <= state.messages().len()
        };
        self.decided_in(context.thread).filter(is_pending)
    }

    /// The first message that the history file does not have, if nothing is pending.
    pub(super) fn since(&self, context: MiddlewareContext<'_>) -> usize {
        self.decided_in(context.thread).map_or(0, |decided| decided.cut.min(context.thread_state.cut()))
    }

    /// The changes that tell another thread what this one learned.
    pub(super) fn inheritance(&self) -> Vec<StateChange> {
        let windows = self.learned.iter().map(|(model, learned)| {
            let (model, learned) = (model.clone(), *learned);
            SummarisationDelta::Learned { model, learned }.change()
        });
        let factors = self.factors.iter().map(|(model, factor)| {
            let (model, factor) = (model.clone(), *factor);
            SummarisationDelta::Factor { model, factor }.change()
        });
        windows.chain(factors).collect()
    }

    fn decided_in(&self, thread: &ThreadId) -> Option<&DecidedCompaction> {
        self.decided.as_ref().filter(|decided| decided.thread == *thread)
    }
}

impl SummarisationDelta {
    pub(super) fn change(&self) -> StateChange {
        StateChange::new::<SummarisationState>(NAME, self)
    }

    pub(super) fn action(&self) -> MiddlewareAction {
        MiddlewareAction::Change(self.change())
    }
}

/// The state of summarisation in a thread.
pub(super) fn state(context: MiddlewareContext<'_>) -> Result<&SummarisationState, MiddlewareError> {
    context.states.get(NAME).ok_or(MiddlewareError::NoState)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Later versions must read this stored form.
    #[test]
    fn the_stored_form() {
        let decided = json!({"decided": {
            "thread": "notes", "since": 0, "from": 2, "cut": 7, "at": "2026-01-02T03:04:05Z", "size": 11, "summary": "All."
        }});
        let failed = json!({"failed": {"why": "no summary"}});
        let full = json!({"full": {
            "window": 9, "counting": {"by": "estimate", "factor": 1120},
            "parts": [{"kind": "tool", "group": "files", "count": 7, "tokens": 6}],
        }});
        let learned = json!({"learned": {"model": "m", "learned": {"window": 7, "estimated": 8}}});
        let factor = json!({"factor": {"model": "m", "factor": 1120}});
        let retried = json!({"retried": {"responses": 3}});
        let again = json!({"sent_again": {"responses": 3}});
        for stored in
            [json!("wanted"), json!("dropped"), failed, decided, full, learned, factor, retried, again]
        {
            let delta: SummarisationDelta = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(delta.change().delta, stored);
        }
        // Version 0.1 stored other parts.
        let old = json!({"full": {
            "window": 9, "system_prompt": 1, "tools": 2, "overview": 3, "loaded_skills": 4, "request": 5, "rest": 6
        }});
        let SummarisationDelta::Full(used) = serde_json::from_value(old).unwrap() else { panic!() };
        assert_eq!((used.window, used.total()), (Some(9), 0));
    }
}
