//! Models that ask the fake server, and what they answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use prowess_agent::message::{AssistantPart, Reasoning};
use prowess_agent::model::{ModelResponse, ResponseAssembly, ToolDefinition};
use prowess_agent::{Message, Model, ModelDelta, ModelError, ModelRequest, ToolCall, ToolResult};
use prowess_models::{Anthropic, Http, HttpOptions, OpenAi, Proxies};
use serde_json::json;

use crate::server::Server;

pub(crate) const KEY: &str = "sk-0123456789-secret";

/// Hasty, so that tests are.
pub(crate) fn options() -> HttpOptions {
    let mut options = HttpOptions::default();
    options.retries = 2;
    options.first_wait = Duration::from_millis(1);
    options.longest_wait = Duration::from_secs(2);
    options.proxies = Proxies::Ignored;
    options
}

pub(crate) fn openai_with(server: &Server, options: HttpOptions) -> OpenAi {
    let url = format!("{}/v1", server.url());
    let http = Http::new(options).unwrap();
    OpenAi::builder("gpt-test").base_url(url).key(KEY.into()).http(http).build().unwrap()
}

pub(crate) fn openai(server: &Server) -> OpenAi {
    openai_with(server, options())
}

pub(crate) fn anthropic(server: &Server) -> Anthropic {
    let http = Http::new(options()).unwrap();
    Anthropic::builder("claude-test").base_url(server.url()).key(KEY.into()).http(http).build().unwrap()
}

pub(crate) fn hello() -> ModelRequest {
    ModelRequest::new([Message::user("Hello")])
}

/// Everything that comes, and the error that ends it.
pub(crate) async fn heard(model: &dyn Model, request: ModelRequest) -> (Vec<ModelDelta>, Option<ModelError>) {
    let mut stream = match model.call(request).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => deltas.push(delta),
            Err(error) => return (deltas, Some(error)),
        }
    }
    (deltas, None)
}

/// A whole answer.
pub(crate) async fn answer(model: &dyn Model, request: ModelRequest) -> ModelResponse {
    let (deltas, error) = heard(model, request).await;
    assert_eq!(error, None);
    let mut assembly = ResponseAssembly::new("test");
    deltas.into_iter().for_each(|delta| assembly.push(delta));
    assembly.finish()
}

/// The error of a model that says nothing.
pub(crate) async fn failure(model: &dyn Model) -> ModelError {
    let (deltas, error) = heard(model, hello()).await;
    assert_eq!(deltas, []);
    error.expect("an error")
}

/// The parts of a message, in one line each.
pub(crate) fn shown(assembled: &ModelResponse) -> String {
    let prowess_agent::message::Content::Assistant { parts } = &assembled.message.content else {
        panic!("{assembled:?}");
    };
    let parts = parts.iter().map(|part| match part {
        AssistantPart::Text { text } => format!("says {text}"),
        AssistantPart::Reasoning(Reasoning { redacted: Some(data), .. }) => format!("hides {data}"),
        AssistantPart::Reasoning(thought) => format!("thinks {} {:?}", thought.text, thought.signature),
        AssistantPart::ToolCall(call) => format!("calls {} {} {}", call.id, call.name, call.arguments),
        other => panic!("{other:?}"),
    });
    let parts: Vec<String> = parts.collect();
    format!("{}\n{:?}\n{:?}", parts.join("\n"), assembled.usage, assembled.finish)
}

pub(crate) fn text(text: &str) -> AssistantPart {
    AssistantPart::Text { text: text.to_owned() }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall {
        id: id.into(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

pub(crate) fn result(id: &str, name: &str, text: &str) -> Message {
    Message::tool(ToolResult {
        call: id.into(),
        name: name.to_owned(),
        text: text.to_owned(),
        is_error: false,
    })
}

pub(crate) fn tool(name: &str) -> Arc<ToolDefinition> {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    ToolDefinition::new(name, format!("Does {name}."), parameters).into()
}
