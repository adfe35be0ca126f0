//! The agent's steps as a state machine. It does nothing itself: given what happened, it says what comes next.

mod event;

use std::collections::VecDeque;
use std::sync::Arc;

pub use self::event::{EVENT_VERSION, Event, Outcome, Reply, StateChange};
use crate::id::{CallId, MessageId};
use crate::message::{Content, Message, ToolCall, ToolResult};
use crate::model::{Finish, ModelError, Usage};

/// How often a model is asked in one turn, when nobody says otherwise.
pub const DEFAULT_MAX_STEPS: u32 = 100;

/// What a call's answer is when nobody knows whether the tool did its work.
const UNKNOWN_OUTCOME: &str = "Error: this call was interrupted, and it is not known whether it took effect. \
     Look before you call it again.";

/// A thread's conversation and where its turn stands: the fold of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    messages: Vec<Arc<Message>>,
    /// What the model sees: from `cut` on, after the summary.
    cut: usize,
    summary: Option<Arc<Message>>,
    phase: Phase,
    /// How often the model was asked in this turn.
    steps: u32,
    max_steps: u32,
    usage: Usage,
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
    Ending(Outcome),
}

/// A call of the last answer.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    call: ToolCall,
    /// The name of the message with its result, the same whenever the thread is read.
    message: MessageId,
    status: Status,
    /// What changes once all calls are answered.
    changes: Vec<StateChange>,
}

#[derive(Clone, Debug, PartialEq)]
enum Status {
    /// To be made; with `approved`, nobody needs to be asked again.
    New { approved: bool },
    /// Begun.
    Started,
    /// It waits for a person.
    Asked,
    /// Made.
    Answered(ToolResult),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Wait for someone to say something.
    Wait,
    /// Ask the model.
    AskModel,
    /// Make these calls, in any order.
    CallTools(Vec<Call>),
    /// Wait until a person has answered for these calls.
    Ask(Vec<ToolCall>),
    /// End the turn.
    End(Outcome),
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call.
    pub call: ToolCall,
    /// The name of the message that its result will be: no other call of the thread has it.
    pub message: MessageId,
    /// Whether a person let it pass already.
    pub approved: bool,
    /// Whether it was begun before, and nobody knows what came of it.
    pub interrupted: bool,
}

/// An event that cannot follow on those before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} cannot follow here: {why}")]
pub struct Misplaced {
    event: &'static str,
    why: &'static str,
}

impl Default for Run {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_STEPS)
    }
}

