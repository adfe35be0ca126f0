//! `/agents`

use std::sync::Arc;

use prowess_agent::middleware::GENERAL_AGENT;
use prowess_catalog::SkillEntry;
use prowess_catalog::skill::SkillContext;

use super::MAX_DESCRIPTION;
use crate::chat::conversation::Conversation;
use crate::terminal::{Style, printable, printable_start, styled};

/// The lines about each defined sub-agent, and about files that define none. A path is never cut.
pub(super) fn lines(conversation: &Conversation) -> Vec<String> {
    let found = &conversation.agents.sub_agents;
    let mut lines = Vec::new();
    for (name, agent) in &found.agents {
        let description = printable_start(&agent.definition.description, MAX_DESCRIPTION);
        lines.push(format!("  {}  {}", styled(name, Style::Name), styled(description, Style::Faint)));
        lines.push(format!("    {}", printable(&agent.origin)));
        lines
            .extend(agent.definition.model.as_deref().map(|model| format!("    model {}", printable(model))));
    }
    lines.extend(found.problems.iter().cloned());
    if found.agents.is_empty() {
        lines.push(format!(
            "No sub-agents are defined. The model gives tasks to the {GENERAL_AGENT} sub-agent."
        ));
    }
    lines.extend(missing(conversation));
    lines
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
