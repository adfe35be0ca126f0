//! A server that others wrote, which speaks both wire formats: the LiteLLM proxy.
//!
//! `make models` installs it, starts it on this machine and runs these tests.

use prowess_agent::{Finish, Message, Model, ModelErrorKind, ModelRequest, PromptSection};
use prowess_models::{Anthropic, Http, OpenAi};
use tokio::net::TcpListener;

use crate::server::{Reply, Server};
use crate::support::{answer, call, failure, hello, options, result, shown, text, tool};

/// The address of the proxy.
const PROXY: &str = "PROWESS_TEST_LITELLM";
/// The host and port where the proxy looks for a provider, which a test plays.
const UPSTREAM: &str = "PROWESS_TEST_LITELLM_UPSTREAM";
/// The key that the proxy is set up with.
const KEY: &str = "sk-prowess-test";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: these tests need a LiteLLM proxy that `make models` starts for them")
    })
}

/// The same model over both wire formats.
fn models(openai: &str, anthropic: &str) -> [Box<dyn Model>; 2] {
    let (url, http) = (variable(PROXY), Http::new(options()).unwrap());
    let openai = OpenAi::builder(openai).base_url(format!("{url}/v1")).key(KEY.into()).http(http.clone());
    let anthropic = Anthropic::builder(anthropic).base_url(url).key(KEY.into()).http(http);
    [Box::new(openai.build().unwrap()), Box::new(anthropic.build().unwrap())]
}

/// A conversation with everything that the proxy can translate.
fn conversation() -> ModelRequest {
    let mut request = ModelRequest::new([
        Message::user("A summary."),
        Message::user("What is in here?"),
        Message::assistant(vec![text("Let me look."), call("call_0", "ls", "{\"path\": \"/\"}")]),
        result("call_0", "ls", "a.md"),
    ]);
    request.system =
        vec![PromptSection { owner: "agent".to_owned(), text: "You help.".to_owned(), is_stable: true }];
    request.tools = vec![tool("ls"), tool("load_skill")];
    request
}

#[tokio::test]
#[ignore = "needs the proxy that `make models` starts"]
async fn both_formats_greet() {
    for model in models("greeter", "messages-greeter") {
        let answer = answer(&*model, conversation()).await;
        assert_eq!(answer.message.text(), "Grüße, 世界! This is a mock.", "{}", model.name());
        assert_eq!(answer.finish, Some(Finish::Stop), "{}", model.name());
        assert!(answer.usage.input > 0 && answer.usage.output > 0, "{}: {:?}", model.name(), answer.usage);
    }
}

#[tokio::test]
#[ignore = "needs the proxy that `make models` starts"]
async fn failures_have_their_kinds() {
    for (name, kind) in [
        ("busy", ModelErrorKind::RateLimited),
        ("too-long", ModelErrorKind::ContextTooLong),
        ("nobody", ModelErrorKind::Invalid),
    ] {
        for model in models(name, name) {
            let error = failure(&*model).await;
            assert_eq!(error.kind, kind, "{error}");
            assert!(!error.to_string().contains(KEY), "{error}");
        }
    }
}

/// The proxy asks a provider that this test plays, and translates what it says.
#[tokio::test]
#[ignore = "needs the proxy that `make models` starts"]
async fn calls_through_the_proxy() {
    let stream = include_str!("recorded/openai_tools.sse");
    let listener = TcpListener::bind(variable(UPSTREAM)).await.unwrap();
    let upstream = Server::on(listener, [Reply::events(stream), Reply::events(stream)]);
    for model in models("caller", "messages-caller") {
        let answer = answer(&*model, conversation()).await;
        let calls: Vec<String> = answer
            .message
            .tool_calls()
            .map(|call| format!("{} {}", call.name, call.parsed().unwrap()))
            .collect();
        let expected = [r#"load_skill {"skill_name":"naïve-té"}"#, r#"ls {"path":"/"}"#];
        assert_eq!(calls, expected, "{}: {}", model.name(), shown(&answer));
        assert_eq!(answer.message.text(), "Let me look.", "{}", model.name());
    }
    // What came through means the same, whichever way it took.
    for sent in upstream.sent() {
        let roles: Vec<&str> = sent.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"], "{}", sent.body);
        assert_eq!(sent.body["tools"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
#[ignore = "needs the proxy that `make models` starts"]
async fn a_wrong_key_is_refused() {
    let http = Http::new(options()).unwrap();
    let url = format!("{}/v1", variable(PROXY));
    let model = OpenAi::builder("greeter").base_url(url).key("sk-of-someone-else".into()).http(http);
    let Err(error) = model.build().unwrap().ask(hello()).await else { panic!("it was let in") };
    // The proxy has no database to look keys up in, and says so in place of 401.
    assert!(matches!(error.kind, ModelErrorKind::Auth | ModelErrorKind::Invalid), "{error}");
    assert!(!error.to_string().contains("sk-of-someone-else"), "{error}");
}
