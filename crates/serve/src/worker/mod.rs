//! Workers: they claim threads with work, take in what was posted, and let the agent work until the thread rests.

mod meter;
mod summary;
mod work;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use prowess_agent::AgentError;
use prowess_agent::queue::{Claim, ClaimLimits, Failed, QueueError, WORKER_VANISHED};
use prowess_agent::thread::ThreadError;
use prowess_base::text::{cut, escape_unprintable};
use prowess_store::DatabaseError;
use prowess_store::serve::{AccountError, OwnedThreadError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use self::summary::title_of;
use self::work::Work;
use crate::agents::BoxError;
use crate::app::App;
use crate::live::{LiveThread, Piece};
use crate::queue::CANNOT_GO_ON;
use crate::replays::ReadError;

/// How often a worker looks for posts and queued threads if no signals of other processes arrive.
const LOOK: Duration = Duration::from_millis(500);
/// The same for queued threads if they arrive: delays and the claims of workers that vanished end without a signal.
const CALM_LOOK: Duration = Duration::from_secs(1);
/// How long a thread waits after its worker failed, times the number of attempts, up to a minute.
const RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How long a thread waits whose worker lost the database, times the number of attempts, up to some seconds.
const SOON: Duration = Duration::from_millis(500);
const LONGEST_SOON: Duration = Duration::from_secs(5);
/// The same if what a middleware needs is away, such as the object store. Each attempt waits twice as long as the one before, up to
/// this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long it may take to give threads back when the server stops.
const HAND_OVER: Duration = Duration::from_secs(3);

/// The most characters of a reason why an attempt failed.
const MAX_PROBLEM: usize = 500;

/// Works until the server stops. Then it lets its threads rest for a while.
pub(crate) async fn run(app: Arc<App>) {
    let room = Arc::new(Semaphore::new(app.limits.turns));
    let name = worker_name(&app);
    let mut stop = app.stop.subscribe();
    let mut working = JoinSet::new();
    loop {
        let place = tokio::select! {
            biased;
            _ = stop.wait_for(|stops| *stops) => break,
            place = Arc::clone(&room).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        while working.try_join_next().is_some() {}
        let claimed = app.queue.claim(&name, app.limits.claim, limits(&app)).await;
        tell_dead_letters(&app);
        match claimed {
            Ok(Some(claim)) => {
                let app = Arc::clone(&app);
                working.spawn(async move {
                    work(&app, claim).await;
                    drop(place);
                });
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "Could not look for queued threads"),
        }
        drop(place);
        tokio::select! {
            () = app.posted.notified() => {}
            () = tokio::time::sleep(look_every(&app)) => {}
            _ = stop.wait_for(|stops| *stops) => break,
        }
    }
    let resting = async { while working.join_next().await.is_some() {} };
    if tokio::time::timeout(app.limits.drain, resting).await.is_err() {
        tracing::warn!(
            "Some threads did not come to rest. Other processes take them over, or the next start"
        );
        app.hands_over.send_replace(true);
        let handing_over = async { while working.join_next().await.is_some() {} };
        // A database that is gone takes no thread back.
        let _ = tokio::time::timeout(HAND_OVER, handing_over).await;
        working.shutdown().await;
    }
}

/// How many threads all workers may have.
pub(crate) fn limits(app: &App) -> ClaimLimits {
    ClaimLimits { per_user: app.limits.turns_per_user, in_all: app.limits.turns_in_all }
}

/// Tells of threads that became dead letters because their workers vanished.
fn tell_dead_letters(app: &App) {
    for thread in app.queue.take_dead_letters() {
        app.metrics.dead_letters.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%thread, problem = WORKER_VANISHED, "Could not work on the thread");
        let live = app.live.of(&thread);
        live.tell(Piece::Notice(CANNOT_GO_ON.to_owned()));
        live.tell(Piece::Status);
    }
}

/// How a worker calls itself, for people who look after the server.
fn worker_name(app: &App) -> String {
    let place = if app.host.is_empty() { String::new() } else { format!(" on {}", app.host) };
    format!("process {}{place}", std::process::id())
}

/// How often a worker looks at the database, if nobody tells it to.
fn look_every(app: &App) -> Duration {
    if app.relay.hears() { CALM_LOOK } else { LOOK }
}

/// Works on a claimed thread, and ends the claim.
async fn work(app: &App, claim: Claim) {
    let live = app.live.of(claim.thread());
    app.metrics.claims.fetch_add(1, Ordering::Relaxed);
    if claim.takes_over {
        app.metrics.takeovers.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(thread = %claim.thread(), "Took over a thread whose worker vanished");
    }
    live.work(claim.lease.epoch);
    live.tell(Piece::Status);
    app.metrics.working.fetch_add(1, Ordering::Relaxed);
    let mut hands_over = app.hands_over.subscribe();
    let worked = tokio::select! {
        biased;
        worked = AssertUnwindSafe(work_on(app, &claim, &live)).catch_unwind() => worked.unwrap_or(Err(WorkError::Panicked)),
        // What was under way is interrupted, as if the worker had died. But nobody waits for the lease.
        _ = hands_over.wait_for(|now| *now) => Err(WorkError::HandedOver),
    };
    app.metrics.working.fetch_sub(1, Ordering::Relaxed);
    app.metrics.worked.fetch_add(1, Ordering::Relaxed);
    let is_failure = matches!(&worked, Err(error) if !matches!(error, WorkError::HandedOver));
    app.metrics.failed.fetch_add(is_failure.into(), Ordering::Relaxed);
    match worked {
        Ok(()) => {}
        Err(error) if error.is_lost() => {
            app.metrics.leases_lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(thread = %claim.thread(), "Another worker took over the thread");
            // The claim may have ended before another worker has it. Its lease must not keep that worker waiting.
            if let Err(error) = app.let_go(&claim).await {
                tracing::debug!(thread = %claim.thread(), %error, "Could not end a lease");
            }
            live.lose(claim.lease.epoch);
            return;
        }
        Err(error) => {
            live.restart();
            give_up(app, &claim, &live, &error).await;
        }
    }
    live.tell(Piece::Status);
    live.rest(claim.lease.epoch);
    // A place is free, also for threads of this user, and for workers of other processes.
    app.posted.notify_one();
}

/// Ends a claim after the work broke off: another attempt follows, unless there were too many.
async fn give_up(app: &App, claim: &Claim, live: &LiveThread, error: &WorkError) {
    let thread = claim.thread();
    let ended = match error {
        WorkError::HandedOver => {
            let given = app.queue.give_back(claim, Duration::ZERO).await;
            app.tell_posted(thread);
            given.map(|()| Failed::Again)
        }
        // That is not the thread's fault.
        error if error.passes() => {
            tracing::warn!(%thread, %error, "Could not use the database");
            let delay = (SOON * claim.attempt.min(100)).min(LONGEST_SOON);
            app.queue.give_back(claim, delay).await.map(|()| Failed::Again)
        }
        // Neither is that. A post of the thread's owner wakes it before.
        error if error.waits() => {
            let delay = wait(claim.attempt);
            tracing::warn!(%thread, %error, ?delay, "Could not go on with the thread yet");
            live.tell(Piece::Notice(
                "The server cannot reach what this turn needs, and tries again. You can cancel the turn."
                    .to_owned(),
            ));
            app.queue.give_back(claim, delay).await.map(|()| Failed::Again)
        }
        error => {
            let problem = with_causes(error);
            tracing::error!(%thread, error = problem, attempt = claim.attempt, "Could not work on the thread");
            let delay = (RETRY * claim.attempt.min(100)).min(LONGEST_RETRY);
            let problem = escape_unprintable(&cut(&problem, MAX_PROBLEM));
            let failed = app.queue.fail(claim, delay, &problem).await;
            live.tell(Piece::Notice(match failed {
                Ok(Failed::Dead) => {
                    app.metrics.dead_letters.fetch_add(1, Ordering::Relaxed);
                    CANNOT_GO_ON.to_owned()
                }
                _ => "The server could not continue this thread, and tries again.".to_owned(),
            }));
            failed
        }
    };
    if let Err(error) = ended {
        tracing::error!(%thread, %error, "Could not give the thread back");
    }
}

/// An error with its causes. Many errors end with the text of their cause, which is not said twice.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |told, cause| {
        if told.ends_with(&cause) { told } else { format!("{told}: {cause}") }
    })
}

