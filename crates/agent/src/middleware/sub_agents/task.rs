//! The tool `task`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_base::text::cut;
use prowess_catalog::untrusted::code_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GENERAL_AGENT, SubAgents};
use crate::model::ToolDefinition;
use crate::tool::{Tool, ToolContext, ToolKind, ToolOutput, parsed, schema};

const TOOL: &str = "task";
/// How many characters of a sub-agent's description the model reads, in every request.
const MAX_DESCRIPTION: usize = 1_024;

#[derive(Debug)]
pub(super) struct Task(pub(super) SubAgents);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[schemars(description = "What to do, everything the sub-agent needs to know, and what to return")]
    description: String,
    #[serde(default = "general")]
    subagent_type: String,
}

fn general() -> String {
    GENERAL_AGENT.to_owned()
}

impl Task {
    fn create_definition(&self) -> ToolDefinition {
        let agents = &self.0.0.agents;
        let mut description = "Give a task to a sub-agent and get its response. Sub-agents:".to_owned();
        for (name, sub_agent) in agents {
            // Strangers may have written both.
            let purpose = code_text(&cut(&sub_agent.description, MAX_DESCRIPTION));
            let _ = write!(description, "\n- {}: {purpose}", code_text(name));
        }
        let mut parameters = schema::<Arguments>();
        let names: Vec<&String> = agents.keys().collect();
        let agent_type = &mut parameters["properties"]["subagent_type"];
        agent_type["enum"] = json!(names);
        // The default must be an agent that exists.
        if !agents.contains_key(GENERAL_AGENT)
            && let Some(agent_type) = agent_type.as_object_mut()
        {
            agent_type.remove("default");
        }
        ToolDefinition { name: TOOL.to_owned(), description, parameters }
    }
}

#[async_trait]
impl Tool for Task {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(self.0.0.task.get_or_init(|| self.create_definition().into()))
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Task
    }

    fn timeout(&self) -> Duration {
        self.0.tool_timeout()
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let Arguments { description, subagent_type } = match parsed(TOOL, arguments) {
            Ok(arguments) => arguments,
            Err(answer) => return answer.into(),
        };
        self.0.task(&subagent_type, description, context).await
    }
}
