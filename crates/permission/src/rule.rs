//! One rule, and the layer that it stands in.

use std::cell::OnceCell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name;
use crate::reading::{self, PathBase};
use crate::text::{toml_key, toml_string};
use crate::{Decision, Kind, Pattern};

/// What is to happen with the acts that two patterns describe.
///
/// ```
/// use prowess_permission::{Decision, Kind, Rule};
///
/// let rule = Rule::new("run", "git status *", Decision::Allow);
/// assert!(rule.applies(&Kind::RUN, "git status -s"));
/// assert!(!rule.applies(&Kind::RUN, "git push"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Which kinds of act.
    pub kind: Pattern,
    /// Which subjects.
    pub pattern: Pattern,
    /// What happens with them.
    pub action: Decision,
    /// What the pattern matches where subjects are paths, once it is known what it is relative to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Strength::is_usual")]
    strength: Strength,
}

/// How a rule stands among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strength {
    #[default]
    Usual,
    /// It holds for paths in any letter case, and against rules that are about everything.
    Guard,
}

impl Strength {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

impl Rule {
    /// A rule written in code. Text from elsewhere goes through [`Pattern::parse`], which has a limit. A pattern of
    /// paths is matched as it is: against the real path, and against a path in a store of files if it begins with `/`.
    #[must_use]
    pub fn new(kind: &str, pattern: &str, action: Decision) -> Self {
        Self::of(Pattern::compile(kind), Pattern::compile(pattern), action)
    }

    pub(crate) fn of(kind: Pattern, pattern: Pattern, action: Decision) -> Self {
        Self { kind, pattern, action, paths: Vec::new(), strength: Strength::Usual }
    }

    /// A rule for this one subject, whatever characters it has.
    #[must_use]
    pub fn literal(kind: &Kind, subject: &str, action: Decision) -> Self {
        Self::of(Pattern::literal(kind.as_str()), Pattern::literal(subject), action)
    }

    /// A rule that has somebody asked about files, whatever the letter case of their path. A rule that allows
    /// everything, `*`, does not change that; one that names paths does.
    ///
    /// ```
    /// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
    ///
    /// let policy = Policy::new().with(
    ///     RuleSource::User,
    ///     [Rule::guard(&Kind::READ, "*/.env"), Rule::new("read", "*", Decision::Allow)],
    /// );
    /// assert_eq!(policy.decide(&Kind::READ, "/site/.ENV").decision, Decision::Ask);
    /// let policy = policy.with(RuleSource::Session, [Rule::new("read", "/site/*", Decision::Allow)]);
    /// assert_eq!(policy.decide(&Kind::READ, "/site/.env").decision, Decision::Allow);
    /// ```
    #[must_use]
    pub fn guard(kind: &Kind, pattern: &str) -> Self {
        let folded = Pattern::compile(&pattern.to_lowercase());
        Self {
            paths: vec![folded],
            strength: Strength::Guard,
            ..Self::of(Pattern::literal(kind.as_str()), Pattern::compile(pattern), Decision::Ask)
        }
    }

    /// The rule with its pattern read as a path below these places, and what a person should know about that. Patterns
    /// of other kinds have their `~` replaced.
    pub(crate) fn located(mut self, base: &PathBase) -> (Self, Option<String>) {
        let mut notice = None;
        if Kind::PATHS.iter().any(|kind| self.kind.matches(kind.as_str())) {
            let reading = reading::read(&self.pattern, self.action, base);
            (self.paths, notice) = (reading.patterns, reading.notice);
        }
        // What is written is what is shown of a rule about paths alone.
        let is_of_paths_alone = Kind::PATHS.iter().any(|kind| self.kind.as_str() == kind.as_str());
        if let Some(home) = base.home_text().filter(|_| !is_of_paths_alone) {
            self.pattern = self.pattern.expand_home(&home);
        }
        (self, notice)
    }

    /// Whether the rule speaks about this act.
    #[must_use]
    pub fn applies(&self, kind: &Kind, subject: &str) -> bool {
        self.applies_to(kind, &Subject::new(subject, false))
    }

