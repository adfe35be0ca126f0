//! The permissions of one session: its rules, and the broker that asks.

use std::sync::{Arc, PoisonError, RwLock};

use crate::evaluation::Evaluation;
use crate::protected::is_protected;
use crate::question::{Note, RUN_BINDING};
use crate::{
    Approval, Asker, Broker, Decision, Grant, Granted, Kind, NoAsker, Policy, Question, Refusal, Reply, Rule,
    RuleSource, Stopped, Verdict,
};

/// The permissions of one session: its rules, which can change at any time, and the broker that asks.
///
/// Clones share both.
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

/// The session of a waiting question: its name and its current rules.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: String,
    policy: RwLock<Policy>,
}

impl Session {
    pub(crate) fn policy(&self) -> Policy {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, source: RuleSource, rules: Vec<Rule>) {
        self.policy.write().unwrap_or_else(PoisonError::into_inner).set(source, rules);
    }
}

impl Permissions {
    /// The permissions of `session`, with the rules of `policy` at first.
    #[must_use]
    pub fn new(broker: Arc<Broker>, session: impl Into<String>, policy: Policy) -> Self {
        let session = Session { name: session.into(), policy: RwLock::new(policy) };
        Self { broker, session: Arc::new(session) }
    }

    /// Permissions with nobody to ask and no approvals: prowess refuses everything that no rule allows.
    #[must_use]
    pub fn unattended(policy: Policy) -> Self {
        Self::new(Broker::in_memory(), "unattended", policy)
    }

