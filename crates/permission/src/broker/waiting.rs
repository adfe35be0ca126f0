//! Questions that wait for a reply, and everything that ends the waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::{debug, info};

use super::{Broker, Feed, PendingQuestion, PermissionEvent, QuestionId, QuestionOutcome};
use crate::evaluation::Evaluation;
use crate::permissions::Session;
use crate::{Approval, Fingerprint, Granted, Policy, Question, Refusal, Rule, RuleSource};

/// How a question ends for the side that asks.
pub(super) type QuestionResult = Result<Granted, Refusal>;

/// The state behind the broker's lock. Rules also change and are read under this lock, so a question never waits because of
/// rules that were replaced before.
#[derive(Debug)]
pub(super) struct State {
    pub(super) last: QuestionId,
    pub(super) waiting: BTreeMap<QuestionId, WaitingQuestion>,
    pub(super) approvals: Vec<Approval>,
    pub(super) feeds: Vec<Arc<Feed>>,
}

#[derive(Debug)]
pub(super) struct WaitingQuestion {
    pub(super) pending: Arc<PendingQuestion>,
    session: Arc<Session>,
    end: oneshot::Sender<QuestionResult>,
}

impl WaitingQuestion {
    pub(super) fn evaluate(&self, approvals: &[Approval]) -> Evaluation {
        Evaluation::of(&self.session.policy(), approvals, &self.pending.question)
    }
}

impl State {
    pub(super) fn new(approvals: Vec<Approval>) -> Self {
        Self { last: QuestionId::start(), waiting: BTreeMap::new(), approvals, feeds: Vec::new() }
    }

    /// Ends one question. Returns whether it was still waiting.
    pub(super) fn end(&mut self, id: QuestionId, result: QuestionResult) -> bool {
        let Some(WaitingQuestion { pending, end, .. }) = self.waiting.remove(&id) else { return false };
        let outcome = QuestionOutcome::from(&result);
        // The asking side withdraws its question before it goes, so it is there. If it were not, nothing would happen.
        let _ = end.send(result);
        self.publish(&PermissionEvent::Replied { id, session: pending.session.clone(), outcome });
        true
    }

    /// Ends each question for which `choose` has a result. Returns how many.
    pub(super) fn end_where(
        &mut self,
        choose: impl Fn(&WaitingQuestion, &[Approval]) -> Option<QuestionResult>,
    ) -> usize {
        let results: Vec<_> = self
            .waiting
            .iter()
            .filter_map(|(id, waiting)| Some((*id, choose(waiting, &self.approvals)?)))
            .collect();
        let count = results.len();
        for (id, result) in results {
            self.end(id, result);
        }
        count
    }

    /// Ends the questions that rules or approvals decide by now.
    pub(super) fn evaluate_again(&mut self, concerned: impl Fn(&WaitingQuestion) -> bool) {
        self.end_where(|waiting, approvals| {
            if !concerned(waiting) {
                return None;
            }
            match waiting.evaluate(approvals) {
                Evaluation::Granted(how, _) => Some(Ok(how)),
                Evaluation::Denied(verdict) => {
                    Some(Err(Refusal::denied(&waiting.pending.question.kind, verdict)))
                }
                Evaluation::MustAsk(..) => None,
            }
        });
    }

    /// Refuses all waiting questions, because nobody can reply any more.
    pub(super) fn refuse_all_waiting(&mut self) {
        self.end_where(|waiting, approvals| {
            let kind = waiting.pending.question.kind.clone();
            let subjects = match waiting.evaluate(approvals) {
                Evaluation::MustAsk(subjects, _) => subjects,
                _ => waiting.pending.question.subjects.clone(),
            };
            let each_time = waiting.pending.question.each_time;
            Some(Err(Refusal::NobodyToAsk { kind, subjects, each_time }))
        });
    }

    /// Whether there is a front end that can reply.
    pub(super) fn has_front_end(&self) -> bool {
        self.feeds.iter().any(|feed| feed.can_reply)
    }

    fn publish(&self, event: &PermissionEvent) {
        for feed in &self.feeds {
            feed.push(event.clone());
        }
    }
}

