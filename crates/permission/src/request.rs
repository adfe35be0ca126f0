//! What is asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::shown;
use crate::{Fingerprint, Kind, Pattern, Place};

/// What an approval of a path is bound to: that the path is the real one. Approvals of earlier versions are not.
pub(crate) const REAL_PATH: &str = "real path";

/// An act that needs permission: its kind, what it acts on, and what a person needs to judge it.
///
/// ```
/// use prowess_permission::{Kind, Request};
///
/// let request = Request::new(Kind::RUN, "git push").titled("Push the branch");
/// assert_eq!(request.always[0].as_str(), "git push", "what `always` would record");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The sort of act.
    pub kind: Kind,
    /// What it acts on, as literal text: wildcards in it mean nothing.
    pub patterns: Vec<String>,
    /// What the answer "always" records.
    pub always: Vec<Pattern>,
    /// What an approval must have been given for, beyond the subject: for a skill, the digest of its
    /// contents and its place. A remembered approval covers only requests with an equal binding.
    pub binding: Option<String>,
    /// One line for the person who answers.
    pub title: String,
    /// Whatever else the person should see, such as arguments or a difference.
    pub details: Value,
    /// Whether it is asked each time: neither a rule that allows it nor a remembered approval is an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_time: bool,
    /// Where the file is that this is about, if it is about one: the other names that rules may know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

impl Request {
    /// A request about a file. The subject is its real path, which is what "always" would record. A rule that asks about
    /// another name that the file was reached by, or denies it, holds as well.
    #[must_use]
    pub fn about_place(kind: Kind, place: Place) -> Self {
        let request = Self::new(kind, place.real()).bound_to(REAL_PATH);
        // What cannot be told apart from another name is not remembered.
        let request = if place.is_exact() { request } else { request.always([]) };
        Self { place: Some(place), ..request }
    }

    /// A request about one subject. "Always" would record exactly that subject.
    #[must_use]
    pub fn new(kind: Kind, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        Self {
            title: format!("{kind} {}", shown(&subject)),
            kind,
            always: vec![Pattern::literal(&subject)],
            patterns: vec![subject],
            binding: None,
            details: Value::Null,
            each_time: false,
            place: None,
        }
    }

    /// The same act on one subject more, which "always" would record too.
    #[must_use]
    pub fn and(mut self, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        self.always.push(Pattern::literal(&subject));
        self.patterns.push(subject);
        self
    }

    /// Replaces what "always" would record: with broader patterns, or with nothing.
    #[must_use]
    pub fn always(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        self.always = patterns.into_iter().filter(|_| !self.each_time).collect();
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
    /// use prowess_permission::{Decision, Kind, Layer, Policy, Request, Rule};
    ///
    /// let policy = Policy::new().with(Layer::User, [Rule::new("run", "*", Decision::Allow)]);
    /// assert_eq!(policy.evaluate(&Request::new(Kind::RUN, "make").each_time()).decision, Decision::Ask);
    /// ```
    #[must_use]
    pub fn each_time(mut self) -> Self {
        self.each_time = true;
        self.always.clear();
        self
    }

    /// Sets the line that the person reads.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds what the person should see besides.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// What exactly is being asked, in 32 bytes: the kind, the subjects, the binding and the details.
    /// The title is only a way of putting it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }
}
