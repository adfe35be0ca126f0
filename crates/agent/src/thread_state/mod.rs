//! The agent's steps as a state machine. It does nothing itself: given what happened, it says what comes next.

mod event;
mod pending;
mod repair;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

pub use self::event::{
    CallQuestion, CallReply, EVENT_VERSION, Event, StateChange, SubAgentCaller, TurnOutcome,
};
pub use self::pending::{Consultation, ReadyCall};
use self::pending::{Pending, Status, UNKNOWN_OUTCOME, pending};
use crate::id::CallId;
use crate::message::{Content, Message, ToolCall};
use crate::model::{Finish, ModelError, ModelUsage, Usage};
use crate::tool::ToolAnswer;

/// How often a model is asked in one turn, when nobody says otherwise.
pub const DEFAULT_MAX_STEPS: u32 = 100;

/// A thread's conversation and where its turn stands: the fold of its events.
///
/// ```
/// use prowess_agent::thread_state::NextStep;
/// use prowess_agent::{Event, Message, ThreadState};
///
/// let mut run = ThreadState::default();
/// assert_eq!(run.next(), NextStep::Wait);
/// run.apply(&Event::TurnStarted { messages: vec![Message::user("Hi.")] })?;
/// assert_eq!(run.next(), NextStep::AskModel);
/// # Ok::<(), prowess_agent::thread_state::MisplacedEvent>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadState {
    messages: Vec<Arc<Message>>,
    /// What the model sees: from `cut` on, after the summary.
    cut: usize,
    summary: Option<Arc<Message>>,
    phase: Phase,
    limits: TurnLimits,
    /// How often the model was asked in this turn.
    steps: u32,
    /// How many tokens this turn took.
    tokens: u64,
    /// How often the model answered, or failed to.
    answers: u64,
    /// What the model counted at its last answer, that included, and how many messages there were then; unknown when it
    /// did not count, or when it saw others.
    counted: Option<(u64, usize)>,
    spent: ModelUsage,
    /// How the last turn ended.
    outcome: Option<TurnOutcome>,
}

/// How much one turn may take.
///
/// ```
/// use prowess_agent::thread_state::NextStep;
/// use prowess_agent::{Event, Message, ThreadState, TurnLimits};
///
/// let mut run = ThreadState::new(TurnLimits { steps: 0, tokens: Some(50_000) });
/// run.apply(&Event::TurnStarted { messages: vec![Message::user("Hi.")] })?;
/// assert!(matches!(run.next(), NextStep::End(_)), "not one step is allowed");
/// # Ok::<(), prowess_agent::thread_state::MisplacedEvent>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// How often the model is asked.
    pub steps: u32,
    /// How many tokens it and those who work for it read and say; without end otherwise.
    pub tokens: Option<u64>,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { steps: DEFAULT_MAX_STEPS, tokens: None }
    }
}

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// There is none.
    Idle,
    /// The model is to be asked.
    Model,
    /// Its calls are to be made.
    Tools(VecDeque<Pending>),
    /// It is to be ended.
    Ending(TurnOutcome),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NextStep {
    /// Wait for someone to say something.
    Wait,
    /// Ask the model.
    AskModel,
    /// Make these calls, in any order.
    CallTools(Vec<ReadyCall>),
    /// Wait until a person has answered for these calls.
    Ask(Vec<ToolCall>),
    /// End the turn.
    End(TurnOutcome),
}

/// An event that cannot follow on those before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} (`{event}` cannot follow here)")]
pub struct MisplacedEvent {
    event: &'static str,
    why: &'static str,
}

impl Default for ThreadState {
    fn default() -> Self {
        Self::new(TurnLimits::default())
    }
}

impl ThreadState {
    /// An empty thread whose turns take no more than this.
    pub fn new(limits: TurnLimits) -> Self {
        Self {
            messages: Vec::new(),
            cut: 0,
            summary: None,
            phase: Phase::Idle,
            limits,
            steps: 0,
            tokens: 0,
            answers: 0,
            counted: None,
            spent: ModelUsage::default(),
            outcome: None,
        }
    }

    /// Every message, also those that the model no longer sees.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// What the model sees of the conversation.
    pub fn view(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.summary.iter().chain(&self.messages[self.cut..])
    }

    /// How many messages the model no longer sees.
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// What the model sees in place of the messages that it no longer sees.
    pub(crate) fn summary(&self) -> Option<&Arc<Message>> {
        self.summary.as_ref()
    }

    /// How many tokens the model counted at its last answer, that included, and how many messages there were then: what
    /// it will read next is that, and what came since. Unknown when it did not count, or saw other messages.
    pub(crate) fn counted(&self) -> Option<(u64, usize)> {
        self.counted
    }

    /// What was paid in all.
    pub fn usage(&self) -> Usage {
        self.spent.total()
    }

