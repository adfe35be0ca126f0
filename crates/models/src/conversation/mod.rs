//! A conversation as providers accept it: roles alternate, every call has its own id, and nothing is empty.

mod calls;
mod parameters;

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
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use prowess_agent::{Message, ToolResult};

    use super::*;

    const RULES: ProviderRules = ProviderRules {
        accepts_reasoning: |thought| thought.signature.is_some(),
        call_id: str::to_owned,
        longest_call_id: 40,
        accepts_documents: false,
    };

    fn call(id: &str) -> AssistantPart {
        AssistantPart::ToolCall(ToolCall { id: id.into(), name: "ls".to_owned(), arguments: "{}".to_owned() })
    }

    fn result(id: &str, text: &str) -> Message {
        Message::tool(ToolResult {
            call: id.into(),
            name: "ls".to_owned(),
            text: text.to_owned(),
            is_error: false,
        })
    }

    fn text(text: &str) -> AssistantPart {
        AssistantPart::Text { text: text.to_owned() }
    }

    /// The messages on one line: who says what.
    fn in_one_line(messages: Vec<Message>) -> String {
        let request = ModelRequest::new(messages);
        let messages = role_messages(&request, RULES).unwrap();
        let shown = messages.iter().map(|message| match message {
            RoleMessage::User(blocks) => {
                let blocks = blocks.iter().map(|block| match block {
                    UserBlock::Result { id, text, .. } => format!("{id}={text}"),
                    UserBlock::Text(text) => text.to_string(),
                    UserBlock::Image { url } | UserBlock::Document { url } => (*url).to_owned(),
                });
                format!("U({})", blocks.collect::<Vec<_>>().join(", "))
            }
            RoleMessage::Assistant(blocks) => {
                let blocks = blocks.iter().map(|block| match block {
                    AssistantBlock::Text(text) => (*text).to_owned(),
                    AssistantBlock::Reasoning(thought) => format!("~{}", thought.text),
                    AssistantBlock::Call { id, .. } => format!("{id}()"),
                });
                format!("A({})", blocks.collect::<Vec<_>>().join(", "))
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn speakers_alternate() {
        let said = vec![
            Message::user("summary"),
            Message::user("one"),
            Message::assistant(vec![call("a"), call("b")]),
            result("a", "1"),
            result("b", "2"),
            Message::user("two"),
            Message::assistant(vec![text("  ")]),
            Message::user("three"),
        ];
        assert_eq!(in_one_line(said), "U(summary, one) A(a(), b()) U(a=1, b=2, two, three)");
    }

    #[test]
    fn a_conversation_begins_and_ends_with_the_person() {
        let hi = Message::assistant(vec![text("hi")]);
        assert_eq!(in_one_line(vec![hi.clone()]), format!("U({BEFORE}) A(hi) U({AFTER})"));
        assert_eq!(
            in_one_line(vec![Message::user("a"), hi, Message::user(" ")]),
            format!("U(a) A(hi) U({AFTER})")
        );
        let empty = ModelRequest::new([Message::user(" ")]);
        assert_eq!(role_messages(&empty, RULES).unwrap_err().kind, ModelErrorKind::Invalid);
    }

    #[test]
    fn calls_have_unique_ids_in_the_whole_conversation() {
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call("call_0")]),
            result("call_0", "1"),
            Message::assistant(vec![call("call_0")]),
            result("call_0", "2"),
            result("call_0", "again"),
        ];
        assert_eq!(
            in_one_line(said),
            "U(go) A(call_0()) U(call_0=1) A(call_0_2()) U(call_0_2=2, [ls] again)"
        );
    }

    #[test]
    fn every_call_has_its_result_in_order() {
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call("a"), call("b"), call("c")]),
            result("c", "3"),
            Message::user("and"),
            result("a", "1"),
        ];
        assert_eq!(in_one_line(said), format!("U(go) A(a(), b(), c()) U(a=1, b={NO_RESULT}, c=3, and)"));
        let cut = vec![Message::user("go"), Message::assistant(vec![call("a")])];
        assert_eq!(in_one_line(cut), format!("U(go) A(a()) U(a={NO_RESULT})"));
    }

    #[test]
    fn long_ids_of_calls_are_cut_and_stay_unique() {
        let long = |end: &str| format!("{}{end}", "x".repeat(50));
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call(&long("a")), call(&long("b"))]),
            result(&long("b"), "2"),
            result(&long("a"), "1"),
        ];
        let (one, other) = ("x".repeat(40), format!("{}_2", "x".repeat(38)));
        assert_eq!(in_one_line(said), format!("U(go) A({one}(), {other}()) U({one}=1, {other}=2)"));
    }

    #[test]
    fn a_file_that_cannot_be_sent_is_named() {
        let media =
            |reference: &str, mime: &str| Media { reference: reference.to_owned(), mime: mime.to_owned() };
        let block = |part: UserPart, accepts_documents| {
            let rules = ProviderRules { accepts_documents, ..RULES };
            match user_block(&part, rules).unwrap() {
                UserBlock::Text(text) => text.into_owned(),
                other => format!("{other:?}"),
            }
        };
        let picture = UserPart::Image(media("/inbox/a.png", "image/png"));
        assert_eq!(block(picture, true), "(Attached, and not shown here: `/inbox/a.png`, image/png.)");
        let pdf = UserPart::File(media("https://a.test/a.pdf", "application/pdf"));
        assert_eq!(block(pdf.clone(), true), "Document { url: \"https://a.test/a.pdf\" }");
        assert!(block(pdf, false).contains("`https://a.test/a.pdf`, application/pdf"));
        let whole =
            UserPart::Image(media(&format!("data:image/png;base64,{}", "A".repeat(1 << 20)), "image/png"));
        assert!(block(whole, true).len() < 2_000);
    }

    #[test]
    fn only_complete_reasoning_is_sent_back() {
        let thought = |text: &str, signature: Option<&str>| {
            AssistantPart::Reasoning(Reasoning {
                text: text.to_owned(),
                signature: signature.map(ToOwned::to_owned),
                redacted: None,
            })
        };
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![
                thought("signed", Some("s")),
                thought("unsigned", None),
                text("so"),
                thought("cut", Some("s")),
            ]),
            Message::user("on"),
            Message::assistant(vec![thought("all", Some("s"))]),
            Message::user("and"),
        ];
        assert_eq!(in_one_line(said), "U(go) A(~signed, so) U(on, and)");
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let long = || Just("a-name-that-is-longer-than-any-provider-will-take-it");
        let id = move || prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("a_b"), Just(""), long()];
        let part = prop_oneof![
            Just(text("said")),
            Just(text(" ")),
            id().prop_map(call),
            any::<bool>().prop_map(|signed| {
                let signature = signed.then(|| "s".to_owned());
                AssistantPart::Reasoning(Reasoning { text: "hm".to_owned(), signature, redacted: None })
            }),
        ];
        prop_oneof![
            Just(Message::user("asked")),
            Just(Message::user("")),
            id().prop_map(|id| result(id, "done")),
            proptest::collection::vec(part, 0..4).prop_map(Message::assistant),
        ]
    }

    proptest! {
        /// Whatever a thread contains, providers get alternating roles, with answers right after their calls.
        #[test]
        fn every_conversation_is_one_that_providers_accept(
            messages in proptest::collection::vec(any_message(), 0..12),
        ) {
            let request = ModelRequest::new(messages);
            let clean = ProviderRules { call_id: |id| id.replace('.', "_"), ..RULES };
            let Ok(messages) = role_messages(&request, clean) else { return Ok(()) };
            let mut ids = BTreeSet::new();
            let mut waiting = Vec::new();
            prop_assert!(matches!(messages.last(), Some(RoleMessage::User(_))), "the model speaks next");
            for (at, message) in messages.iter().enumerate() {
                match message {
                    RoleMessage::User(blocks) => {
                        prop_assert!(at % 2 == 0 && !blocks.is_empty());
                        let is_result = |block: &UserBlock<'_>| matches!(block, UserBlock::Result { .. });
                        prop_assert!(blocks.is_sorted_by_key(|block| !is_result(block)));
                        let answered: Vec<String> = blocks
                            .iter()
                            .filter_map(|block| match block {
                                UserBlock::Result { id, .. } => Some(id.clone()),
                                _ => None,
                            })
                            .collect();
                        prop_assert_eq!(&answered, &waiting, "every call has its result, in order");
                        waiting.clear();
                    }
                    RoleMessage::Assistant(blocks) => {
                        prop_assert!(at % 2 == 1 && !blocks.is_empty());
                        prop_assert!(!matches!(blocks.last(), Some(AssistantBlock::Reasoning(_))));
                        for block in blocks {
                            if let AssistantBlock::Call { id, .. } = block {
                                prop_assert!(!id.is_empty() && ids.insert(id.clone()), "{id} is there twice");
                                prop_assert!(id.chars().count() <= RULES.longest_call_id, "{id} is too long");
                                waiting.push(id.clone());
                            }
                        }
                    }
                }
            }
        }
    }
}
