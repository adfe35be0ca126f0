//! How full the model's context window is.

use prowess_agent::middleware::SkillsState;
use prowess_agent::{Message, Model, ModelRequest, States};

/// Estimated tokens of each part of a request, in the order of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContextUsage {
    pub(super) rows: Vec<Row>,
    pub(super) total: u64,
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
    /// Estimates a request, with the model's own token count.
    pub(super) fn of(request: &ModelRequest, states: &States, model: &dyn Model) -> Self {
        let count = |text: &str| model.count_tokens(text);
        let skills: Vec<(String, usize)> = SkillsState::of(states)
            .map(|state| state.loaded().iter().map(|skill| (skill.name.clone(), skill.tokens)).collect())
            .unwrap_or_default();
        let (mut system, mut overview, mut loaded_in_system) = (0, 0, 0);
        for section in &request.system {
            let tokens = count(&section.text);
            match section.owner.as_str() {
                // The first section of the skills middleware is the overview.
                "skills" if overview == 0 => overview = tokens,
                "skills" => loaded_in_system += tokens,
                _ => system += tokens,
            }
        }
        let tools: u64 = request
            .tools
            .iter()
            .map(|tool| count(&tool.description) + count(&tool.parameters.to_string()))
            .sum();
        let messages: u64 = request.messages.iter().map(|message| message_tokens(message, &count)).sum();
        let loaded: u64 = skills.iter().map(|(_, tokens)| *tokens as u64).sum();
        let total = system + overview + loaded_in_system + tools + messages;
        let history = (loaded_in_system + messages).saturating_sub(loaded);
        let row = |what: &str, tokens, note: String| Row { what: what.to_owned(), tokens, note };
        let mut rows = vec![row("system prompt", system, String::new())];
        rows.push(row("skills overview", overview, String::new()));
        rows.extend(skills.iter().map(|(name, tokens)| row(name, *tokens as u64, "loaded".to_owned())));
        rows.push(row("tools", tools, crate::terminal::count(request.tools.len(), "tool")));
        let said = crate::terminal::count(request.messages.len(), "message");
        rows.push(row("conversation", history, said));
        Self { rows, total, window: model.limits().context, skills }
    }
}

/// The estimated tokens of a message.
fn message_tokens(message: &Message, count: &dyn Fn(&str) -> u64) -> u64 {
    let calls = message.tool_calls().map(|call| count(&call.name) + count(&call.arguments));
    count(&message.text()) + calls.sum::<u64>()
}
