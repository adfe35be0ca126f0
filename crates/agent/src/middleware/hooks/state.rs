//! The state of hooks in a thread.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::MessageId;
use crate::state::State;

/// How many texts of hooks can wait for the model. If there are more, the oldest are dropped.
const MAX_TEXTS: usize = 64;

/// The state of hooks in a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct HooksState {
    /// Whether a process has opened the thread before.
    pub(super) started: bool,
    /// The keys of hooks with `once` that have run.
    pub(super) ran: BTreeSet<String>,
    /// The last message of a person that hooks have seen.
    pub(super) prompt: Option<MessageId>,
    /// Messages of a person that hooks refused.
    pub(super) refused: BTreeSet<MessageId>,
    /// The calls of this turn for which hooks have seen `PermissionRequest`.
    pub(super) asked: BTreeSet<MessageId>,
    /// Calls that were made, and that hooks have not seen yet.
    pub(super) made: Vec<MadeCall>,
    /// How many messages the model did not see when hooks last saw a compaction.
    pub(super) cut: usize,
    /// The loaded skills that hooks have seen.
    pub(super) skills: Vec<String>,
    /// Texts that wait for the model.
    pub(super) texts: Vec<HookText>,
    /// Why the turn should end.
    pub(super) halt: Option<String>,
    /// How often hooks kept this turn from ending.
    pub(super) stops: u32,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MadeCall {
    /// The message with its answer.
    pub(super) message: MessageId,
    /// Its arguments, if they differ from those that the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Value>,
}

/// A hook's text for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HookText {
    /// The event.
    pub(super) event: String,
    /// The skill of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skill: Option<String>,
    pub(super) text: String,
    pub(super) lasts: TextLifetime,
    /// The number of model responses before it.
    pub(super) after: usize,
    /// How many messages of the thread were summarised when the model was told; `None` before that.
    #[serde(skip)]
    pub(super) told_at: Option<usize>,
}

impl HookText {
    /// Whether the model must be told, after this many messages were summarised. A summary takes texts out of the model's
    /// view, so texts that last are told again.
    pub(super) fn is_due(&self, cut: usize) -> bool {
        self.told_at.is_none_or(|told_at| told_at < cut && self.lasts != TextLifetime::Call)
    }

    /// Whether the model has read the text, after this many responses.
    pub(super) fn is_over(&self, responses: usize) -> bool {
        self.lasts == TextLifetime::Call && self.after < responses
    }
}

/// How long a text matters to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TextLifetime {
    /// For one model call.
    Call,
    /// Until the next turn begins.
    Turn,
    /// Until a process opens the thread again.
    Session,
}

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HooksDelta {
    /// A process opened the thread.
    Started,
    /// A hook with `once` ran.
    Ran(String),
    /// A turn began with this message.
    Prompted(MessageId),
    /// These messages were refused.
    Refused(Vec<MessageId>),
    /// Hooks have seen `PermissionRequest` for this call.
    Asked(MessageId),
    /// A call was made.
    Made(MadeCall),
    /// Hooks have seen all calls that were made.
    Followed,
    /// Hooks have seen a compaction.
    Cut(usize),
    /// Hooks have seen these loaded skills.
    Skills(Vec<String>),
    /// A text waits for the model.
    Tell(HookText),
    /// The texts are in the conversation.
    Told {
        /// How many messages of the thread were summarised.
        cut: usize,
    },
    /// The model has read the texts, after this many responses.
    Heard(usize),
    /// The turn should end.
    Halt(String),
    /// A hook state the turn from ending.
    Resumed,
}

impl State for HooksState {
    type Delta = HooksDelta;

