//! The sub-agents of a chat that files and the configuration define.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use prowess_agent::middleware::{AgentDefinition, SkillModel, SubAgentModel};
use prowess_agent::tool::ToolSelection;
use prowess_agent::{Agent, DeepAgentBuilder, ThreadId};
use prowess_mcp::client::ServerTools;
use prowess_permission::{Decision, Permissions, Rule, RuleSource};

use super::agents::{ChatAgents, NAME};
use super::prompt::{prompt_with_writable, prompt_without_skills};
use super::tree::ChatTree;
use crate::agent_files::{FoundAgent, Owner};

/// What the chat and its sub-agents are made from: the same files, skills, rules and hooks.
pub(super) struct SubAgentBase {
    /// The agent without the tools of MCP servers.
    pub(super) agent: DeepAgentBuilder,
    /// These tools.
    pub(super) server_tools: Option<ServerTools>,
}

impl SubAgentBase {
    /// The agent with the tools of MCP servers, by these rules.
    pub(super) fn with_server_tools(&self, permissions: Permissions) -> DeepAgentBuilder {
        let agent = self.agent.clone();
        match self.server_tools.clone() {
            Some(tools) => agent.middleware(tools.permissions(permissions)),
            None => agent,
        }
    }
}

impl ChatAgents {
    /// The agent of the chat, with the defined sub-agents.
    pub(super) fn with_sub_agents(
        &self,
        base: &SubAgentBase,
        tree: &ChatTree,
        thread: &ThreadId,
    ) -> Result<DeepAgentBuilder> {
        let prompt = self.prompt(tree, &ToolSelection::default());
        let mut agent = base.with_server_tools(self.permissions.clone()).prompt(prompt);
        for (name, found) in &self.sub_agents.agents {
            let built = self.sub_agent(base, found, tree, thread)?;
            agent = agent.sub_agent(name, &found.definition.description, built);
        }
        Ok(agent)
    }

    /// The system prompt for an agent with skills and these tools.
    fn prompt(&self, tree: &ChatTree, tools: &ToolSelection) -> String {
        prompt_with_writable(self.surface(), &tree.tree(), tools, &self.writable_paths())
    }

    fn sub_agent(
        &self,
        base: &SubAgentBase,
        found: &FoundAgent,
        tree: &ChatTree,
        thread: &ThreadId,
    ) -> Result<Agent> {
        let definition = &found.definition;
        let prompt = if definition.tools.has_skills() {
            self.prompt(tree, &definition.tools)
        } else {
            prompt_without_skills(self.surface(), &tree.tree())
        };
        let prompt = match definition.prompt.as_str() {
            "" => prompt,
            role => format!("{prompt}\n\n# Your role\n\n{role}"),
        };
        let mut rules = self.config.rules_of(definition.name.as_str());
        // A project could take the name of a sub-agent that may do more.
        rules.retain(|rule| found.owner == Owner::User || rule.decision != Decision::Allow);
        let mut agent = base.with_server_tools(with_rules(&self.permissions, &rules)).prompt(prompt);
        if !rules.is_empty() {
            let skills = self.skills(tree, with_rules(&self.skill_permissions(&tree.thread_files), &rules));
            agent = agent.skills(skills).permissions(with_rules(&self.file_permissions(thread), &rules));
        }
        let agent = self.with_model(agent, definition);
        let built = agent.select_tools(definition.tools.clone()).build_sub_agent();
        built.map_err(|error| anyhow!("{error}"))
    }

    /// Gives a sub-agent the model that its definition names. If the provider of the chat does not have it, the model of the
    /// chat stays, and a notice says so.
    fn with_model(&self, agent: DeepAgentBuilder, definition: &AgentDefinition) -> DeepAgentBuilder {
        let Some(wanted) = &definition.model else { return agent };
        let (models, own) = (self.skill_models.clone(), Arc::clone(&self.model));
        // It also decides how long the conversation can be.
        let agent = match models.get(wanted) {
            SkillModel::Use(model) => agent.model(model),
            _ => agent,
        };
        agent.middleware(SubAgentModel::new(models, definition.name.as_str(), wanted, own))
    }
}

/// The same permissions with the rules of one agent after all others.
fn with_rules(permissions: &Permissions, rules: &[Rule]) -> Permissions {
    let policy = permissions.policy().rules(RuleSource::Agent, rules.iter().cloned());
    Permissions::new(Arc::clone(permissions.broker()), NAME, policy)
}
