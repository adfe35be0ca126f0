//! Repair of conversations from elsewhere: every call has one result, right after the answer that made it.

use std::collections::{BTreeMap, VecDeque};

use crate::id::CallId;
use crate::message::{Content, Message, ToolCall, ToolResult};
use crate::model::name_calls;

/// What a call is answered whose result is not there.
const LOST: &str = "Error: this call has no result: it was cut off before one came.";

/// The same messages, mended: calls of one answer have names of their own, calls without a result get one that says so, results follow their calls in order, and
/// results that nobody asked for are left out, as are empty answers.
pub(super) fn repaired(messages: &[Message]) -> impl Iterator<Item = Message> {
    let mut mended = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        match &message.content {
            Content::Tool(_) => {}
            Content::User { .. } => mended.push(message.clone()),
            Content::Assistant { parts } if parts.is_empty() => {}
            Content::Assistant { .. } => {
                let mut answer = message.clone();
                if let Content::Assistant { parts } = &mut answer.content {
                    name_calls(parts);
                }
                let results = results(message, &answer, &messages[index + 1..]);
                mended.push(answer);
                mended.extend(results);
            }
        }
    }
    mended.into_iter()
}

/// The results of an answer's calls, among what follows until the next answer. `written` is the answer as it was, `answer`
/// with names of their own for its calls: of results to one name, each call has the next.
fn results(written: &Message, answer: &Message, rest: &[Message]) -> Vec<Message> {
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
                Message { id: answer.result_id(number), ..Message::tool(result) }
            }
        }
    };
    written.tool_calls().zip(answer.tool_calls()).enumerate().map(result).collect()
}