    /// What was paid to each model, by this thread and those who worked for it.
    pub fn spent(&self) -> &ModelUsage {
        &self.spent
    }

    /// How often the model answered in the thread, or failed to.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// How many tokens this turn may still take, if there is a limit.
    pub fn tokens_left(&self) -> Option<u64> {
        self.limits.tokens.map(|most| most.saturating_sub(self.tokens))
    }

    /// How the last turn ended, if one has.
    pub fn outcome(&self) -> Option<&TurnOutcome> {
        self.outcome.as_ref()
    }

    /// How often the model was asked in this turn.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What is to be done next.
    pub fn next(&self) -> NextStep {
        match &self.phase {
            Phase::Idle => NextStep::Wait,
            Phase::Model if self.steps >= self.limits.steps => {
                NextStep::End(TurnOutcome::TooManySteps { most: self.limits.steps })
            }
            Phase::Model => match self.limits.tokens {
                Some(most) if self.tokens >= most => NextStep::End(TurnOutcome::TooManyTokens { most }),
                _ => NextStep::AskModel,
            },
            Phase::Ending(outcome) => NextStep::End(outcome.clone()),
            Phase::Tools(calls) => {
                let ready: Vec<ReadyCall> = calls.iter().filter_map(Pending::ready).collect();
                if !ready.is_empty() {
                    return NextStep::CallTools(ready);
                }
                NextStep::Ask(self.waiting())
            }
        }
    }

    /// The calls of the last answer that were put to a person, and are not begun: they wait, or were let pass.
    pub fn asked(&self) -> Vec<ReadyCall> {
        let Phase::Tools(calls) = &self.phase else { return Vec::new() };
        let open = calls.iter().filter(|pending| pending.was_asked);
        open.filter_map(|pending| match pending.status {
            Status::New { .. } => pending.ready(),
            Status::Asked { by_tool: false } => Some(pending.call(false, false)),
            Status::Asked { .. } | Status::Started { .. } | Status::Answered(_) => None,
        })
        .collect()
    }

    /// The calls that wait for a person.
    pub fn waiting(&self) -> Vec<ToolCall> {
        let Phase::Tools(calls) = &self.phase else { return Vec::new() };
        let asked = calls.iter().filter(|pending| matches!(pending.status, Status::Asked { .. }));
        asked.map(|pending| pending.call.clone()).collect()
    }

