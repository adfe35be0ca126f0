//! Spans for the steps of a run.

use tracing::Instrument as _;
use tracing::Span;

/// Runs a step in its span, and marks the span if the step fails. The span must have an empty `otel.status_code`.
pub(crate) async fn step<T, E>(span: &Span, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let result = work.instrument(span.clone()).await;
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    result
}

/// A number for a span field.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
