//! A grant: the permission for one action.

use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Question};

/// The permission for one action, exactly as the question described it.
///
/// Only [`Permissions`](crate::Permissions) makes grants. Before you act, check [`Grant::covers`]: if the arguments have
/// changed, ask again.
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Permissions, Policy, Question, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::Refusal> {
/// let rules = [Rule::new("run", "make *", Decision::Allow)];
/// let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
/// let grant = permissions.request(Question::new(Kind::RUN, "make check")).await?;
/// assert!(grant.covers(&Question::new(Kind::RUN, "make check")));
/// assert!(!grant.covers(&Question::new(Kind::RUN, "make install")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Grant {
    fingerprint: Fingerprint,
    how: Granted,
}

impl Grant {
    pub(crate) fn new(fingerprint: Fingerprint, how: Granted) -> Self {
        Self { fingerprint, how }
    }

    /// Whether this grant is for `question`.
    #[must_use]
    pub fn covers(&self, question: &Question) -> bool {
        self.fingerprint == question.fingerprint()
    }

    /// Why it was given.
    #[must_use]
    pub fn how(&self) -> Granted {
        self.how
    }
}

/// Why a grant was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Granted {
    /// A rule allows the action.
    Rule,
    /// An approval covers the action.
    Remembered,
    /// A person replied "once".
    Once,
    /// A person replied "always".
    Always,
    /// Something that the user trusts approved it, such as the `allowed-tools` of a loaded skill.
    Preapproved,
}
