//! One rule, and the source that it comes from.

use std::cell::OnceCell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name;
use crate::path_pattern::{self, PathBase};
use crate::secrets::is_public_certificate;
use crate::text::{toml_key, toml_string};
use crate::{Decision, Kind, Pattern};

/// A decision about all actions that match a pattern of kinds and a pattern of subjects.
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
    /// The kinds.
    pub kind: Pattern,
    /// The subjects.
    pub pattern: Pattern,
    /// What to do.
    #[serde(rename = "action")]
    pub decision: Decision,
    /// The pattern expanded to absolute paths, for kinds whose subjects are paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Strength::is_usual")]
    strength: Strength,
}

/// Whether a rule can override a rule for everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strength {
    #[default]
    Usual,
    /// It ignores letter case and overrides rules for everything.
    Guard,
    /// A guard that does not apply to public certificates.
    KeyGuard,
}

impl Strength {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

impl Rule {
    /// A rule written in code. Parse text from elsewhere with [`Pattern::parse`], which enforces limits. A path pattern is
    /// not expanded: it matches the real path. If it begins with `/`, it also matches paths in a backend.
    #[must_use]
    pub fn new(kind: &str, pattern: &str, decision: Decision) -> Self {
        Self::of(Pattern::compile(kind), Pattern::compile(pattern), decision)
    }

    pub(crate) fn of(kind: Pattern, pattern: Pattern, decision: Decision) -> Self {
        Self { kind, pattern, decision, paths: Vec::new(), strength: Strength::Usual }
    }

    /// A rule for exactly this subject. Wildcards in it have no meaning.
    #[must_use]
    pub fn literal(kind: &Kind, subject: &str, decision: Decision) -> Self {
        Self::of(Pattern::literal(kind.as_str()), Pattern::literal(subject), decision)
    }

    /// A rule that asks about files and ignores letter case. A rule for everything, such as `*`, does not override it; a
    /// rule that names paths does.
    ///
    /// ```
    /// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
    ///
    /// let policy = Policy::new().rules(
    ///     RuleSource::User,
    ///     [Rule::guard(&Kind::READ, "*/.env"), Rule::new("read", "*", Decision::Allow)],
    /// );
    /// assert_eq!(policy.decide(&Kind::READ, "/site/.ENV").decision, Decision::Ask);
    /// let policy = policy.rules(RuleSource::Session, [Rule::new("read", "/site/*", Decision::Allow)]);
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

    /// A [`guard`](Self::guard) for private keys, which does not apply to public certificates.
    pub(crate) fn key_guard(kind: &Kind, pattern: &str) -> Self {
        Self { strength: Strength::KeyGuard, ..Self::guard(kind, pattern) }
    }

    /// The rule with its path pattern expanded from `base`, and a notice for the person if there is one. For other kinds,
    /// only `~` is expanded.
    pub(crate) fn located(mut self, base: &PathBase) -> (Self, Option<String>) {
        let mut notice = None;
        if Kind::PATHS.iter().any(|kind| self.kind.matches(kind.as_str())) {
            let expanded = path_pattern::expand(&self.pattern, self.decision, base);
            (self.paths, notice) = (expanded.patterns, expanded.notice);
        }
        // prowess shows a rule for paths as the person wrote it.
        let is_for_paths_only = Kind::PATHS.iter().any(|kind| self.kind.as_str() == kind.as_str());
        if let Some(home) = base.home_text().filter(|_| !is_for_paths_only) {
            self.pattern = self.pattern.expand_home(&home);
        }
        (self, notice)
    }

    /// Whether the rule matches this kind and subject.
    #[must_use]
    pub fn applies(&self, kind: &Kind, subject: &str) -> bool {
        self.applies_to(kind, &Subject::new(subject, false))
    }

