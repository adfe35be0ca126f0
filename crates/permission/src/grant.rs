//! The permission itself.

use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Question};

/// Permission for one act, exactly as it was asked for.
///
/// There is no way to make one but to be granted it. Ask [`Grant::covers`] with the act that is about
/// to happen: if its arguments have changed since, it must be asked about again.
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Permissions, Policy, Question, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::Refusal> {
/// let rules = [Rule::new("run", "make *", Decision::Allow)];
/// let permissions = Permissions::unattended(Policy::new().with(RuleSource::User, rules));
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

    /// Whether this is the permission for `request`.
    #[must_use]
    pub fn covers(&self, request: &Question) -> bool {
        self.fingerprint == request.fingerprint()
    }

    /// How it came to be given.
    #[must_use]
    pub fn how(&self) -> Granted {
        self.how
    }
}

/// How a permission came to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Granted {
    /// The rules allow it.
    Rule,
    /// An earlier "always" covers it.
    Remembered,
    /// Somebody allowed it, this time.
    Once,
    /// Somebody allowed it, from now on.
    Always,
    /// Something that the user allowed to speak for it does, such as a loaded skill's list of tools.
    Preapproved,
}
