//! Reports the progress of a call, and drops the call when the client cancels it.

use std::pin::Pin;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often a client that asked for progress hears that a call goes on.
const EVERY: Duration = Duration::from_secs(1);

/// Waits for `work`. Drops it, which ends its runs, when the client cancels the call or when `stop` is cancelled.
///
/// # Errors
///
/// The call was cancelled, or the server stops.
pub(crate) async fn report<T>(
    context: &RequestContext<RoleServer>,
    stop: &CancellationToken,
    what: &str,
    // On the heap: otherwise every future that it passes through would have room for it.
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
            () = stop.cancelled() => return Err(ErrorData::internal_error("The server is stopping", None)),
            done = &mut work => return Ok(done),
            _ = ticks.tick(), if token.is_some() => {
                let Some(token) = token.clone() else { continue };
                let seconds = begun.elapsed().as_secs_f64();
                let progress = ProgressNotificationParam::new(token, seconds);
                let message = format!("{what}: {seconds:.0} s");
                // The client may be gone.
                let _ = context.peer.notify_progress(progress.with_message(message)).await;
            }
        }
    }
}
