//! Sub-agents: work handed to an agent that starts clean and hands back its answer alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hmac_sha256::Hash;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::{Agent, AgentError, NoWatcher, Thread, Turn};
use crate::id::{MessageId, ThreadId};
use crate::middleware::{Middleware, Moment};
use crate::model::{PromptSection, ToolDefinition};
use crate::run::{Effect, Outcome, Reply};
use crate::thread::ThreadError;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolOutput, parsed, schema};

const NAME: &str = "subagents";
const TOOL: &str = "task";
/// The sub-agent that is taken when none is named.
const GENERAL: &str = "general-purpose";
/// How long one task may take.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// How often it is looked whether a thread is free that a dead process has.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Sub-agents as a part of an agent: the tool `task`.
///
/// Each task is a thread of its own in the sub-agent's store, named after the call, so a task that was cut off goes on
/// where it was. Sub-agents see nothing of their parent's conversation and state. How deep they go is how they are
/// built: one without this part has no sub-agents of its own.
#[derive(Clone, Debug)]
pub struct SubAgents(Arc<BTreeMap<String, SubAgent>>);

#[derive(Clone, Debug)]
struct SubAgent {
    description: String,
    agent: Agent,
}

impl SubAgents {
    /// One sub-agent for everything.
    pub fn new(general_purpose: Agent) -> Self {
        let description = "Does any task of several steps, with the same tools as you.".to_owned();
        Self(Arc::new(BTreeMap::from([(
            GENERAL.to_owned(),
            SubAgent { description, agent: general_purpose },
        )])))
    }

    /// The same with another one, for what its description says.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>, description: impl Into<String>, agent: Agent) -> Self {
        let sub_agent = SubAgent { description: description.into(), agent };
        Arc::make_mut(&mut self.0).insert(name.into(), sub_agent);
        self
    }
}

#[async_trait]
impl Middleware for SubAgents {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, _: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Task(Arc::clone(&self.0)))]
    }

    async fn sections(&self, _: Moment<'_>) -> Result<Vec<PromptSection>, String> {
        Ok(vec![PromptSection { owner: NAME.to_owned(), text: SECTION.to_owned(), is_stable: true }])
    }
}

const SECTION: &str = "\
## Sub-agents

Hand work to a sub-agent with `task` when it is several steps whose details you do not need, and several at once when \
they do not depend on each other. A sub-agent sees nothing of this conversation: tell it all that it needs and what its \
answer shall have. Its answer comes back to you, not to the person.";

#[derive(Debug)]
struct Task(Arc<BTreeMap<String, SubAgent>>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What is to be done, with all that is needed for it, and what the answer shall have.
    description: String,
    /// Which sub-agent.
    #[serde(default)]
    subagent_type: Option<String>,
}

#[async_trait]
impl Tool for Task {
    fn definition(&self) -> ToolDefinition {
        let mut description = "Hand a task to a sub-agent, and get its answer. Sub-agents:".to_owned();
        for (name, sub_agent) in &*self.0 {
            let _ = write!(description, "\n- {name}: {}", sub_agent.description);
        }
        let mut parameters = schema::<Arguments>();
        parameters["properties"]["subagent_type"] = json!({"type": "string", "enum": self.0.keys().collect::<Vec<_>>(), "description": "Which sub-agent."});
        ToolDefinition { name: TOOL.to_owned(), description, parameters }
    }

    fn is_idempotent(&self) -> bool {
        // Its thread has what was done already.
        true
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let Arguments { description, subagent_type } = match parsed(TOOL, arguments) {
            Ok(arguments) => arguments,
            Err(answer) => return answer.into(),
        };
        let name = subagent_type.unwrap_or_else(|| GENERAL.to_owned());
        let Some(sub_agent) = self.0.get(&name) else {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let text =
                format!("Error: there is no sub-agent of that name. Sub-agents: {}.", known.join(", "));
            return ToolAnswer::error(text).into();
        };
        let id = child(context.thread, context.message);
        match work(&sub_agent.agent, id, description).await {
            Ok(answer) => answer.into(),
            Err(error) => ToolAnswer::error(format!("Error: the sub-agent could not go on: {error}")).into(),
        }
    }
}

/// The thread of a task, the same whenever it is asked for.
fn child(parent: &ThreadId, message: &MessageId) -> ThreadId {
    let digest = Hash::hash(format!("{parent}\0{}", message.as_str()).as_bytes());
    let mut name = "task-".to_owned();
    for byte in &digest[..16] {
        let _ = write!(name, "{byte:02x}");
    }
    name.parse().unwrap_or_else(|_| ThreadId::new())
}

async fn work(agent: &Agent, id: ThreadId, description: String) -> Result<ToolAnswer, AgentError> {
    let mut thread = open(agent, id).await?;
    let mut turn = match thread.run().next() {
        Effect::Wait if thread.run().messages().is_empty() => thread.say(description, &NoWatcher).await?,
        _ => thread.go_on(&NoWatcher).await?,
    };
    while let Turn::Waiting(waiting) = &turn {
        // Nobody sees a sub-agent's questions.
        let Some(call) = waiting.first().map(|waiting| waiting.call.clone()) else { break };
        let message = format!("Error: `{}` needs a person's word, and a sub-agent cannot ask.", call.name);
        turn = thread.reply(&call.id, Reply::Reject { message }, &NoWatcher).await?;
    }
    let answer = thread.answer().unwrap_or_default();
    thread.close().await?;
    Ok(match turn {
        Turn::Ended(Outcome::Answered) | Turn::Idle => ToolAnswer::text(answer),
        Turn::Ended(outcome) => {
            ToolAnswer::error(format!("Error: the sub-agent ended without an answer: {outcome}. {answer}"))
        }
        Turn::Waiting(_) => ToolAnswer::error("Error: the sub-agent waits for a person."),
    })
}

/// Opens a thread, once a process that died while it had it has lost it.
async fn open(agent: &Agent, id: ThreadId) -> Result<Thread, AgentError> {
    let lasts = agent.lease();
    let until = tokio::time::Instant::now() + lasts + LOOK_EVERY;
    loop {
        match agent.open(id.clone()).await {
            Err(AgentError::Thread(ThreadError::Leased { .. })) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOK_EVERY.min(lasts)).await;
            }
            opened => return opened,
        }
    }
}