    /// The current rules.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.session.policy()
    }

    /// Replaces the rules of `source`. Waiting questions of this session end at once if the new rules allow or deny them.
    pub fn set(&self, source: RuleSource, rules: Vec<Rule>) {
        self.broker.set_rules(&self.session, source, rules);
    }

    /// The decision about `question` without asking anybody: rules first, then approvals. An approval turns "ask" into
    /// "allow", but never changes "deny".
    #[must_use]
    pub fn decide(&self, question: &Question) -> Verdict {
        self.broker.evaluate(&self.session.policy(), question).into_verdict()
    }

    /// Whether a rule denies this subject. Hide denied things from the model.
    #[must_use]
    pub fn is_denied(&self, kind: &Kind, subject: &str) -> bool {
        self.session.policy().decide(kind, subject).decision == Decision::Deny
    }

    /// The grant or refusal, if rules and approvals decide without a person; `None` if a person must be asked.
    #[must_use]
    pub fn without_asking(&self, question: &Question) -> Option<Result<Grant, Refusal>> {
        match self.broker.evaluate(&self.session.policy(), question) {
            Evaluation::Granted(how, _) => Some(Ok(Grant::new(question.fingerprint(), how))),
            Evaluation::Denied(verdict) => Some(Err(Refusal::denied(&question.kind, verdict))),
            Evaluation::MustAsk(..) => None,
        }
    }

    /// The refusal, if a rule denies the action.
    #[must_use]
    pub fn denied(&self, question: &Question) -> Option<Refusal> {
        let verdict = self.session.policy().evaluate(question);
        (verdict.decision == Decision::Deny).then(|| Refusal::denied(&question.kind, verdict))
    }

    /// Gets permission for an action: from rules, from approvals, or by asking. It asks `asker` first, then the front ends of
    /// the broker. If you drop the future, the question is withdrawn.
    ///
    /// # Errors
    ///
    /// The action is refused, or a person must reply first and nobody can be asked now.
    pub async fn pass(&self, question: Question, asker: &dyn Asker) -> Result<Grant, Stopped> {
        if let Some(decided) = self.without_asking(&question) {
            return Ok(decided?);
        }
        let reply = asker.ask(&question).await;
        if reply.is_none() && self.broker.has_front_end() {
            // The broker records an "always" itself. A front end that goes away has not replied.
            let replied = self.broker.ask(&self.session, question.clone(), question.fingerprint()).await?;
            if let Some(how) = replied {
                if how == Granted::Always {
                    self.forget_outdated(&question).await;
                }
                return self.granted(&question, how);
            }
        }
        let how = match reply {
            Some(Reply::Once) => Granted::Once,
            Some(Reply::Always) => Granted::Always,
            Some(Reply::Reject { message }) => return Err(Refusal::Rejected { message }.into()),
            None if asker.keeps_questions() => return Err(Stopped::Asks(Box::new(question))),
            None => return Err(self.nobody_to_ask(&question).into()),
        };
        let grant = self.granted(&question, how)?;
        if how == Granted::Always {
            self.remember(&question).await;
        }
        Ok(grant)
    }

    /// The grant that follows from a reply, unless a rule that came meanwhile denies the action.
    fn granted(&self, question: &Question, how: Granted) -> Result<Grant, Stopped> {
        match self.denied(question) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Grant::new(question.fingerprint(), how)),
        }
    }

    /// Gets permission for an action. It asks only the front ends of the broker.
    ///
    /// # Errors
    ///
    /// The action is refused, or nobody can be asked.
    pub async fn request(&self, question: Question) -> Result<Grant, Refusal> {
        self.pass(question, &NoAsker).await.map_err(|stopped| match stopped {
            Stopped::Refused(refusal) => refusal,
            Stopped::Asks(question) => self.nobody_to_ask(&question),
        })
    }

    /// The refusal if nobody can be asked.
    fn nobody_to_ask(&self, question: &Question) -> Refusal {
        let subjects = match self.broker.evaluate(&self.session.policy(), question) {
            Evaluation::MustAsk(subjects, _) => subjects,
            _ => question.subjects.clone(),
        };
        Refusal::NobodyToAsk { kind: question.kind.clone(), subjects, each_time: question.each_time }
    }

    /// Records an "always" that a person replied elsewhere. If it cannot be saved, it lasts until the process exits. It
    /// replaces the approval of an earlier version.
    pub async fn remember(&self, question: &Question) {
        if let Err(error) = self.broker.remember(question).await {
            tracing::warn!(%error, "Could not save the approval; it lasts until this process exits");
        }
        self.forget_outdated(question).await;
    }

    /// Removes the approvals of an earlier version that an "always" to this question replaces.
    async fn forget_outdated(&self, question: &Question) {
        if question.note != Some(Note::ApprovedByEarlierVersion) {
            return;
        }
        for old in self.broker.remembered() {
            if is_outdated(&old, question) && question.always.contains(&old.pattern) {
                // If it cannot be removed, it still covers nothing.
                let _ = self.broker.forget(&old).await;
            }
        }
    }

    /// Adds a note to the question if an earlier version recorded an "always" for it that no longer counts.
    #[must_use]
    pub fn with_outdated_note(&self, mut question: Question) -> Question {
        let was_for_this = |old: &Approval| {
            is_outdated(old, &question)
                && question.subjects.iter().any(|subject| old.pattern.matches(subject))
        };
        if self.broker.remembered().iter().any(was_for_this) {
            question.note = Some(Note::ApprovedByEarlierVersion);
        }
        question
    }

    /// Gets permission for an action that something trusted has approved, such as the `allowed-tools` of a loaded skill. It
    /// does not ask, even if the decision is "ask".
    ///
    /// # Errors
    ///
    /// A rule denies the action, or a person must be asked all the same: each time, about a [protected
    /// file](crate::protected), or because a rule asks about this file, command or host in particular.
    pub fn request_preapproved(&self, question: &Question) -> Result<Grant, Refusal> {
        let policy = self.session.policy();
        let verdict = policy.evaluate(question);
        // A list names tools. So a rule that asks about a tool by its name is settled, too.
        let is_about_tool = [Kind::TOOL, Kind::MCP].contains(&question.kind);
        let how = match verdict.decision {
            Decision::Allow => Granted::Rule,
            Decision::Ask if question.each_time || is_protected(question) => {
                return Err(self.nobody_to_ask(question));
            }
            Decision::Ask if is_about_tool || policy.asks_in_general(question) => Granted::Preapproved,
            Decision::Ask => return Err(self.nobody_to_ask(question)),
            Decision::Deny => return Err(Refusal::denied(&question.kind, verdict)),
        };
        Ok(Grant::new(question.fingerprint(), how))
    }

    /// Gets permission for an action that something trusted has approved, as [`Self::request_preapproved`] does. If a person
    /// must be asked all the same, it asks as [`Self::pass`] does.
    ///
    /// # Errors
    ///
    /// The action is refused, or a person must reply first and nobody can be asked now.
    pub async fn pass_preapproved(&self, question: Question, asker: &dyn Asker) -> Result<Grant, Stopped> {
        if let Some(decided) = self.without_asking(&question) {
            return Ok(decided?);
        }
        match self.request_preapproved(&question) {
            Ok(grant) => Ok(grant),
            Err(_) => self.pass(question, asker).await,
        }
    }

    /// The session's name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session.name
    }

    /// The broker.
    #[must_use]
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }
}

