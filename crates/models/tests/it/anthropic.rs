//! Answers of Messages.

use prowess_agent::ModelDelta;
use prowess_agent::model::{Finish, ModelErrorKind};

use crate::server::{Reply, Server};
use crate::support::{answer, anthropic, failure, heard, hello, shown};

const START: &str = "event: message_start\n\
     data: {\"type\": \"message_start\", \"message\": {\"usage\": {\"input_tokens\": 5, \"output_tokens\": 1}}}\n\n";
const TEXT: &str = "event: content_block_delta\n\
     data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"so\"}}\n\n";
const OVERLOADED: &str = "event: error\n\
     data: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n";

#[tokio::test]
async fn text_with_usage() {
    let server = Server::start([Reply::events(include_str!("recorded/anthropic_text.sse"))]).await;
    insta::assert_snapshot!(shown(&answer(&anthropic(&server), hello()).await), @r#"
    says Grüße, 世界 👩‍🔬! It is done.
    Usage { input: 3120, output: 12, cache_read: 3000, cache_written: 100 }
    Some(Stop)
    "#);
    let sent = &server.sent()[0];
    assert!(sent.head.starts_with("post /v1/messages http/1.1"), "{}", sent.head);
    for header in ["x-api-key: sk-0123456789-secret", "anthropic-version: 2023-06-01"] {
        assert!(sent.head.contains(header), "{}", sent.head);
    }
}

#[tokio::test]
async fn thoughts_and_calls_in_fragments() {
    let stream = include_str!("recorded/anthropic_tools.sse");
    let server = Server::start([Reply::events(stream).in_pieces_of(1)]).await;
    insta::assert_snapshot!(shown(&answer(&anthropic(&server), hello()).await), @r#"
    thinks I should look – first. Some("EqQBCgIYAhIM1g==")
    hides EmwKAhgBEgy3va3p
    says Let me look.
    calls toolu_a load_skill {"skill_name": "naïve-té"}
    calls toolu_b ls {"path": "/"}
    Usage { input: 472, output: 89, cache_read: 0, cache_written: 0 }
    Some(Stop)
    "#);
}

#[tokio::test]
async fn why_it_ends() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("tool_use", Finish::Stop),
        ("pause_turn", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::Refused),
    ] {
        let end = format!(
            "event: message_delta\ndata: {{\"type\": \"message_delta\", \"delta\": {{\"stop_reason\": \"{reason}\"}}}}\n\n"
        );
        let server = Server::start([Reply::events([START, TEXT, &end, STOP].concat())]).await;
        assert_eq!(answer(&anthropic(&server), hello()).await.finish, Some(finish), "{reason}");
    }
}

#[tokio::test]
async fn an_error_before_anything_is_said_is_tried_again() {
    let failed = Reply::events([START, OVERLOADED].concat());
    let server = Server::start([failed, Reply::events([START, TEXT, STOP].concat())]).await;
    assert_eq!(answer(&anthropic(&server), hello()).await.message.text(), "so");
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn an_error_in_the_middle_is_told() {
    let server = Server::start([Reply::events([START, TEXT, OVERLOADED].concat())]).await;
    let (deltas, error) = heard(&anthropic(&server), hello()).await;
    assert!(matches!(deltas.last(), Some(ModelDelta::Text(text)) if text == "so"), "{deltas:?}");
    assert_eq!(error.unwrap().to_string(), "anthropic:claude-test: overloaded: Overloaded");
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn an_error_of_an_unknown_form() {
    let odd = || Reply::events("event: error\ndata: {\"type\": \"error\"}\n\n");
    let server = Server::start([odd(), odd(), odd()]).await;
    assert_eq!(failure(&anthropic(&server)).await.kind, ModelErrorKind::Overloaded);
}

#[tokio::test]
async fn tools_of_the_provider_are_not_ours() {
    let own = "data: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": \
               {\"type\": \"server_tool_use\", \"id\": \"s\", \"name\": \"web_search\"}}\n\n\
               data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": \
               {\"type\": \"input_json_delta\", \"partial_json\": \"{}\"}}\n\n";
    let server = Server::start([Reply::events([START, own, TEXT, STOP].concat())]).await;
    let answer = answer(&anthropic(&server), hello()).await;
    assert_eq!((answer.message.tool_calls().count(), answer.message.text().as_str()), (0, "so"));
}

#[tokio::test]
async fn arguments_that_come_all_at_once() {
    let call = "data: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": \
                {\"type\": \"tool_use\", \"id\": \"t\", \"name\": \"ls\", \"input\": {\"path\": \"/\"}}}\n\n";
    let server = Server::start([Reply::events([START, call, STOP].concat())]).await;
    let answer = answer(&anthropic(&server), hello()).await;
    assert_eq!(answer.message.tool_calls().next().unwrap().arguments, "{\"path\":\"/\"}");
}
