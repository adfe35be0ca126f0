//! A conversation as providers take it: speakers alternate, every call has a name of its own, nothing is empty.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use prowess_agent::{
    AssistantPart, Content, Media, ModelErrorKind, ModelLimits, ModelRequest, Reasoning, ToolCall,
    ToolResult, UserPart,
};
use serde_json::{Value, json};

use crate::http::Failure;

/// The longest name of a tool that every provider takes.
const MAX_TOOL_NAME: usize = 64;

/// What stands first when a conversation begins with what the model said.
const BEFORE: &str = "(What was said before is left out.)";

/// What one side says until the other does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn<'a> {
    /// Tools, then the person.
    User(Vec<UserBlock<'a>>),
    /// The model.
    Assistant(Vec<AssistantBlock<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserBlock<'a> {
    Result { id: String, result: &'a ToolResult },
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

/// What a provider wants of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Which thoughts it takes back.
    pub(crate) takes_back: fn(&Reasoning) -> bool,
    /// The name of a call as it may be.
    pub(crate) call_id: fn(&str) -> String,
}

/// The turns of a conversation.
pub(crate) fn turns(request: &ModelRequest, rules: Rules) -> Result<Vec<Turn<'_>>, Failure> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut names = CallNames::default();
    for message in &request.messages {
        match &message.content {
            Content::User { parts } => {
                let blocks = parts.iter().map(user_block).collect::<Result<Vec<_>, Failure>>()?;
                said_by_user(&mut turns, blocks.into_iter().flatten());
            }
            Content::Tool(result) => {
                let block = match names.of_result(result) {
                    Some(id) => UserBlock::Result { id, result },
                    // Providers take no result without its call.
                    None => UserBlock::Text(format!("[{}] {}", result.name, result.text).into()),
                };
                said_by_user(&mut turns, [block]);
            }
            Content::Assistant { parts } => {
                names.forget_calls();
                let mut blocks: Vec<_> =
                    parts.iter().filter_map(|part| assistant_block(part, rules, &mut names)).collect();
                // A thought that nothing follows on was cut off, and is not taken back.
                while matches!(blocks.last(), Some(AssistantBlock::Reasoning(_))) {
                    blocks.pop();
                }
                said_by_assistant(&mut turns, blocks);
            }
        }
    }
    if turns.is_empty() {
        return Err(Failure::new(ModelErrorKind::Invalid, "there is no message to answer"));
    }
    if let Some(Turn::Assistant(_)) = turns.first() {
        turns.insert(0, Turn::User(vec![UserBlock::Text(BEFORE.into())]));
    }
    Ok(turns)
}

fn said_by_user<'a>(turns: &mut Vec<Turn<'a>>, blocks: impl IntoIterator<Item = UserBlock<'a>>) {
    for block in blocks {
        if !matches!(turns.last(), Some(Turn::User(_))) {
            turns.push(Turn::User(Vec::new()));
        }
        let Some(Turn::User(said)) = turns.last_mut() else { continue };
        match block {
            // Results come right after their calls, before whatever else is said.
            UserBlock::Result { .. } => {
                let results =
                    said.iter().take_while(|block| matches!(block, UserBlock::Result { .. })).count();
                said.insert(results, block);
            }
            _ => said.push(block),
        }
    }
}

fn said_by_assistant<'a>(turns: &mut Vec<Turn<'a>>, blocks: Vec<AssistantBlock<'a>>) {
    match turns.last_mut() {
        _ if blocks.is_empty() => {}
        Some(Turn::Assistant(said)) => said.extend(blocks),
        _ => turns.push(Turn::Assistant(blocks)),
    }
}

fn user_block(part: &UserPart) -> Result<Option<UserBlock<'_>>, Failure> {
    Ok(match part {
        UserPart::Text { text } if text.trim().is_empty() => None,
        UserPart::Text { text } => Some(UserBlock::Text(text.as_str().into())),
        UserPart::Image(media) => Some(UserBlock::Image { url: address(media)? }),
        UserPart::File(media) if media.mime.starts_with("image/") => {
            Some(UserBlock::Image { url: address(media)? })
        }
        UserPart::File(media) => Some(UserBlock::Document { url: address(media)? }),
    })
}

