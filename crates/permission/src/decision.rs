//! The decision of a rule: allow, ask or deny.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nearest::did_you_mean;

/// What to do about an action. Decisions are ordered from lenient to strict, so `max()` gives the strictest of several.
///
/// ```
/// use prowess_permission::Decision;
///
/// let strictest = ["allow", "ask"].into_iter().map(|word| word.parse().unwrap()).max();
/// assert_eq!(strictest, Some(Decision::Ask));
/// assert_eq!(
///     "alow".parse::<Decision>().unwrap_err().to_string(),
///     "`alow` is not a decision; did you mean `allow`?"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The action happens.
    Allow,
    /// prowess asks a person first.
    Ask,
    /// prowess refuses the action, regardless of any reply.
    Deny,
}

impl Decision {
    const NAMES: [&str; 3] = ["allow", "ask", "deny"];

    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Decision {
    type Err = DecisionError;

    fn from_str(text: &str) -> Result<Self, DecisionError> {
        match text {
            "allow" => Ok(Self::Allow),
            "ask" => Ok(Self::Ask),
            "deny" => Ok(Self::Deny),
            other => Err(DecisionError { text: other.to_owned() }),
        }
    }
}

/// The error for a word that is not a decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a decision; {}", crate::text::escaped_start(.text), hint(.text))]
pub struct DecisionError {
    text: String,
}

fn hint(text: &str) -> String {
    match did_you_mean(text, Decision::NAMES) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "use `allow`, `ask` or `deny`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_is_the_maximum() {
        assert_eq!([Decision::Ask, Decision::Deny, Decision::Allow].into_iter().max(), Some(Decision::Deny));
        assert_eq!(Decision::Allow.max(Decision::Ask), Decision::Ask);
    }

    #[test]
    fn words_and_values_agree() {
        for name in Decision::NAMES {
            let decision: Decision = name.parse().unwrap();
            assert_eq!(decision.to_string(), name);
            assert_eq!(serde_json::to_string(&decision).unwrap(), format!("\"{name}\""));
        }
        assert!("Allow".parse::<Decision>().is_err());
    }
}
