//! `/agents`

use super::MAX_DESCRIPTION;
use crate::chat::conversation::Conversation;
use crate::terminal::{Style, printable, printable_start, styled};

/// A row for each defined sub-agent, and lines about files that define none.
pub(super) fn rows(conversation: &Conversation) -> (Vec<String>, Vec<String>) {
    let found = &conversation.agents.sub_agents;
    let row = |(name, agent): (&String, &crate::agent_files::FoundAgent)| {
        let model = agent.definition.model.as_deref().map(|model| format!(", model {}", printable(model)));
        let origin = format!("({}{})", printable(&agent.origin), model.unwrap_or_default());
        let description = printable_start(&agent.definition.description, MAX_DESCRIPTION);
        format!("  {}  {} {}", styled(name, Style::Name), styled(description, Style::Faint), origin)
    };
    let mut lines = found.problems.clone();
    if found.agents.is_empty() {
        lines.push(
            "No sub-agents are defined. The model gives tasks to the general-purpose sub-agent.".to_owned(),
        );
    }
    (found.agents.iter().map(row).collect(), lines)
}
