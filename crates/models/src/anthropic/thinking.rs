//! How much the model should reason, in the provider's format.

use prowess_agent::ModelRequest;
use prowess_agent::model::{Effort, ToolChoice};
use serde_json::{Value, json};

use crate::conversation::{AssistantBlock, RoleMessage, UserBlock};

/// The smallest budget for reasoning, in tokens.
const MIN_BUDGET: u64 = 1_024;

/// How a request says how much to reason. Without an effort it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// With a word, such as `high`. For models from the end of 2025 on.
    #[default]
    Adaptive,
    /// With a number of tokens. For older models.
    Budget,
    /// Not at all. For models that do not reason.
    Off,
}

impl Thinking {
    /// Applies an effort to the body of a request. Returns whether the model reasons.
    pub(super) fn apply(
        self,
        effort: Effort,
        request: &ModelRequest,
        messages: &[RoleMessage<'_>],
        body: &mut Value,
    ) -> bool {
        match self {
            Self::Off => false,
            Self::Adaptive => {
                // The effort also affects the response without reasoning.
                body["output_config"] = json!({"effort": word(effort)});
                let thinks = is_free(&request.tool_choice);
                if thinks {
                    body["thinking"] = json!({"type": "adaptive"});
                }
                thinks
            }
            Self::Budget => {
                // Reasoning counts as output. Half of the output stays for the text.
                let room = body["max_tokens"].as_u64().unwrap_or(0) / 2;
                let budget = budget(effort).min(room);
                let thinks = budget >= MIN_BUDGET && is_free(&request.tool_choice) && may_begin(messages);
                if thinks {
                    body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
                }
                thinks
            }
        }
    }
}

/// Whether the model may choose not to call a tool. If it must call one, it cannot reason.
fn is_free(choice: &ToolChoice) -> bool {
    !matches!(choice, ToolChoice::Any | ToolChoice::Named(_))
}

/// Whether reasoning may start now. With a budget, a response that waits for its tools must have begun with reasoning.
fn may_begin(messages: &[RoleMessage<'_>]) -> bool {
    let [.., RoleMessage::Assistant(said), RoleMessage::User(heard)] = messages else { return true };
    let waits = heard.iter().any(|block| matches!(block, UserBlock::Result { .. }));
    !waits || matches!(said.first(), Some(AssistantBlock::Reasoning(_)))
}

fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        _ => "max",
    }
}

fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        _ => 32_768,
    }
}
