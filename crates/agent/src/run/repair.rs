//! Repair of conversations from elsewhere: every call has one result, right after the answer that made it.

use std::collections::BTreeMap;

use crate::id::CallId;
use crate::message::{Content, Message, ToolResult};

/// What a call is answered whose result is not there.
const LOST: &str = "Error: this call has no result: it was cut off before one came.";

/// The same messages, mended: calls without a result get one that says so, results follow their calls in order, and
/// results that nobody asked for are left out, as are empty answers.
pub(super) fn repaired(messages: &[Message]) -> impl Iterator<Item = Message> {
    let mut mended = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        match &message.content {
            Content::Tool(_) => {}
            Content::User { .. } => mended.push(message.clone()),
            Content::Assistant { parts } if parts.is_empty() => {}
            Content::Assistant { .. } => {
                mended.push(message.clone());
                mended.extend(results(message, &messages[index + 1..]));
            }
        }
    }
    mended.into_iter()
}

/// The results of an answer's calls, among what follows until the next answer.
fn results(answer: &Message, rest: &[Message]) -> impl Iterator<Item = Message> {
    let next = rest.iter().position(|message| matches!(message.content, Content::Assistant { .. }));
    let mut given: BTreeMap<&CallId, &Message> = BTreeMap::new();
    for message in &rest[..next.unwrap_or(rest.len())] {
        if let Content::Tool(result) = &message.content {
            given.entry(&result.call).or_insert(message);
        }
    }
    let result = |(number, call): (usize, &crate::message::ToolCall)| match given.remove(&call.id) {
        Some(message) => message.clone(),
        None => {
            let result = ToolResult {
                call: call.id.clone(),
                name: call.name.clone(),
                text: LOST.to_owned(),
                is_error: true,
            };
            Message { id: answer.result_id(number), ..Message::tool(result) }
        }
    };
    let results: Vec<Message> = answer.tool_calls().enumerate().map(result).collect();
    results.into_iter()
}
