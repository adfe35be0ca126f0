//! How hard the model should think, in the provider's words.

use prowess_agent::ModelRequest;
use prowess_agent::model::{Effort, ToolChoice};
use serde_json::{Value, json};

use crate::conversation::{AssistantBlock, Turn, UserBlock};

/// The least that a model can be given to think, in tokens.
const MIN_BUDGET: u64 = 1_024;

/// How a model is told how hard to think. Without an effort in the request it is told nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// By a word, and it thinks as much as that takes: models from the end of 2025 on.
    #[default]
    Adaptive,
    /// By a number of tokens: models before.
    Budget,
    /// Not at all: models that do not think.
    Off,
}

impl Thinking {
    /// Puts what an effort comes to into a request's body. Says whether the model thinks.
    pub(super) fn put(
        self,
        effort: Effort,
        request: &ModelRequest,
        turns: &[Turn<'_>],
        body: &mut Value,
    ) -> bool {
        match self {
            Self::Off => false,
            Self::Adaptive => {
                // An effort is not only for thinking.
                body["output_config"] = json!({"effort": word(effort)});
                let thinks = is_free(&request.tool_choice);
                if thinks {
                    body["thinking"] = json!({"type": "adaptive"});
                }
                thinks
            }
            Self::Budget => {
                // What is thought counts as said: half of the room stays for the answer.
                let room = body["max_tokens"].as_u64().unwrap_or(0) / 2;
                let budget = budget(effort).min(room);
                let thinks = budget >= MIN_BUDGET && is_free(&request.tool_choice) && may_begin(turns);
                if thinks {
                    body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
                }
                thinks
            }
        }
    }
}

/// Whether the model may call nothing: one that must call something cannot think.
fn is_free(choice: &ToolChoice) -> bool {
    !matches!(choice, ToolChoice::Any | ToolChoice::Named(_))
}

/// Whether a thought may come now: with a budget, an answer that waits for its tools must have begun with one.
fn may_begin(turns: &[Turn<'_>]) -> bool {
    let [.., Turn::Assistant(said), Turn::User(heard)] = turns else { return true };
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