    fn apply(&mut self, delta: HooksDelta) {
        match delta {
            HooksDelta::Started => {
                self.started = true;
                self.texts.retain(|text| text.lasts != TextLifetime::Session);
            }
            HooksDelta::Ran(key) => drop(self.ran.insert(key)),
            HooksDelta::Prompted(message) => {
                self.prompt = Some(message);
                self.texts.retain(|text| text.lasts != TextLifetime::Turn);
                self.asked.clear();
                (self.halt, self.stops) = (None, 0);
            }
            HooksDelta::Refused(messages) => self.refused.extend(messages),
            HooksDelta::Asked(message) => drop(self.asked.insert(message)),
            HooksDelta::Made(made) => self.made.push(made),
            HooksDelta::Followed => self.made.clear(),
            HooksDelta::Cut(cut) => self.cut = cut,
            HooksDelta::Skills(skills) => self.skills = skills,
            HooksDelta::Tell(text) => {
                self.texts.push(text);
                if self.texts.len() > MAX_TEXTS {
                    self.texts.remove(0);
                }
            }
            HooksDelta::Told { cut } => {
                self.texts
                    .iter_mut()
                    .filter(|text| text.is_due(cut))
                    .for_each(|text| text.told_at = Some(cut));
            }
            HooksDelta::Heard(responses) => self.texts.retain(|text| !text.is_over(responses)),
            HooksDelta::Halt(reason) => self.halt = Some(reason),
            HooksDelta::Resumed => self.stops += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Later versions must read this stored form.
    #[test]
    fn the_stored_form() {
        let text = |lasts| HookText {
            event: "Stop".to_owned(),
            skill: None,
            text: "x".to_owned(),
            lasts,
            after: 3,
            told_at: None,
        };
        let deltas = [
            HooksDelta::Started,
            HooksDelta::Ran("k".to_owned()),
            HooksDelta::Prompted("m".into()),
            HooksDelta::Refused(vec!["m".into()]),
            HooksDelta::Asked("m".into()),
            HooksDelta::Made(MadeCall { message: "m".into(), arguments: None }),
            HooksDelta::Followed,
            HooksDelta::Cut(3),
            HooksDelta::Skills(vec!["pdf".to_owned()]),
            HooksDelta::Tell(text(TextLifetime::Call)),
            HooksDelta::Told { cut: 4 },
            HooksDelta::Heard(7),
            HooksDelta::Halt("enough".to_owned()),
            HooksDelta::Resumed,
        ];
        let stored = json!([
            "started", {"ran": "k"}, {"prompted": "m"}, {"refused": ["m"]}, {"asked": "m"},
            {"made": {"message": "m"}}, "followed", {"cut": 3}, {"skills": ["pdf"]},
            {"tell": {"event": "Stop", "text": "x", "lasts": "call", "after": 3}}, {"told": {"cut": 4}}, {"heard": 7}, {"halt": "enough"}, "resumed",
        ]);
        assert_eq!(json!(deltas), stored);
        assert_eq!(serde_json::from_value::<Vec<HooksDelta>>(stored).ok().as_deref(), Some(&deltas[..]));
    }

    #[test]
    fn texts_stay_as_long_as_they_should() {
        let mut state = HooksState::default();
        for lasts in [TextLifetime::Call, TextLifetime::Turn, TextLifetime::Session] {
            let text = format!("{lasts:?}");
            state.apply(HooksDelta::Tell(HookText {
                event: "Stop".to_owned(),
                skill: None,
                text,
                lasts,
                after: 1,
                told_at: None,
            }));
        }
        let texts = |state: &HooksState| state.texts.iter().map(|text| text.lasts).collect::<Vec<_>>();
        let due = |state: &HooksState, cut| state.texts.iter().filter(|text| text.is_due(cut)).count();
        assert_eq!(due(&state, 0), 3);
        state.apply(HooksDelta::Told { cut: 0 });
        assert_eq!(
            (due(&state, 0), due(&state, 5)),
            (0, 2),
            "after a summary, those that last are told again"
        );
        state.apply(HooksDelta::Heard(1));
        assert_eq!(texts(&state), [TextLifetime::Call, TextLifetime::Turn, TextLifetime::Session]);
        state.apply(HooksDelta::Heard(2));
        assert_eq!(texts(&state), [TextLifetime::Turn, TextLifetime::Session]);
        state.apply(HooksDelta::Prompted("m".into()));
        assert_eq!(texts(&state), [TextLifetime::Session]);
        state.apply(HooksDelta::Started);
        assert_eq!(texts(&state), []);
        for _ in 0..2 * MAX_TEXTS {
            let text = HookText {
                event: String::new(),
                skill: None,
                text: String::new(),
                lasts: TextLifetime::Turn,
                after: 0,
                told_at: None,
            };
            state.apply(HooksDelta::Tell(text));
        }
        assert_eq!(state.texts.len(), MAX_TEXTS);
    }
}
