//! One session's permissions.

use std::sync::{Arc, PoisonError, RwLock};

use crate::judgement::Judgement;
use crate::question::{Note, RUN_BINDING};
use crate::{
    Approval, Asker, Broker, Decision, Grant, Granted, Kind, NoAsker, Policy, Question, Refusal, Reply, Rule,
    RuleSource, Stopped, Verdict,
};

/// One session's permissions: rules that may change while they are used, and the broker that asks.
///
/// Clones share the rules and the broker.
///
/// ```
/// use prowess_permission::{Granted, Kind, Permissions, Policy, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let permissions = Permissions::unattended(Policy::new());
/// let grant = permissions.request(Question::new(Kind::SKILL, "pdf")).await.unwrap();
/// assert_eq!(grant.how(), Granted::Rule);
///
/// let refusal = permissions.request(Question::new(Kind::RUN, "make")).await.unwrap_err();
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
}

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

    pub(crate) fn set(&self, layer: RuleSource, rules: Vec<Rule>) {
        self.policy.write().unwrap_or_else(PoisonError::into_inner).set(layer, rules);
    }
}

impl Permissions {
    /// The permissions of `session`, which starts with the rules of `policy`.
    #[must_use]
    pub fn new(broker: Arc<Broker>, session: impl Into<String>, policy: Policy) -> Self {
        let session = Session { name: session.into(), policy: RwLock::new(policy) };
        Self { broker, session: Arc::new(session) }
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
    pub fn set(&self, layer: RuleSource, rules: Vec<Rule>) {
        self.broker.set_rules(&self.session, layer, rules);
    }

    /// What would happen with `request`, without asking anybody: the rules, then what was approved
    /// before. An approval turns "ask" into "allow", and never "deny".
    #[must_use]
    pub fn decide(&self, request: &Question) -> Verdict {
        self.broker.judge(&self.session.policy(), request).into_verdict()
    }

    /// Whether a rule denies this, so that it should not even be shown.
    #[must_use]
    pub fn is_denied(&self, kind: &Kind, subject: &str) -> bool {
        self.session.policy().decide(kind, subject).decision == Decision::Deny
    }

    /// What rules and earlier approvals say, without asking anybody; `None` when somebody has to be asked.
    #[must_use]
    pub fn settled(&self, question: &Question) -> Option<Result<Grant, Refusal>> {
        match self.broker.judge(&self.session.policy(), question) {
            Judgement::Granted(how, _) => Some(Ok(Grant::new(question.fingerprint(), how))),
            Judgement::Denied(verdict) => Some(Err(Refusal::denied(&question.kind, verdict))),
            Judgement::Asking(..) => None,
        }
    }

    /// The refusal of what a rule denies.
    #[must_use]
    pub fn denied(&self, question: &Question) -> Option<Refusal> {
        let verdict = self.session.policy().evaluate(question);
        (verdict.decision == Decision::Deny).then(|| Refusal::denied(&question.kind, verdict))
    }

    /// Permission for an act, from the rules, from what was approved before, or by asking: `asker` first, then the front
    /// ends of the broker, if there are any. Dropping the future withdraws the question.
    ///
    /// # Errors
    ///
    /// It may not happen, or somebody has to be asked first who cannot be asked now.
    pub async fn pass(&self, question: Question, asker: &dyn Asker) -> Result<Grant, Stopped> {
        if let Some(settled) = self.settled(&question) {
            return Ok(settled?);
        }
        let reply = asker.ask(&question).await;
        if reply.is_none() && self.broker.is_attended() {
            // It remembers an "always" by itself. A front end that goes away has not answered.
            let asked = self.broker.ask(&self.session, question.clone(), question.fingerprint()).await?;
            if let Some(how) = asked {
                if how == Granted::Always {
                    self.renew(&question).await;
                }
                return self.granted(&question, how);
            }
        }
        let how = match reply {
            Some(Reply::Once) => Granted::Once,
            Some(Reply::Always) => Granted::Always,
            Some(Reply::Reject { message }) => return Err(Refusal::Rejected { message }.into()),
            None if asker.keeps_questions() => return Err(Stopped::Asks(Box::new(question))),
            None => return Err(self.nobody(&question).into()),
        };
        let grant = self.granted(&question, how)?;
        if how == Granted::Always {
            self.remember(&question).await;
        }
        Ok(grant)
    }

    /// The permission that an answer gives. It was given a moment ago; a rule that was added since stands over it.
    fn granted(&self, question: &Question, how: Granted) -> Result<Grant, Stopped> {
        match self.denied(question) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Grant::new(question.fingerprint(), how)),
        }
    }

    /// Permission for an act, where the front ends of the broker are all that can be asked.
    ///
    /// # Errors
    ///
    /// It may not happen; also when nobody can be asked.
    pub async fn request(&self, question: Question) -> Result<Grant, Refusal> {
        self.pass(question, &NoAsker).await.map_err(|stopped| match stopped {
            Stopped::Refused(refusal) => refusal,
            Stopped::Asks(question) => self.nobody(&question),
        })
    }

    /// The refusal of a question that nobody can be asked.
    fn nobody(&self, question: &Question) -> Refusal {
        let subjects = match self.broker.judge(&self.session.policy(), question) {
            Judgement::Asking(subjects, _) => subjects,
            _ => question.subjects.clone(),
        };
        Refusal::NobodyToAsk { kind: question.kind.clone(), subjects, each_time: question.each_time }
    }

    /// Remembers an "always" that somebody answered elsewhere. What cannot be saved is remembered for now. An approval of
    /// an earlier version that it renews is forgotten.
    pub async fn remember(&self, question: &Question) {
        if let Err(error) = self.broker.remember(question).await {
            tracing::warn!(%error, "Could not save the approval; it lasts until this process exits");
        }
        self.renew(question).await;
    }

    /// Forgets the approvals of an earlier version that an "always" to this question took the place of.
    async fn renew(&self, question: &Question) {
        if question.note != Some(Note::ApprovedByEarlierVersion) {
            return;
        }
        for old in self.broker.remembered() {
            if is_outdated(&old, question) && question.always.contains(&old.pattern) {
                // What cannot be forgotten covers nothing.
                let _ = self.broker.forget(&old).await;
            }
        }
    }

    /// The same question, saying so if an earlier version recorded an "always" for it in a form that covers nothing any
    /// more.
    #[must_use]
    pub fn noting_outdated(&self, mut question: Question) -> Question {
        let is_meant = |old: &Approval| {
            is_outdated(old, &question)
                && question.subjects.iter().any(|subject| old.pattern.matches(subject))
        };
        if self.broker.remembered().iter().any(is_meant) {
            question.note = Some(Note::ApprovedByEarlierVersion);
        }
        question
    }

    /// Permission for an act that something the user trusts with it has approved before, such as the list
    /// of tools of a loaded skill: where the rules say to ask, nobody is asked. A rule that denies it stands.
    ///
    /// # Errors
    ///
    /// A rule denies it, or a person has to be asked each time.
    pub fn request_preapproved(&self, request: &Question) -> Result<Grant, Refusal> {
        let verdict = self.session.policy().evaluate(request);
        let how = match verdict.decision {
            Decision::Allow => Granted::Rule,
            Decision::Ask if request.each_time => {
                return Err(self.nobody(request));
            }
            Decision::Ask => Granted::Preapproved,
            Decision::Deny => return Err(Refusal::denied(&request.kind, verdict)),
        };
        Ok(Grant::new(request.fingerprint(), how))
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

/// Whether an approval is bound as no version binds any more that knows the form of the question's binding.
fn is_outdated(old: &Approval, question: &Question) -> bool {
    let version =
        |binding: &Option<String>| binding.as_deref().map(|binding| binding.starts_with(RUN_BINDING));
    old.kind == question.kind
        && version(&question.binding) == Some(true)
        && version(&old.binding) == Some(false)
}

impl Default for Permissions {
    fn default() -> Self {
        Self::unattended(Policy::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replies;
    use crate::broker::ReplyError;

    #[tokio::test]
    async fn what_is_asked_each_time_is_settled_by_nothing_but_an_answer() {
        let allow = Policy::new().with(RuleSource::User, [Rule::new("run", "*", Decision::Allow)]);
        let permissions = Permissions::unattended(allow);
        let plain = Question::new(Kind::RUN, "make");
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
        let other = Replies::allowing([plain.fingerprint()]);
        assert!(
            matches!(permissions.pass(asked.clone(), &other).await, Err(Stopped::Asks(_))),
            "another question"
        );
        let replies = Replies::allowing([asked.fingerprint()]);
        assert_eq!(permissions.pass(asked.clone(), &replies).await.unwrap().how(), Granted::Once);
        permissions.set(RuleSource::User, vec![Rule::new("run", "make", Decision::Deny)]);
        let refused = permissions.pass(asked, &replies).await;
        assert!(matches!(refused, Err(Stopped::Refused(Refusal::Denied { .. }))));
    }

    #[tokio::test]
    async fn the_rules_are_looked_at_again_when_the_answer_comes() {
        for reply in [Reply::Once, Reply::Always] {
            let broker = Broker::in_memory();
            let mut front_end = broker.subscribe();
            let permissions = Permissions::new(Arc::clone(&broker), "one", Policy::new());
            let asking = permissions.clone();
            let waiter = tokio::spawn(async move { asking.request(Question::new(Kind::RUN, "rm x")).await });
            let id = front_end.next().await.unwrap().id();
            // Behind the broker's back, so that only the last look can find it.
            permissions.session.set(RuleSource::User, vec![Rule::new("run", "rm *", Decision::Deny)]);

            let answered = broker.reply(id, reply).await;
            assert!(matches!(answered, Err(ReplyError::Denied { .. })));
            assert!(matches!(waiter.await.unwrap(), Err(Refusal::Denied { .. })));
            assert_eq!(broker.remembered(), []);
        }
    }
}
