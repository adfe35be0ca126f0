//! Calls the middleware at the points of a turn, and does what they ask for.

use std::sync::Arc;

use super::watcher::Watcher;
use super::{AgentError, Thread};
use crate::message::{AssistantPart, Message, ToolCall};
use crate::middleware::contract::{Jump, Middleware, MiddlewareAction, MiddlewareContext, Watched};
use crate::model::{Usage, name_calls};
use crate::thread_state::{CallQuestion, Event, NextStep, ReadyCall};
use crate::tool::ToolAnswer;

/// How often a middleware can ask to be called again at one point of a turn.
const MAX_ROUNDS: usize = 8;
/// The model's name in the event for tool calls that a middleware made, and no model.
pub const BY_MIDDLEWARE: &str = "middleware";

/// A point of a turn at which all middleware are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    BeforeAgent,
    BeforeModel,
    AfterModel,
}

/// Whether the actions of a middleware changed what comes next in the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// They did not.
    No,
    /// The same middleware is to be called again.
    Again,
    /// They settled calls, or kept the turn from ending.
    Settled,
    /// The model is called next, without calling other middleware first.
    ToModel,
    /// The turn continues elsewhere, without calling other middleware first.
    Away,
}

impl Thread {
    /// Calls all middleware at one point, until one of them moves the turn elsewhere.
    pub(super) async fn call_middleware(
        &mut self,
        point: Point,
        watcher: &dyn Watcher,
    ) -> Result<Moved, AgentError> {
        let mut moved = Moved::No;
        for middleware in self.middleware.clone() {
            match self.call_one(&middleware, point, watcher).await? {
                Moved::No | Moved::Again => {}
                Moved::Settled => moved = Moved::Settled,
                jumped @ (Moved::ToModel | Moved::Away) => return Ok(jumped),
            }
        }
        Ok(moved)
    }

    /// Calls one middleware at one point, and again as long as it asks for that.
    async fn call_one(
        &mut self,
        middleware: &Arc<dyn Middleware>,
        point: Point,
        watcher: &dyn Watcher,
    ) -> Result<Moved, AgentError> {
        for _ in 0..MAX_ROUNDS {
            // If this future is dropped, the middleware may believe that its changes are stored.
            self.is_ahead = true;
            let context = MiddlewareContext { watcher: Watched(watcher), ..self.context() };
            let called = async {
                match point {
                    Point::BeforeAgent => middleware.before_agent(context).await,
                    Point::BeforeModel => middleware.before_model(context).await,
                    Point::AfterModel => middleware.after_model(context).await,
                }
            };
            let actions = self.held.keep_during(&*self.agent.store, called).await?;
            self.is_ahead = false;
            let actions = actions.map_err(AgentError::of(middleware.name()))?;
            match self.perform(middleware.name(), actions, watcher).await? {
                Moved::Again => {}
                moved => return Ok(moved),
            }
        }
        Ok(Moved::No)
    }

    /// Calls one middleware as before a model call, also outside of a turn. Returns whether there is one of that name.
    pub(crate) async fn call_by_name(
        &mut self,
        name: &str,
        watcher: &dyn Watcher,
    ) -> Result<bool, AgentError> {
        self.catch_up_if_ahead().await?;
        let Some(middleware) = self.middleware.iter().find(|candidate| candidate.name() == name).cloned()
        else {
            return Ok(false);
        };
        self.call_one(&middleware, Point::BeforeModel, watcher).await?;
        Ok(true)
    }

    /// Calls the middleware after the model's last response, once.
    pub(super) async fn after_model(&mut self, watcher: &dyn Watcher) -> Result<Moved, AgentError> {
        let responses = self.state.responses();
        if self.responses_seen == responses {
            return Ok(Moved::No);
        }
        let moved = self.call_middleware(Point::AfterModel, watcher).await?;
        self.responses_seen = responses;
        Ok(moved)
    }

