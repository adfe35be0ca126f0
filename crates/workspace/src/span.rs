//! Steps in their spans.

use tracing::Instrument as _;
use tracing::Span;

/// Takes a step in its span, which is marked if the step fails. Its field `otel.status_code` is empty before.
pub(crate) async fn step<T, E>(span: &Span, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let result = work.instrument(span.clone()).await;
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    result
}

/// A number as those who collect spans take it.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