/// Whether an approval of a run comes from version 1, while the question has a binding of version 2.
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
    async fn a_question_asked_each_time_needs_a_reply() {
        let allow = Policy::new().rules(RuleSource::User, [Rule::new("run", "*", Decision::Allow)]);
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
        let other = Replies::once([plain.fingerprint()]);
        assert!(
            matches!(permissions.pass(asked.clone(), &other).await, Err(Stopped::Asks(_))),
            "another question"
        );
        let replies = Replies::once([asked.fingerprint()]);
        assert_eq!(permissions.pass(asked.clone(), &replies).await.unwrap().how(), Granted::Once);
        permissions.set(RuleSource::User, vec![Rule::new("run", "make", Decision::Deny)]);
        let refused = permissions.pass(asked, &replies).await;
        assert!(matches!(refused, Err(Stopped::Refused(Refusal::Denied { .. }))));
    }

    #[tokio::test]
    async fn a_preapproval_settles_what_rules_ask_about_in_general() {
        let ask = |kind: &str, pattern: &str| Rule::new(kind, pattern, Decision::Ask);
        let rules = [
            ask("run", "*"),
            ask("run", "kit git push*"),
            ask("write", "*"),
            ask("write", "/p/plans/*"),
            ask("tool", "add"),
            Rule::new("run", "kit rm *", Decision::Deny),
        ];
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
        for (kind, subject, settled) in [
            (Kind::RUN, "kit git log", true),
            (Kind::RUN, "kit git push", false),
            (Kind::RUN, "kit rm x", false),
            (Kind::WRITE, "/p/notes.md", true),
            (Kind::WRITE, "/p/plans/a.md", false),
            (Kind::WRITE, "/p/.git/config", false),
            (Kind::WRITE, "/p/AGENTS.md", false),
            (Kind::TOOL, "add", true),
            (Kind::NETWORK, "example.com", true),
        ] {
            let question = Question::new(kind, subject);
            assert_eq!(permissions.request_preapproved(&question).is_ok(), settled, "{subject}");
            let passed = permissions.pass_preapproved(question.clone(), &Replies::default()).await;
            assert_eq!(passed.is_ok(), settled, "{subject}");
            let asked = permissions
                .pass_preapproved(question.clone(), &Replies::once([question.fingerprint()]))
                .await;
            assert_eq!(asked.is_ok(), subject != "kit rm x", "{subject}: otherwise a person decides");
        }
        let remembered = Question::new(Kind::RUN, "kit git log");
        permissions.remember(&remembered).await;
        let grant = permissions.pass_preapproved(remembered, &Replies::default()).await.unwrap();
        assert_eq!(grant.how(), Granted::Remembered);
    }

    #[tokio::test]
    async fn the_rules_are_checked_again_when_the_reply_comes() {
        for reply in [Reply::Once, Reply::Always] {
            let broker = Broker::in_memory();
            let mut front_end = broker.subscribe();
            let permissions = Permissions::new(Arc::clone(&broker), "one", Policy::new());
            let asking = permissions.clone();
            let waiter = tokio::spawn(async move { asking.request(Question::new(Kind::RUN, "rm x")).await });
            let id = front_end.next().await.unwrap().id();
            // Set it without the broker, so that only the last check can find it.
            permissions.session.set(RuleSource::User, vec![Rule::new("run", "rm *", Decision::Deny)]);

            let replied = broker.reply(id, reply).await;
            assert!(matches!(replied, Err(ReplyError::Denied { .. })));
            assert!(matches!(waiter.await.unwrap(), Err(Refusal::Denied { .. })));
            assert_eq!(broker.remembered(), []);
        }
    }
}
