//! Permissions of tool calls: a call waits in the thread until a person has replied.

use async_trait::async_trait;
use prowess_permission::{Action, Decision, Kind, Permissions, Question, quote_name};

use super::skills::preapproving_skill;
use crate::agent::NextTool;
use crate::message::ToolCall;
use crate::middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError};
use crate::thread_state::NextStep;
use crate::tool::{RefusedBy, ToolAnswer, ToolData, ToolOutput};

const NAME: &str = "approval";
/// The longest tool name in a message, in characters.
const MAX_NAME: usize = 64;

/// Applies the permission rules of kind `tool` to every tool call.
///
/// A denied call is answered with an error. A call that needs a question waits in the thread, so the reply can come from
/// another process. A call that nobody approved is never made.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{ToolPermissions, Todos};
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = [Rule::new("tool", "write_*", Decision::Deny)];
/// let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
/// let model = Scripted::new([
///     ScriptedTurn::new().call("write_todos", json!({"todos": []})),
///     ScriptedTurn::new().expect(ScriptedExpect::new().last("denied")).say("I may not."),
/// ]);
/// let agent = Agent::builder(Arc::new(model)).middleware(ToolPermissions::new(permissions)).middleware(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Plan.", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("I may not."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ToolPermissions(Permissions);

impl ToolPermissions {
    /// Applies the rules of these permissions.
    pub fn new(permissions: Permissions) -> Self {
        Self(permissions)
    }

    fn decide(&self, call: &ToolCall) -> Decision {
        self.0.decide(&question(call)).decision
    }

    /// The loaded skill whose `allowed-tools` settle the question about a call.
    fn preapproving_skill(&self, context: MiddlewareContext<'_>, call: &ToolCall) -> Option<String> {
        let skill = preapproving_skill(context, &call.name, &call.parsed().unwrap_or_default())?;
        self.0.request_preapproved(&question(call)).is_ok().then_some(skill)
    }
}

#[async_trait]
impl Middleware for ToolPermissions {
    fn name(&self) -> &str {
        NAME
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let NextStep::CallTools(calls) = context.thread_state.next() else { return Ok(Vec::new()) };
        let open = calls.into_iter().filter(|call| !call.approved);
        Ok(open
            .filter_map(|call| match self.decide(&call.call) {
                Decision::Allow => None,
                Decision::Ask if self.preapproving_skill(context, &call.call).is_some() => {
                    Some(MiddlewareAction::Approve { call: call.call.id })
                }
                Decision::Ask => Some(MiddlewareAction::Ask {
                    question: Box::new(question(&call.call)),
                    call: call.call.id,
                }),
                Decision::Deny => {
                    let data = Some(ToolData::Refused { by: RefusedBy::Rule, message: None, rule: None });
                    Some(MiddlewareAction::Answer {
                        text: denial(&call.call),
                        call: call.call.id,
                        is_error: true,
                        data,
                    })
                }
            })
            .collect())
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        // The rules may have changed while the call waited. A denial overrides every reply.
        match self.decide(next.call) {
            Decision::Deny => ToolAnswer::refused(denial(next.call), RefusedBy::Rule).into(),
            Decision::Ask if !next.approved => {
                let text = format!("Error: nobody approved {}.", quoted_start(&next.call.name));
                ToolAnswer::refused(text, RefusedBy::Nobody).into()
            }
            Decision::Ask if next.always => {
                self.0.remember(&question(next.call)).await;
                next.call().await
            }
            Decision::Ask => {
                let skill = self.preapproving_skill(context, next.call);
                match next.call().await {
                    ToolOutput::Done(answer) => answer.preapproved_by(skill).into(),
                    output => output,
                }
            }
            Decision::Allow => next.call().await,
        }
    }
}

fn question(call: &ToolCall) -> Question {
    let action = Action::CallTool { tool: call.name.clone(), arguments: call.arguments.clone() };
    Question::new(Kind::TOOL, call.name.as_str()).action(action)
}

fn denial(call: &ToolCall) -> String {
    format!("Error: {} is denied by the rules of this agent.", quoted_start(&call.name))
}

/// The beginning of a name that a model may have made up, in quotes that it cannot close.
fn quoted_start(name: &str) -> String {
    quote_name(&name.chars().take(MAX_NAME).collect::<String>())
}
