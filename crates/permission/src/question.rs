//! What prowess asks a person before it acts.

mod earlier;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{Action, Fingerprint, Kind, Pattern, RealPath};

/// The version of stored questions that this crate writes. It also reads earlier versions.
pub const QUESTION_VERSION: u32 = 2;

/// The beginning of the binding of a run, since version 2 of questions. A digest follows.
///
/// The skills crate makes these bindings. The constant is here because [`Permissions`](crate::Permissions) recognises
/// approvals of version 1 by its absence.
pub const RUN_BINDING: &str = "run 2 ";

/// The binding of an approval of a path: it says that the path is the real one. Approvals of earlier versions lack it.
pub(crate) const REAL_PATH: &str = "real path";

/// An action that needs permission. Rules see its kind and its subjects; a person sees the action itself. The question
/// also says what "always" would record and what an approval is bound to.
///
/// A question can be stored and sent. [`Question::wording`] is its text.
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
    /// The kind of action.
    pub kind: Kind,
    /// What the action is about, as literal text: wildcards have no meaning here.
    pub subjects: Vec<String>,
    /// The action.
    pub action: Action,
    /// The patterns that the reply "always" records.
    pub always: Vec<Pattern>,
    /// What an approval is bound to besides the subject: for a skill, the digest of its manifest and its location. An
    /// approval covers only questions with an equal binding.
    pub binding: Option<String>,
    /// Whether prowess asks each time, regardless of `allow` rules and approvals.
    pub each_time: bool,
    /// The file that the question is about, with its other paths, which rules may name.
    pub file: Option<RealPath>,
    /// Why prowess asks, if the person may think that they replied before.
    pub note: Option<Note>,
    /// The sub-agents for which prowess asks; the last one wants to act.
    pub by: Vec<String>,
    /// The fingerprints of this question in earlier versions.
    earlier_fingerprints: Vec<Fingerprint>,
    /// The fingerprint that an earlier version stored, if the question comes from such a version.
    stored_fingerprint: Option<Fingerprint>,
}

/// Why prowess asks, although the person may think that they replied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// An earlier version recorded an "always" that is bound less exactly.
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
            action: Action::Plain,
            binding: None,
            each_time: false,
            file: None,
            note: None,
            by: Vec::new(),
            earlier_fingerprints: Vec::new(),
            stored_fingerprint: None,
        }
    }

    /// A question about a file. The subject is its real path, and "always" would record this path. `ask` and `deny` rules
    /// for other paths of the file also apply.
    #[must_use]
    pub fn about_file(kind: Kind, file: RealPath) -> Self {
        let question = Self::new(kind, file.real()).binding(REAL_PATH);
        // Two paths that are not UTF-8 can look the same as text, so there is no "always" for them.
        let question = if file.is_exact() { question } else { question.always([]) };
        Self { file: Some(file), ..question }
    }

    /// Adds a subject, which "always" would also record.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        self.always.push(Pattern::literal(&subject));
        self.subjects.push(subject);
        self
    }

    /// Sets the action.
    #[must_use]
    pub fn action(mut self, action: impl Into<Action>) -> Self {
        self.action = action.into();
        self
    }

    /// Replaces the patterns that "always" would record. Without patterns, "always" is not offered.
    #[must_use]
    pub fn always(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        self.always = patterns.into_iter().filter(|_| !self.each_time).collect();
        self
    }

    /// Says that prowess asks for a sub-agent.
    #[must_use]
    pub fn by(mut self, sub_agent: impl Into<String>) -> Self {
        self.by.insert(0, sub_agent.into());
        self
    }

    /// Binds approvals to something that can change, such as a digest.
    #[must_use]
    pub fn binding(mut self, binding: impl Into<String>) -> Self {
        self.binding = Some(binding.into());
        self
    }

    /// Asks each time, regardless of `allow` rules and approvals. `deny` rules still apply.
    ///
    /// ```
    /// use prowess_permission::{Decision, Kind, RuleSource, Policy, Question, Rule};
    ///
    /// let policy = Policy::new().rules(RuleSource::User, [Rule::new("run", "*", Decision::Allow)]);
    /// assert_eq!(policy.evaluate(&Question::new(Kind::RUN, "make").each_time()).decision, Decision::Ask);
    /// ```
    #[must_use]
    pub fn each_time(mut self) -> Self {
        self.each_time = true;
        self.always.clear();
        self
    }

    /// Adds the details and the binding of this question in version 1. A reply to a question that version 1 stored then
    /// counts as a reply to this one.
    #[must_use]
    pub fn also_as_version_1(mut self, details: &Value, binding: Option<&str>) -> Self {
        self.earlier_fingerprints.push(Fingerprint::of_parts(&self, binding, details));
        self
    }

    /// The digest of the kind, the subjects, the binding and the action. The wording does not count.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let of_now = || Fingerprint::of_parts(self, self.binding.as_deref(), &self.action.canonical());
        self.stored_fingerprint.unwrap_or_else(of_now)
    }

    /// Whether a reply to the question with this fingerprint also counts for this question.
    #[must_use]
    pub fn is_covered_by(&self, fingerprint: Fingerprint) -> bool {
        self.earlier_fingerprints.contains(&fingerprint) || self.fingerprint() == fingerprint
    }
}

/// A question as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredQuestion {
    version: u32,
    kind: Kind,
    subjects: Vec<String>,
    #[serde(flatten)]
    action: Action,
    #[serde(default)]
    always: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    binding: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    each_time: bool,
    #[serde(default, rename = "place", skip_serializing_if = "Option::is_none")]
    file: Option<RealPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Note>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by: Vec<String>,
}

impl Serialize for Question {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, subjects, action, always, binding, each_time, file, note, by, .. } = self.clone();
        let version = QUESTION_VERSION;
        StoredQuestion { version, kind, subjects, action, always, binding, each_time, file, note, by }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = Value::deserialize(deserializer)?;
        // A question of version 1 can be any JSON value: an embedder's tool may have made it.
        let is_ours = value.get("kind").is_some() && value.get("deed").is_some();
        let Some(version) = value.get("version").filter(|_| is_ours) else {
            return Ok(earlier::question(&value));
        };
        if version.as_u64().is_none_or(|version| version > u64::from(QUESTION_VERSION)) {
            return Err(D::Error::custom(format!(
                "the question has version {version}, but this prowess reads up to version {QUESTION_VERSION}; update prowess"
            )));
        }
        let stored: StoredQuestion = serde_json::from_value(value).map_err(D::Error::custom)?;
        let StoredQuestion { kind, subjects, action, always, binding, each_time, file, note, by, .. } =
            stored;
        let (earlier_fingerprints, stored_fingerprint) = (Vec::new(), None);
        Ok(Self {
            kind,
            subjects,
            action,
            always,
            binding,
            each_time,
            file,
            note,
            by,
            earlier_fingerprints,
            stored_fingerprint,
        })
    }
}
