//! The asks that wait, and everything that ends their waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::{debug, info};

use super::{Broker, Feed, PendingQuestion, PermissionEvent, QuestionId, QuestionOutcome};
use crate::judgement::Judgement;
use crate::permissions::Session;
use crate::{Approval, Fingerprint, Granted, Policy, Question, Refusal, Rule, RuleSource};

pub(super) type Answer = Result<Granted, Refusal>;

/// What the broker's lock protects. Rules change and are read under it as well, so that no ask is
/// judged by rules that were replaced before it began to wait.
#[derive(Debug)]
pub(super) struct State {
    pub(super) last: QuestionId,
    pub(super) waiting: BTreeMap<QuestionId, Waiting>,
    pub(super) approvals: Vec<Approval>,
    pub(super) feeds: Vec<Arc<Feed>>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asked: Arc<PendingQuestion>,
    session: Arc<Session>,
    answer: oneshot::Sender<Answer>,
}

impl Waiting {
    pub(super) fn judge(&self, approvals: &[Approval]) -> Judgement {
        Judgement::of(&self.session.policy(), approvals, &self.asked.question)
    }
}

impl State {
    pub(super) fn new(approvals: Vec<Approval>) -> Self {
        Self { last: QuestionId::start(), waiting: BTreeMap::new(), approvals, feeds: Vec::new() }
    }

    /// Ends the waiting of one ask; says whether it was still waiting.
    pub(super) fn settle(&mut self, id: QuestionId, answer: Answer) -> bool {
        let Some(Waiting { asked, answer: waiter, .. }) = self.waiting.remove(&id) else { return false };
        let outcome = QuestionOutcome::from(&answer);
        // The waiter withdraws its ask before it goes, so it is there; were it not, nobody would act.
        let _ = waiter.send(answer);
        self.tell(&PermissionEvent::Replied { id, session: asked.session.clone(), outcome });
        true
    }

    /// Ends the waiting of each ask that `choose` has an answer for.
    pub(super) fn settle_where(&mut self, choose: impl Fn(&Waiting, &[Approval]) -> Option<Answer>) -> usize {
        let answers: Vec<_> = self
            .waiting
            .iter()
            .filter_map(|(id, waiting)| Some((*id, choose(waiting, &self.approvals)?)))
            .collect();
        let count = answers.len();
        for (id, answer) in answers {
            self.settle(id, answer);
        }
        count
    }

    /// Answers whatever rules and approvals answer by now.
    pub(super) fn reconsider(&mut self, concerned: impl Fn(&Waiting) -> bool) {
        self.settle_where(|waiting, approvals| {
            if !concerned(waiting) {
                return None;
            }
            match waiting.judge(approvals) {
                Judgement::Granted(how, _) => Some(Ok(how)),
                Judgement::Denied(verdict) => {
                    Some(Err(Refusal::denied(&waiting.asked.question.kind, verdict)))
                }
                Judgement::Asking(..) => None,
            }
        });
    }

    pub(super) fn refuse_all_for_want_of_somebody(&mut self) {
        self.settle_where(|waiting, approvals| {
            let kind = waiting.asked.question.kind.clone();
            let subjects = match waiting.judge(approvals) {
                Judgement::Asking(subjects, _) => subjects,
                _ => waiting.asked.question.subjects.clone(),
            };
            let each_time = waiting.asked.question.each_time;
            Some(Err(Refusal::NobodyToAsk { kind, subjects, each_time }))
        });
    }

    pub(super) fn somebody_answers(&self) -> bool {
        self.feeds.iter().any(|feed| feed.answers)
    }

    fn tell(&self, event: &PermissionEvent) {
        for feed in &self.feeds {
            feed.push(event.clone());
        }
    }
}

impl Broker {
    /// Whether there is a front end that can answer.
    pub(crate) fn is_attended(&self) -> bool {
        self.state().somebody_answers()
    }

    pub(crate) fn judge(&self, policy: &Policy, request: &Question) -> Judgement {
        Judgement::of(policy, &self.state().approvals, request)
    }

    pub(crate) fn set_rules(&self, session: &Arc<Session>, layer: RuleSource, rules: Vec<Rule>) {
        let mut state = self.state();
        session.set(layer, rules);
        state.reconsider(|waiting| Arc::ptr_eq(&waiting.session, session));
    }

    /// Asks, and waits for the answer; nothing when nobody is left who could answer.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        session: &Arc<Session>,
        request: Question,
        fingerprint: Fingerprint,
    ) -> Result<Option<Granted>, Refusal> {
        match self.answered(session, request, fingerprint).await {
            Ok(how) => Ok(Some(how)),
            Err(Refusal::NobodyToAsk { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    async fn answered(
        self: &Arc<Self>,
        session: &Arc<Session>,
        request: Question,
        fingerprint: Fingerprint,
    ) -> Answer {
        let ask = match self.begin(session, request, fingerprint) {
            Ok(ask) => ask,
            Err(answer) => return answer,
        };
        let PendingQuestion { id, session, question: request, .. } = &*ask.asked;
        debug!(kind = %request.kind, session, %id, "permission asked");
        ask.answer().await
    }

    /// Either the answer, or a place among the waiting.
    fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        request: Question,
        fingerprint: Fingerprint,
    ) -> Result<Ask, Answer> {
        let mut state = self.state();
        let subjects = match Judgement::of(&session.policy(), &state.approvals, &request) {
            Judgement::Granted(how, _) => return Err(Ok(how)),
            Judgement::Denied(verdict) => return Err(Err(Refusal::denied(&request.kind, verdict))),
            Judgement::Asking(subjects, _) => subjects,
        };
        if !state.somebody_answers() {
            let (kind, each_time) = (request.kind.clone(), request.each_time);
            return Err(Err(Refusal::NobodyToAsk { kind, subjects, each_time }));
        }
        let id = state.last.next();
        state.last = id;
        let asked =
            Arc::new(PendingQuestion { id, session: session.name.clone(), question: request, fingerprint });
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { asked: Arc::clone(&asked), session: Arc::clone(session), answer };
        state.waiting.insert(id, waiting);
        state.tell(&PermissionEvent::Asked(Arc::clone(&asked)));
        Ok(Ask { broker: Arc::clone(self), asked, answered })
    }
}

/// A place among the waiting, given up when it is dropped.
struct Ask {
    broker: Arc<Broker>,
    asked: Arc<PendingQuestion>,
    answered: oneshot::Receiver<Answer>,
}

impl Ask {
    async fn answer(mut self) -> Answer {
        let answered = match self.broker.timeout {
            None => (&mut self.answered).await,
            Some(after) => match tokio::time::timeout(after, &mut self.answered).await {
                Ok(answered) => answered,
                Err(_) => {
                    // Unless somebody was quicker, this is the answer that arrives.
                    let refusal = Refusal::timed_out(&self.asked.question, after);
                    self.broker.state().settle(self.asked.id, Err(refusal));
                    (&mut self.answered).await
                }
            },
        };
        let answer = answered.unwrap_or(Err(Refusal::Cancelled));
        let PendingQuestion { id, session, question: request, .. } = &*self.asked;
        let outcome = answer.as_ref().map_or_else(Refusal::code, |_| "granted");
        info!(kind = %request.kind, session, %id, outcome, "permission answered");
        answer
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        let PendingQuestion { id, session, question: request, .. } = &*self.asked;
        if self.broker.state().settle(*id, Err(Refusal::Cancelled)) {
            debug!(kind = %request.kind, session, %id, "permission request withdrawn");
        }
    }
}
