//! Long arguments of old calls: what was written to a file need not be read again and again.

use std::sync::Arc;

use serde_json::Value;

use super::plan::{Keep, Trigger};
use crate::message::{AssistantPart, Content, Message, ToolCall};

/// The tools whose arguments are whole files.
const TOOLS: [&str; 2] = ["write_file", "edit_file"];
/// How much of a long argument stays.
const HEAD: usize = 20;

/// How long arguments of old calls are shortened, in what the model sees.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TruncateArguments {
    /// When.
    pub trigger: Trigger,
    /// Which messages stay as they are.
    pub keep: Keep,
    /// The longest argument that stays as it is, in characters.
    pub max_length: usize,
    /// What stands for the rest.
    pub truncation_text: String,
}

impl Default for TruncateArguments {
    fn default() -> Self {
        Self {
            trigger: Trigger::Messages(20),
            keep: Keep::Messages(20),
            max_length: 2000,
            truncation_text: "...(argument truncated)".to_owned(),
        }
    }
}

impl TruncateArguments {
    /// The message with its long arguments shortened, if it has any.
    pub(super) fn shorter(&self, message: &Message) -> Option<Arc<Message>> {
        let Content::Assistant { parts } = &message.content else { return None };
        let mut changed = false;
        let parts = parts.iter().map(|part| match part {
            AssistantPart::ToolCall(call) => match self.shorter_call(call) {
                Some(call) => {
                    changed = true;
                    AssistantPart::ToolCall(call)
                }
                None => part.clone(),
            },
            AssistantPart::Text { .. } | AssistantPart::Reasoning(_) => part.clone(),
        });
        let parts = parts.collect();
        changed.then(|| Arc::new(Message { content: Content::Assistant { parts }, ..message.clone() }))
    }

    fn shorter_call(&self, call: &ToolCall) -> Option<ToolCall> {
        if !TOOLS.contains(&call.name.as_str()) || call.arguments.len() <= self.max_length {
            return None;
        }
        let Ok(Value::Object(mut arguments)) = call.parsed() else { return None };
        let mut changed = false;
        for value in arguments.values_mut() {
            if let Some(text) = value.as_str().filter(|text| text.chars().count() > self.max_length) {
                let head: String = text.chars().take(HEAD).collect();
                *value = format!("{head}{}", self.truncation_text).into();
                changed = true;
            }
        }
        changed.then(|| ToolCall { arguments: Value::Object(arguments).to_string(), ..call.clone() })
    }
}
