//! A turn: the loop that does what the thread's state says comes next.

use tracing::Instrument as _;

use super::actions::{Moved, Point};
use super::watcher::Watcher;
use super::{AgentError, Thread, WaitingCall};
use crate::middleware::contract::{Jump, MiddlewareAction};
use crate::model::ModelErrorKind;
use crate::telemetry;
use crate::thread_state::{Event, NextStep, TurnOutcome};

/// How far a turn came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnStatus {
    /// The turn ended.
    Ended(TurnOutcome),
    /// Calls wait for a person. [`Thread::reply`] continues the turn.
    Waiting(Vec<WaitingCall>),
    /// No turn is in progress. [`Thread::say`] starts one.
    Idle,
}

impl Thread {
    /// Continues a turn that was cut off, until it ends or waits for a person. Without such a turn it does nothing.
    ///
    /// # Errors
    ///
    /// A middleware failed, or the store failed.
    pub async fn go_on(&mut self, watcher: &dyn Watcher) -> Result<TurnStatus, AgentError> {
        let span = telemetry::turn(self.id(), self.agent.name.as_deref(), self.agent.model.name());
        let turn = self.work(watcher).instrument(span.clone()).await;
        telemetry::record_turn(&span, &turn);
        turn
    }

    async fn work(&mut self, watcher: &dyn Watcher) -> Result<TurnStatus, AgentError> {
        self.catch_up_if_ahead().await?;
        loop {
            match self.state.next() {
                NextStep::Wait => return Ok(TurnStatus::Idle),
                NextStep::Ask(_) => return Ok(TurnStatus::Waiting(self.waiting())),
                _ if !self.has_begun => {
                    self.call_middleware(Point::BeforeAgent, watcher).await?;
                    self.has_begun = true;
                }
                NextStep::CallModel => self.make_model_call(watcher).await?,
                NextStep::CallTools(calls) => {
                    // Calls that cannot be made are answered first, so nobody is asked about them.
                    let (callable, answered) = self.sort_calls(calls)?;
                    if !answered.is_empty() {
                        self.store(answered, watcher).await?;
                    } else if self.after_model(watcher).await? == Moved::No {
                        self.call_tools(callable, watcher).await?;
                    }
                }
                NextStep::End(outcome) => {
                    if self.after_model(watcher).await? == Moved::No
                        && let Some(turn) = self.end(outcome, watcher).await?
                    {
                        return Ok(turn);
                    }
                }
            }
        }
    }

    /// Ends the turn, unless a middleware lets it continue.
    pub(super) async fn end(
        &mut self,
        outcome: TurnOutcome,
        watcher: &dyn Watcher,
    ) -> Result<Option<TurnStatus>, AgentError> {
        // In reverse: if a later middleware lets the turn continue, the earlier ones have not cleaned up yet.
        for middleware in self.middleware.clone().into_iter().rev() {
            // If this future is dropped, the middleware may believe that its changes are stored.
            self.is_ahead = true;
            let called = middleware.after_agent(self.context(), &outcome);
            let actions = self.held.keep_during(&*self.agent.store, called).await?;
            self.is_ahead = false;
            let mut actions = actions.map_err(AgentError::of(middleware.name()))?;
            actions.retain(|action| match action {
                MiddlewareAction::AddMessages(_) | MiddlewareAction::Jump(Jump::Model(_)) => {
                    may_go_on(&outcome)
                }
                MiddlewareAction::Change(_) => true,
                _ => false,
            });
            if self.perform(middleware.name(), actions, watcher).await? != Moved::No {
                return Ok(None);
            }
        }
        self.store(vec![Event::TurnEnded { outcome: outcome.clone() }], watcher).await?;
        self.tools = None;
        Ok(Some(TurnStatus::Ended(outcome)))
    }
}

/// Whether a middleware can let a turn continue that was about to end: it reached no limit, and nobody ended it.
fn may_go_on(outcome: &TurnOutcome) -> bool {
    match outcome {
        TurnOutcome::Responded | TurnOutcome::Silent | TurnOutcome::CutOff => true,
        TurnOutcome::Failed { error } => error.kind == ModelErrorKind::ContextTooLong,
        TurnOutcome::Refused
        | TurnOutcome::TooManyModelCalls { .. }
        | TurnOutcome::TooManyTokens { .. }
        | TurnOutcome::WindowFull { .. }
        | TurnOutcome::Cancelled
        | TurnOutcome::Stopped { .. } => false,
    }
}