/// Where a provider finds a picture or a document itself.
fn address(media: &Media) -> Result<&str, Failure> {
    let is_https = media.reference.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    if is_https {
        return Ok(&media.reference);
    }
    let shown: String = media.reference.chars().take(100).collect();
    let message = format!(
        "`{shown}` ({}) cannot be shown to the model: pictures and documents are sent as https:// addresses only",
        media.mime
    );
    Err(Failure::new(ModelErrorKind::Invalid, message))
}

fn assistant_block<'a>(
    part: &'a AssistantPart,
    rules: Rules,
    names: &mut CallNames<'a>,
) -> Option<AssistantBlock<'a>> {
    Some(match part {
        AssistantPart::Text { text } if text.trim().is_empty() => return None,
        AssistantPart::Text { text } => AssistantBlock::Text(text),
        AssistantPart::Reasoning(thought) if (rules.takes_back)(thought) => {
            AssistantBlock::Reasoning(thought)
        }
        AssistantPart::Reasoning(_) => return None,
        AssistantPart::ToolCall(call) => {
            let id = names.of_call(call, rules.call_id);
            AssistantBlock::Call { id, name: tool_name(&call.name), call }
        }
    })
}

/// Names of calls, each one of its own in the whole conversation.
#[derive(Default)]
struct CallNames<'a> {
    used: BTreeSet<String>,
    /// The names of the calls that the model made last.
    current: BTreeMap<&'a str, String>,
}

impl<'a> CallNames<'a> {
    fn forget_calls(&mut self) {
        self.current.clear();
    }

    fn of_call(&mut self, call: &'a ToolCall, clean: fn(&str) -> String) -> String {
        let wanted = clean(call.id.as_str());
        let mut id = wanted.clone();
        let mut number = 2;
        while id.is_empty() || !self.used.insert(id.clone()) {
            id = format!("{wanted}_{number}");
            number += 1;
        }
        self.current.insert(call.id.as_str(), id.clone());
        id
    }

    fn of_result(&mut self, result: &ToolResult) -> Option<String> {
        self.current.remove(result.call.as_str())
    }
}

/// A tool's name as every provider takes it, also one that the model made up.
fn tool_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().take(MAX_TOOL_NAME).map(allowed).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// The arguments of a call as an object, also of those that are none.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    call.parsed().unwrap_or_else(|_| json!({"invalid_arguments": call.arguments}))
}

/// The arguments of a call as the text of an object: as the model wrote them, if they are one.
pub(crate) fn arguments_text(call: &ToolCall) -> Cow<'_, str> {
    let is_object = call.arguments.trim_start().starts_with('{') && call.parsed().is_ok();
    if is_object { call.arguments.as_str().into() } else { arguments(call).to_string().into() }
}

/// The most that a model may say: what the request wants, within what the model can.
pub(crate) fn max_output(request: &ModelRequest, limits: ModelLimits) -> Option<u64> {
    request.max_output.into_iter().chain(limits.output).min()
}

