//! A conversation as providers take it: speakers alternate, every call has a name of its own, nothing is empty.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use prowess_agent::message::{AssistantPart, Content, Media, Reasoning, UserPart};
use prowess_agent::model::{ModelErrorKind, ModelLimits};
use prowess_agent::{ModelRequest, ToolCall, ToolResult};
use serde_json::{Value, json};

use crate::http::Failure;

/// The longest name of a tool that every provider takes.
const MAX_TOOL_NAME: usize = 64;

/// What stands first when a conversation begins with what the model said, and last when it ends with it.
const BEFORE: &str = "(What was said before is left out.)";
const AFTER: &str = "(Go on.)";

/// What a call is told that has no result: providers take none without one.
const NO_RESULT: &str = "(This call has no result.)";

/// How much is told of a reference that cannot be sent, in characters: enough for a path, and little of what is no
/// reference but the thing itself.
const MAX_REFERENCE: usize = 1_000;

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

/// What a provider wants of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Which thoughts it takes back.
    pub(crate) takes_back: fn(&Reasoning) -> bool,
    /// The name of a call as it may be.
    pub(crate) call_id: fn(&str) -> String,
    /// How long the name of a call may be, in characters.
    pub(crate) longest_call_id: usize,
    /// Whether it looks at documents, and not at pictures alone.
    pub(crate) takes_documents: bool,
}

/// The turns of a conversation.
pub(crate) fn turns(request: &ModelRequest, rules: Rules) -> Result<Vec<Turn<'_>>, Failure> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut names = CallNames::new(rules);
    for message in &request.messages {
        match &message.content {
            Content::User { parts } => {
                said_by_user(&mut turns, parts.iter().filter_map(|part| user_block(part, rules)));
            }
            Content::Tool(result) => {
                let block = match names.of_result(result) {
                    Some(id) => UserBlock::Result { id, text: &result.text, is_error: result.is_error },
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
    answer_calls(&mut turns);
    if let Some(Turn::Assistant(_)) = turns.last() {
        turns.push(Turn::User(vec![UserBlock::Text(AFTER.into())]));
    }
    Ok(turns)
}

/// Puts the results of every turn's calls right after it, in their order.
fn answer_calls(turns: &mut Vec<Turn<'_>>) {
    if let Some(Turn::Assistant(said)) = turns.last()
        && said.iter().any(|block| matches!(block, AssistantBlock::Call { .. }))
    {
        turns.push(Turn::User(Vec::new()));
    }
    // Speakers alternate, so that each answers the one before.
    for at in 1..turns.len() {
        let (before, rest) = turns.split_at_mut(at);
        let (Some(Turn::Assistant(said)), Some(Turn::User(heard))) = (before.last(), rest.first_mut()) else {
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

fn said_by_user<'a>(turns: &mut Vec<Turn<'a>>, blocks: impl IntoIterator<Item = UserBlock<'a>>) {
    for block in blocks {
        if !matches!(turns.last(), Some(Turn::User(_))) {
            turns.push(Turn::User(Vec::new()));
        }
        let Some(Turn::User(said)) = turns.last_mut() else { continue };
        said.push(block);
    }
}

fn said_by_assistant<'a>(turns: &mut Vec<Turn<'a>>, blocks: Vec<AssistantBlock<'a>>) {
    match turns.last_mut() {
        _ if blocks.is_empty() => {}
        Some(Turn::Assistant(said)) => said.extend(blocks),
        _ => turns.push(Turn::Assistant(blocks)),
    }
}

fn user_block(part: &UserPart, rules: Rules) -> Option<UserBlock<'_>> {
    Some(match part {
        UserPart::Text { text } if text.trim().is_empty() => return None,
        UserPart::Text { text } => UserBlock::Text(text.as_str().into()),
        UserPart::Image(media) | UserPart::File(media) => {
            let is_picture = matches!(part, UserPart::Image(_)) || media.mime.starts_with("image/");
            match address(media) {
                Some(url) if is_picture => UserBlock::Image { url },
                Some(url) if rules.takes_documents => UserBlock::Document { url },
                _ => UserBlock::Text(named(media).into()),
            }
        }
    })
}

/// Where a provider finds a picture or a document itself.
fn address(media: &Media) -> Option<&str> {
    let start = media.reference.get(..8)?;
    start.eq_ignore_ascii_case("https://").then_some(&media.reference)
}

/// What stands for something that cannot be sent: its name, by which a tool may read it.
fn named(media: &Media) -> String {
    let mut shown: String = media.reference.chars().take(MAX_REFERENCE).collect();
    if shown.len() < media.reference.len() {
        shown.push('…');
    }
    format!("(Attached, and not shown here: `{shown}`, {}.)", media.mime)
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
            let id = names.of_call(call);
            AssistantBlock::Call { id, name: tool_name(&call.name), call }
        }
    })
}

