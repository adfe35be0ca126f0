//! Why an act may not happen.

use std::time::Duration;

use crate::text::{one_line, shown};
use crate::{Decision, Kind, Question, Rule, RuleSource, Verdict};

/// Longer rules are not spelled out in a message.
const MAX_SHOWN_RULE_CHARS: usize = 300;

/// Why an act may not happen. The text is for the model and the person: one line that says what was
/// refused and what would change it. It never shows the rule that refused, which may tell of other things.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A rule denies it.
    #[error("Permission denied: {kind} '{}' is denied by a rule.", shown(.subject))]
    Denied {
        /// The sort of act.
        kind: Kind,
        /// What it was to act on.
        subject: String,
        /// The rule and its layer, for the person; not for the model.
        rule: Option<Box<(RuleSource, Rule)>>,
    },
    /// Somebody said no.
    #[error("{}", rejected(.message.as_deref()))]
    Rejected {
        /// What they said about it.
        message: Option<String>,
    },
    /// It has to be asked about, and there is nobody who could answer.
    #[error("{}", nobody(.kind, .subjects, *.each_time))]
    NobodyToAsk {
        /// The sort of act.
        kind: Kind,
        /// What needs permission and has none.
        subjects: Vec<String>,
        /// Whether it is asked about each time.
        each_time: bool,
    },
    /// Nobody answered in time.
    #[error(
        "Permission for {} was not given: nobody answered within {after:?}. Try again when somebody can.",
        subjects_shown(.kind, .subjects)
    )]
    TimedOut {
        /// The sort of act.
        kind: Kind,
        /// What it was to act on.
        subjects: Vec<String>,
        /// How long the answer was waited for.
        after: Duration,
    },
    /// The question was withdrawn before it was answered.
    #[error("The question was withdrawn before anybody answered it; nothing was done.")]
    Cancelled,
}

impl Refusal {
    pub(crate) fn denied(kind: &Kind, verdict: Verdict) -> Self {
        Self::Denied { kind: kind.clone(), subject: verdict.subject, rule: verdict.rule.map(Box::new) }
    }

    pub(crate) fn timed_out(request: &Question, after: Duration) -> Self {
        Self::TimedOut { kind: request.kind.clone(), subjects: request.subjects.clone(), after }
    }

    /// A short name for the refusal that never changes, for programs and logs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::Rejected { .. } => "rejected",
            Self::NobodyToAsk { .. } => "nobody_to_ask",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why an act does not happen now.
///
/// ```
/// use prowess_permission::{Kind, Permissions, Policy, Question, Replies, Stopped};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// match permissions.pass(Question::new(Kind::RUN, "make"), &Replies::default()).await {
///     Ok(_) => println!("make runs"),
///     Err(Stopped::Asks(question)) => println!("{}?", question.wording().title),
///     Err(Stopped::Refused(refusal)) => println!("{refusal}"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Somebody has to answer this first, and nobody could be asked: whoever can store the question does, and does the
    /// same again when there is an answer.
    Asks(Box<Question>),
    /// It may not.
    Refused(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn rejected(message: Option<&str>) -> String {
    match message.map(one_line) {
        Some(message) if !message.is_empty() => format!("The user rejected this: {message}"),
        _ => "The user rejected this. Ask what to do instead, or go on without it.".to_owned(),
    }
}

fn nobody(kind: &Kind, subjects: &[String], each_time: bool) -> String {
    let what = subjects_shown(kind, subjects);
    if each_time {
        return format!("Permission for {what} is needed each time, and nobody can be asked.");
    }
    let rules: Vec<Rule> = subjects.iter().map(|s| Rule::literal(kind, s, Decision::Allow)).collect();
    let Some(first) = rules.first() else {
        return format!("Permission for {what} is needed, and nobody can be asked.");
    };
    let table = first.toml_table();
    let lines: Vec<String> = rules.iter().map(Rule::toml_line).collect();
    let lines = lines.join(" and ");
    if lines.chars().count() > MAX_SHOWN_RULE_CHARS {
        return format!(
            "Permission for {what} is needed, and nobody can be asked. \
             To allow it, add a pattern that matches it at the end of {table}."
        );
    }
    format!(
        "Permission for {what} is needed, and nobody can be asked. \
         To allow it, add at the end of {table}: {lines}"
    )
}

fn subjects_shown(kind: &Kind, subjects: &[String]) -> String {
    let mut text = kind.to_string();
    for (at, subject) in subjects.iter().enumerate() {
        text.push_str(if at == 0 { " '" } else { ", '" });
        text.push_str(&shown(subject));
        text.push('\'');
    }
    text
}
