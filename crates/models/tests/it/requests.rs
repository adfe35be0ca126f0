//! What is sent to providers.

use prowess_agent::message::{AssistantPart, Content, Media, Reasoning, UserPart};
use prowess_agent::model::{Effort, ModelLimits, PromptSection, ToolChoice};
use prowess_agent::{Message, Model, ModelRequest};
use prowess_models::{Anthropic, EffortField, Http, OpenAi, OutputLimitName, PromptCache, Thinking};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::support::{KEY, call, options, result, text, tool};

const OPENAI: &str =
    "data: {\"choices\": [{\"delta\": {\"content\": \"so\"}, \"finish_reason\": \"stop\"}]}\n\n";
const ANTHROPIC: &str = "data: {\"type\": \"message_stop\"}\n\n";

/// Everything that a thread can hold.
fn long_conversation() -> ModelRequest {
    let thought = |text: &str, signature: Option<&str>, redacted: Option<&str>| {
        AssistantPart::Reasoning(Reasoning {
            text: text.to_owned(),
            signature: signature.map(ToOwned::to_owned),
            redacted: redacted.map(ToOwned::to_owned),
        })
    };
    let mut failed = result("call_1", "ls", "Error: no such directory");
    if let Content::Tool(result) = &mut failed.content {
        result.is_error = true;
    }
    let mut with_media = Message::user("Compare these.");
    if let Content::User { parts } = &mut with_media.content {
        let media =
            |reference: &str, mime: &str| Media { reference: reference.to_owned(), mime: mime.to_owned() };
        parts.push(UserPart::Image(media("https://example.com/a.png", "image/png")));
        parts.push(UserPart::File(media("https://example.com/b.pdf", "application/pdf")));
    }
    let mut request = ModelRequest::new([
        Message::user("Here is a summary of what was said before."),
        Message::user("What is in here?"),
        Message::assistant(vec![
            thought("I should look.", Some("sig"), None),
            thought("", None, Some("hidden")),
            thought("unsigned", None, None),
            text("Let me look."),
            call("call_0", "ls", "{\"path\": \"/\"}"),
            call("call_1", "ls", "{oops"),
        ]),
        result("call_0", "ls", "a.md"),
        failed,
        Message::assistant(vec![thought("cut off", Some("sig"), None)]),
        with_media,
        Message::assistant(vec![call("call_0", "functions.cat", "")]),
        result("call_0", "functions.cat", ""),
    ]);
    let section = |owner: &str, text: &str, is_stable| PromptSection {
        owner: owner.to_owned(),
        text: text.to_owned(),
        is_stable,
    };
    request.system = vec![
        section("agent", "You help.", true),
        section("skills", "Skills: none.", true),
        section("memory", " ", true),
        section("todos", "To do: nothing.", false),
    ];
    request.tools = vec![tool("ls"), tool("cat")];
    request
}

async fn sent(model: &dyn Model, server: &Server, request: ModelRequest) -> Value {
    drop(model.call(request).await.unwrap());
    server.sent().pop().unwrap().body
}

async fn sent_to_openai(
    request: ModelRequest,
    set: impl FnOnce(prowess_models::OpenAiBuilder) -> prowess_models::OpenAiBuilder,
) -> Value {
    let server = Server::start([Reply::events(OPENAI)]).await;
    let model = OpenAi::builder("gpt-test").base_url(server.url()).http(Http::new(options()).unwrap());
    sent(&set(model).build().unwrap(), &server, request).await
}

async fn sent_to_anthropic(
    request: ModelRequest,
    set: impl FnOnce(prowess_models::AnthropicBuilder) -> prowess_models::AnthropicBuilder,
) -> Value {
    let server = Server::start([Reply::events(ANTHROPIC)]).await;
    let model = Anthropic::builder("claude-test").base_url(server.url()).http(Http::new(options()).unwrap());
    sent(&set(model).build().unwrap(), &server, request).await
}

/// A snapshot of JSON whose keys are in order, whatever order they were built in.
macro_rules! assert_sent {
    ($name:literal, $value:expr) => {
        let sent: Value = $value;
        insta::with_settings!({sort_maps => true, prepend_module_to_snapshot => false}, {
            insta::assert_json_snapshot!($name, sent);
        });
    };
}

#[tokio::test]
async fn a_long_conversation_to_openai() {
    assert_sent!("openai_long_conversation", sent_to_openai(long_conversation(), |model| model).await);
}

#[tokio::test]
async fn a_long_conversation_to_anthropic() {
    assert_sent!("anthropic_long_conversation", sent_to_anthropic(long_conversation(), |model| model).await);
}

fn with_settings() -> ModelRequest {
    let mut request = ModelRequest::new([Message::user("Go")]);
    request.tools = vec![tool("ls")];
    request.tool_choice = ToolChoice::Named("ls".to_owned());
    request.max_output = Some(500);
    request.temperature = Some(0.7);
    request.effort = Some(Effort::Max);
    request
}

