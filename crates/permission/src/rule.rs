//! One rule, and the layer that it stands in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{toml_key, toml_string};
use crate::{Decision, Pattern};

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
}

impl Rule {
    /// A rule written in code. Text from elsewhere goes through [`Pattern::parse`], which has a limit.
    #[must_use]
    pub fn new(kind: &str, pattern: &str, action: Decision) -> Self {
        Self { kind: Pattern::compile(kind), pattern: Pattern::compile(pattern), action }
    }

    /// A rule for this one subject, whatever characters it has.
    #[must_use]
    pub fn literal(kind: &crate::Kind, subject: &str, action: Decision) -> Self {
        Self { kind: Pattern::literal(kind.as_str()), pattern: Pattern::literal(subject), action }
    }

    /// Whether the rule speaks about this act.
    #[must_use]
    pub fn applies(&self, kind: &crate::Kind, subject: &str) -> bool {
        self.kind.matches(kind.as_str()) && self.pattern.matches(subject)
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

/// Who gave a rule. Later layers stand after earlier ones, and the last match wins.
///
/// ```
/// use prowess_permission::{Decision, Kind, Layer, Policy, Rule};
///
/// let policy = Policy::new()
///     .with(Layer::Session, [Rule::new("run", "make *", Decision::Allow)])
///     .with(Layer::User, [Rule::new("run", "*", Decision::Ask)]);
/// // Whoever was there first: the session's rules stand after the user's.
/// assert_eq!(policy.decide(&Kind::RUN, "make check").decision, Decision::Allow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
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

impl Layer {
    pub(crate) const ALL: [Self; 6] =
        [Self::Defaults, Self::BuiltInAgent, Self::User, Self::Project, Self::Agent, Self::Session];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Layer {
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
        assert!(Layer::ALL.is_sorted());
        for (at, layer) in Layer::ALL.into_iter().enumerate() {
            assert_eq!(layer.index(), at);
        }
        assert_eq!(Layer::BuiltInAgent.to_string(), "built-in agent");
    }
}