/// Names of calls, each one of its own in the whole conversation.
struct CallNames<'a> {
    rules: Rules,
    used: BTreeSet<String>,
    /// The names of the calls that the model made last.
    current: BTreeMap<&'a str, String>,
}

impl<'a> CallNames<'a> {
    fn new(rules: Rules) -> Self {
        Self { rules, used: BTreeSet::new(), current: BTreeMap::new() }
    }

    fn forget_calls(&mut self) {
        self.current.clear();
    }

    fn of_call(&mut self, call: &'a ToolCall) -> String {
        let wanted = (self.rules.call_id)(call.id.as_str());
        let with_end = |end: &str| {
            let room = self.rules.longest_call_id.saturating_sub(end.len());
            wanted.chars().take(room).chain(end.chars()).collect::<String>()
        };
        let mut id = with_end("");
        let mut number = 2;
        while id.is_empty() || !self.used.insert(id.clone()) {
            id = with_end(&format!("_{number}"));
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

    const RULES: Rules = Rules {
        takes_back: |thought| thought.signature.is_some(),
        call_id: str::to_owned,
        longest_call_id: 40,
        takes_documents: false,
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

    /// The turns in one line: who says what.
    fn shown(messages: Vec<Message>) -> String {
        let request = ModelRequest::new(messages);
        let turns = turns(&request, RULES).unwrap();
        let shown = turns.iter().map(|turn| match turn {
            Turn::User(blocks) => {
                let blocks = blocks.iter().map(|block| match block {
                    UserBlock::Result { id, text, .. } => format!("{id}={text}"),
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
    fn a_conversation_begins_and_ends_with_the_person() {
        let hi = Message::assistant(vec![text("hi")]);
        assert_eq!(shown(vec![hi.clone()]), format!("U({BEFORE}) A(hi) U({AFTER})"));
        assert_eq!(shown(vec![Message::user("a"), hi, Message::user(" ")]), format!("U(a) A(hi) U({AFTER})"));
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
    fn every_call_has_its_result_in_order() {
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call("a"), call("b"), call("c")]),
            result("c", "3"),
            Message::user("and"),
            result("a", "1"),
        ];
        assert_eq!(shown(said), format!("U(go) A(a(), b(), c()) U(a=1, b={NO_RESULT}, c=3, and)"));
        let cut = vec![Message::user("go"), Message::assistant(vec![call("a")])];
        assert_eq!(shown(cut), format!("U(go) A(a()) U(a={NO_RESULT})"));
    }

    #[test]
    fn long_names_of_calls_are_cut_and_stay_apart() {
        let long = |end: &str| format!("{}{end}", "x".repeat(50));
        let said = vec![
            Message::user("go"),
            Message::assistant(vec![call(&long("a")), call(&long("b"))]),
            result(&long("b"), "2"),
            result(&long("a"), "1"),
        ];
        let (one, other) = ("x".repeat(40), format!("{}_2", "x".repeat(38)));
        assert_eq!(shown(said), format!("U(go) A({one}(), {other}()) U({one}=1, {other}=2)"));
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let media =
            |reference: &str, mime: &str| Media { reference: reference.to_owned(), mime: mime.to_owned() };
        let block = |part: UserPart, takes_documents| {
            let rules = Rules { takes_documents, ..RULES };
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
        /// Whatever a thread holds, providers get turns that alternate, with results right after their calls.
        #[test]
        fn every_conversation_is_one_that_providers_take(
            messages in proptest::collection::vec(any_message(), 0..12),
        ) {
            let request = ModelRequest::new(messages);
            let clean = Rules { call_id: |id| id.replace('.', "_"), ..RULES };
            let Ok(turns) = turns(&request, clean) else { return Ok(()) };
            let mut ids = BTreeSet::new();
            let mut waiting = Vec::new();
            prop_assert!(matches!(turns.last(), Some(Turn::User(_))), "the model speaks next");
            for (at, turn) in turns.iter().enumerate() {
                match turn {
                    Turn::User(blocks) => {
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
                    Turn::Assistant(blocks) => {
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
