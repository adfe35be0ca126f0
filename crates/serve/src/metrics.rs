//! Numbers for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use prowess_store::DatabaseError;

use crate::app::App;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests by the first digit of their status, from 1 to 5.
    requests: [AtomicU64; 5],
    /// Pieces of work on threads.
    pub(crate) worked: AtomicU64,
    /// Those that failed.
    pub(crate) failed: AtomicU64,
    /// Those in progress.
    pub(crate) working: AtomicU64,
}

/// Counts a request.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    app.metrics.requests[class].fetch_add(1, Ordering::Relaxed);
    response
}

/// The numbers, as text.
pub(crate) async fn text(State(app): State<Arc<App>>) -> Response {
    let metrics = &app.metrics;
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let requests: Vec<_> = (1..=5)
        .map(|class| (format!("{{status=\"{class}xx\"}}"), get(&metrics.requests[class - 1])))
        .collect();
    family("prowess_http_requests_total", "counter", "Requests, by status.", &requests);
    let one = |value: u64| [(String::new(), value)];
    family("prowess_work_total", "counter", "Pieces of work on threads.", &one(get(&metrics.worked)));
    family("prowess_work_failed_total", "counter", "Pieces of work that failed.", &one(get(&metrics.failed)));
    family("prowess_threads_working", "gauge", "Threads that are worked on.", &one(get(&metrics.working)));
    let streams = app.streams.total() as u64;
    family("prowess_event_streams", "gauge", "Open streams of events.", &one(streams));
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Whether the process lives.
pub(crate) async fn healthy() -> &'static str {
    "ok\n"
}

/// Whether the server can answer requests: the database answers, and the server does not stop.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    if *app.stop.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    match app.ping().await {
        Ok(()) => "ready\n".into_response(),
        Err(error @ DatabaseError::Replaced { .. }) => {
            tracing::error!(%error, "The database is gone");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the file of the database was removed or replaced: restart the server\n",
            )
                .into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "The database does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
        }
    }
}
