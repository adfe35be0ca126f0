//! Applies events to a thread's state: what each event means, and where it cannot happen.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::event::{CallQuestion, CallReply, Event, StateChange, TurnOutcome};
use super::pending::{CallStatus, Consultation, PendingCall, UNKNOWN_OUTCOME, pending_calls};
use super::{Counted, MisplacedEvent, Phase, ThreadState, repair};
use crate::id::CallId;
use crate::message::{Content, Message};
use crate::model::{Finish, ModelError, ModelUsage};
use crate::tool::ToolAnswer;

impl ThreadState {
    /// Applies an event, and returns the state changes that take effect with it.
    ///
    /// The changes of calls that ran at the same time come together, in the order of the calls.
    ///
    /// # Errors
    ///
    /// The event cannot happen here. The state is unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<StateChange>, MisplacedEvent> {
        let changes = self.take(event)?;
        if let Some(spent) = event.spent() {
            self.pay(&spent);
        }
        Ok(changes)
    }

    fn take(&mut self, event: &Event) -> Result<Vec<StateChange>, MisplacedEvent> {
        match event {
            Event::TurnStarted { messages } => self.start(messages)?,
            Event::Imported { messages } => self.import(messages)?,
            Event::ModelCalled { .. } => self.count_model_call()?,
            Event::ModelResponded { model, message, usage, finish } => {
                self.respond(message, *finish)?;
                if usage.input > 0 {
                    let (tokens, messages) = (usage.total(), self.messages.len());
                    self.counted = Some(Counted { model: model.clone(), tokens, messages });
                }
            }
            Event::ModelFailed { error } => self.fail(error)?,
            Event::ToolStarted { call } => self.begin(call)?,
            Event::ToolAnswered { call, answer } => return self.answer(call, answer),
            Event::Approved { call, .. } => self.approve(call)?,
            Event::Asked { call, question, by_tool } => self.ask(call, question, *by_tool)?,
            Event::Replied { call, reply } => return self.reply(call, reply),
            Event::StateChanged { changes } => return Ok(changes.clone()),
            Event::Compacted { cut, summary, .. } => self.compact(*cut, summary)?,
            Event::Stopped { outcome } => return self.stop("stopped", outcome.clone()),
            Event::MessagesAdded { messages } => self.add_messages(messages)?,
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
                "a turn is in progress: reply to its questions, continue it, or cancel it",
            ));
        }
        if messages.is_empty() || !are_user(messages) {
            return Err(misplaced("turn_started", "only a user's messages start a turn"));
        }
        let first = self.messages.len();
        self.messages.extend(messages.iter().cloned().map(Arc::new));
        self.request = first..self.messages.len();
        (self.model_calls, self.tokens, self.phase) = (0, 0, Phase::Model);
        Ok(())
    }

    /// Takes a conversation from elsewhere, repaired so that every call has its answer.
    fn import(&mut self, messages: &[Message]) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Idle {
            return Err(misplaced("imported", "a turn is in progress"));
        }
        self.messages.extend(repair::repaired(messages).map(Arc::new));
        Ok(())
    }

    fn add_messages(&mut self, messages: &[Message]) -> Result<(), MisplacedEvent> {
        if !matches!(self.phase, Phase::Ending(_) | Phase::Model) {
            return Err(misplaced("told", "the model is not called next"));
        }
        if !are_user(messages) {
            return Err(misplaced("told", "the message is not a user's"));
        }
        self.messages.extend(messages.iter().cloned().map(Arc::new));
        self.phase = Phase::Model;
        Ok(())
    }

    fn pay(&mut self, spent: &ModelUsage) {
        self.tokens = self.tokens.saturating_add(spent.total().total());
        self.spent += spent;
    }

    fn count_model_call(&mut self) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_asked", "the model is not called next"));
        }
        self.model_calls += 1;
        Ok(())
    }

    fn respond(&mut self, message: &Message, finish: Option<Finish>) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_answered", "the model is not called next"));
        }
        let Content::Assistant { parts } = &message.content else {
            return Err(misplaced("model_answered", "the message is not a model's"));
        };
        let mut calls: VecDeque<PendingCall> = pending_calls(message).collect();
        let ids: BTreeSet<&CallId> = message.tool_calls().map(|call| &call.id).collect();
        if ids.len() < calls.len() {
            return Err(misplaced("model_answered", "two calls have the same id"));
        }
        if let (Some(Finish::Length), Some(last)) = (finish, calls.back_mut()) {
            last.answer_if_torn();
        }
        self.phase = match finish {
            Some(Finish::Refused) => Phase::Ending(TurnOutcome::Refused),
            _ if !calls.is_empty() => Phase::Tools(calls),
            Some(Finish::Length) => Phase::Ending(TurnOutcome::CutOff),
            _ if parts.is_empty() => Phase::Ending(TurnOutcome::Silent),
            _ => Phase::Ending(TurnOutcome::Responded),
        };
        self.responses += 1;
        // Providers accept no empty message.
        if !parts.is_empty() {
            self.messages.push(Arc::new(message.clone()));
        }
        if let (Phase::Ending(_), true) = (&self.phase, message.tool_calls().next().is_some()) {
            self.close_calls(message, "Error: the response with this call was refused.");
        }
        // A call that was cut off may be the only one.
        self.take_answers();
        Ok(())
    }

    fn fail(&mut self, error: &ModelError) -> Result<(), MisplacedEvent> {
        if self.phase != Phase::Model {
            return Err(misplaced("model_failed", "the model is not called next"));
        }
        self.responses += 1;
        self.phase = Phase::Ending(TurnOutcome::Failed { error: error.clone() });
        Ok(())
    }

    fn begin(&mut self, call: &CallId) -> Result<(), MisplacedEvent> {
        let pending = self.pending("tool_started", call)?;
        match pending.status {
            CallStatus::New { approved } | CallStatus::Started { approved } => {
                pending.status = CallStatus::Started { approved };
            }
            CallStatus::Asked { .. } => return Err(misplaced("tool_started", "the call waits for a person")),
            CallStatus::Answered(_) => return Err(misplaced("tool_started", "the call is answered")),
        }
        Ok(())
    }

    fn answer(&mut self, call: &CallId, answer: &ToolAnswer) -> Result<Vec<StateChange>, MisplacedEvent> {
        let pending = self.pending("tool_answered", call)?;
        if matches!(pending.status, CallStatus::Answered(_)) {
            return Err(misplaced("tool_answered", "the call is answered"));
        }
        pending.status = CallStatus::Answered(pending.result(&answer.text, answer.is_error));
        pending.changes.clone_from(&answer.changes);
        Ok(self.take_answers())
    }

    fn approve(&mut self, call: &CallId) -> Result<(), MisplacedEvent> {
        let pending = self.pending("approved", call)?;
        let (CallStatus::New { approved } | CallStatus::Started { approved }) = &mut pending.status else {
            return Err(misplaced("approved", "the call is answered, or a person was asked about it"));
        };
        *approved = true;
        Ok(())
    }

    fn ask(&mut self, call: &CallId, question: &CallQuestion, by_tool: bool) -> Result<(), MisplacedEvent> {
        let pending = self.pending("asked", call)?;
        match pending.status {
            CallStatus::Started { approved } if by_tool => {
                let question = question.clone();
                pending.consultation =
                    Some(Consultation { question, reply: None, approved, rejects_all: false });
            }
            // A call that was cut off may need an approval by now.
            CallStatus::New { approved: false } | CallStatus::Started { approved: false } if !by_tool => {
                pending.was_asked = true;
            }
            _ => return Err(misplaced("asked", "the call is answered, or a person was asked about it")),
        }
        pending.status = CallStatus::Asked { by_tool };
        Ok(())
    }

    fn reply(&mut self, call: &CallId, reply: &CallReply) -> Result<Vec<StateChange>, MisplacedEvent> {
        let pending = self.pending("replied", call)?;
        let CallStatus::Asked { by_tool } = pending.status else {
            return Err(misplaced("replied", "nobody was asked about the call"));
        };
        if let (true, CallReply::Edit { arguments }) = (by_tool, reply)
            && pending.consultation.as_ref().is_none_or(|consultation| consultation.question.via.is_none())
        {
            pending.begin_again(arguments);
            return Ok(Vec::new());
        }
        if let (true, Some(consultation)) = (by_tool, &mut pending.consultation) {
            // The tool asked, and interprets the reply.
            consultation.rejects_all = matches!(reply, CallReply::RejectAll { .. });
            consultation.reply = Some(match reply.clone() {
                CallReply::RejectAll { message } => CallReply::Reject { message },
                reply => reply,
            });
            pending.status = CallStatus::New { approved: consultation.approved };
            return Ok(Vec::new());
        }
        pending.status = match reply {
            CallReply::Approve => CallStatus::New { approved: true },
            CallReply::Always => {
                pending.always = true;
                CallStatus::New { approved: true }
            }
            CallReply::Edit { arguments } => {
                pending.call.arguments.clone_from(arguments);
                pending.is_edited = true;
                CallStatus::New { approved: true }
            }
            CallReply::Reject { message } | CallReply::RejectAll { message } => {
                CallStatus::Answered(pending.result(message, true))
            }
        };
        Ok(self.take_answers())
    }

    fn compact(&mut self, cut: usize, summary: &Message) -> Result<(), MisplacedEvent> {
        if cut < self.cut || cut > self.messages.len() {
            return Err(misplaced("compacted", "the cut is outside of the messages that the model sees"));
        }
        if self.messages.get(cut).is_some_and(|message| matches!(message.content, Content::Tool(_))) {
            return Err(misplaced("compacted", "the cut separates a call from its answer"));
        }
        if matches!(self.phase, Phase::Tools(_)) && cut == self.messages.len() {
            return Err(misplaced("compacted", "the cut separates a call from its answer"));
        }
        self.cut_at(cut);
        self.summary = Some(Arc::new(summary.clone()));
        Ok(())
    }

    /// Takes messages out of the model's view, except the request of the turn under way.
    pub(super) fn cut_at(&mut self, cut: usize) {
        let request = self.current_request_range();
        self.kept = request.start.min(cut)..request.end.min(cut);
        (self.cut, self.counted) = (cut, None);
    }

    /// Lets the turn end. Open calls get an answer, so that the conversation can continue.
    fn stop(
        &mut self,
        event: &'static str,
        outcome: TurnOutcome,
    ) -> Result<Vec<StateChange>, MisplacedEvent> {
        if self.phase == Phase::Idle {
            return Err(misplaced(event, "no turn is in progress"));
        }
        if let Phase::Tools(calls) = &mut self.phase {
            for pending in calls {
                let text = match pending.status {
                    CallStatus::Answered(_) => continue,
                    CallStatus::Started { .. } => UNKNOWN_OUTCOME,
                    CallStatus::New { .. } | CallStatus::Asked { .. } => {
                        "Error: the turn ended before this call was made."
                    }
                };
                pending.status = CallStatus::Answered(pending.result(text, true));
            }
        }
        let changes = self.take_answers();
        self.phase = Phase::Ending(outcome);
        Ok(changes)
    }

    /// Answers all calls of a message that will not be made.
    fn close_calls(&mut self, message: &Message, text: &str) {
        self.messages.extend(pending_calls(message).map(|pending| {
            let result = pending.result(text, true);
            Arc::new(pending.into_message(result))
        }));
    }

    /// Once all calls are answered, appends their answers in the order of the calls, and returns their changes.
    fn take_answers(&mut self) -> Vec<StateChange> {
        let Phase::Tools(calls) = &mut self.phase else { return Vec::new() };
        if !calls.iter().all(|pending| matches!(pending.status, CallStatus::Answered(_))) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for mut pending in std::mem::take(calls) {
            changes.append(&mut pending.changes);
            if let CallStatus::Answered(result) = pending.status.clone() {
                self.messages.push(Arc::new(pending.into_message(result)));
            }
        }
        self.phase = Phase::Model;
        changes
    }

    fn pending(&mut self, event: &'static str, id: &CallId) -> Result<&mut PendingCall, MisplacedEvent> {
        let Phase::Tools(calls) = &mut self.phase else {
            return Err(misplaced(event, "no call is open: it was answered already"));
        };
        let found = calls.iter_mut().find(|pending| pending.call.id == *id);
        found.ok_or_else(|| misplaced(event, "no open call has this id"))
    }
}

fn are_user(messages: &[Message]) -> bool {
    messages.iter().all(|message| matches!(message.content, Content::User { .. }))
}

fn misplaced(event: &'static str, why: &'static str) -> MisplacedEvent {
    MisplacedEvent { event, why }
}
