//! A call that takes its time: told about, and stopped when the client wants no answer any more.

use std::pin::Pin;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often a client that wants to know hears that a call goes on.
const EVERY: Duration = Duration::from_secs(1);

/// Waits for `work`. Dropping it, when the client cancels the call or `stop` is cancelled, ends
/// whatever it runs.
///
/// # Errors
///
/// The call was cancelled, or the server ends.
pub(crate) async fn attended<T>(
    context: &RequestContext<RoleServer>,
    stop: &CancellationToken,
    what: &str,
    // On the heap, as each call that it is handed through would have a place for it.
    mut work: Pin<Box<impl Future<Output = T>>>,
) -> Result<T, ErrorData> {
    let token = context.meta.get_progress_token();
    let begun = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("The call was cancelled", None)),
            () = stop.cancelled() => return Err(ErrorData::internal_error("The server ends", None)),
            done = &mut work => return Ok(done),
            _ = ticks.tick(), if token.is_some() => {
                let Some(token) = token.clone() else { continue };
                let seconds = begun.elapsed().as_secs_f64();
                let progress = ProgressNotificationParam::new(token, seconds);
                let message = format!("{what}: {seconds:.0} s");
                // A client that is gone hears nothing.
                let _ = context.peer.notify_progress(progress.with_message(message)).await;
            }
        }
    }
}