impl Run {
    /// An empty thread. In one turn the model is asked `max_steps` times at most.
    pub fn new(max_steps: u32) -> Self {
        Self {
            messages: Vec::new(),
            cut: 0,
            summary: None,
            phase: Phase::Idle,
            steps: 0,
            max_steps,
            usage: Usage::default(),
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

    /// What was paid in all.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// How often the model was asked in this turn.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What is to be done next.
    pub fn next(&self) -> Effect {
        match &self.phase {
            Phase::Idle => Effect::Wait,
            Phase::Model if self.steps >= self.max_steps => {
                Effect::End(Outcome::TooManySteps { most: self.max_steps })
            }
            Phase::Model => Effect::AskModel,
            Phase::Ending(outcome) => Effect::End(outcome.clone()),
            Phase::Tools(calls) => {
                let ready: Vec<Call> = calls.iter().filter_map(Pending::ready).collect();
                if !ready.is_empty() {
                    return Effect::CallTools(ready);
                }
                let asked = calls.iter().filter(|pending| pending.status == Status::Asked);
                Effect::Ask(asked.map(|pending| pending.call.clone()).collect())
            }
        }
    }

    /// Goes on from what happened. Gives the changes of state that take effect with it: those of calls made at the
    /// same time together, in the order of the calls, whichever ended first.
    ///
    /// # Errors
    ///
    /// It cannot have happened here. Nothing has changed.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<StateChange>, Misplaced> {
        match event {
            Event::TurnStarted { messages } => self.start(messages)?,
            Event::ModelAsked { .. } => self.ask_model()?,
            Event::ModelAnswered { message, usage, finish } => self.hear(message, *usage, *finish)?,
            Event::ModelFailed { error } => self.fail(error)?,
            Event::ToolStarted { call } => self.begin(call)?,
            Event::ToolAnswered { call, text, is_error, changes } => {
                return self.answer(call, text, *is_error, changes);
            }
            Event::Asked { call, .. } => self.ask(call)?,
            Event::Replied { call, reply } => return self.reply(call, reply),
            Event::StateChanged { changes } => return Ok(changes.clone()),
            Event::Compacted { cut, summary } => self.compact(*cut, summary)?,
            Event::Stopped { reason } => {
                return self.stop("stopped", Outcome::Stopped { reason: reason.clone() });
            }
            Event::TurnEnded { .. } => {
                let changes = self.stop("turn_ended", Outcome::Cancelled)?;
                self.phase = Phase::Idle;
                return Ok(changes);
            }
        }
        Ok(Vec::new())
    }

    fn start(&mut self, messages: &[Message]) -> Result<(), Misplaced> {
        if self.phase != Phase::Idle {
            return Err(misplaced("turn_started", "a turn is going on"));
        }
        if !messages.iter().all(|message| matches!(message.content, Content::User { .. })) {
            return Err(misplaced("turn_started", "only what a user says starts a turn"));
        }
        self.messages.extend(messages.iter().cloned().map(Arc::new));
        (self.steps, self.phase) = (0, Phase::Model);
        Ok(())
    }

    fn ask_model(&mut self) -> Result<(), Misplaced> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_asked", "it is not the model's turn"));
        }
        self.steps += 1;
        Ok(())
    }

    fn hear(&mut self, message: &Message, usage: Usage, finish: Option<Finish>) -> Result<(), Misplaced> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_answered", "it is not the model's turn"));
        }
        let Content::Assistant { parts } = &message.content else {
            return Err(misplaced("model_answered", "a model did not say this"));
        };
        let calls: VecDeque<Pending> = pending(message).collect();
        self.phase = match finish {
            Some(Finish::Refused) => Phase::Ending(Outcome::Refused),
            _ if !calls.is_empty() => Phase::Tools(calls),
            Some(Finish::Length) => Phase::Ending(Outcome::CutOff),
            _ if parts.is_empty() => Phase::Ending(Outcome::Silent),
            _ => Phase::Ending(Outcome::Answered),
        };
        self.usage += usage;
        // Providers take no empty message back.
        if !parts.is_empty() {
            self.messages.push(Arc::new(message.clone()));
        }
        if let (Phase::Ending(_), true) = (&self.phase, message.tool_calls().next().is_some()) {
            self.close_calls(message, "Error: the answer with this call was refused.");
        }
        Ok(())
    }

    fn fail(&mut self, error: &ModelError) -> Result<(), Misplaced> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_failed", "it is not the model's turn"));
        }
        self.phase = Phase::Ending(Outcome::Failed { error: error.clone() });
        Ok(())
    }

    fn begin(&mut self, call: &CallId) -> Result<(), Misplaced> {
        let pending = self.pending("tool_started", call)?;
        match pending.status {
            Status::New { .. } | Status::Started => pending.status = Status::Started,
            Status::Asked => return Err(misplaced("tool_started", "the call waits for a person")),
            Status::Answered(_) => return Err(misplaced("tool_started", "the call is answered")),
        }
        Ok(())
    }

    fn answer(
        &mut self,
        call: &CallId,
        text: &str,
        is_error: bool,
        changes: &[StateChange],
    ) -> Result<Vec<StateChange>, Misplaced> {
        let pending = self.pending("tool_answered", call)?;
        if matches!(pending.status, Status::Answered(_)) {
            return Err(misplaced("tool_answered", "the call is answered"));
        }
        pending.status = Status::Answered(pending.result(text, is_error));
        pending.changes = changes.to_vec();
        Ok(self.take_answers())
    }

    fn ask(&mut self, call: &CallId) -> Result<(), Misplaced> {
        let pending = self.pending("asked", call)?;
        if pending.status != (Status::New { approved: false }) {
            return Err(misplaced("asked", "the call is begun, or was asked about"));
        }
        pending.status = Status::Asked;
        Ok(())
    }

    fn reply(&mut self, call: &CallId, reply: &Reply) -> Result<Vec<StateChange>, Misplaced> {
        let pending = self.pending("replied", call)?;
        if pending.status != Status::Asked {
            return Err(misplaced("replied", "nobody asked about the call"));
        }
        pending.status = match reply {
            Reply::Approve => Status::New { approved: true },
            Reply::Edit { arguments } => {
                pending.call.arguments.clone_from(arguments);
                Status::New { approved: true }
            }
            Reply::Reject { message } => Status::Answered(pending.result(message, true)),
        };
        Ok(self.take_answers())
    }

    fn compact(&mut self, cut: usize, summary: &Message) -> Result<(), Misplaced> {
        if cut < self.cut || cut > self.messages.len() {
            return Err(misplaced("compacted", "the cut is not among what the model sees"));
        }
        if self.messages.get(cut).is_some_and(|message| matches!(message.content, Content::Tool(_))) {
            return Err(misplaced("compacted", "the cut parts a call from its result"));
        }
        if matches!(self.phase, Phase::Tools(_)) && cut == self.messages.len() {
            return Err(misplaced("compacted", "the cut parts a call from its result"));
        }
        (self.cut, self.summary) = (cut, Some(Arc::new(summary.clone())));
        Ok(())
    }

    /// Lets the turn end, whatever it was doing: calls without an answer get one, so that the conversation can go on.
    fn stop(&mut self, event: &'static str, outcome: Outcome) -> Result<Vec<StateChange>, Misplaced> {
        if self.phase == Phase::Idle {
            return Err(misplaced(event, "there is no turn"));
        }
        if let Phase::Tools(calls) = &mut self.phase {
            for pending in calls {
                let text = match pending.status {
                    Status::Answered(_) => continue,
                    Status::Started => UNKNOWN_OUTCOME,
                    Status::New { .. } | Status::Asked => "Error: the turn ended before this call was made.",
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

    fn pending(&mut self, event: &'static str, id: &CallId) -> Result<&mut Pending, Misplaced> {
        let Phase::Tools(calls) = &mut self.phase else {
            return Err(misplaced(event, "no calls are being made"));
        };
        let found = calls.iter_mut().find(|pending| pending.call.id == *id);
        found.ok_or_else(|| misplaced(event, "there is no such call"))
    }
}

impl Pending {
    fn into_message(self, result: ToolResult) -> Message {
        Message { id: self.message, ..Message::tool(result) }
    }

    fn ready(&self) -> Option<Call> {
        let (approved, interrupted) = match self.status {
            Status::New { approved } => (approved, false),
            // Whoever let it pass did so before it was begun.
            Status::Started => (true, true),
            Status::Asked | Status::Answered(_) => return None,
        };
        Some(Call { call: self.call.clone(), message: self.message.clone(), approved, interrupted })
    }

    fn result(&self, text: &str, is_error: bool) -> ToolResult {
        ToolResult {
            call: self.call.id.clone(),
            name: self.call.name.clone(),
            text: text.to_owned(),
            is_error,
        }
    }
}

impl Call {
    /// The answer to a call that was begun before and must not be made twice.
    pub fn unknown_outcome(&self) -> Event {
        Event::ToolAnswered {
            call: self.call.id.clone(),
            text: UNKNOWN_OUTCOME.to_owned(),
            is_error: true,
            changes: Vec::new(),
        }
    }
}

/// The calls of an answer.
fn pending(message: &Message) -> impl Iterator<Item = Pending> {
    message.tool_calls().enumerate().map(|(number, call)| Pending {
        call: call.clone(),
        message: format!("{}-{number}", message.id.as_str()).as_str().into(),
        status: Status::New { approved: false },
        changes: Vec::new(),
    })
}

fn misplaced(event: &'static str, why: &'static str) -> Misplaced {
    Misplaced { event, why }
}