    pub(crate) fn applies_to(&self, kind: &Kind, subject: &Subject<'_>) -> bool {
        if !self.kind.matches(kind.as_str()) {
            return false;
        }
        if !kind.is_of_paths() {
            // Rules of earlier versions name the owner without backslashes. They still ask and deny.
            let is_meant = || subject.unescaped().is_some_and(|before| self.pattern.matches(before));
            return self.pattern.matches(subject.text) || (self.action != Decision::Allow && is_meant());
        }
        let own = std::slice::from_ref(&self.pattern);
        let patterns = if self.paths.is_empty() { own } else { &self.paths };
        match self.strength {
            Strength::Guard => patterns.iter().any(|pattern| pattern.matches(subject.folded())),
            // Where case does not count, it counts for nothing that is allowed.
            Strength::Usual if subject.ignores_case && self.action != Decision::Allow => {
                patterns.iter().any(|pattern| pattern.in_small_letters().matches(subject.folded()))
            }
            Strength::Usual => patterns.iter().any(|pattern| pattern.matches(subject.text)),
        }
    }

    /// Whether it was written in code for a path of a store of files, by its beginning.
    pub(crate) fn is_of_store(&self) -> bool {
        self.paths.is_empty() && self.pattern.as_str().starts_with('/')
    }

    /// Whether it has somebody asked in spite of rules about everything.
    #[must_use]
    pub fn is_guard(&self) -> bool {
        self.strength == Strength::Guard
    }

    /// Whether it is about everything, and names nothing.
    pub(crate) fn is_about_everything(&self) -> bool {
        self.pattern.as_str().bytes().all(|byte| matches!(byte, b'*' | b'/'))
    }

    /// The header of the table that the rule belongs in, as in `[permission.run]`.
    #[must_use]
    pub fn toml_table(&self) -> String {
        format!("[permission.{}]", toml_key(self.kind.as_str()))
    }

    /// The rule's own line, as in `"git status *" = "allow"`.
    #[must_use]
    pub fn toml_line(&self) -> String {
        format!("{} = \"{}\"", toml_string(self.pattern.as_str()), self.action)
    }

    /// The rule as configuration: its table and its line.
    ///
    /// ```
    /// use prowess_permission::{Decision, Rule};
    ///
    /// let rule = Rule::new("run", "git status *", Decision::Allow);
    /// assert_eq!(rule.toml(), "[permission.run]\n\"git status *\" = \"allow\"\n");
    /// ```
    #[must_use]
    pub fn toml(&self) -> String {
        format!("{}\n{}\n", self.toml_table(), self.toml_line())
    }
}

/// A subject that rules are compared with.
pub(crate) struct Subject<'a> {
    pub(crate) text: &'a str,
    ignores_case: bool,
    folded: OnceCell<String>,
    unescaped: OnceCell<Option<String>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(text: &'a str, ignores_case: bool) -> Self {
        Self { text, ignores_case, folded: OnceCell::new(), unescaped: OnceCell::new() }
    }

    /// With the name in it as it is, if that is another text.
    fn unescaped(&self) -> Option<&str> {
        self.unescaped.get_or_init(|| name::unescaped(self.text)).as_deref()
    }

    /// In small letters.
    fn folded(&self) -> &str {
        self.folded.get_or_init(|| self.text.to_lowercase())
    }
}

/// Who gave a rule. Later layers stand after earlier ones, and the last match wins.
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
///
/// let policy = Policy::new()
///     .with(RuleSource::Session, [Rule::new("run", "make *", Decision::Allow)])
///     .with(RuleSource::User, [Rule::new("run", "*", Decision::Ask)]);
/// // Whoever was there first: the session's rules stand after the user's.
/// assert_eq!(policy.decide(&Kind::RUN, "make check").decision, Decision::Allow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSource {
    /// What holds when nobody says anything.
    Defaults,
    /// What an agent that the host ships brings along.
    BuiltInAgent,
    /// The user's configuration.
    User,
    /// The project's configuration: only for projects that the user trusts.
    Project,
    /// What the configuration says for the agent that is running.
    Agent,
    /// What was decided for this session alone.
    Session,
}

impl RuleSource {
    pub(crate) const ALL: [Self; 6] =
        [Self::Defaults, Self::BuiltInAgent, Self::User, Self::Project, Self::Agent, Self::Session];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Defaults => "defaults",
            Self::BuiltInAgent => "built-in agent",
            Self::User => "user",
            Self::Project => "project",
            Self::Agent => "agent",
            Self::Session => "session",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_ordered_and_numbered() {
        assert!(RuleSource::ALL.is_sorted());
        for (at, layer) in RuleSource::ALL.into_iter().enumerate() {
            assert_eq!(layer.index(), at);
        }
        assert_eq!(RuleSource::BuiltInAgent.to_string(), "built-in agent");
    }
}
