//! What goes wrong on the wire, the same for both providers.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use prowess_agent::model::ModelErrorKind;
use prowess_agent::{Model, ModelDelta};

use crate::server::{Reply, Server};
use crate::support::{KEY, answer, anthropic, failure, heard, hello, openai, openai_with, options};

const BEGUN: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"so\"}}]}\n\n";
const WHOLE: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"so\"}, \"finish_reason\": \"stop\"}]}\n\n\
                     data: [DONE]\n\n";

#[tokio::test]
async fn too_many_requests_and_then_an_answer() {
    let busy =
        Reply::with("429 Too Many Requests", "Retry-After: 1\r\n", "{\"error\": {\"message\": \"slow\"}}");
    let server = Server::start([busy, Reply::events(WHOLE)]).await;
    let begin = Instant::now();
    assert_eq!(answer(&openai(&server), hello()).await.message.text(), "so");
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_left_to_the_caller() {
    let busy = Reply::with("429 Too Many Requests", "Retry-After: 3600\r\n", "");
    let server = Server::start([busy]).await;
    let error = failure(&openai(&server)).await;
    assert_eq!(
        (error.kind, error.retry_after),
        (ModelErrorKind::RateLimited, Some(Duration::from_secs(3_600)))
    );
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn overload_passes_or_is_told() {
    let body =
        "{\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}";
    let busy = || Reply::error("529 Overloaded", body);
    let server = Server::start([busy(), busy(), busy()]).await;
    let error = failure(&anthropic(&server)).await;
    assert_eq!(error.to_string(), "anthropic:claude-test: overloaded: HTTP 529: Overloaded");
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn what_does_not_pass_is_asked_once() {
    for (status, kind) in [
        ("400 Bad Request", ModelErrorKind::Invalid),
        ("401 Unauthorized", ModelErrorKind::Auth),
        ("403 Forbidden", ModelErrorKind::Auth),
        ("413 Content Too Large", ModelErrorKind::ContextTooLong),
    ] {
        let server = Server::start([Reply::error(status, "{\"error\": {\"message\": \"no\"}}")]).await;
        assert_eq!(failure(&openai(&server)).await.kind, kind, "{status}");
        assert_eq!(server.asked(), 1);
    }
}

#[tokio::test]
async fn a_key_that_is_told_back_is_hidden() {
    let body = format!("{{\"error\": {{\"message\": \"Incorrect API key provided: {KEY}\"}}}}");
    let server = Server::start([Reply::error("401 Unauthorized", &body)]).await;
    let model = openai(&server);
    let error = failure(&model).await;
    assert_eq!(error.message, "HTTP 401: Incorrect API key provided: [secret]");
    assert!(!format!("{model:?} {error:?}").contains(KEY));
}

#[tokio::test]
async fn a_page_in_place_of_an_answer() {
    let page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body></body></html>";
    let gateway = || Reply::with("502 Bad Gateway", "Content-Type: text/html\r\n", page);
    let server = Server::start([gateway(), gateway(), gateway()]).await;
    let error = failure(&openai(&server)).await;
    assert_eq!(error.message, "HTTP 502: a web page, \"502 Bad Gateway\"");
    let login = Reply::with("200 OK", "Content-Type: text/html; charset=utf-8\r\n", page);
    let server = Server::start([login]).await;
    assert_eq!(failure(&openai(&server)).await.kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn an_error_with_a_good_status() {
    let body = "{\"error\": {\"message\": \"too long\", \"code\": \"context_length_exceeded\"}}";
    let server = Server::start([Reply::error("200 OK", body)]).await;
    assert_eq!(failure(&openai(&server)).await.kind, ModelErrorKind::ContextTooLong);
}

#[tokio::test]
async fn an_endless_error_is_cut() {
    let server = Server::start([
        Reply::with("400 Bad Request", "", vec![b'x'; 100 * 1024 * 1024]).in_pieces_of(65_536)
    ])
    .await;
    let error = failure(&openai(&server)).await;
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    assert!(error.message.len() < 10_000);
}

#[tokio::test]
async fn an_answer_that_is_too_long_ends() {
    let mut options = options();
    options.max_response_bytes = 10_000;
    let server = Server::start([Reply::events(BEGUN.repeat(1_000))]).await;
    let (deltas, error) = heard(&openai_with(&server, options), hello()).await;
    let error = error.unwrap();
    assert!(!deltas.is_empty());
    assert_eq!(error.message, "the response is longer than 10000 bytes");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends() {
    let line = [b"data: ".as_slice(), &vec![b'x'; 20 * 1024 * 1024]].concat();
    let server = Server::start([Reply::events(line)]).await;
    assert_eq!(failure(&openai(&server)).await.kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn a_connection_that_closes_before_anything_is_said() {
    let server = Server::start([Reply::events("").broken(), Reply::events(WHOLE)]).await;
    assert_eq!(answer(&openai(&server), hello()).await.message.text(), "so");
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn a_connection_that_closes_in_the_middle() {
    let server = Server::start([Reply::events(BEGUN).broken()]).await;
    let (deltas, error) = heard(&openai(&server), hello()).await;
    assert_eq!(deltas, [ModelDelta::Text("so".to_owned())]);
    assert_eq!(error.unwrap().kind, ModelErrorKind::Unreachable);
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn a_connection_that_closes_after_the_last_word() {
    let server = Server::start([Reply::events(WHOLE).broken()]).await;
    assert_eq!(answer(&openai(&server), hello()).await.message.text(), "so");
}

#[tokio::test]
async fn nobody_there() {
    let server = Server::start([]).await;
    let url = server.url().replace("127.0.0.1", "127.0.0.2");
    let model = prowess_models::OpenAi::builder("m").base_url(url);
    let model = model.http(prowess_models::Http::new(options()).unwrap()).build().unwrap();
    assert_eq!(failure(&model).await.kind, ModelErrorKind::Unreachable);
}

#[tokio::test]
async fn silence_ends() {
    let mut options = options();
    options.idle_timeout = Duration::from_secs(1);
    let server = Server::start([Reply::events(BEGUN).held()]).await;
    let (deltas, error) = heard(&openai_with(&server, options.clone()), hello()).await;
    assert_eq!((deltas.len(), error.unwrap().kind), (1, ModelErrorKind::TimedOut));
    server.client_gone().await;

    options.first_byte_timeout = Duration::from_millis(100);
    options.retries = 0;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let model = prowess_models::OpenAi::builder("m").base_url(url);
    let model = model.http(prowess_models::Http::new(options).unwrap()).build().unwrap();
    assert_eq!(failure(&model).await.kind, ModelErrorKind::TimedOut);
}

#[tokio::test]
async fn signs_of_life_are_no_answer() {
    let mut options = options();
    options.first_piece_timeout = Duration::from_millis(200);
    options.retries = 1;
    let server = Server::start([Reply::events("").pinging(), Reply::events("").pinging()]).await;
    let model = openai_with(&server, options.clone());
    let error = bounded(failure(&model)).await;
    assert_eq!(error.message, "the model did not begin to respond within 0.2 seconds");
    assert_eq!((error.kind, server.asked()), (ModelErrorKind::TimedOut, 2));

    options.response_timeout = Duration::from_millis(500);
    let server = Server::start([Reply::events(BEGUN).pinging()]).await;
    let model = openai_with(&server, options.clone());
    let (deltas, error) = bounded(heard(&model, hello())).await;
    let error = error.unwrap();
    assert_eq!((deltas.len(), error.kind), (1, ModelErrorKind::TimedOut));
    assert_eq!(error.message, "the response was not complete within 0.5 seconds");

    // Asking again takes no longer either.
    (options.retries, options.first_wait) = (1_000, Duration::from_millis(50));
    let server = Server::start([]).await;
    let error = bounded(failure(&openai_with(&server, options))).await;
    assert_eq!(error.message, "the response was not complete within 0.5 seconds");
}

async fn bounded<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it is waited for without end")
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    let server = Server::start([Reply::events(BEGUN).held()]).await;
    let mut stream = openai(&server).call(hello()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ModelDelta::Text("so".to_owned()));
    drop(stream);
    server.client_gone().await;
}

#[tokio::test]
async fn a_dropped_call_closes_the_connection() {
    let server = Server::start([Reply::events(": nothing yet\n\n").held()]).await;
    let model = anthropic(&server);
    let call = tokio::spawn(async move { model.call(hello()).await.is_ok() });
    while server.asked() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled(), "nothing was said");
    server.client_gone().await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::start([Reply::events(WHOLE)]).await;
    let location = format!("Location: {}/v1/chat/completions?token={KEY}\r\n", elsewhere.url());
    let server = Server::start([Reply::with("307 Temporary Redirect", &location, "")]).await;
    let error = failure(&openai(&server)).await;
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    assert!(error.message.contains("redirects to 127.0.0.1"), "{error}");
    assert_eq!(elsewhere.asked(), 0);
}
