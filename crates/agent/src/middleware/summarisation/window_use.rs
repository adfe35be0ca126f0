//! What fills a model's context window.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::sizes;
use crate::message::Message;
use crate::middleware::SkillsState;
use crate::model::{Model, ModelRequest};
use crate::state::States;

/// What fills a model's context window, in estimated tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowUse {
    /// The context window, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The system prompt, without anything about skills.
    pub system_prompt: u64,
    /// The definitions of tools.
    pub tools: u64,
    /// The overview of skills.
    pub overview: u64,
    /// The text of loaded skills, in the system prompt and in the conversation.
    pub loaded_skills: u64,
    /// The request of the turn under way.
    pub request: u64,
    /// The rest of the conversation, with its summary.
    pub rest: u64,
}

impl WindowUse {
    /// Estimates the parts of a request. `current` are the messages that started the turn under way.
    pub fn of(request: &ModelRequest, states: &States, current: &[Arc<Message>], model: &dyn Model) -> Self {
        let (mut used, mut has_overview, mut conversation) = (Self::default(), false, 0);
        for section in &request.system {
            let tokens = model.count_tokens(&section.text);
            match section.owner.as_str() {
                // The first section of the skills middleware is the overview, and the others are text of skills.
                SkillsState::OWNER if !has_overview => (used.overview, has_overview) = (tokens, true),
                SkillsState::OWNER => conversation += tokens,
                _ => used.system_prompt += tokens,
            }
        }
        used.tools = request.tools.iter().map(|tool| sizes::of_tool(model, tool)).sum();
        for message in &request.messages {
            let tokens = sizes::of_message(model, message);
            if current.iter().any(|said| said.id == message.id) {
                used.request += tokens;
            } else {
                conversation += tokens;
            }
        }
        let loaded = SkillsState::of(states).into_iter().flat_map(SkillsState::loaded);
        used.loaded_skills = loaded.map(|skill| skill.tokens as u64).sum::<u64>().min(conversation);
        used.rest = conversation - used.loaded_skills;
        used
    }

    /// All parts together.
    pub fn total(&self) -> u64 {
        self.what_stays() + self.rest
    }

    /// The parts that no compaction makes smaller.
    pub(super) fn what_stays(&self) -> u64 {
        self.system_prompt + self.tools + self.overview + self.loaded_skills + self.request
    }
}
