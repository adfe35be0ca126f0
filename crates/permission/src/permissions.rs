//! One session's permissions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::judgement::Judgement;
use crate::{
    Broker, Decision, Fingerprint, Grant, Granted, Kind, Layer, Policy, Refusal, Request, Rule, Verdict,
};

/// One session's permissions: rules that may change while they are used, and the broker that asks.
///
/// Clones share the rules and the broker.
///
/// ```
/// use prowess_permission::{Granted, Kind, Permissions, Policy, Request};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// let grant = permissions.request(Request::new(Kind::SKILL, "pdf")).await.unwrap();
/// assert_eq!(grant.how(), Granted::Rule);
///
/// let refusal = permissions.request(Request::new(Kind::RUN, "make")).await.unwrap_err();
/// assert_eq!(
///     refusal.to_string(),
///     "Permission for run 'make' is needed, and nobody can be asked. \
///      To allow it, add at the end of [permission.run]: \"make\" = \"allow\""
/// );
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Permissions {
    broker: Arc<Broker>,
    session: Arc<Session>,
    allowed: Arc<Allowed>,
}

/// What somebody allowed elsewhere, each time that they did.
#[derive(Debug, Default)]
struct Allowed(Mutex<Vec<Arc<Fingerprint>>>);

/// What a waiting ask needs of its session: whose it is, and the rules as they are now.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: String,
    policy: RwLock<Policy>,
}

impl Session {
    pub(crate) fn policy(&self) -> Policy {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, layer: Layer, rules: Vec<Rule>) {
        self.policy.write().unwrap_or_else(PoisonError::into_inner).set(layer, rules);
    }
}

impl Allowed {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Fingerprint>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one permission for exactly this, if there is one.
    fn take(&self, fingerprint: Fingerprint) -> bool {
        let mut allowed = self.all();
        let place = allowed.iter().position(|given| **given == fingerprint);
        place.map(|place| allowed.swap_remove(place)).is_some()
    }
}

impl Permissions {
    /// The permissions of `session`, which starts with the rules of `policy`.
    #[must_use]
    pub fn new(broker: Arc<Broker>, session: impl Into<String>, policy: Policy) -> Self {
        let session = Session { name: session.into(), policy: RwLock::new(policy) };
        Self { broker, session: Arc::new(session), allowed: Arc::default() }
    }

    /// The same rules and the same broker, where nothing is let pass that [`Self::allow_once`] lets pass here, and the
    /// other way round: for another who does the same at the same time.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { allowed: Arc::default(), ..self.clone() }
    }

    /// Permissions with nobody to ask and nothing remembered: what is not allowed is refused.
    #[must_use]
    pub fn unattended(policy: Policy) -> Self {
        Self::new(Broker::in_memory(), "unattended", policy)
    }

    /// The rules as they are now.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.session.policy()
    }

    /// Replaces the rules of `layer`, and answers at once whatever this session has waiting that the
    /// new rules allow or deny.
    pub fn set(&self, layer: Layer, rules: Vec<Rule>) {
        self.broker.set_rules(&self.session, layer, rules);
    }

    /// What would happen with `request`, without asking anybody: the rules, then what was approved
    /// before. An approval turns "ask" into "allow", and never "deny".
    #[must_use]
    pub fn decide(&self, request: &Request) -> Verdict {
        self.broker.judge(&self.session.policy(), request).into_verdict()
    }

    /// Whether a rule denies this, so that it should not even be shown.
    #[must_use]
    pub fn is_denied(&self, kind: &Kind, subject: &str) -> bool {
        self.session.policy().decide(kind, subject).decision == Decision::Deny
    }

    /// Permission for an act. Waits for an answer where the rules say to ask and somebody can answer;
    /// dropping the future withdraws the question.
    pub async fn request(&self, request: Request) -> Result<Grant, Refusal> {
        let fingerprint = request.fingerprint();
        // What the rules settle alone is settled without the broker.
        let how = match Judgement::of(&self.session.policy(), &[], &request) {
            Judgement::Granted(how, _) => how,
            Judgement::Denied(verdict) => return Err(Refusal::denied(&request.kind, verdict)),
            Judgement::Asking(..) if self.allowed.take(fingerprint) => Granted::Once,
            Judgement::Asking(..) => {
                let asked = request.clone();
                let how = self.broker.ask(&self.session, request, fingerprint).await?;
                // The answer was given a moment ago; a rule that was added since stands over it.
                let verdict = self.session.policy().evaluate(&asked);
                if verdict.decision == Decision::Deny {
                    return Err(Refusal::denied(&asked.kind, verdict));
                }
                how
            }
        };
        Ok(Grant::new(fingerprint, how))
    }

    /// Permission for an act that something the user trusts with it has approved before, such as the list
    /// of tools of a loaded skill: where the rules say to ask, nobody is asked. A rule that denies it stands.
    ///
    /// # Errors
    ///
    /// A rule denies it, or a person has to be asked each time.
    pub fn request_preapproved(&self, request: &Request) -> Result<Grant, Refusal> {
        let verdict = self.session.policy().evaluate(request);
        let how = match verdict.decision {
            Decision::Allow => Granted::Rule,
            Decision::Ask if request.each_time => {
                let (kind, subjects) = (request.kind.clone(), request.patterns.clone());
                return Err(Refusal::NobodyToAsk { kind, subjects, request: Box::new(request.clone()) });
            }
            Decision::Ask => Granted::Preapproved,
            Decision::Deny => return Err(Refusal::denied(&request.kind, verdict)),
        };
        Ok(Grant::new(request.fingerprint(), how))
    }

    /// Lets one request pass that somebody allowed elsewhere: exactly this one, once, and only while the answer is
    /// kept. A rule that denies it stands.
    ///
    /// ```
    /// use prowess_permission::{Granted, Kind, Permissions, Policy, Refusal, Request};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let permissions = Permissions::unattended(Policy::new());
    /// let refusal = permissions.request(Request::new(Kind::RUN, "make")).await.unwrap_err();
    /// let Refusal::NobodyToAsk { request, .. } = refusal else { return };
    /// // Somebody is asked about it, in another process perhaps, and says yes.
    /// let _allowed = permissions.allow_once(request.fingerprint());
    /// assert_eq!(permissions.request(*request.clone()).await.unwrap().how(), Granted::Once);
    /// assert!(permissions.request(*request).await.is_err(), "once");
    /// # }
    /// ```
    #[must_use = "the permission is gone when this is dropped"]
    pub fn allow_once(&self, fingerprint: Fingerprint) -> AllowedOnce {
        let given = Arc::new(fingerprint);
        self.allowed.all().push(Arc::clone(&given));
        AllowedOnce { allowed: Arc::clone(&self.allowed), given }
    }

    /// The session's name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session.name
    }

    /// Who asks.
    #[must_use]
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }
}

