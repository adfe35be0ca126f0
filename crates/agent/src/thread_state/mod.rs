//! The state of a thread: a state machine without I/O. Given what happened, it says what comes next.

mod apply;
mod event;
mod limits;
mod next_step;
mod pending;
mod repair;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

pub use self::event::{
    CallQuestion, CallReply, EVENT_VERSION, Event, StateChange, SubAgentCaller, TurnOutcome,
};
pub use self::limits::{DEFAULT_MAX_MODEL_CALLS, TurnLimits};
pub use self::next_step::NextStep;
use self::pending::{CallStatus, PendingCall};
pub use self::pending::{Consultation, ReadyCall, edited_answer};
use crate::id::CallId;
use crate::message::{Message, ToolCall};
use crate::model::{ModelUsage, Usage};

/// A thread's conversation, and how far its turn is: the result of applying all its events.
///
/// ```
/// use prowess_agent::thread_state::NextStep;
/// use prowess_agent::{Event, Message, ThreadState};
///
/// let mut state = ThreadState::default();
/// assert_eq!(state.next(), NextStep::Wait);
/// state.apply(&Event::TurnStarted { messages: vec![Message::user("Hi.")] })?;
/// assert_eq!(state.next(), NextStep::CallModel);
/// # Ok::<(), prowess_agent::thread_state::MisplacedEvent>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadState {
    messages: Vec<Arc<Message>>,
    /// The model sees the messages from here on, after the summary.
    cut: usize,
    summary: Option<Arc<Message>>,
    /// The messages that started the last turn.
    request: Range<usize>,
    /// The messages before the cut that the model still sees, after the summary: the request of the turn in which the
    /// conversation was compacted. They stay until the next compaction, so that the view changes only then.
    kept: Range<usize>,
    phase: Phase,
    limits: TurnLimits,
    /// The model calls of this turn.
    model_calls: u32,
    /// The tokens of this turn.
    tokens: u64,
    /// The responses of the model in the thread, including failed model calls.
    responses: u64,
    /// What the model counted with its last response. `None` if it did not count, or saw other messages.
    counted: Option<Counted>,
    spent: ModelUsage,
    /// How the last turn ended.
    outcome: Option<TurnOutcome>,
}

/// What a model counted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    model: String,
    /// The tokens that it read and wrote.
    tokens: u64,
    /// How many messages there were then.
    messages: usize,
}

/// How far a turn is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// No turn is in progress.
    Idle,
    /// The model is called next.
    Model,
    /// Tool calls are made.
    Tools(VecDeque<PendingCall>),
    /// The turn is about to end.
    Ending(TurnOutcome),
}

/// An event that cannot follow the events before it.
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
    /// An empty thread with these limits for its turns.
    pub fn new(limits: TurnLimits) -> Self {
        Self {
            messages: Vec::new(),
            cut: 0,
            summary: None,
            request: 0..0,
            kept: 0..0,
            phase: Phase::Idle,
            limits,
            model_calls: 0,
            tokens: 0,
            responses: 0,
            counted: None,
            spent: ModelUsage::default(),
            outcome: None,
        }
    }

    /// All messages, including those that the model no longer sees.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The messages that the model sees: the summary, the request that started the turn, and the messages since the cut.
    pub fn view(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.summary.iter().chain(&self.messages[self.kept.clone()]).chain(&self.messages[self.cut..])
    }

    /// The indices of the messages that the model sees, in their order. The summary has none.
    pub(crate) fn seen(&self) -> impl Iterator<Item = usize> {
        self.kept.clone().chain(self.cut..self.messages.len())
    }

    /// How many messages the summary replaced. The model still sees the one that started the turn.
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// The messages that started the turn under way: the person's request. No compaction takes them out of the model's
    /// view. Empty if no turn is in progress.
    pub fn current_request(&self) -> &[Arc<Message>] {
        &self.messages[self.current_request_range()]
    }

    /// The indices of the messages that started the turn under way.
    pub(crate) fn current_request_range(&self) -> Range<usize> {
        if self.phase == Phase::Idle { 0..0 } else { self.request.clone() }
    }

    /// The state after a compaction that leaves the summary as it is.
    pub(crate) fn after_cut(&self, cut: usize) -> Self {
        let mut after = self.clone();
        after.cut_at(cut);
        after
    }

    /// The summary of the messages that the model no longer sees.
    pub(crate) fn summary(&self) -> Option<&Arc<Message>> {
        self.summary.as_ref()
    }

    /// The tokens that this model counted with its last response, and how many messages there were then.
    ///
    /// The next request has these tokens, and the messages since then. `None` if the model did not count, or saw other
    /// messages, or if another model wrote the last response: models count in different ways.
    pub(crate) fn counted_by(&self, model: &str) -> Option<(u64, usize)> {
        self.counted
            .as_ref()
            .filter(|counted| counted.model == model)
            .map(|counted| (counted.tokens, counted.messages))
    }

    /// The tokens of all models together.
    pub fn usage(&self) -> Usage {
        self.spent.total()
    }

    /// The tokens of each model, including those of sub-agents and summaries.
    pub fn spent(&self) -> &ModelUsage {
        &self.spent
    }

    /// The responses of the model in the thread, including failed model calls.
    pub(crate) fn responses(&self) -> u64 {
        self.responses
    }

    /// How many tokens this turn may still take, if there is a limit.
    pub fn tokens_left(&self) -> Option<u64> {
        self.limits.tokens.map(|most| most.saturating_sub(self.tokens))
    }

    /// How the last turn ended, if one has ended.
    pub fn outcome(&self) -> Option<&TurnOutcome> {
        self.outcome.as_ref()
    }

    /// The model calls of this turn.
    pub fn model_calls(&self) -> u32 {
        self.model_calls
    }

    /// The calls of the last response that a person was asked about and that have not started: they wait, or the person
    /// approved them.
    pub fn asked(&self) -> Vec<ReadyCall> {
        let Phase::Tools(calls) = &self.phase else { return Vec::new() };
        let open = calls.iter().filter(|pending| pending.was_asked);
        open.filter_map(|pending| match pending.status {
            CallStatus::New { .. } => pending.ready(),
            CallStatus::Asked { by_tool: false } => Some(pending.call(false, false)),
            CallStatus::Asked { .. } | CallStatus::Started { .. } | CallStatus::Answered(_) => None,
        })
        .collect()
    }

    /// The calls that wait for a person.
    pub fn waiting(&self) -> Vec<ToolCall> {
        let Phase::Tools(calls) = &self.phase else { return Vec::new() };
        let asked = calls.iter().filter(|pending| matches!(pending.status, CallStatus::Asked { .. }));
        asked.map(|pending| pending.call.clone()).collect()
    }

    /// The calls of the last response in their order, each with the changes of its answer. The changes take effect when
    /// all calls are answered.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (&CallId, &[StateChange])> {
        let calls = match &self.phase {
            Phase::Tools(calls) => Some(calls),
            Phase::Idle | Phase::Model | Phase::Ending(_) => None,
        };
        calls.into_iter().flatten().map(|pending| (&pending.call.id, &pending.changes[..]))
    }
}
