//! Decides what comes next in a turn, and ends a turn that has used up a limit.

use super::pending::{PendingCall, ReadyCall};
use super::{Phase, ThreadState, TurnOutcome};
use crate::message::ToolCall;

/// What comes next in a thread.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NextStep {
    /// Wait until someone says something.
    Wait,
    /// Call the model.
    CallModel,
    /// Make these tool calls, in any order.
    CallTools(Vec<ReadyCall>),
    /// Wait until a person has replied about these calls.
    Ask(Vec<ToolCall>),
    /// End the turn.
    End(TurnOutcome),
}

impl ThreadState {
    /// What comes next.
    pub fn next(&self) -> NextStep {
        match &self.phase {
            Phase::Idle => NextStep::Wait,
            Phase::Model if self.model_calls >= self.limits.model_calls => {
                NextStep::End(TurnOutcome::TooManyModelCalls { most: self.limits.model_calls })
            }
            Phase::Model => match self.limits.tokens {
                Some(most) if self.tokens >= most => NextStep::End(TurnOutcome::TooManyTokens { most }),
                _ => NextStep::CallModel,
            },
            Phase::Ending(outcome) => NextStep::End(outcome.clone()),
            Phase::Tools(calls) => {
                let ready: Vec<ReadyCall> = calls.iter().filter_map(PendingCall::ready).collect();
                if !ready.is_empty() {
                    return NextStep::CallTools(ready);
                }
                NextStep::Ask(self.waiting())
            }
        }
    }
}