#[tokio::test]
async fn settings_to_openai() {
    assert_sent!("openai_settings", sent_to_openai(with_settings(), |model| model).await);
    let other = sent_to_openai(with_settings(), |model| {
        model.output_limit_name(OutputLimitName::MaxTokens).effort_field(EffortField::Omitted)
    });
    let other = other.await;
    assert_eq!(other["max_tokens"], 500);
    let small = sent_to_openai(with_settings(), |model| model.limits(ModelLimits::new(1_000, 100))).await;
    assert_eq!(small["max_completion_tokens"], 100, "a model says no more than it can");
    assert_eq!((&other["max_completion_tokens"], &other["reasoning_effort"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn settings_to_anthropic() {
    assert_sent!("anthropic_settings", sent_to_anthropic(with_settings(), |model| model).await);
    let off = sent_to_anthropic(with_settings(), |model| model.cache(PromptCache::Off)).await;
    assert!(!off.to_string().contains("cache_control"));
    let hour = sent_to_anthropic(with_settings(), |model| model.cache(PromptCache::OneHour)).await;
    assert_eq!(hour["tools"][0]["cache_control"]["ttl"], "1h");
}

#[tokio::test]
async fn how_hard_to_think() {
    let thinking = |thinking, effort, choice: ToolChoice| async move {
        let mut request = with_settings();
        (request.effort, request.tool_choice, request.max_output) = (Some(effort), choice, None);
        let limits = ModelLimits::new(200_000, 20_000);
        let body = sent_to_anthropic(request, |model| model.thinking(thinking).limits(limits)).await;
        json!([body["thinking"], body["output_config"], body["temperature"]])
    };
    let adaptive = thinking(Thinking::Adaptive, Effort::Medium, ToolChoice::Auto).await;
    assert_eq!(adaptive, json!([{"type": "adaptive"}, {"effort": "medium"}, null]));
    let budget = thinking(Thinking::Budget, Effort::Max, ToolChoice::Auto).await;
    assert_eq!(budget, json!([{"type": "enabled", "budget_tokens": 10_000}, null, null]), "half of the room");
    let forced = thinking(Thinking::Budget, Effort::High, ToolChoice::Any).await;
    assert_eq!(forced, json!([null, null, 0.7]), "who must call a tool cannot think");
    let forced = thinking(Thinking::Adaptive, Effort::Low, ToolChoice::Any).await;
    assert_eq!(forced, json!([null, {"effort": "low"}, 0.7]));
    assert_eq!(thinking(Thinking::Off, Effort::High, ToolChoice::Auto).await, json!([null, null, 0.7]));
}

/// A loop of tools that began without a thought cannot go on with one.
#[tokio::test]
async fn thinking_does_not_begin_in_the_middle_of_a_loop() {
    let mut request = long_conversation();
    request.effort = Some(Effort::Low);
    let body = sent_to_anthropic(request, |model| model.thinking(Thinking::Budget)).await;
    assert_eq!(body["thinking"], Value::Null);
}

#[tokio::test]
async fn calls_of_former_tools_keep_their_tools() {
    let mut request = long_conversation();
    request.tools.clear();
    let body = sent_to_anthropic(request, |model| model).await;
    let names: Value = body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, json!(["functions_cat", "ls"]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let body = sent_to_anthropic(ModelRequest::new([Message::user("Go")]), |model| model).await;
    assert_eq!((&body["tools"], &body["tool_choice"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn never_more_than_four_marks() {
    let body = sent_to_anthropic(long_conversation(), |model| model).await;
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
}

#[tokio::test]
async fn headers_of_ones_own() {
    let server = Server::start([Reply::events(OPENAI)]).await;
    let model = OpenAi::builder("m")
        .base_url(format!("{}/deep/path/?version=7", server.url()))
        .key(KEY.into())
        .header("x-tenant", "blue")
        .http(Http::new(options()).unwrap())
        .build()
        .unwrap();
    sent(&model, &server, ModelRequest::new([Message::user("Go")])).await;
    let head = server.sent().pop().unwrap().head;
    assert!(head.starts_with("post /deep/path/chat/completions?version=7 "), "{head}");
    assert!(head.contains("x-tenant: blue"), "{head}");
}

#[tokio::test]
async fn long_names_of_calls_are_cut_for_openai() {
    let long = "call_of_another_provider_with_a_name_of_65_characters_or_even_more";
    let request = ModelRequest::new([
        Message::user("Go"),
        Message::assistant(vec![call(long, "ls", "{}")]),
        result(long, "ls", "a.md"),
    ]);
    let body = sent_to_openai(request.clone(), |model| model).await;
    let (made, answered) =
        (&body["messages"][1]["tool_calls"][0]["id"], &body["messages"][2]["tool_call_id"]);
    assert_eq!((made, answered), (&json!(long[..40]), &json!(long[..40])));
    let body = sent_to_anthropic(request, |model| model).await;
    assert_eq!(body["messages"][1]["content"][0]["id"], long);
}

/// What cannot be sent does not end a thread: it is named, so that a tool may read it.
#[tokio::test]
async fn pictures_are_sent_by_address_or_named() {
    for reference in
        ["/pictures/a.png", "http://example.com/a.png", "file:///etc/passwd", "data:image/png;base64,AA"]
    {
        let mut message = Message::user("See");
        if let Content::User { parts } = &mut message.content {
            let (reference, mime) = (reference.to_owned(), "image/png".to_owned());
            parts.push(UserPart::Image(Media { reference, mime }));
        }
        let request = ModelRequest::new([message]);
        let named = format!("(Attached, and not shown here: `{reference}`, image/png.)");
        let body = sent_to_openai(request.clone(), |model| model).await;
        assert_eq!(body["messages"][0]["content"], format!("See\n\n{named}"));
        let body = sent_to_anthropic(request, |model| model).await;
        assert_eq!(body["messages"][0]["content"][1]["text"], named);
    }
}