/// How long a thread waits that so many attempts could not go on with.
fn wait(attempt: u32) -> Duration {
    (SOON * 2_u32.pow(attempt.saturating_sub(1).min(10))).min(LONGEST_WAIT)
}

async fn work_on(app: &App, claim: &Claim, live: &Arc<LiveThread>) -> Result<(), WorkError> {
    let Some(owned) = app.threads.owner_of(claim.thread()).await? else {
        // It was deleted.
        app.forget(claim).await?;
        return Ok(());
    };
    Work::new(app, claim, &owned, live).through().await
}

/// Why the work on a thread broke off.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("the server stops")]
    HandedOver,
    #[error("the worker crashed")]
    Panicked,
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Program(#[from] BoxError),
    #[error(transparent)]
    Store(#[from] OwnedThreadError),
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl From<ReadError> for WorkError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Thread(error) => Self::Agent(error.into()),
            ReadError::Program(error) => Self::Program(error),
        }
    }
}

impl WorkError {
    /// Whether another worker has the thread now.
    fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Queue(QueueError::ClaimLost(_))
                | Self::Agent(AgentError::Thread(ThreadError::LeaseLost(_) | ThreadError::Leased { .. }))
        )
    }

    /// Whether it is about something else that may answer again, such as an object store.
    fn waits(&self) -> bool {
        matches!(self, Self::Agent(AgentError::Middleware { source, .. }) if source.passes())
    }

    /// Whether it is not about this thread, so that another attempt may succeed.
    fn passes(&self) -> bool {
        matches!(self, Self::HandedOver | Self::Agent(AgentError::Reopen))
            || DatabaseError::of(self).is_some_and(DatabaseError::may_pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot create /a")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_reason_has_its_causes_once() {
        let error =
            |cause: &str| WorkError::Program(Box::new(Outer(std::io::Error::other(cause.to_owned()))));
        assert_eq!(with_causes(&error("the disk is full")), "cannot create /a: the disk is full");
        assert_eq!(with_causes(&error("create /a")), "cannot create /a");
        assert_eq!(with_causes(&WorkError::Panicked), "the worker crashed");
    }

    #[test]
    fn attempts_wait_longer_and_longer() {
        let waits: Vec<u128> = [0, 1, 2, 3, 7, u32::MAX].map(|attempt| wait(attempt).as_millis()).into();
        assert_eq!(waits, [500, 500, 1000, 2000, 30_000, 30_000]);
    }
}
