//! Truncates long arguments of old tool calls. Text that a call wrote to a file need not stay in the conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::trigger::{Keep, Trigger};
use crate::id::MessageId;
use crate::message::{AssistantPart, Content, Message, ToolCall};
use crate::middleware::MiddlewareContext;
use crate::tool::ToolKind;

/// How much of a long argument stays, in characters.
const HEAD: usize = 20;
/// How many truncated messages are cached, so that each is truncated once and not for every model call.
const MAX_CACHED: usize = 1024;

/// How to truncate long arguments of old tool calls in what the model sees.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TruncateArguments {
    /// When to truncate.
    pub trigger: Trigger,
    /// Which messages stay as they are.
    pub keep: Keep,
    /// The longest argument that stays as it is, in characters.
    pub max_length: usize,
    /// The text in place of the rest.
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

/// Truncates calls of tools whose arguments contain the text of files. Calls of tools that no longer exist stay, because
/// their kind is unknown.
struct Truncation<'a> {
    options: &'a TruncateArguments,
    context: MiddlewareContext<'a>,
}

impl Truncation<'_> {
    /// The message with truncated arguments, if it has long ones.
    fn truncated(&self, message: &Message) -> Option<Arc<Message>> {
        let Content::Assistant { parts } = &message.content else { return None };
        let mut changed = false;
        let parts = parts.iter().map(|part| match part {
            AssistantPart::ToolCall(call) => match self.truncated_call(call) {
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

    /// Whether a message may have long arguments.
    fn is_long(&self, message: &Message) -> bool {
        message.tool_calls().any(|call| self.is_long_call(call))
    }

    fn is_long_call(&self, call: &ToolCall) -> bool {
        call.arguments.len() > self.options.max_length
            && self.context.tool_kind(&call.name).is_some_and(ToolKind::holds_file_text)
    }

    fn truncated_call(&self, call: &ToolCall) -> Option<ToolCall> {
        if !self.is_long_call(call) {
            return None;
        }
        let TruncateArguments { max_length, truncation_text, .. } = self.options;
        let Ok(Value::Object(mut arguments)) = call.parsed() else { return None };
        let mut changed = false;
        for value in arguments.values_mut() {
            if let Some(text) = value.as_str().filter(|text| text.chars().count() > *max_length) {
                let head: String = text.chars().take(HEAD.min(*max_length)).collect();
                *value = format!("{head}{truncation_text}").into();
                changed = true;
            }
        }
        changed.then(|| ToolCall { arguments: Value::Object(arguments).to_string(), ..call.clone() })
    }
}

/// A cache of the truncated messages of a thread.
#[derive(Debug)]
pub(super) struct TruncatedMessages {
    pub(super) options: TruncateArguments,
    cached: Mutex<HashMap<MessageId, CachedMessage>>,
}

/// A message before and after truncation.
#[derive(Debug)]
struct CachedMessage {
    before: Arc<Message>,
    after: Arc<Message>,
}

impl TruncatedMessages {
    pub(super) fn new(options: TruncateArguments) -> Self {
        Self { options, cached: Mutex::default() }
    }

    /// Truncates the arguments in all messages before the first one that stays.
    pub(super) fn truncate(
        &self,
        context: MiddlewareContext<'_>,
        messages: &mut [Arc<Message>],
        stays: &Message,
    ) {
        let truncation = Truncation { options: &self.options, context };
        let end = messages.iter().position(|message| message.id == stays.id).unwrap_or_default();
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        for message in &mut messages[..end] {
            if !truncation.is_long(message) {
                continue;
            }
            match cached.get(&message.id) {
                Some(known) if Arc::ptr_eq(&known.before, message) => *message = Arc::clone(&known.after),
                _ => {
                    let after = truncation.truncated(message).unwrap_or_else(|| Arc::clone(message));
                    if cached.len() >= MAX_CACHED {
                        cached.clear();
                    }
                    let before = std::mem::replace(message, Arc::clone(&after));
                    cached.insert(before.id.clone(), CachedMessage { before, after });
                }
            }
        }
    }
}