/// A temperature as a number that reads as it was written: 0.7 is not 0.699999988.
pub(crate) fn decimal(temperature: f32) -> Option<f64> {
    temperature.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prowess_agent::Message;

    use super::*;

    const RULES: Rules = Rules { takes_back: |thought| thought.signature.is_some(), call_id: str::to_owned };

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

    /// The turns in one line: who says what.
    fn shown(messages: Vec<Message>) -> String {
        let request = ModelRequest::new(messages);
        let turns = turns(&request, RULES).unwrap();
        let shown = turns.iter().map(|turn| match turn {
            Turn::User(blocks) => {
                let blocks = blocks.iter().map(|block| match block {
                    UserBlock::Result { id, result } => format!("{id}={}", result.text),
                    UserBlock::Text(text) => text.to_string(),
                    UserBlock::Image { url } | UserBlock::Document { url } => (*url).to_owned(),
                });
                format!("U({})", blocks.collect::<Vec<_>>().join(", "))
            }
            Turn::Assistant(blocks) => {
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
        assert_eq!(shown(said), "U(summary, one) A(a(), b()) U(a=1, b=2, two, three)");
    }

    #[test]
    fn a_conversation_begins_with_the_person() {
        assert_eq!(shown(vec![Message::assistant(vec![text("hi")])]), format!("U({BEFORE}) A(hi)"));
        let empty = ModelRequest::new([Message::user(" ")]);
        assert_eq!(turns(&empty, RULES).unwrap_err().kind, ModelErrorKind::Invalid);
    }

    #[test]
    fn calls_have_names_of_their_own_in_the_whole_conversation() {
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call("call_0")]),
            result("call_0", "1"),
            Message::assistant(vec![call("call_0")]),
            result("call_0", "2"),
            result("call_0", "again"),
        ];
        assert_eq!(shown(said), "U(go) A(call_0()) U(call_0=1) A(call_0_2()) U(call_0_2=2, [ls] again)");
    }

    #[test]
    fn only_whole_thoughts_are_taken_back() {
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
        assert_eq!(shown(said), "U(go) A(~signed, so) U(on, and)");
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let id = || prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("a_b"), Just("")];
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
        /// Whatever a thread holds, providers get turns that alternate, with results right after their calls.
        #[test]
        fn every_conversation_is_one_that_providers_take(
            messages in proptest::collection::vec(any_message(), 0..12),
        ) {
            let request = ModelRequest::new(messages);
            let clean = Rules { call_id: |id| id.replace('.', "_"), ..RULES };
            let Ok(turns) = turns(&request, clean) else { return Ok(()) };
            let mut ids = BTreeSet::new();
            let mut waiting = BTreeSet::new();
            for (at, turn) in turns.iter().enumerate() {
                match turn {
                    Turn::User(blocks) => {
                        prop_assert!(at % 2 == 0 && !blocks.is_empty());
                        let is_result = |block: &UserBlock<'_>| matches!(block, UserBlock::Result { .. });
                        prop_assert!(blocks.is_sorted_by_key(|block| !is_result(block)));
                        for block in blocks {
                            if let UserBlock::Result { id, .. } = block {
                                prop_assert!(waiting.remove(id), "{id} answers nothing");
                            }
                        }
                    }
                    Turn::Assistant(blocks) => {
                        prop_assert!(at % 2 == 1 && !blocks.is_empty());
                        prop_assert!(!matches!(blocks.last(), Some(AssistantBlock::Reasoning(_))));
                        waiting.clear();
                        for block in blocks {
                            if let AssistantBlock::Call { id, .. } = block {
                                prop_assert!(!id.is_empty() && ids.insert(id.clone()), "{id} is there twice");
                                waiting.insert(id.clone());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn names_that_a_model_made_up_can_be_sent_back() {
        assert_eq!(tool_name("functions.ls:0"), "functions_ls_0");
        assert_eq!(tool_name(""), "unknown");
        assert_eq!(tool_name(&"ä".repeat(100)), "_".repeat(64));
    }

    #[test]
    fn arguments_are_objects_whatever_the_model_wrote() {
        let written = |arguments: &str| {
            let call = ToolCall { id: "a".into(), name: "ls".to_owned(), arguments: arguments.to_owned() };
            arguments_text(&call).into_owned()
        };
        assert_eq!(written("{\"b\": 1, \"a\": 2}"), "{\"b\": 1, \"a\": 2}");
        assert_eq!(written(""), "{}");
        assert_eq!(written("null"), "{}");
        assert_eq!(written("{oops"), "{\"invalid_arguments\":\"{oops\"}");
    }

    #[test]
    fn temperatures_stay_as_written() {
        assert_eq!(decimal(0.7), Some(0.7));
        assert_eq!(decimal(f32::NAN), None);
    }
}
