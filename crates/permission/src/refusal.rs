//! Refusals: why an action does not happen.

use std::time::Duration;

use crate::text::{escaped_start, spaced_line};
use crate::{Decision, Kind, Question, Rule, RuleSource, Verdict};

/// The longest rules that a message spells out, in characters.
const MAX_PRINTED_RULE_CHARS: usize = 300;

/// Why an action is refused. The text is one line for the model and the person: what was refused, and how to allow it. It
/// never shows the rule, which could reveal other things to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A rule denies the action.
    #[error("Permission denied: {kind} '{}' is denied by a rule.", escaped_start(.subject))]
    Denied {
        /// The kind of action.
        kind: Kind,
        /// What the action is about.
        subject: String,
        /// The rule and its source, for the person and never for the model.
        rule: Option<Box<(RuleSource, Rule)>>,
    },
    /// A person rejected it.
    #[error("{}", rejected(.message.as_deref()))]
    Rejected {
        /// The person's message.
        message: Option<String>,
    },
    /// The decision is "ask", but nobody can be asked.
    #[error("{}", nobody(.kind, .subjects, *.each_time))]
    NobodyToAsk {
        /// The kind of action.
        kind: Kind,
        /// What still needs permission.
        subjects: Vec<String>,
        /// Whether prowess asks each time.
        each_time: bool,
    },
    /// Nobody replied in time.
    #[error(
        "Permission for {} was not given: nobody replied within {after:?}. Try again when somebody can reply.",
        list_subjects(.kind, .subjects)
    )]
    TimedOut {
        /// The kind of action.
        kind: Kind,
        /// What the action is about.
        subjects: Vec<String>,
        /// How long prowess waited for a reply.
        after: Duration,
    },
    /// The question was withdrawn before anybody replied.
    #[error("The question was withdrawn before anybody replied; nothing was done.")]
    Cancelled,
}

impl Refusal {
    pub(crate) fn denied(kind: &Kind, verdict: Verdict) -> Self {
        Self::Denied { kind: kind.clone(), subject: verdict.subject, rule: verdict.rule.map(Box::new) }
    }

    pub(crate) fn timed_out(question: &Question, after: Duration) -> Self {
        Self::TimedOut { kind: question.kind.clone(), subjects: question.subjects.clone(), after }
    }

    /// A stable short name of the refusal, for programs and logs.
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

/// Why an action does not happen now.
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
    /// A person must reply first, and nobody could be asked. Store the question, and repeat the operation with the reply.
    Asks(Box<Question>),
    /// The action is refused.
    Refused(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn rejected(message: Option<&str>) -> String {
    match message.map(spaced_line) {
        Some(message) if !message.is_empty() => format!("The user said no: {message}"),
        _ => "The user said no. Ask what to do instead, or go on without it.".to_owned(),
    }
}

fn nobody(kind: &Kind, subjects: &[String], each_time: bool) -> String {
    let what = list_subjects(kind, subjects);
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
    if lines.chars().count() > MAX_PRINTED_RULE_CHARS {
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

fn list_subjects(kind: &Kind, subjects: &[String]) -> String {
    let mut text = kind.to_string();
    for (at, subject) in subjects.iter().enumerate() {
        text.push_str(if at == 0 { " '" } else { ", '" });
        text.push_str(&escaped_start(subject));
        text.push('\'');
    }
    text
}
