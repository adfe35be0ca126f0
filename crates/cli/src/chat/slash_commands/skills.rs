//! `/skills`

use prowess_agent::middleware::SkillsState;

use super::MAX_DESCRIPTION;
use crate::chat::conversation::Conversation;
use crate::chat::describe;
use crate::terminal::{Style, count, printable, printable_start, styled};

/// A row for each skill, and lines about skills that the model does not see.
pub(super) fn rows(conversation: &Conversation) -> (Vec<String>, Vec<String>) {
    let (catalog, visible_skills) = (conversation.agents.catalog(), conversation.agents.visible_skills());
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    let mut lines = Vec::new();
    for entry in visible_skills.view().entries() {
        let name = entry.skill.name.as_str();
        let tokens = loaded.iter().find(|skill| skill.name == name).map(|skill| skill.tokens);
        let mark = tokens.map_or_else(|| " ".to_owned(), |_| styled("+", Style::Good));
        let note = tokens.map(|tokens| format!(" ({} tokens)", describe::tokens(tokens as u64)));
        let description = printable_start(&entry.skill.description, MAX_DESCRIPTION);
        lines.push(format!(
            "{mark} {}{}  {}",
            styled(printable(name), Style::Name),
            note.unwrap_or_default(),
            styled(description, Style::Faint)
        ));
    }
    let mut advice = Vec::new();
    if lines.is_empty() {
        advice.push("No skills were found. `prowess new NAME` creates one.".to_owned());
    }
    advice.extend(visible_skills.denied_line());
    let untrusted = catalog.untrusted().len();
    if untrusted > 0 {
        advice.push(format!(
            "{} of this project hidden from the model; see `prowess trust`",
            count(untrusted, "skill")
        ));
    }
    (lines, advice)
}