impl Broker {
    /// Whether there is a front end that can reply.
    pub(crate) fn has_front_end(&self) -> bool {
        self.state().has_front_end()
    }

    pub(crate) fn evaluate(&self, policy: &Policy, question: &Question) -> Evaluation {
        Evaluation::of(policy, &self.state().approvals, question)
    }

    pub(crate) fn set_rules(&self, session: &Arc<Session>, source: RuleSource, rules: Vec<Rule>) {
        let mut state = self.state();
        session.set(source, rules);
        state.evaluate_again(|waiting| Arc::ptr_eq(&waiting.session, session));
    }

    /// Asks the front ends, and waits for a reply; `None` if no front end is left.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        session: &Arc<Session>,
        question: Question,
        fingerprint: Fingerprint,
    ) -> Result<Option<Granted>, Refusal> {
        match self.wait_for_reply(session, question, fingerprint).await {
            Ok(how) => Ok(Some(how)),
            Err(Refusal::NobodyToAsk { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    async fn wait_for_reply(
        self: &Arc<Self>,
        session: &Arc<Session>,
        question: Question,
        fingerprint: Fingerprint,
    ) -> QuestionResult {
        let waiting = match self.begin(session, question, fingerprint) {
            Ok(waiting) => waiting,
            Err(result) => return result,
        };
        let PendingQuestion { id, session, question, .. } = &*waiting.pending;
        debug!(kind = %question.kind, session, %id, "permission asked");
        waiting.result().await
    }

    /// Adds the question to the waiting ones, unless it can be decided at once.
    fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        question: Question,
        fingerprint: Fingerprint,
    ) -> Result<WaitGuard, QuestionResult> {
        let mut state = self.state();
        let subjects = match Evaluation::of(&session.policy(), &state.approvals, &question) {
            Evaluation::Granted(how, _) => return Err(Ok(how)),
            Evaluation::Denied(verdict) => return Err(Err(Refusal::denied(&question.kind, verdict))),
            Evaluation::MustAsk(subjects, _) => subjects,
        };
        if !state.has_front_end() {
            let (kind, each_time) = (question.kind.clone(), question.each_time);
            return Err(Err(Refusal::NobodyToAsk { kind, subjects, each_time }));
        }
        let id = state.last.next();
        state.last = id;
        let pending = Arc::new(PendingQuestion { id, session: session.name.clone(), question, fingerprint });
        let (end, result) = oneshot::channel();
        let waiting = WaitingQuestion { pending: Arc::clone(&pending), session: Arc::clone(session), end };
        state.waiting.insert(id, waiting);
        state.publish(&PermissionEvent::Asked(Arc::clone(&pending)));
        Ok(WaitGuard { broker: Arc::clone(self), pending, result })
    }
}

/// Waits for the end of a question. Dropping it withdraws the question.
struct WaitGuard {
    broker: Arc<Broker>,
    pending: Arc<PendingQuestion>,
    result: oneshot::Receiver<QuestionResult>,
}

impl WaitGuard {
    async fn result(mut self) -> QuestionResult {
        let received = match self.broker.timeout {
            None => (&mut self.result).await,
            Some(after) => match tokio::time::timeout(after, &mut self.result).await {
                Ok(received) => received,
                Err(_) => {
                    // Unless somebody was quicker, this is the result that arrives.
                    let refusal = Refusal::timed_out(&self.pending.question, after);
                    self.broker.state().end(self.pending.id, Err(refusal));
                    (&mut self.result).await
                }
            },
        };
        let result = received.unwrap_or(Err(Refusal::Cancelled));
        let PendingQuestion { id, session, question, .. } = &*self.pending;
        let outcome = result.as_ref().map_or_else(Refusal::code, |_| "granted");
        info!(kind = %question.kind, session, %id, outcome, "permission question ended");
        result
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let PendingQuestion { id, session, question, .. } = &*self.pending;
        if self.broker.state().end(*id, Err(Refusal::Cancelled)) {
            debug!(kind = %question.kind, session, %id, "permission question withdrawn");
        }
    }
}
