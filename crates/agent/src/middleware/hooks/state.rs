//! What a thread keeps of its hooks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::MessageId;
use crate::state::State;

/// The most texts that wait for the model at once; those that came first go.
const MAX_TEXTS: usize = 64;

/// What a thread keeps of its hooks.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Whether a session was started before.
    pub(super) started: bool,
    /// Hooks that are gone, because they were to run once.
    pub(super) ran: BTreeSet<String>,
    /// The last message of a person that hooks were told of.
    pub(super) prompt: Option<MessageId>,
    /// Messages of a person that hooks refused.
    pub(super) refused: BTreeSet<MessageId>,
    /// Calls of this turn that were put to a person, and hooks told of it.
    pub(super) asked: BTreeSet<MessageId>,
    /// Calls that were made, and hooks are to be told of it.
    pub(super) made: Vec<Made>,
    /// How many messages the model did not see when hooks were told of it last.
    pub(super) cut: usize,
    /// The loaded skills that hooks were told of.
    pub(super) skills: Vec<String>,
    /// What waits for the model.
    pub(super) texts: Vec<Told>,
    /// Why the turn should end.
    pub(super) halt: Option<String>,
    /// How often hooks kept this turn from ending.
    pub(super) stops: u32,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    /// The message with its result.
    pub(super) message: MessageId,
    /// Its arguments, if they are not those that the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Value>,
}

/// A text for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The event.
    pub(super) event: String,
    /// The skill whose hook it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skill: Option<String>,
    pub(super) text: String,
    pub(super) lasts: Lasts,
    /// How many answers of the model there were before.
    pub(super) after: usize,
}

impl Told {
    /// Whether the model was told, once it has given so many answers.
    pub(super) fn is_over(&self, answers: usize) -> bool {
        self.lasts == Lasts::Call && self.after < answers
    }
}

/// How long a text stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lasts {
    /// For one call of the model.
    Call,
    /// Until the next turn begins.
    Turn,
    /// Until the next session starts.
    Session,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delta {
    /// A session starts.
    Started,
    /// A hook ran that was to run once.
    Ran(String),
    /// A turn begins with this message.
    Prompted(MessageId),
    /// These messages were refused.
    Refused(Vec<MessageId>),
    /// Hooks were told that this call was put to a person.
    Asked(MessageId),
    /// A call was made.
    Made(Made),
    /// Hooks were told of all calls that were made.
    Followed,
    /// Hooks were told of a compaction.
    Cut(usize),
    /// Hooks were told of these loaded skills.
    Skills(Vec<String>),
    /// A text waits for the model.
    Tell(Told),
    /// The model was told, and gave so many answers.
    Heard(usize),
    /// The turn should end.
    Halt(String),
    /// A hook kept the turn from ending.
    Resumed,
}

impl State for Kept {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Started => {
                self.started = true;
                self.texts.retain(|told| told.lasts != Lasts::Session);
            }
            Delta::Ran(key) => drop(self.ran.insert(key)),
            Delta::Prompted(message) => {
                self.prompt = Some(message);
                self.texts.retain(|told| told.lasts != Lasts::Turn);
                self.asked.clear();
                (self.halt, self.stops) = (None, 0);
            }
            Delta::Refused(messages) => self.refused.extend(messages),
            Delta::Asked(message) => drop(self.asked.insert(message)),
            Delta::Made(made) => self.made.push(made),
            Delta::Followed => self.made.clear(),
            Delta::Cut(cut) => self.cut = cut,
            Delta::Skills(skills) => self.skills = skills,
            Delta::Tell(told) => {
                self.texts.push(told);
                if self.texts.len() > MAX_TEXTS {
                    self.texts.remove(0);
                }
            }
            Delta::Heard(answers) => self.texts.retain(|told| !told.is_over(answers)),
            Delta::Halt(reason) => self.halt = Some(reason),
            Delta::Resumed => self.stops += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is stored today is read for good: this form only ever grows.
    #[test]
    fn the_stored_form() {
        let told =
            |lasts| Told { event: "Stop".to_owned(), skill: None, text: "x".to_owned(), lasts, after: 3 };
        let deltas = [
            Delta::Started,
            Delta::Ran("k".to_owned()),
            Delta::Prompted("m".into()),
            Delta::Refused(vec!["m".into()]),
            Delta::Asked("m".into()),
            Delta::Made(Made { message: "m".into(), arguments: None }),
            Delta::Followed,
            Delta::Cut(3),
            Delta::Skills(vec!["pdf".to_owned()]),
            Delta::Tell(told(Lasts::Call)),
            Delta::Heard(7),
            Delta::Halt("enough".to_owned()),
            Delta::Resumed,
        ];
        let stored = json!([
            "started", {"ran": "k"}, {"prompted": "m"}, {"refused": ["m"]}, {"asked": "m"},
            {"made": {"message": "m"}}, "followed", {"cut": 3}, {"skills": ["pdf"]},
            {"tell": {"event": "Stop", "text": "x", "lasts": "call", "after": 3}}, {"heard": 7}, {"halt": "enough"}, "resumed",
        ]);
        assert_eq!(json!(deltas), stored);
        assert_eq!(serde_json::from_value::<Vec<Delta>>(stored).ok().as_deref(), Some(&deltas[..]));
    }

    #[test]
    fn texts_stay_as_long_as_they_should() {
        let mut kept = Kept::default();
        for lasts in [Lasts::Call, Lasts::Turn, Lasts::Session] {
            let text = format!("{lasts:?}");
            kept.apply(Delta::Tell(Told { event: "Stop".to_owned(), skill: None, text, lasts, after: 1 }));
        }
        let texts = |kept: &Kept| kept.texts.iter().map(|told| told.lasts).collect::<Vec<_>>();
        kept.apply(Delta::Heard(1));
        assert_eq!(texts(&kept), [Lasts::Call, Lasts::Turn, Lasts::Session]);
        kept.apply(Delta::Heard(2));
        assert_eq!(texts(&kept), [Lasts::Turn, Lasts::Session]);
        kept.apply(Delta::Prompted("m".into()));
        assert_eq!(texts(&kept), [Lasts::Session]);
        kept.apply(Delta::Started);
        assert_eq!(texts(&kept), []);
        for _ in 0..2 * MAX_TEXTS {
            let told =
                Told { event: String::new(), skill: None, text: String::new(), lasts: Lasts::Turn, after: 0 };
            kept.apply(Delta::Tell(told));
        }
        assert_eq!(kept.texts.len(), MAX_TEXTS);
    }
}
