//! How full the model's context window is.

use std::sync::Arc;

use prowess_agent::middleware::{SkillsState, Summarisation, WindowUse};
use prowess_agent::{Message, Model, ModelRequest, States};

/// Estimated tokens of each part of a request, in the order of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContextUsage {
    pub(super) rows: Vec<Row>,
    pub(super) total: u64,
    /// The window that compactions respect.
    pub(super) window: Option<u64>,
    /// The tokens of loaded skills.
    pub(super) skills: Vec<(String, usize)>,
}

/// One part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) tokens: u64,
    pub(super) note: String,
}

impl ContextUsage {
    /// Estimates a request as the agent does when it decides whether to summarise. `current` are the messages that started
    /// the turn under way.
    pub(super) fn of(
        request: &ModelRequest,
        states: &States,
        current: &[Arc<Message>],
        model: &dyn Model,
    ) -> Self {
        let skills: Vec<(String, usize)> = SkillsState::of(states)
            .map(|state| state.loaded().iter().map(|skill| (skill.name.clone(), skill.tokens)).collect())
            .unwrap_or_default();
        let used = WindowUse::of(request, states, current, model);
        let row = |what: &str, tokens, note: String| Row { what: what.to_owned(), tokens, note };
        let mut rows = vec![row("system prompt", used.system_prompt, String::new())];
        rows.push(row("skills overview", used.overview, String::new()));
        rows.extend(skills.iter().map(|(name, tokens)| row(name, *tokens as u64, "loaded".to_owned())));
        rows.push(row("tools", used.tools, crate::terminal::count(request.tools.len(), "tool")));
        if used.request > 0 {
            rows.push(row("your message", used.request, String::new()));
        }
        let said = crate::terminal::count(request.messages.len(), "message");
        rows.push(row("conversation", used.rest, said));
        Self { rows, total: used.total(), window: Summarisation::window(states, model), skills }
    }
}
