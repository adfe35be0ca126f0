//! Models that follow a script.

use std::time::{Duration, Instant};

use prowess_agent::model::{Finish, ModelErrorKind, PromptSection};
use prowess_agent::{Message, Model, ModelDelta, ModelRequest, Usage};
use prowess_models::{Scripted, ScriptedExpect, ScriptedFollow, ScriptedTurn};
use serde_json::json;

use crate::support::{answer, heard, hello, result, shown, text, tool};

const SCRIPT: &str = r#"
name = "scripted:greeting"
context = 1000
output = 100

[[turn]]
expect = { system = "Available Skills", tools = ["load_skill"], messages = 1 }
think = "There is a skill for this."
say = "Let me look."
calls = [
  { tool = "load_skill", arguments = { skill_name = "greet" } },
  { tool = "ls", raw = "{not json", id = "mine" },
]
piece = 3
usage = { input = 100, output = 20 }

[[turn]]
expect.last = "Hello"
say = "Hel"
error = { kind = "overloaded", message = "too much to do", retry_after_ms = 100 }

[[turn]]
say = "…"
finish = "length"
times = 2
"#;

fn request() -> ModelRequest {
    let mut request = hello();
    let text = "**Available Skills:**".to_owned();
    request.system = vec![PromptSection { owner: "skills".to_owned(), text, is_stable: true }];
    request.tools = vec![tool("load_skill")];
    request
}

#[tokio::test]
async fn a_script_in_a_file() {
    let model = Scripted::parse(SCRIPT).unwrap();
    assert_eq!(
        (model.name(), model.limits().context, model.remaining()),
        ("scripted:greeting", Some(1_000), 4)
    );
    insta::assert_snapshot!(shown(&answer(&model, request()).await), @r#"
    thinks There is a skill for this. None
    says Let me look.
    calls call_0 load_skill {"skill_name":"greet"}
    calls mine ls {not json
    Usage { input: 100, output: 20, cache_read: 0, cache_written: 0 }
    Some(Stop)
    "#);
    let (deltas, error) = heard(&model, request()).await;
    assert_eq!(deltas, [ModelDelta::Text("Hel".to_owned())]);
    assert_eq!(error.unwrap().retry_after, Some(Duration::from_millis(100)));
    for _ in 0..2 {
        assert_eq!(answer(&model, request()).await.finish, Some(Finish::Length));
    }
    assert_eq!(model.remaining(), 0);
    let error = heard(&model, request()).await.1.unwrap();
    insta::assert_snapshot!(error, @r#"scripted:greeting: the request is invalid: turn 5 was asked for, but the script has 4; the last message is "Hello""#);
}

#[tokio::test]
async fn what_is_not_as_expected_is_told() {
    let problem = |expect: ScriptedExpect| async move {
        let model = Scripted::new([ScriptedTurn::new().say("fine").expect(expect)]);
        heard(&model, request()).await.1.map(|error| {
            assert_eq!(error.kind, ModelErrorKind::Invalid);
            error.message
        })
    };
    let all = [
        problem(ScriptedExpect::new().system("Available").last("Hello").tool("load_skill").messages(1)).await,
        problem(ScriptedExpect::new().system("Unavailable")).await,
        problem(ScriptedExpect::new().not_in_system("Skills")).await,
        problem(ScriptedExpect::new().last("Goodbye")).await,
        problem(ScriptedExpect::new().not_in_last("Hell")).await,
        problem(ScriptedExpect::new().conversation("Goodbye")).await,
        problem(ScriptedExpect::new().not_in_conversation("Hello")).await,
        problem(ScriptedExpect::new().tool("ls")).await,
        problem(ScriptedExpect::new().not_in_tools("load_skill")).await,
        problem(ScriptedExpect::new().messages(2)).await,
    ];
    let all: Vec<String> = all.into_iter().map(|problem| problem.unwrap_or("fine".to_owned())).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    fine
    in turn 1 of the script: expected the system prompt to contain "Unavailable", but it is "**Available Skills:**"
    in turn 1 of the script: expected the system prompt not to contain "Skills", but it is "**Available Skills:**"
    in turn 1 of the script: expected the last message to contain "Goodbye", but it is "Hello"
    in turn 1 of the script: expected the last message not to contain "Hell", but it is "Hello"
    in turn 1 of the script: expected the conversation to contain "Goodbye", but it is "Hello"
    in turn 1 of the script: expected the conversation not to contain "Hello", but it is "Hello"
    in turn 1 of the script: expected the tool "ls", but there are ["load_skill"]
    in turn 1 of the script: expected no tool "load_skill", but there are ["load_skill"]
    in turn 1 of the script: expected 2 messages, but there are 1
    "#);
}

#[tokio::test]
async fn an_error_at_once_is_the_calls() {
    let model = Scripted::new([ScriptedTurn::new().fail(ModelErrorKind::Auth, "no key")]);
    assert_eq!(model.call(request()).await.err().unwrap().to_string(), "scripted: not authorised: no key");
}

#[tokio::test]
async fn a_resumed_thread_goes_on_where_it_was() {
    let turns = || {
        [ScriptedTurn::new().call("ls", json!({})), ScriptedTurn::new().say("two").usage(Usage::default())]
    };
    let conversation =
        [Message::user("go"), Message::assistant(vec![text("one")]), result("call_0", "ls", "a.md")];
    let model = Scripted::new(turns()).follow(ScriptedFollow::Responses);
    assert_eq!(answer(&model, ModelRequest::new(conversation)).await.message.text(), "two");
    assert_eq!(model.remaining(), 0);
}

#[tokio::test]
async fn slow_models_are_slow() {
    let turn = ScriptedTurn::new().say("abc").piece(1).delay(Duration::from_millis(20));
    let begin = Instant::now();
    assert_eq!(answer(&Scripted::new([turn]), hello()).await.message.text(), "abc");
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[test]
fn what_is_no_script_is_told() {
    let problem = |script: &str| Scripted::parse(script).unwrap_err().to_string();
    assert!(
        problem("[[turn]]\nsya = \"x\"").contains("unknown field `sya`"),
        "{}",
        problem("[[turn]]\nsya = \"x\"")
    );
    assert!(problem("[[turn]]\nerror = { kind = \"odd\" }").contains("unknown variant `odd`"));
    assert!(problem("").contains("missing field `turn`"));
}
