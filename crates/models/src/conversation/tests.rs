//! Conversations of all kinds, as providers get them.

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
    assert_eq!(in_one_line(said), "U(go) A(call_0()) U(call_0=1) A(call_0_2()) U(call_0_2=2, [ls] again)");
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
