//! Numbers for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use prowess_store::DatabaseError;

use crate::app::App;

/// How long the numbers of the queue may take.
const NUMBERS: Duration = Duration::from_secs(5);

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
    /// Threads that workers of this process claimed, and those of them whose worker before had vanished.
    pub(crate) claims: AtomicU64,
    pub(crate) takeovers: AtomicU64,
    /// Threads that became dead letters in this process.
    pub(crate) dead_letters: AtomicU64,
    /// Threads that other workers took over from this process.
    pub(crate) leases_lost: AtomicU64,
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
    let total = |counter: &AtomicU64| one(get(counter));
    let (claims, takeovers) = (total(&metrics.claims), total(&metrics.takeovers));
    family("prowess_queue_claims_total", "counter", "Threads that this process claimed.", &claims);
    let help = "Claimed threads whose worker before had vanished.";
    family("prowess_queue_takeovers_total", "counter", help, &takeovers);
    let help = "Threads that became dead letters in this process.";
    family("prowess_queue_dead_letters_total", "counter", help, &total(&metrics.dead_letters));
    let help = "Threads that other workers took over from this process.";
    family("prowess_leases_lost_total", "counter", help, &total(&metrics.leases_lost));
    // A database that does not answer has no queue to count.
    if let Ok(Ok(queue)) = tokio::time::timeout(NUMBERS, app.queue.numbers(crate::worker::limits(&app))).await
    {
        let state = |state: &str, count| (format!("{{state=\"{state}\"}}"), count);
        let states = [
            state("queued", queue.queued),
            state("working", queue.working),
            state("waiting", queue.waiting),
            state("dead", queue.dead),
        ];
        family("prowess_queue_threads", "gauge", "Threads in the queue, of all processes.", &states);
        let help = "For how long the first thread that can be claimed has waited.";
        family("prowess_queue_age_seconds", "gauge", help, &one(queue.age.as_secs()));
    }
    let database = app.database_counters();
    let help = "Statements that were sent to the database.";
    family("prowess_database_statements_total", "counter", help, &one(database.statements));
    let help = "How often this process waited for the database.";
    family("prowess_database_round_trips_total", "counter", help, &one(database.round_trips));
    family("prowess_database_errors_total", "counter", "Errors of the database.", &one(database.errors));
    let connections = [
        ("{state=\"idle\"}".to_owned(), database.connections_idle),
        ("{state=\"busy\"}".to_owned(), database.connections_busy),
    ];
    family("prowess_database_connections", "gauge", "Connections to the database.", &connections);
    let help = "Callers that wait for a connection to the database.";
    family("prowess_database_waiting", "gauge", help, &one(database.waiting));
    let hears = u64::from(app.relay.hears());
    family("prowess_signals_heard", "gauge", "Whether signals of other processes arrive.", &one(hears));
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
