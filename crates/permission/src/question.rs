//! What somebody is asked.

mod earlier;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{Action, Fingerprint, Kind, Pattern, RealPath};

/// The version that this crate writes. It reads this one and those before it.
pub const QUESTION_VERSION: u32 = 2;

/// What the binding of a run begins with, since version 2 of questions: a digest of canonical bytes follows.
pub const RUN_BINDING: &str = "run 2 ";

/// What an approval of a path is bound to: that the path is the real one. Approvals of earlier versions are not.
pub(crate) const REAL_PATH: &str = "real path";

/// An act that needs permission: its kind and what it acts on, for rules; what is to be done, for the person who judges
/// it; what "always" would record, and what an answer is bound to.
///
/// It is a value that can be stored and sent. [`Question::words`] makes words of it.
///
/// ```
/// use prowess_permission::{Kind, Question};
///
/// let question = Question::new(Kind::RUN, "git push");
/// assert_eq!(question.always[0].as_str(), "git push", "what `always` would record");
/// let stored = serde_json::to_string(&question)?;
/// assert_eq!(serde_json::from_str::<Question>(&stored)?, question);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The sort of act.
    pub kind: Kind,
    /// What it acts on, as literal text: wildcards in it mean nothing.
    pub subjects: Vec<String>,
    /// What is to be done.
    pub deed: Action,
    /// What the answer "always" records.
    pub always: Vec<Pattern>,
    /// What an approval must have been given for, beyond the subject: for a skill, the digest of its contents and its
    /// place. A remembered approval covers only questions with an equal binding.
    pub binding: Option<String>,
    /// Whether it is asked each time: neither a rule that allows it nor a remembered approval is an answer.
    pub each_time: bool,
    /// Where the file is that this is about, if it is about one: the other names that rules may know it by.
    pub place: Option<RealPath>,
    /// Why it is asked although the person may think that it was settled.
    pub note: Option<Note>,
    /// The sub-agents on whose behalf it is asked, the one that asks last.
    pub by: Vec<String>,
    /// The fingerprints that earlier versions gave to the same question.
    formerly: Vec<Fingerprint>,
    /// The fingerprint of what an earlier version asked, when it was read from what that stored.
    stored: Option<Fingerprint>,
}

/// Why something is asked although the person may think that it was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// An earlier version recorded an "always" for it, in a form that binds less exactly.
    ApprovedByEarlierVersion,
}

impl Question {
    /// A question about one subject. "Always" would record exactly that subject.
    #[must_use]
    pub fn new(kind: Kind, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        Self {
            kind,
            always: vec![Pattern::literal(&subject)],
            subjects: vec![subject],
            deed: Action::Plain,
            binding: None,
            each_time: false,
            place: None,
            note: None,
            by: Vec::new(),
            formerly: Vec::new(),
            stored: None,
        }
    }

    /// A question about a file. The subject is its real path, which is what "always" would record. A rule that asks about
    /// another name that the file was reached by, or denies it, holds as well.
    #[must_use]
    pub fn about_place(kind: Kind, place: RealPath) -> Self {
        let question = Self::new(kind, place.real()).bound_to(REAL_PATH);
        // What cannot be told apart from another name is not remembered.
        let question = if place.is_exact() { question } else { question.always([]) };
        Self { place: Some(place), ..question }
    }

    /// The same act on one subject more, which "always" would record too.
    #[must_use]
    pub fn and(mut self, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        self.always.push(Pattern::literal(&subject));
        self.subjects.push(subject);
        self
    }

    /// The same, saying what is to be done.
    #[must_use]
    pub fn to(mut self, deed: impl Into<Action>) -> Self {
        self.deed = deed.into();
        self
    }

    /// Replaces what "always" would record: with broader patterns, or with nothing.
    #[must_use]
    pub fn always(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        self.always = patterns.into_iter().filter(|_| !self.each_time).collect();
        self
    }

    /// The same, asked on behalf of a sub-agent.
    #[must_use]
    pub fn by(mut self, sub_agent: impl Into<String>) -> Self {
        self.by.insert(0, sub_agent.into());
        self
    }

    /// Binds approvals to a state of the world, such as a digest.
    #[must_use]
    pub fn bound_to(mut self, binding: impl Into<String>) -> Self {
        self.binding = Some(binding.into());
        self
    }

    /// Has a person answer each time, whatever rules and earlier answers allow. A rule that denies it stands.
    ///
    /// ```
    /// use prowess_permission::{Decision, Kind, RuleSource, Policy, Question, Rule};
    ///
    /// let policy = Policy::new().with(RuleSource::User, [Rule::new("run", "*", Decision::Allow)]);
    /// assert_eq!(policy.evaluate(&Question::new(Kind::RUN, "make").each_time()).decision, Decision::Ask);
    /// ```
    #[must_use]
    pub fn each_time(mut self) -> Self {
        self.each_time = true;
        self.always.clear();
        self
    }

    /// The same with the form that version 1 gave to its details and its binding, so that an answer to what that version
    /// asked and stored is one to this.
    #[must_use]
    pub fn formerly(mut self, details: &Value, binding: Option<&str>) -> Self {
        self.formerly.push(Fingerprint::of_parts(&self, binding, details));
        self
    }

    /// What exactly is being asked, in 32 bytes: the kind, the subjects, the binding and what is to be done, whatever
    /// words are made of it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let of_now = || Fingerprint::of_parts(self, self.binding.as_deref(), &self.deed.canonical());
        self.stored.unwrap_or_else(of_now)
    }

    /// Whether an answer to what has this fingerprint is one to this question.
    #[must_use]
    pub fn is_answered_by(&self, fingerprint: Fingerprint) -> bool {
        self.formerly.contains(&fingerprint) || self.fingerprint() == fingerprint
    }
}

/// How a question is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    kind: Kind,
    subjects: Vec<String>,
    #[serde(flatten)]
    deed: Action,
    #[serde(default)]
    always: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    binding: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    each_time: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<RealPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Note>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by: Vec<String>,
}

impl Serialize for Question {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, subjects, deed, always, binding, each_time, place, note, by, .. } = self.clone();
        let version = QUESTION_VERSION;
        Stored { version, kind, subjects, deed, always, binding, each_time, place, note, by }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = Value::deserialize(deserializer)?;
        // Version 1 was any value, also one that a tool of somebody's own made.
        let is_ours = value.get("kind").is_some() && value.get("deed").is_some();
        let Some(version) = value.get("version").filter(|_| is_ours) else {
            return Ok(earlier::question(&value));
        };
        if version.as_u64().is_none_or(|version| version > u64::from(QUESTION_VERSION)) {
            return Err(D::Error::custom(format!(
                "the question has version {version}, and this program knows {QUESTION_VERSION}: update the program"
            )));
        }
        let stored: Stored = serde_json::from_value(value).map_err(D::Error::custom)?;
        let Stored { kind, subjects, deed, always, binding, each_time, place, note, by, .. } = stored;
        let (formerly, stored) = (Vec::new(), None);
        Ok(Self { kind, subjects, deed, always, binding, each_time, place, note, by, formerly, stored })
    }
}