    pub(crate) fn applies_to(&self, kind: &Kind, subject: &Subject<'_>) -> bool {
        if !self.kind.matches(kind.as_str()) {
            return false;
        }
        if !kind.has_path_subjects() {
            // Rules of earlier versions write names without backslashes. They still ask and deny.
            let matches_unescaped = || subject.unescaped().is_some_and(|before| self.pattern.matches(before));
            return self.pattern.matches(subject.text)
                || (self.decision != Decision::Allow && matches_unescaped())
                || (*kind == Kind::SKILL && self.restricts_other_case(subject));
        }
        let own = std::slice::from_ref(&self.pattern);
        let patterns = if self.paths.is_empty() { own } else { &self.paths };
        match self.strength {
            Strength::KeyGuard if is_public_certificate(subject.folded()) => false,
            Strength::Guard | Strength::KeyGuard => {
                patterns.iter().any(|pattern| pattern.matches(subject.folded()))
            }
            // `allow` rules never ignore case.
            Strength::Usual if subject.ignores_case && self.decision != Decision::Allow => {
                patterns.iter().any(|pattern| pattern.to_lowercase().matches(subject.folded()))
            }
            Strength::Usual => patterns.iter().any(|pattern| pattern.matches(subject.text)),
        }
    }

    /// Whether it restricts a skill whose name differs only in letter case: a skill takes the place of such a skill.
    fn restricts_other_case(&self, subject: &Subject<'_>) -> bool {
        let has_case =
            subject.folded() != subject.text || self.pattern.as_str().chars().any(char::is_uppercase);
        self.decision != Decision::Allow && has_case && self.pattern.to_lowercase().matches(subject.folded())
    }

    /// Whether it was written in code for a path in a backend.
    pub(crate) fn is_for_backend(&self) -> bool {
        self.paths.is_empty() && self.pattern.as_str().starts_with('/')
    }

    /// Whether rules for everything do not override it.
    #[must_use]
    pub fn is_guard(&self) -> bool {
        self.strength != Strength::Usual
    }

    /// Whether its pattern is only wildcards.
    pub(crate) fn matches_everything(&self) -> bool {
        self.pattern.as_str().bytes().all(|byte| matches!(byte, b'*' | b'/'))
    }

    /// The header of the rule's TOML table, such as `[permission.run]`.
    #[must_use]
    pub fn toml_table(&self) -> String {
        format!("[permission.{}]", toml_key(self.kind.as_str()))
    }

    /// The rule's TOML line, such as `"git status *" = "allow"`.
    #[must_use]
    pub fn toml_line(&self) -> String {
        format!("{} = \"{}\"", toml_string(self.pattern.as_str()), self.decision)
    }

    /// The rule as TOML: its table and its line.
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

/// A subject, prepared for matching.
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

    /// The subject as earlier versions wrote it, if that differs.
    fn unescaped(&self) -> Option<&str> {
        self.unescaped.get_or_init(|| name::unescaped(self.text)).as_deref()
    }

    /// The subject in lower case.
    fn folded(&self) -> &str {
        self.folded.get_or_init(|| self.text.to_lowercase())
    }
}

/// Where a rule comes from. Rules of later sources come after those of earlier ones, and the last match wins.
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
///
/// let policy = Policy::new()
///     .rules(RuleSource::Session, [Rule::new("run", "make *", Decision::Allow)])
///     .rules(RuleSource::User, [Rule::new("run", "*", Decision::Ask)]);
/// // The order of the calls does not matter: the session's rules come after the user's.
/// assert_eq!(policy.decide(&Kind::RUN, "make check").decision, Decision::Allow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSource {
    /// Built-in defaults.
    Defaults,
    /// Rules that an embedder gives to one of its agents.
    BuiltInAgent,
    /// The user's configuration.
    User,
    /// The project's configuration. Load it only if the user trusts the project.
    Project,
    /// The configuration for the running agent.
    Agent,
    /// Rules for this session only.
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
    fn sources_are_ordered_and_numbered() {
        assert!(RuleSource::ALL.is_sorted());
        for (at, source) in RuleSource::ALL.into_iter().enumerate() {
            assert_eq!(source.index(), at);
        }
        assert_eq!(RuleSource::BuiltInAgent.to_string(), "built-in agent");
    }
}