impl Default for Permissions {
    fn default() -> Self {
        Self::unattended(Policy::new())
    }
}

/// Permission for one request, until it is used or this is dropped.
#[derive(Debug)]
pub struct AllowedOnce {
    allowed: Arc<Allowed>,
    given: Arc<Fingerprint>,
}

impl Drop for AllowedOnce {
    fn drop(&mut self) {
        self.allowed.all().retain(|given| !Arc::ptr_eq(given, &self.given));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reply, ReplyError};

    #[tokio::test]
    async fn what_is_asked_each_time_is_settled_by_nothing_but_an_answer() {
        let allow = Policy::new().with(Layer::User, [Rule::new("run", "*", Decision::Allow)]);
        let permissions = Permissions::unattended(allow);
        let plain = Request::new(Kind::RUN, "make");
        permissions.broker().remember(&plain).await.unwrap();
        let asked = plain.clone().each_time().always([crate::Pattern::literal("make")]);
        assert!(asked.always.is_empty());
        assert!(permissions.request(plain.clone()).await.is_ok());
        let refusal = permissions.request(asked.clone()).await.unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "Permission for run 'make' is needed each time, and nobody can be asked."
        );
        assert!(permissions.request_preapproved(&asked).is_err());
        let _plain = permissions.allow_once(plain.fingerprint());
        assert!(permissions.request(asked.clone()).await.is_err(), "another question");
        let _allowed = permissions.allow_once(asked.fingerprint());
        assert_eq!(permissions.request(asked.clone()).await.unwrap().how(), Granted::Once);
        permissions.set(Layer::User, vec![Rule::new("run", "make", Decision::Deny)]);
        let _allowed = permissions.allow_once(asked.fingerprint());
        assert!(matches!(permissions.request(asked).await, Err(Refusal::Denied { .. })));
    }

    #[tokio::test]
    async fn the_rules_are_looked_at_again_when_the_answer_comes() {
        for reply in [Reply::Once, Reply::Always] {
            let broker = Broker::in_memory();
            let mut front_end = broker.subscribe();
            let permissions = Permissions::new(Arc::clone(&broker), "one", Policy::new());
            let asking = permissions.clone();
            let waiter = tokio::spawn(async move { asking.request(Request::new(Kind::RUN, "rm x")).await });
            let id = front_end.next().await.unwrap().id();
            // Behind the broker's back, so that only the last look can find it.
            permissions.session.set(Layer::User, vec![Rule::new("run", "rm *", Decision::Deny)]);

            let answered = broker.reply(id, reply).await;
            assert!(matches!(answered, Err(ReplyError::Denied { .. })));
            assert!(matches!(waiter.await.unwrap(), Err(Refusal::Denied { .. })));
            assert_eq!(broker.remembered(), []);
        }
    }
}
