//! A question as text for a person: its title, its details and what "always" would allow.

mod details;
mod title;

use serde::Serialize;

use crate::question::{Note, REAL_PATH};
use crate::text::{exact_command, exact_quoted_line, spaced_line};
use crate::{Action, Question};

/// The text of a question.
///
/// ```
/// use prowess_permission::action::RunAction;
/// use prowess_permission::{Kind, Question, owned_subject};
///
/// let run = RunAction { skill: "kit".into(), command: "make".into(), ..RunAction::default() };
/// let wording = Question::new(Kind::RUN, owned_subject("kit", "make")).action(run).wording();
/// assert_eq!(wording.title, "run in skill 'kit': make");
/// assert_eq!(wording.always, ["run \"kit make\""]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Wording {
    /// The action, on one line.
    pub title: String,
    /// The title without a command of several lines, which the details show whole. On one line it would look like another
    /// command.
    #[serde(skip)]
    pub heading: String,
    /// What else the person has to know, in order.
    pub details: Vec<Detail>,
    /// What "always" would record, each as a kind and a pattern; empty if "always" is not offered.
    pub always: Vec<String>,
    /// Whether "always" would last only until something in the question changes.
    pub is_bound: bool,
    /// When "always" ends, such as "until the skill changes"; `None` if it does not end by itself.
    #[serde(skip)]
    pub always_ends: Option<&'static str>,
    /// Why prowess asks, if the person may think that they replied before.
    pub note: Option<String>,
}

/// One detail of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Detail {
    /// Its name.
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// How to show it.
    #[serde(rename = "look", skip_serializing_if = "DetailStyle::is_plain")]
    pub style: DetailStyle,
    /// Whether the title contains all of it.
    #[serde(skip)]
    pub is_in_title: bool,
}

/// How to show a detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DetailStyle {
    /// As plain text.
    #[default]
    Plain,
    /// As text that the action removes.
    Removed,
    /// As text that the action adds.
    Added,
    /// As a unified diff.
    Difference,
    /// As a list. Each line is one item.
    List,
    /// As JSON.
    Data,
}

impl DetailStyle {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl Wording {
    /// One line that says what the reply "always" would allow; `None` if "always" is not offered.
    ///
    /// ```
    /// use prowess_permission::{Kind, Question};
    ///
    /// let wording = Question::new(Kind::RUN, "make").binding("x").wording();
    /// let line = wording.always_line().unwrap();
    /// assert_eq!(line, "`always` would allow run \"make\" until it changes");
    /// ```
    #[must_use]
    pub fn always_line(&self) -> Option<String> {
        if self.always.is_empty() {
            return None;
        }
        let binding = self.always_ends.map(|ends| format!(" {ends}")).unwrap_or_default();
        let always: Vec<_> = self.always.iter().map(|rule| exact_quoted_line(rule)).collect();
        Some(format!("`always` would allow {}{binding}", always.join(", ")))
    }
}

impl Question {
    /// The text of the question.
    #[must_use]
    pub fn wording(&self) -> Wording {
        let by: String = self.by.iter().map(|name| format!("sub-agent {}: ", spaced_line(name))).collect();
        let title = by + &title::title(self);
        let details = details::details(self, &title);
        let always =
            self.always.iter().map(|pattern| format!("{} {:?}", self.kind, pattern.as_str())).collect();
        let note = self.note.map(|note| match note {
            Note::ApprovedByEarlierVersion => {
                "you replied \"always\" to this in an earlier version of prowess, which recorded less exactly what you \
                 approved; so prowess asks once more"
                    .to_owned()
            }
        });
        let heading = match &self.action {
            Action::Run(run) if exact_command(&run.command) != run.command => {
                title.strip_suffix(&*exact_command(&run.command)).unwrap_or(&title).trim_end().to_owned()
            }
            _ => title.clone(),
        };
        // An approval of a real path does not end by itself.
        let binding = self.binding.as_deref().filter(|binding| *binding != REAL_PATH);
        let always_ends = binding.map(|_| always_ends(&self.action));
        Wording { heading, title, details, always, is_bound: self.binding.is_some(), always_ends, note }
    }
}

/// What must stay the same for a bound approval.
fn always_ends(action: &Action) -> &'static str {
    match action {
        Action::LoadSkill { .. }
        | Action::LoadServerSkill { .. }
        | Action::Run(_)
        | Action::ReachHost { .. } => "until the skill changes",
        Action::CallServerTool { .. } => "until the tool changes",
        _ => "until it changes",
    }
}