    /// The calls of the last answer, in their order, each with the changes of its answer if it has one already. Those take
    /// effect once all are answered.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (&CallId, &[StateChange])> {
        let calls = match &self.phase {
            Phase::Tools(calls) => Some(calls),
            Phase::Idle | Phase::Model | Phase::Ending(_) => None,
        };
        calls.into_iter().flatten().map(|pending| (&pending.call.id, &pending.changes[..]))
    }

    /// Goes on from what happened. Gives the changes of state that take effect with it: those of calls made at the
    /// same time together, in the order of the calls, whichever ended first.
    ///
    /// # Errors
    ///
    /// It cannot have happened here. Nothing has changed.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<StateChange>, MisplacedEvent> {
        match event {
            Event::TurnStarted { messages } => self.start(messages)?,
            Event::Imported { messages } => self.import(messages)?,
            Event::ModelAsked { .. } => self.ask_model()?,
            Event::ModelAnswered { model, message, usage, finish } => {
                self.hear(message, *finish)?;
                if usage.input > 0 {
                    self.counted = Some((usage.total(), self.messages.len()));
                }
                self.pay(&ModelUsage::on(model.clone(), *usage));
            }
            Event::ModelFailed { error } => self.fail(error)?,
            Event::ToolStarted { call } => self.begin(call)?,
            Event::ToolAnswered { call, answer } => return self.answer(call, answer),
            Event::Approved { call, .. } => self.approve(call)?,
            Event::Asked { call, asking, by_tool } => self.ask(call, asking, *by_tool)?,
            Event::Replied { call, reply } => return self.reply(call, reply),
            Event::StateChanged { changes } => return Ok(changes.clone()),
            Event::Compacted { cut, summary, spent } => {
                self.compact(*cut, summary)?;
                self.pay(spent);
            }
            Event::Stopped { outcome } => return self.stop("stopped", outcome.clone()),
            Event::Told { messages } => self.tell(messages)?,
            Event::TurnEnded { outcome } => {
                let changes = self.stop("turn_ended", TurnOutcome::Cancelled)?;
                (self.phase, self.outcome) = (Phase::Idle, Some(outcome.clone()));
                return Ok(changes);
            }
        }
        Ok(Vec::new())
    }

    fn start(&mut self, messages: &[Message]) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Idle {
            return Err(misplaced(
                "turn_started",
                "a turn is going on: reply to what it waits for, go on with it, or cancel it",
            ));
        }
        if messages.is_empty() || !are_user(messages) {
            return Err(misplaced("turn_started", "only what a user says starts a turn"));
        }
        self.messages.extend(messages.iter().cloned().map(Arc::new));
        (self.steps, self.tokens, self.phase) = (0, 0, Phase::Model);
        Ok(())
    }

    /// Takes a conversation from elsewhere, mended so that every call has its result.
    fn import(&mut self, messages: &[Message]) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Idle {
            return Err(misplaced("imported", "a turn is going on"));
        }
        self.messages.extend(repair::repaired(messages).map(Arc::new));
        Ok(())
    }

    fn tell(&mut self, messages: &[Message]) -> Result<(), MisplacedEvent> {
        if !matches!(self.phase, Phase::Ending(_) | Phase::Model) {
            return Err(misplaced("told", "it is not the model's turn"));
        }
        if !are_user(messages) {
            return Err(misplaced("told", "a user did not say this"));
        }
        self.messages.extend(messages.iter().cloned().map(Arc::new));
        self.phase = Phase::Model;
        Ok(())
    }

    fn pay(&mut self, spent: &ModelUsage) {
        self.tokens = self.tokens.saturating_add(spent.total().total());
        self.spent += spent;
    }

    fn ask_model(&mut self) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_asked", "it is not the model's turn"));
        }
        self.steps += 1;
        Ok(())
    }

    fn hear(&mut self, message: &Message, finish: Option<Finish>) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_answered", "it is not the model's turn"));
        }
        let Content::Assistant { parts } = &message.content else {
            return Err(misplaced("model_answered", "a model did not say this"));
        };
        let mut calls: VecDeque<Pending> = pending(message).collect();
        let ids: BTreeSet<&CallId> = message.tool_calls().map(|call| &call.id).collect();
        if ids.len() < calls.len() {
            return Err(misplaced("model_answered", "two calls have one name"));
        }
        if let (Some(Finish::Length), Some(last)) = (finish, calls.back_mut()) {
            last.cut_off();
        }
        self.phase = match finish {
            Some(Finish::Refused) => Phase::Ending(TurnOutcome::Refused),
            _ if !calls.is_empty() => Phase::Tools(calls),
            Some(Finish::Length) => Phase::Ending(TurnOutcome::CutOff),
            _ if parts.is_empty() => Phase::Ending(TurnOutcome::Silent),
            _ => Phase::Ending(TurnOutcome::Answered),
        };
        self.answers += 1;
        // Providers take no empty message back.
        if !parts.is_empty() {
            self.messages.push(Arc::new(message.clone()));
        }
        if let (Phase::Ending(_), true) = (&self.phase, message.tool_calls().next().is_some()) {
            self.close_calls(message, "Error: the answer with this call was refused.");
        }
        // A call that was cut off may have been the only one.
        self.take_answers();
        Ok(())
    }

    fn fail(&mut self, error: &ModelError) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_failed", "it is not the model's turn"));
        }
        self.answers += 1;
        self.phase = Phase::Ending(TurnOutcome::Failed { error: error.clone() });
        Ok(())
    }

    fn begin(&mut self, call: &CallId) -> Result<(), MisplacedEvent> {
        let pending = self.pending("tool_started", call)?;
        match pending.status {
            Status::New { approved } | Status::Started { approved } => {
                pending.status = Status::Started { approved };
            }
            Status::Asked { .. } => return Err(misplaced("tool_started", "the call waits for a person")),
            Status::Answered(_) => return Err(misplaced("tool_started", "the call is answered")),
        }
        Ok(())
    }

    fn answer(&mut self, call: &CallId, answer: &ToolAnswer) -> Result<Vec<StateChange>, MisplacedEvent> {
        let pending = self.pending("tool_answered", call)?;
        if matches!(pending.status, Status::Answered(_)) {
            return Err(misplaced("tool_answered", "the call is answered"));
        }
        pending.status = Status::Answered(pending.result(&answer.text, answer.is_error));
        pending.changes.clone_from(&answer.changes);
        self.pay(&answer.spent);
        Ok(self.take_answers())
    }

    fn approve(&mut self, call: &CallId) -> Result<(), MisplacedEvent> {
        let pending = self.pending("approved", call)?;
        let (Status::New { approved } | Status::Started { approved }) = &mut pending.status else {
            return Err(misplaced("approved", "the call is answered, or was asked about"));
        };
        *approved = true;
        Ok(())
    }

    fn ask(&mut self, call: &CallId, asking: &CallQuestion, by_tool: bool) -> Result<(), MisplacedEvent> {
        let pending = self.pending("asked", call)?;
        match pending.status {
            Status::Started { approved } if by_tool => {
                pending.consulted =
                    Some(Consultation { asking: asking.clone(), reply: None, approved, rejects_all: false });
            }
            // One that was begun and cut off may need a person by now.
            Status::New { approved: false } | Status::Started { approved: false } if !by_tool => {
                pending.was_asked = true;
            }
            _ => return Err(misplaced("asked", "the call is answered, or was asked about")),
        }
        pending.status = Status::Asked { by_tool };
        Ok(())
    }

    fn reply(&mut self, call: &CallId, reply: &CallReply) -> Result<Vec<StateChange>, MisplacedEvent> {
        let pending = self.pending("replied", call)?;
        let Status::Asked { by_tool } = pending.status else {
            return Err(misplaced("replied", "nobody asked about the call"));
        };
        if let (true, Some(consulted)) = (by_tool, &mut pending.consulted) {
            // The tool asked, and does with the reply what it means.
            consulted.rejects_all = matches!(reply, CallReply::RejectAll { .. });
            consulted.reply = Some(match reply.clone() {
                CallReply::RejectAll { message } => CallReply::Reject { message },
                reply => reply,
            });
            pending.status = Status::New { approved: consulted.approved };
            return Ok(Vec::new());
        }
        pending.status = match reply {
            CallReply::Approve => Status::New { approved: true },
            CallReply::Always => {
                pending.always = true;
                Status::New { approved: true }
            }
            CallReply::Edit { arguments } => {
                pending.call.arguments.clone_from(arguments);
                pending.is_edited = true;
                Status::New { approved: true }
            }
            CallReply::Reject { message } | CallReply::RejectAll { message } => {
                Status::Answered(pending.result(message, true))
            }
        };
        Ok(self.take_answers())
    }

    fn compact(&mut self, cut: usize, summary: &Message) -> Result<(), MisplacedEvent> {
        if cut < self.cut || cut > self.messages.len() {
            return Err(misplaced("compacted", "the cut is not among what the model sees"));
        }
        if self.messages.get(cut).is_some_and(|message| matches!(message.content, Content::Tool(_))) {
            return Err(misplaced("compacted", "the cut parts a call from its result"));
        }
        if matches!(self.phase, Phase::Tools(_)) && cut == self.messages.len() {
            return Err(misplaced("compacted", "the cut parts a call from its result"));
        }
        (self.cut, self.summary, self.counted) = (cut, Some(Arc::new(summary.clone())), None);
        Ok(())
    }

    /// Lets the turn end, whatever it was doing: calls without an answer get one, so that the conversation can go on.
    fn stop(
        &mut self,
        event: &'static str,
        outcome: TurnOutcome,
    ) -> Result<Vec<StateChange>, MisplacedEvent> {
        if self.phase == Phase::Idle {
            return Err(misplaced(event, "there is no turn"));
        }
        if let Phase::Tools(calls) = &mut self.phase {
            for pending in calls {
                let text = match pending.status {
                    Status::Answered(_) => continue,
                    Status::Started { .. } => UNKNOWN_OUTCOME,
                    Status::New { .. } | Status::Asked { .. } => {
                        "Error: the turn ended before this call was made."
                    }
                };
                pending.status = Status::Answered(pending.result(text, true));
            }
        }
        let changes = self.take_answers();
        self.phase = Phase::Ending(outcome);
        Ok(changes)
    }

    /// Answers calls that will not be made.
    fn close_calls(&mut self, message: &Message, text: &str) {
        self.messages.extend(pending(message).map(|pending| {
            let result = pending.result(text, true);
            Arc::new(pending.into_message(result))
        }));
    }

    /// Once all calls are answered, their answers follow in the order of the calls, and so do their changes.
    fn take_answers(&mut self) -> Vec<StateChange> {
        let Phase::Tools(calls) = &mut self.phase else { return Vec::new() };
        if !calls.iter().all(|pending| matches!(pending.status, Status::Answered(_))) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for mut pending in std::mem::take(calls) {
            changes.append(&mut pending.changes);
            if let Status::Answered(result) = pending.status.clone() {
                self.messages.push(Arc::new(pending.into_message(result)));
            }
        }
        self.phase = Phase::Model;
        changes
    }

    fn pending(&mut self, event: &'static str, id: &CallId) -> Result<&mut Pending, MisplacedEvent> {
        let Phase::Tools(calls) = &mut self.phase else {
            return Err(misplaced(event, "no call is being made or waits: it was answered already"));
        };
        let found = calls.iter_mut().find(|pending| pending.call.id == *id);
        found.ok_or_else(|| misplaced(event, "no call of that name is being made or waits"))
    }
}

fn are_user(messages: &[Message]) -> bool {
    messages.iter().all(|message| matches!(message.content, Content::User { .. }))
}

fn misplaced(event: &'static str, why: &'static str) -> MisplacedEvent {
    MisplacedEvent { event, why }
}
