//! Answers of chat completions.

use prowess_agent::Usage;
use prowess_agent::model::{Finish, ModelErrorKind};

use crate::server::{Reply, Server};
use crate::support::{answer, failure, heard, hello, openai, shown};

/// The answer to events of these data.
async fn answer_to(data: &[&str]) -> prowess_agent::model::ModelResponse {
    let body: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    let server = Server::start([Reply::events(body)]).await;
    answer(&openai(&server), hello()).await
}

#[tokio::test]
async fn text_with_usage() {
    let server = Server::start([Reply::events(include_str!("recorded/openai_text.sse"))]).await;
    insta::assert_snapshot!(shown(&answer(&openai(&server), hello()).await), @r#"
    says Grüße, 世界 👩‍🔬! It is done.
    Usage { input: 120, output: 9, cache_read: 64, cache_written: 0 }
    Some(Stop)
    "#);
    let sent = &server.sent()[0];
    assert!(sent.head.starts_with("post /v1/chat/completions http/1.1"), "{}", sent.head);
    assert!(sent.head.contains("authorization: bearer sk-0123456789-secret"), "{}", sent.head);
}

#[tokio::test]
async fn thoughts_and_calls_in_fragments() {
    let stream = include_str!("recorded/openai_tools.sse");
    let server = Server::start([Reply::events(stream).in_pieces_of(1)]).await;
    insta::assert_snapshot!(shown(&answer(&openai(&server), hello()).await), @r#"
    thinks I should look – first. None
    says Let me look.
    calls call_a load_skill {"skill_name": "naïve-té"}
    calls call_b ls {"path": "/"}
    Usage { input: 300, output: 41, cache_read: 0, cache_written: 0 }
    Some(Stop)
    "#);
}

#[tokio::test]
async fn why_it_ends() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Refused),
        ("something_new", Finish::Stop),
    ] {
        let end = format!(r#"{{"choices": [{{"delta": {{"content": "x"}}, "finish_reason": "{reason}"}}]}}"#);
        let answer = answer_to(&[&end, "[DONE]"]).await;
        assert_eq!(answer.finish, Some(finish), "{reason}");
        assert_eq!(answer.usage, Usage::default(), "no usage is no error");
    }
}

#[tokio::test]
async fn a_refusal_is_one() {
    let refusal = r#"{"choices": [{"delta": {"refusal": "I will not."}}]}"#;
    let end = r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#;
    let answer = answer_to(&[refusal, end, "[DONE]"]).await;
    assert_eq!((answer.message.text().as_str(), answer.finish), ("I will not.", Some(Finish::Refused)));
}

#[tokio::test]
async fn chunks_with_nothing_in_them() {
    let answer = answer_to(&[
        r#"{"choices": []}"#,
        r#"{"prompt_filter_results": []}"#,
        "",
        r#"{"choices": [{"index": 1, "delta": {"content": "another choice"}}]}"#,
        r#"{"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "in parts"}]}}]}"#,
        "[DONE]",
    ])
    .await;
    assert_eq!((answer.message.text().as_str(), answer.finish), ("in parts", Some(Finish::Stop)));
}

#[tokio::test]
async fn an_end_without_the_last_event_counts() {
    let answer =
        answer_to(&[r#"{"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}"#]).await;
    assert_eq!(answer.finish, Some(Finish::Stop));
}

#[tokio::test]
async fn an_end_without_a_reason_does_not() {
    let server =
        Server::start([Reply::events("data: {\"choices\": [{\"delta\": {\"content\": \"some\"}}]}\n\n")])
            .await;
    let (deltas, error) = heard(&openai(&server), hello()).await;
    assert_eq!((deltas.len(), error.unwrap().kind), (1, ModelErrorKind::Unreachable));
    assert_eq!(server.asked(), 1, "what has begun is not begun again");
}

#[tokio::test]
async fn an_error_in_the_middle() {
    let body = "data: {\"choices\": [{\"delta\": {\"content\": \"some\"}}]}\n\n\
                data: {\"error\": {\"code\": 429, \"message\": \"slow down\"}}\n\n";
    let server = Server::start([Reply::events(body)]).await;
    let (deltas, error) = heard(&openai(&server), hello()).await;
    let error = error.unwrap();
    assert_eq!((deltas.len(), error.kind), (1, ModelErrorKind::RateLimited));
    assert_eq!(error.to_string(), "openai:gpt-test: too many requests: slow down");
}

#[tokio::test]
async fn errors_of_other_forms() {
    for body in [
        "data: {\"object\": \"error\", \"message\": \"prompt is too long\", \"code\": 400}\n\n",
        "event: error\ndata: {\"message\": \"prompt is too long\"}\n\n",
        "data: {\"error\": \"prompt is too long\"}\n\n",
    ] {
        let server = Server::start([Reply::events(body)]).await;
        assert_eq!(failure(&openai(&server)).await.kind, ModelErrorKind::ContextTooLong, "{body}");
    }
}

#[tokio::test]
async fn data_that_is_no_json() {
    let garbage = || Reply::events("data: {\"choices\": [\n\n");
    let server = Server::start([garbage(), garbage(), garbage()]).await;
    let error = failure(&openai(&server)).await;
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert_eq!(server.asked(), 3);
}
