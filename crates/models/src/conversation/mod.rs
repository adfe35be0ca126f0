//! A conversation as providers accept it: roles alternate, every call has its own id, and nothing is empty.

mod calls;
mod parameters;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use prowess_agent::message::{AssistantPart, Content, Media, Reasoning, UserPart};
use prowess_agent::model::ModelErrorKind;
use prowess_agent::{ModelRequest, ToolCall};

use self::calls::{CallIds, tool_name};
pub(crate) use self::calls::{arguments, arguments_text};
pub(crate) use self::parameters::{decimal, max_output};
use crate::http::Failure;

/// The user's message before a conversation that begins with a response.
const BEFORE: &str = "(Earlier messages are left out.)";
/// The user's message after a conversation that ends with a response.
const AFTER: &str = "(Continue.)";

/// The answer of a call that has none, because providers require one.
const NO_RESULT: &str = "(This call has no result.)";

/// The longest quote of a reference that cannot be sent, in characters: enough for a path, little of a `data:` URL.
const MAX_REFERENCE: usize = 1_000;

/// A message of one role: all that it says before the other role speaks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleMessage<'a> {
    /// Answers of tools, then the person's parts.
    User(Vec<UserBlock<'a>>),
    /// The model.
    Assistant(Vec<AssistantBlock<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserBlock<'a> {
    Result { id: String, text: &'a str, is_error: bool },
    Text(Cow<'a, str>),
    Image { url: &'a str },
    Document { url: &'a str },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AssistantBlock<'a> {
    Text(&'a str),
    Reasoning(&'a Reasoning),
    Call { id: String, name: String, call: &'a ToolCall },
}

/// What a provider requires of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct ProviderRules {
    /// Which reasoning it accepts back.
    pub(crate) accepts_reasoning: fn(&Reasoning) -> bool,
    /// Turns a call's id into one that it accepts.
    pub(crate) call_id: fn(&str) -> String,
    /// The longest id of a call, in characters.
    pub(crate) longest_call_id: usize,
    /// Whether it reads documents, and not only images.
    pub(crate) accepts_documents: bool,
}

/// The messages of a conversation, as a provider accepts them.
pub(crate) fn role_messages(
    request: &ModelRequest,
    rules: ProviderRules,
) -> Result<Vec<RoleMessage<'_>>, Failure> {
    let mut messages: Vec<RoleMessage<'_>> = Vec::new();
    let mut ids = CallIds::new(rules);
    for message in &request.messages {
        match &message.content {
            Content::User { parts } => {
                push_user(&mut messages, parts.iter().filter_map(|part| user_block(part, rules)));
            }
            Content::Tool(result) => {
                let block = match ids.of_answer(result) {
                    Some(id) => UserBlock::Result { id, text: &result.text, is_error: result.is_error },
                    // Providers accept no answer without its call.
                    None => UserBlock::Text(format!("[{}] {}", result.name, result.text).into()),
                };
                push_user(&mut messages, [block]);
            }
            Content::Assistant { parts } => {
                ids.forget_calls();
                let mut blocks: Vec<_> =
                    parts.iter().filter_map(|part| assistant_block(part, rules, &mut ids)).collect();
                // Reasoning at the end was cut off, and providers do not accept it.
                while matches!(blocks.last(), Some(AssistantBlock::Reasoning(_))) {
                    blocks.pop();
                }
                push_assistant(&mut messages, blocks);
            }
        }
    }
    if messages.is_empty() {
        return Err(Failure::new(ModelErrorKind::Invalid, "the conversation is empty"));
    }
    if let Some(RoleMessage::Assistant(_)) = messages.first() {
        messages.insert(0, RoleMessage::User(vec![UserBlock::Text(BEFORE.into())]));
    }
    answer_calls(&mut messages);
    if let Some(RoleMessage::Assistant(_)) = messages.last() {
        messages.push(RoleMessage::User(vec![UserBlock::Text(AFTER.into())]));
    }
    Ok(messages)
}

/// Puts the answers to all calls of a message right after it, in order.
fn answer_calls(messages: &mut Vec<RoleMessage<'_>>) {
    if let Some(RoleMessage::Assistant(said)) = messages.last()
        && said.iter().any(|block| matches!(block, AssistantBlock::Call { .. }))
    {
        messages.push(RoleMessage::User(Vec::new()));
    }
    // Roles alternate, so each user message follows the response that it answers.
    for at in 1..messages.len() {
        let (before, rest) = messages.split_at_mut(at);
        let (Some(RoleMessage::Assistant(said)), Some(RoleMessage::User(heard))) =
            (before.last(), rest.first_mut())
        else {
            continue;
        };
        let (mut results, mut others) = (BTreeMap::new(), Vec::new());
        for block in std::mem::take(heard) {
            match block {
                UserBlock::Result { id, text, is_error } => {
                    results.insert(id, (text, is_error));
                }
                other => others.push(other),
            }
        }
        for block in said {
            if let AssistantBlock::Call { id, .. } = block {
                let (text, is_error) = results.remove(id).unwrap_or((NO_RESULT, true));
                heard.push(UserBlock::Result { id: id.clone(), text, is_error });
            }
        }
        heard.append(&mut others);
    }
}

fn push_user<'a>(messages: &mut Vec<RoleMessage<'a>>, blocks: impl IntoIterator<Item = UserBlock<'a>>) {
    for block in blocks {
        if !matches!(messages.last(), Some(RoleMessage::User(_))) {
            messages.push(RoleMessage::User(Vec::new()));
        }
        let Some(RoleMessage::User(said)) = messages.last_mut() else { continue };
        said.push(block);
    }
}

fn push_assistant<'a>(messages: &mut Vec<RoleMessage<'a>>, blocks: Vec<AssistantBlock<'a>>) {
    match messages.last_mut() {
        _ if blocks.is_empty() => {}
        Some(RoleMessage::Assistant(said)) => said.extend(blocks),
        _ => messages.push(RoleMessage::Assistant(blocks)),
    }
}

fn user_block(part: &UserPart, rules: ProviderRules) -> Option<UserBlock<'_>> {
    Some(match part {
        UserPart::Text { text } if text.trim().is_empty() => return None,
        UserPart::Text { text } => UserBlock::Text(text.as_str().into()),
        UserPart::Image(media) | UserPart::File(media) => {
            let is_image = matches!(part, UserPart::Image(_)) || media.mime.starts_with("image/");
            match address(media) {
                Some(url) if is_image => UserBlock::Image { url },
                Some(url) if rules.accepts_documents => UserBlock::Document { url },
                _ => UserBlock::Text(placeholder(media).into()),
            }
        }
        _ => UserBlock::Text("[content that cannot be sent to this model]".into()),
    })
}

/// The address from which a provider can fetch an image or a document.
fn address(media: &Media) -> Option<&str> {
    let start = media.reference.get(..8)?;
    start.eq_ignore_ascii_case("https://").then_some(&media.reference)
}

/// A text in place of a file that cannot be sent: its reference, with which a tool can read it.
fn placeholder(media: &Media) -> String {
    let mut quote: String = media.reference.chars().take(MAX_REFERENCE).collect();
    if quote.len() < media.reference.len() {
        quote.push('…');
    }
    format!("(Attached, and not shown here: `{quote}`, {}.)", media.mime)
}

fn assistant_block<'a>(
    part: &'a AssistantPart,
    rules: ProviderRules,
    ids: &mut CallIds<'a>,
) -> Option<AssistantBlock<'a>> {
    Some(match part {
        AssistantPart::Text { text } if text.trim().is_empty() => return None,
        AssistantPart::Text { text } => AssistantBlock::Text(text),
        AssistantPart::Reasoning(thought) if (rules.accepts_reasoning)(thought) => {
            AssistantBlock::Reasoning(thought)
        }
        AssistantPart::Reasoning(_) => return None,
        AssistantPart::ToolCall(call) => {
            let id = ids.of_call(call);
            AssistantBlock::Call { id, name: tool_name(&call.name), call }
        }
        _ => return None,
    })
}
