//! Questions that wait for a person, and the person's replies.

use prowess_permission::Question;

use super::{AgentError, Thread, TurnStatus, Watcher};
use crate::id::CallId;
use crate::message::ToolCall;
use crate::thread_state::{CallQuestion, CallReply, Event, SubAgentCaller};

/// What the model reads about a call that was rejected because the person rejected another call and all that wait.
const REJECTED_WITH_ANOTHER: &str = "not made, because another call of the same message was rejected";

/// A tool call that waits for a person.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{ToolPermissions, Todos};
/// use prowess_agent::{Agent, CallReply, NoWatcher, ThreadId, TurnStatus};
/// use prowess_models::{Scripted, ScriptedTurn};
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plan = json!({"todos": [{"content": "Bow", "status": "pending"}]});
/// let model = Scripted::new([ScriptedTurn::new().call("write_todos", plan), ScriptedTurn::new().say("Planned.")]);
/// let rules = [Rule::new("tool", "write_todos", Decision::Ask)];
/// let approval = ToolPermissions::new(Permissions::unattended(Policy::new().rules(RuleSource::User, rules)));
/// let agent = Agent::builder(Arc::new(model)).middleware(approval).middleware(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
///
/// let TurnStatus::Waiting(waiting) = thread.say("Plan.", &NoWatcher).await? else { panic!("it did not ask") };
/// assert_eq!(waiting[0].question.wording().title, "call 'write_todos'");
/// thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("Planned."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitingCall {
    /// The call.
    pub call: ToolCall,
    /// The question to the person.
    pub question: Question,
    /// The sub-agent that asks, if it is not this thread's agent.
    pub via: Option<SubAgentCaller>,
    /// The number of the event that asked. One call can ask more than once.
    pub number: u64,
}

/// What a reply is for: one question, or whatever a call asks now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    call: CallId,
    number: Option<u64>,
}

impl From<&WaitingCall> for ReplyTo {
    fn from(waiting: &WaitingCall) -> Self {
        Self { call: waiting.call.id.clone(), number: Some(waiting.number) }
    }
}

impl From<&str> for ReplyTo {
    fn from(call: &str) -> Self {
        Self { call: call.into(), number: None }
    }
}

impl From<&CallId> for ReplyTo {
    fn from(call: &CallId) -> Self {
        Self { call: call.clone(), number: None }
    }
}

/// A question that waits in a thread.
#[derive(Clone, Debug)]
pub(super) struct AskedQuestion {
    pub(super) call: CallId,
    /// The number of the event that asked.
    pub(super) number: u64,
    pub(super) question: Box<CallQuestion>,
}

impl Thread {
    /// The tool calls that wait for a person.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        let waiting = |call: ToolCall| {
            let asked = self.questions.iter().rev().find(|asked| asked.call == call.id)?;
            let CallQuestion { question, via, .. } = (*asked.question).clone();
            Some(WaitingCall { call, question, via, number: asked.number })
        };
        self.state.waiting().into_iter().filter_map(waiting).collect()
    }

    /// Replies to a question of a waiting call, and continues the turn.
    ///
    /// With a [`WaitingCall`], the reply is for that one question. If someone replied to it already, this is an error,
    /// even if its call asks something else by now. With a call's id, the reply is for whatever the call asks now.
    /// [`CallReply::RejectAll`] also rejects all other calls that wait in the thread.
    ///
    /// # Errors
    ///
    /// The call does not wait, or not for this reply; a middleware failed; or the store failed.
    pub async fn reply(
        &mut self,
        to: impl Into<ReplyTo>,
        reply: CallReply,
        watcher: &dyn Watcher,
    ) -> Result<TurnStatus, AgentError> {
        self.catch_up_if_ahead().await?;
        let ReplyTo { call, number } = to.into();
        let is_asked = |asked: &AskedQuestion| asked.call == call && Some(asked.number) == number;
        if number.is_some() && !self.questions.iter().any(is_asked) {
            return Err(AgentError::AlreadyReplied(call));
        }
        // Stored together: after a crash nobody is asked about a call that was rejected with another one.
        let others = match reply {
            CallReply::RejectAll { .. } => self.state.waiting(),
            _ => Vec::new(),
        };
        let mut events = vec![Event::Replied { call: call.clone(), reply }];
        events.extend(others.into_iter().filter(|other| other.id != call).map(|other| {
            let reply = CallReply::Reject { message: REJECTED_WITH_ANOTHER.to_owned() };
            Event::Replied { call: other.id, reply }
        }));
        self.store(events, watcher).await?;
        self.go_on(watcher).await
    }
}