    /// Does what a middleware asks for.
    pub(super) async fn perform(
        &mut self,
        name: &str,
        actions: Vec<MiddlewareAction>,
        watcher: &dyn Watcher,
    ) -> Result<Moved, AgentError> {
        let mut moved = Moved::No;
        let mut events = Vec::new();
        for action in actions {
            events.push(match action {
                MiddlewareAction::Change(change) => Event::StateChanged { changes: vec![change] },
                MiddlewareAction::Ask { call, question } => {
                    moved = Moved::Settled;
                    let question = Box::new(CallQuestion::from(*question));
                    Event::Asked { call, question, by_tool: false }
                }
                MiddlewareAction::Approve { call } => {
                    moved = Moved::Settled;
                    Event::Approved { call, by: name.to_owned() }
                }
                MiddlewareAction::Answer { call, text, is_error, data } => {
                    moved = Moved::Settled;
                    let answer = ToolAnswer { text, is_error, data, ..ToolAnswer::default() };
                    Event::ToolAnswered { call, answer }
                }
                MiddlewareAction::Compact { cut, summary, spent } => Event::Compacted { cut, summary, spent },
                MiddlewareAction::AddMessages(messages) => {
                    if matches!(self.state.next(), NextStep::End(_)) {
                        moved = Moved::Settled;
                    }
                    messages_added(messages)
                }
                MiddlewareAction::Jump(Jump::Again) => {
                    // Without a change, the middleware would ask for the same again.
                    if moved == Moved::No && !events.is_empty() {
                        moved = Moved::Again;
                    }
                    break;
                }
                MiddlewareAction::Jump(jump) => {
                    // The jump depends on which calls are settled, so those events go first. All others are stored
                    // together with the jump, so that no crash comes between them.
                    if moved == Moved::Settled {
                        self.store(std::mem::take(&mut events), watcher).await?;
                    }
                    moved = self.jump(jump, &mut events);
                    break;
                }
            });
        }
        self.store(events, watcher).await?;
        Ok(moved)
    }

    /// Adds the events of a jump.
    fn jump(&self, jump: Jump, events: &mut Vec<Event>) -> Moved {
        if let Jump::Model(_) | Jump::Tools(_) = jump {
            events.extend(self.back_to_model());
        }
        match jump {
            Jump::End(outcome) => {
                events.push(Event::Stopped { outcome });
                Moved::Away
            }
            Jump::Model(messages) => {
                if !messages.is_empty() {
                    events.push(messages_added(messages));
                }
                Moved::ToModel
            }
            Jump::Tools(calls) => {
                let mut parts: Vec<_> = calls.into_iter().map(AssistantPart::ToolCall).collect();
                name_calls(&mut parts);
                let model = BY_MIDDLEWARE.to_owned();
                let (message, usage) = (Message::assistant(parts), Usage::default());
                events.push(Event::ModelCalled { model: model.clone() });
                events.push(Event::ModelResponded { model, message, usage, finish: None });
                Moved::Away
            }
            Jump::Again => Moved::No,
        }
    }

    /// The events that bring the turn back to a model call: open tool calls get an answer.
    fn back_to_model(&self) -> Vec<Event> {
        let skipped = |call: ToolCall| Event::ToolAnswered {
            call: call.id,
            answer: ToolAnswer::error("Error: this call was not made."),
        };
        match self.state.next() {
            NextStep::CallTools(calls) => {
                let begun_or_not = |call: ReadyCall| match call.interrupted {
                    true => call.unknown_outcome(),
                    false => skipped(call.call),
                };
                let waiting = self.state.waiting().into_iter().map(skipped);
                calls.into_iter().map(begun_or_not).chain(waiting).collect()
            }
            NextStep::Ask(calls) => calls.into_iter().map(skipped).collect(),
            NextStep::End(_) => vec![Event::MessagesAdded { messages: Vec::new() }],
            NextStep::Wait | NextStep::CallModel => Vec::new(),
        }
    }
}

/// The event that adds messages of a middleware. They are marked as not by a person.
fn messages_added(messages: Vec<Message>) -> Event {
    Event::MessagesAdded { messages: messages.into_iter().map(Message::not_by_person).collect() }
}
