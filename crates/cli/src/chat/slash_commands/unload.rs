//! `/unload`

use anyhow::{Result, bail};
use prowess_agent::middleware::SkillsState;

use crate::chat::conversation::Conversation;
use crate::terminal::{printable, printable_start};

/// Takes a loaded skill out of the conversation.
pub(super) async fn unload(conversation: &mut Conversation, skill: &str) -> Result<()> {
    if !names(conversation).iter().any(|name| name == skill) {
        bail!("`{}` is not loaded; {}", printable_start(skill, 64), loaded(conversation));
    }
    conversation.unload(skill).await
}

/// Says which skills are loaded.
pub(super) fn loaded(conversation: &Conversation) -> String {
    match names(conversation).as_slice() {
        [] => "no skill is loaded".to_owned(),
        names => format!("loaded: {}; `/unload SKILL` takes one out", printable(&names.join(", "))),
    }
}

/// The names of the loaded skills.
pub(super) fn names(conversation: &Conversation) -> Vec<String> {
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    loaded.iter().map(|skill| skill.name.clone()).collect()
}
