//! A server that others wrote, which speaks both wire formats: aimock.
//!
//! `make models` installs it, starts it on this machine and runs these tests; `make test` does so, too.

use prowess_agent::model::{Finish, ModelErrorKind, PromptSection};
use prowess_agent::{Message, Model, ModelRequest};
use prowess_models::{Anthropic, Http, OpenAi};

use crate::support::{answer, call, failure, hello, options, result, shown, text, tool};

/// The address of the server, and the key that it wants.
const SERVER: &str = "PROWESS_TEST_AIMOCK";
const KEY: &str = "PROWESS_TEST_AIMOCK_KEY";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: these tests need the server that `make models` starts")
    })
}

/// The same model over both wire formats.
fn models_with(name: &str, key: &str) -> [Box<dyn Model>; 2] {
    let (url, http) = (variable(SERVER), Http::new(options()).unwrap());
    let openai = OpenAi::builder(name).base_url(format!("{url}/v1")).key(key.into()).http(http.clone());
    let anthropic = Anthropic::builder(name).base_url(url).key(key.into()).http(http);
    [Box::new(openai.build().unwrap()), Box::new(anthropic.build().unwrap())]
}

fn models(name: &str) -> [Box<dyn Model>; 2] {
    models_with(name, &variable(KEY))
}

fn with_tools(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    let mut request = ModelRequest::new(messages);
    request.system =
        vec![PromptSection { owner: "agent".to_owned(), text: "You help.".to_owned(), is_stable: true }];
    request.tools = vec![tool("ls"), tool("load_skill")];
    request
}

#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn both_formats_greet() {
    for model in models("greeter") {
        let answer = answer(&*model, hello()).await;
        assert_eq!(answer.message.text(), "Grüße, 世界! This is a mock.", "{}", model.name());
        assert_eq!(answer.finish, Some(Finish::Stop), "{}", model.name());
        assert_eq!((answer.usage.input, answer.usage.output), (12, 7), "{}", model.name());
    }
}

#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn thoughts_come_before_what_is_said() {
    for model in models("thinker") {
        let shown = shown(&answer(&*model, hello()).await);
        let (thought, said) = (shown.find("thinks Let me be kind."), shown.find("says Hello."));
        assert!(thought.is_some() && thought < said, "{}: {shown}", model.name());
    }
}

/// Calls come in fragments, and their results go back.
#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn calls_and_their_results() {
    for model in models("caller") {
        let asked = Message::user("What is in here?");
        let answer_with_calls = answer(&*model, with_tools([asked.clone()])).await;
        let message = answer_with_calls.message.clone();
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        let made: Vec<String> =
            calls.iter().map(|call| format!("{} {}", call.name, call.parsed().unwrap())).collect();
        let expected = [r#"load_skill {"skill_name":"naïve-té"}"#, r#"ls {"path":"/"}"#];
        assert_eq!(made, expected, "{}: {}", model.name(), shown(&answer_with_calls));
        assert_eq!(message.text(), "Let me look.", "{}", model.name());
        assert_ne!(calls[0].id, calls[1].id);

        let results = calls.iter().map(|call| result(call.id.as_str(), &call.name, "a.md"));
        let conversation: Vec<Message> = [asked, message.clone()].into_iter().chain(results).collect();
        let last = answer(&*model, with_tools(conversation)).await;
        assert_eq!(last.message.text(), "There is one file.", "{}", model.name());
    }
}

/// Also of a conversation that another provider began.
#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn a_conversation_from_elsewhere_goes_on() {
    let conversation = || {
        with_tools([
            Message::user("A summary."),
            Message::user("What is in here?"),
            Message::assistant(vec![text("Let me look."), call("functions.ls:0", "ls", "{\"path\": \"/\"}")]),
            result("functions.ls:0", "ls", "a.md"),
        ])
    };
    for model in models("caller") {
        let last = answer(&*model, conversation()).await;
        assert_eq!(last.message.text(), "There is one file.", "{}", model.name());
    }
}

#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn failures_have_their_kinds() {
    for (name, kind) in [
        ("busy", ModelErrorKind::RateLimited),
        ("too-long", ModelErrorKind::ContextTooLong),
        ("nobody", ModelErrorKind::NoSuchModel),
    ] {
        for model in models(name) {
            let error = failure(&*model).await;
            assert_eq!(error.kind, kind, "{error}");
            assert!(!error.to_string().contains(&variable(KEY)), "{error}");
        }
    }
}

#[tokio::test]
#[ignore = "needs the server that `make models` starts"]
async fn a_wrong_key_is_refused() {
    for model in models_with("greeter", "sk-of-someone-else") {
        let error = failure(&*model).await;
        assert_eq!(error.kind, ModelErrorKind::Auth, "{error}");
        assert!(!error.to_string().contains("sk-of-someone-else"), "{error}");
    }
}
