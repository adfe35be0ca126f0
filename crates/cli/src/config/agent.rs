//! `[agent.NAME]`

use std::str::FromStr;

use prowess_agent::middleware::{AgentDefinition, AgentName};
use prowess_agent::tool::ToolSelection;

use super::read::section;
use crate::visibility::CHAT_AGENT;

section! {
    /// A sub-agent of `prowess chat`, under a name of your choice. A file `NAME.md` in `~/.prowess/agents` defines one too;
    /// this table takes precedence over files. The rules in `[agent.NAME.permission]` apply to the sub-agent, after those of
    /// the chat. See [sub-agents](sub-agents.md#define-a-sub-agent).
    pub(crate) struct AgentSettings {
        /// What the sub-agent is for. The model reads this when it chooses a sub-agent for a task.
        User description: String,
        /// What the sub-agent is told about its role.
        User prompt: Option<String>,
        /// The tools that the sub-agent has, such as `["Read", "Grep"]`. Without it, the sub-agent has all tools of the
        /// chat, except `task`.
        User tools: Option<Vec<String>>,
        /// The model of the sub-agent: one of the provider that the chat uses. The default, `inherit`, is the model of the chat.
        User model: Option<String>,
    }
}

impl AgentSettings {
    /// The keys of the table. The table also has the rules of the agent.
    pub(super) const KEYS: [&str; 4] = ["description", "prompt", "tools", "model"];

    /// The sub-agent that these settings define.
    pub(crate) fn definition(&self, name: &SubAgentName) -> AgentDefinition {
        let prompt = self.prompt.clone().unwrap_or_default();
        let mut definition = AgentDefinition::new(name.0.clone(), self.description.as_str(), prompt);
        definition.tools = self.tools.as_ref().map(ToolSelection::only).unwrap_or_default();
        definition.model = self.model.clone().filter(|model| model != "inherit");
        definition
    }
}

/// The name of a sub-agent of a chat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubAgentName(AgentName);

impl FromStr for SubAgentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name: AgentName = text.parse().map_err(|error| format!("{error}"))?;
        // Rules for these names are about other things.
        if [CHAT_AGENT, "mcp", "session", "run"].contains(&name.as_str()) {
            return Err(format!("`{name}` is the agent of `prowess {name}`; choose another name"));
        }
        Ok(Self(name))
    }
}
