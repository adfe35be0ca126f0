//! Long arguments of old calls: what was written to a file need not be read again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::plan::{Keep, Trigger};
use crate::id::MessageId;
use crate::message::{AssistantPart, Content, Message, ToolCall};
use crate::middleware::MiddlewareContext;
use crate::tool::ToolKind;

/// How much of a long argument stays, in characters.
const HEAD: usize = 20;
/// How many shortened messages are held, so that none is read anew for every call of the model.
const MOST_HELD: usize = 1024;

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

/// Shortens calls of tools whose arguments have the text of files. What a tool did that is no longer there nobody knows, and
/// nobody could read its files again: its calls stay.
struct Shortening<'a> {
    options: &'a TruncateArguments,
    moment: MiddlewareContext<'a>,
}

impl Shortening<'_> {
    /// The message with its long arguments shortened, if it has any.
    fn shorter(&self, message: &Message) -> Option<Arc<Message>> {
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

    /// Whether a message may have something to shorten.
    fn is_long(&self, message: &Message) -> bool {
        message.tool_calls().any(|call| self.is_long_call(call))
    }

    fn is_long_call(&self, call: &ToolCall) -> bool {
        call.arguments.len() > self.options.max_length
            && self.moment.act(&call.name).is_some_and(ToolKind::holds_file_text)
    }

    fn shorter_call(&self, call: &ToolCall) -> Option<ToolCall> {
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

/// The messages of a thread that were shortened.
#[derive(Debug)]
pub(super) struct Shortened {
    pub(super) options: TruncateArguments,
    held: Mutex<HashMap<MessageId, Held>>,
}

/// A message that was shortened.
#[derive(Debug)]
struct Held {
    was: Arc<Message>,
    is: Arc<Message>,
}

impl Shortened {
    pub(super) fn new(options: TruncateArguments) -> Self {
        Self { options, held: Mutex::default() }
    }

    /// Shortens the arguments in all messages before the first that stays as it is.
    pub(super) fn shorten(
        &self,
        moment: MiddlewareContext<'_>,
        messages: &mut [Arc<Message>],
        stays: &Message,
    ) {
        let shortening = Shortening { options: &self.options, moment };
        let end = messages.iter().position(|message| message.id == stays.id).unwrap_or_default();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for message in &mut messages[..end] {
            if !shortening.is_long(message) {
                continue;
            }
            match held.get(&message.id) {
                Some(held) if Arc::ptr_eq(&held.was, message) => *message = Arc::clone(&held.is),
                _ => {
                    let is = shortening.shorter(message).unwrap_or_else(|| Arc::clone(message));
                    if held.len() >= MOST_HELD {
                        held.clear();
                    }
                    held.insert(message.id.clone(), Held { was: Arc::clone(message), is: Arc::clone(&is) });
                    *message = is;
                }
            }
        }
    }
}
