//! `/model`

use anyhow::{Context as _, Result};

use super::note;
use crate::chat::conversation::Conversation;
use crate::chat::model;
use crate::terminal::printable_start;

/// Says which model is used.
pub(super) fn show(conversation: &Conversation) -> Result<()> {
    let name = conversation.agents.model.name().to_owned();
    note(conversation, format!("the model is {name}; /model PROVIDER:NAME switches to another"))
}

/// Switches to another model. If that is not possible, the present one stays.
pub(super) fn switch(conversation: &mut Conversation, name: &str) -> Result<()> {
    let taken = conversation.agents.config.settings.model_named(name).map_err(anyhow::Error::msg);
    let taken = taken.and_then(|name| {
        let before = std::mem::replace(&mut conversation.agents.config.settings.model.name, name);
        model::configured(&conversation.agents.config.settings)
            .inspect_err(|_| conversation.agents.config.settings.model.name = before)
    });
    conversation.agents.model =
        taken.with_context(|| format!("cannot switch to `{}`", printable_start(name, 64)))?;
    conversation.agents.forget_skill_models();
    note(conversation, format!("switched to {}", conversation.agents.model.name()))
}
