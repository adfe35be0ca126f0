//! Repairs conversations from elsewhere: every call gets one answer, right after the message that made it.

use std::collections::{BTreeMap, VecDeque};

use crate::id::CallId;
use crate::message::{Content, Message, ToolCall, ToolResult};
use crate::model::name_calls;

/// The answer of a call that has none.
const LOST: &str = "Error: this call has no result, because it was cut off.";

/// Repairs a conversation.
///
/// Each call of a message gets its own id. A call without an answer gets one that says so. Answers follow their calls in
/// order. Answers without a call, and empty responses, are left out.
pub(super) fn repaired(messages: &[Message]) -> impl Iterator<Item = Message> {
    let mut repaired = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        match &message.content {
            Content::Tool(_) => {}
            Content::User { .. } => repaired.push(message.clone()),
            Content::Assistant { parts } if parts.is_empty() => {}
            Content::Assistant { .. } => {
                let mut response = message.clone();
                if let Content::Assistant { parts } = &mut response.content {
                    name_calls(parts);
                }
                let answers = answers(message, &response, &messages[index + 1..]);
                repaired.push(response);
                repaired.extend(answers);
            }
        }
    }
    repaired.into_iter()
}

/// The answers to the calls of a response, found in `rest` before the next response.
///
/// `written` is the response as it was. In `repaired`, each call has its own id. If several calls had the same id, each
/// gets the next answer to that id.
fn answers(written: &Message, repaired: &Message, rest: &[Message]) -> Vec<Message> {
    let next = rest.iter().position(|message| matches!(message.content, Content::Assistant { .. }));
    let mut given: BTreeMap<&CallId, VecDeque<(&Message, &ToolResult)>> = BTreeMap::new();
    for message in &rest[..next.unwrap_or(rest.len())] {
        if let Content::Tool(result) = &message.content {
            given.entry(&result.call).or_default().push_back((message, result));
        }
    }
    let result = |(number, (written, call)): (usize, (&ToolCall, &ToolCall))| {
        let id = call.id.clone();
        match given.get_mut(&written.id).and_then(VecDeque::pop_front) {
            Some((message, result)) => {
                let content = Content::Tool(ToolResult { call: id, ..result.clone() });
                Message { content, ..message.clone() }
            }
            None => {
                let (name, text) = (call.name.clone(), LOST.to_owned());
                let result = ToolResult { call: id, name, text, is_error: true };
                Message { id: repaired.result_id(number), ..Message::tool(result) }
            }
        }
    };
    written.tool_calls().zip(repaired.tool_calls()).enumerate().map(result).collect()
}
