//! The fingerprint of a question: the SHA-256 of everything that it asks.

use std::fmt;
use std::str::FromStr;

use hmac_sha256::Hash;
use prowess_base::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Question;

/// The SHA-256 of everything that a question asks. Questions with equal fingerprints ask the same.
///
/// Each part is hashed after its length, so no two questions have the same bytes. The keys of JSON objects are sorted, so
/// their order does not count.
///
/// ```
/// use prowess_permission::{Fingerprint, Kind, Question};
///
/// let make = Question::new(Kind::RUN, "make").fingerprint();
/// assert_ne!(make, Question::new(Kind::RUN, "make check").fingerprint());
/// assert_eq!(make.to_string().parse::<Fingerprint>(), Ok(make));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a question with this binding and these details instead of its own.
    pub(crate) fn of_parts(question: &Question, binding: Option<&str>, details: &Value) -> Self {
        let mut hash = Hash::new();
        // The name of this encoding: another encoding must not give equal fingerprints.
        text(&mut hash, "prowess permission request 1");
        text(&mut hash, question.kind.as_str());
        length(&mut hash, question.subjects.len());
        for subject in &question.subjects {
            text(&mut hash, subject);
        }
        match binding {
            None => hash.update([0]),
            Some(binding) => {
                hash.update([1]);
                text(&mut hash, binding);
            }
        }
        json(&mut hash, details);
        if question.each_time {
            text(&mut hash, "each time");
        }
        Self(hash.finalize())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn length(hash: &mut Hash, length: usize) {
    hash.update((length as u64).to_le_bytes());
}

fn text(hash: &mut Hash, text: &str) {
    length(hash, text.len());
    hash.update(text);
}

fn json(hash: &mut Hash, value: &Value) {
    match value {
        Value::Null => hash.update([0]),
        Value::Bool(false) => hash.update([1]),
        Value::Bool(true) => hash.update([2]),
        Value::Number(number) => {
            hash.update([3]);
            text(hash, &number.to_string());
        }
        Value::String(string) => {
            hash.update([4]);
            text(hash, string);
        }
        Value::Array(items) => {
            hash.update([5]);
            length(hash, items.len());
            for item in items {
                json(hash, item);
            }
        }
        Value::Object(members) => {
            hash.update([6]);
            length(hash, members.len());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            for (key, member) in members {
                text(hash, key);
                json(hash, member);
            }
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        hex::decode(text).map(Self).ok_or(FingerprintError)
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = FingerprintError;

    fn try_from(text: String) -> Result<Self, FingerprintError> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// The error for a text that is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 lowercase hexadecimal digits")]
pub struct FingerprintError;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Channel, RunAction};
    use crate::{Action, Kind};

    #[test]
    fn every_part_counts() {
        let base = Question::new(Kind::RUN, "ab");
        let asking = |action: Action| base.clone().action(action);
        let other = |details: &[(&str, &str)]| {
            let details = details.iter().map(|(name, text)| (name.to_string(), text.to_string()));
            asking(Action::Other { title: String::new(), details: details.collect() })
        };
        let others = [
            Question::new(Kind::TOOL, "ab"),
            Question::new(Kind::RUN, "a").subject("b"),
            Question::new(Kind::RUN, "ab").subject(""),
            base.clone().binding(""),
            base.clone().each_time(),
            asking(Action::WriteFile { content: String::new() }),
            asking(Action::WriteFile { content: "x".to_owned() }),
            asking(RunAction::default().into()),
            asking(RunAction { command: "x".to_owned(), ..RunAction::default() }.into()),
            asking(RunAction { channel: Some(Channel::Pipe), ..RunAction::default() }.into()),
            other(&[]),
            other(&[("a", "bc")]),
            other(&[("ab", "c")]),
        ];
        let shown = RunAction { real_paths: [("a".into(), "/a".into())].into(), ..RunAction::default() };
        assert_eq!(
            asking(shown.into()).fingerprint(),
            asking(RunAction::default().into()).fingerprint(),
            "real paths are only shown"
        );
        let mut seen: Vec<_> = others.iter().map(Question::fingerprint).collect();
        seen.push(base.fingerprint());
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), others.len() + 1);
    }

    #[test]
    fn details_are_told_apart_and_their_order_does_not_count() {
        let base = Question::new(Kind::TOOL, "x");
        let of = |text: &str| Fingerprint::of_parts(&base, None, &serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#), of(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#));
        let all = [r#""""#, "{}", "[]", "false", "0", r#""0""#, r#"["ab", "c"]"#, r#"["a", "bc"]"#, "null"];
        let mut seen: Vec<_> = all.iter().map(|text| of(text)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all.len());
    }

    #[test]
    fn text_and_value_agree() {
        let fingerprint = Question::new(Kind::RUN, "ls").fingerprint();
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        for text in ["", "zz", &"g".repeat(64), &"é".repeat(32), &"A".repeat(64)] {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError));
        }
    }
}
