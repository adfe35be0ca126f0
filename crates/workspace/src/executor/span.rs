//! The span of a run, for all executors.

use tracing::field::{Empty, debug};

use super::ExecuteError;
use crate::command::Finished;
use crate::span::step;

/// Runs a command in its span. The span has no input or output, which could contain secrets.
pub(super) async fn spanned(
    run: impl Future<Output = Result<Finished, ExecuteError>>,
) -> Result<Finished, ExecuteError> {
    let span = tracing::info_span!(
        "workspace.run",
        level = Empty,
        exit = Empty,
        duration_ms = Empty,
        otel.status_code = Empty
    );
    let result = step(&span, run).await;
    if let Ok(finished) = &result {
        span.record("level", debug(finished.sandbox.level));
        span.record("exit", debug(finished.exit));
        span.record("duration_ms", i64::try_from(finished.duration.as_millis()).unwrap_or(i64::MAX));
    }
    result
}
