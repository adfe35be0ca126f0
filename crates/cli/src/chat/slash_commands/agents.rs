//! `/agents`

use std::sync::Arc;

use anyhow::Result;
use prowess_agent::middleware::GENERAL_AGENT;
use prowess_catalog::SkillEntry;
use prowess_catalog::skill::SkillContext;

use super::MAX_DESCRIPTION;
use crate::chat::conversation::Conversation;
use crate::terminal::{Style, printable, printable_start, styled};

/// Shows each defined sub-agent, and the files that define none. A description is cut, and a path never.
pub(super) fn show(conversation: &Conversation) -> Result<()> {
    let found = &conversation.agents.sub_agents;
    for (name, agent) in &found.agents {
        let description = printable_start(&agent.definition.description, MAX_DESCRIPTION);
        let row = format!("  {}  {}", styled(name, Style::Name), styled(description, Style::Faint));
        conversation.list(&[row])?;
        let mut lines = vec![format!("    {}", printable(&agent.origin))];
        let model = agent.definition.model.as_deref();
        lines.extend(model.map(|model| format!("    model {}", printable(model))));
        conversation.lines(&lines)?;
    }
    let mut lines = found.problems.clone();
    if found.agents.is_empty() {
        lines.push(format!(
            "No sub-agents are defined. The model gives tasks to the {GENERAL_AGENT} sub-agent."
        ));
    }
    lines.extend(missing(conversation));
    conversation.lines(&lines)
}

/// A line about each skill that names a sub-agent that does not exist.
fn missing(conversation: &Conversation) -> Vec<String> {
    let visible_skills = conversation.agents.visible_skills();
    let line = |entry: &Arc<SkillEntry>| {
        let (skill, extensions) = (entry.skill.name.as_str(), &entry.skill.extensions);
        let wanted = extensions.agent.as_deref().filter(|_| extensions.context == SkillContext::Fork)?;
        let is_known = conversation.agents.sub_agents.agents.contains_key(&wanted.to_lowercase());
        (!is_known && !wanted.eq_ignore_ascii_case(GENERAL_AGENT)).then(|| {
            let (skill, wanted) = (printable(skill), printable(wanted));
            format!("There is no sub-agent `{wanted}` for the skill {skill}: the {GENERAL_AGENT} sub-agent follows it.")
        })
    };
    visible_skills.view().entries().iter().filter_map(line).collect()
}
