//! `/unload`

use anyhow::{Result, bail};
use prowess_agent::middleware::SkillsState;

use crate::chat::conversation::Conversation;
use crate::terminal::printable_start;

/// Takes a loaded skill out of the conversation.
pub(super) async fn unload(conversation: &mut Conversation, skill: &str) -> Result<()> {
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    if !loaded.iter().any(|known| known.name == skill) {
        let names: Vec<&str> = loaded.iter().map(|skill| skill.name.as_str()).collect();
        let loaded = if names.is_empty() {
            "no skill is loaded".to_owned()
        } else {
            format!("loaded: {}", names.join(", "))
        };
        bail!("`{}` is not loaded; {loaded}", printable_start(skill, 64));
    }
    conversation.unload(skill).await
}
