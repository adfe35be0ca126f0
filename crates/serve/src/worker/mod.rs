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
use prowess_agent::queue::{Claim, QueueError};
use prowess_agent::thread::ThreadError;
use prowess_store::serve::{AccountError, OwnedThreadError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use self::summary::title_of;
use self::work::Work;
use crate::agents::BoxError;
use crate::app::App;
use crate::live::{LiveThread, Piece};
use crate::replays::ReadError;

/// How often a worker looks for posts and queued threads that nobody told it about: another process can post them.
const LOOK: Duration = Duration::from_millis(500);
/// How long a thread waits after its worker failed, times the number of failures.
const RETRY: Duration = Duration::from_secs(2);
/// After how many failures in a row the turn is ended. If that fails too, the thread rests.
const MAX_FAILURES: u32 = 5;
/// How long a thread waits whose inbox cannot be read.
const PARKED: Duration = Duration::from_secs(3600);
/// How many times [`LOOK`] a thread of a busy user waits at most.
const MOST_LOOKS: u32 = 4;

/// Works until the server stops. Then it lets its threads rest for a while.
pub(crate) async fn run(app: Arc<App>) {
    let room = Arc::new(Semaphore::new(app.limits.turns));
    let name = format!("process {}", std::process::id());
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
        match app.queue.claim(&name, app.limits.claim).await {
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
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.wait_for(|stops| *stops) => break,
        }
    }
    let resting = async { while working.join_next().await.is_some() {} };
    if tokio::time::timeout(app.limits.drain, resting).await.is_err() {
        tracing::warn!("Some threads did not come to rest. They go on after the next start");
        working.shutdown().await;
    }
}

/// Works on a claimed thread, and ends the claim.
async fn work(app: &App, claim: Claim) {
    let thread = claim.thread.clone();
    let live = app.live.of(&thread);
    live.tell(Piece::Status);
    app.metrics.working.fetch_add(1, Ordering::Relaxed);
    let worked = AssertUnwindSafe(work_on(app, &claim, &live)).catch_unwind().await;
    app.metrics.working.fetch_sub(1, Ordering::Relaxed);
    let worked = worked.unwrap_or(Err(WorkError::Panicked));
    if !matches!(worked, Err(WorkError::Busy | WorkError::Leased)) {
        app.metrics.worked.fetch_add(1, Ordering::Relaxed);
        app.metrics.failed.fetch_add(worked.is_err().into(), Ordering::Relaxed);
    }
    match worked {
        Ok(()) => app.forget_failures(&thread),
        Err(error) => {
            live.restart();
            give_up(app, &claim, &live, &error).await;
        }
    }
    live.tell(Piece::Status);
}

/// Ends a claim after the work broke off: another attempt follows, unless there were too many.
async fn give_up(app: &App, claim: &Claim, live: &LiveThread, error: &WorkError) {
    let thread = &claim.thread;
    let delay = match error {
        WorkError::Queue(QueueError::ClaimLost(_))
        | WorkError::Agent(AgentError::Thread(ThreadError::LeaseLost(_))) => {
            tracing::warn!(%thread, "Another worker took over the thread");
            return;
        }
        // A process that died keeps its lease for some seconds.
        WorkError::Leased => LOOK,
        // A busy user waits, so that others need not.
        WorkError::Busy => LOOK * claim.attempt.min(MOST_LOOKS),
        error => {
            let failures = app.note_failure(thread);
            tracing::error!(%thread, %error, failures, "Could not work on the thread");
            if failures > MAX_FAILURES {
                live.tell(Piece::Notice(
                    "The server cannot continue this turn; its log says why. Cancel the turn to go on."
                        .to_owned(),
                ));
                app.forget_failures(thread);
                // The posts stay. The next one queues the thread again.
                let rests = match app.queue.inbox(claim).await {
                    Ok(inbox) => app.queue.finish(claim, inbox.posted).await.map(drop),
                    Err(_) => app.queue.give_back(claim, PARKED).await,
                };
                if let Err(error) = rests {
                    tracing::error!(%thread, %error, "Could not let the thread rest");
                }
                return;
            }
            live.tell(Piece::Notice(
                "The server could not continue this thread, and tries again.".to_owned(),
            ));
            RETRY * failures
        }
    };
    if let Err(error) = app.queue.give_back(claim, delay).await {
        tracing::error!(%thread, %error, "Could not give the thread back");
    }
}

async fn work_on(app: &App, claim: &Claim, live: &Arc<LiveThread>) -> Result<(), WorkError> {
    let Some(owned) = app.threads.owner_of(&claim.thread).await? else {
        // It was deleted.
        app.queue.forget(&claim.thread).await?;
        return Ok(());
    };
    let Some(_place) = app.working.take(&owned.owner, app.limits.turns_per_user, usize::MAX) else {
        return Err(WorkError::Busy);
    };
    Work::new(app, claim, &owned, live).through().await
}

/// Why the work on a thread broke off.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("another process uses the thread")]
    Leased,
    #[error("other threads of the same user have all places")]
    Busy,
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
    /// Whether it is about a database that may answer again soon.
    fn passes(&self) -> bool {
        matches!(
            self,
            Self::Queue(QueueError::Store { .. })
                | Self::Agent(AgentError::Thread(ThreadError::Store { .. }))
                | Self::Store(_)
                | Self::Account(_)
        )
    }
}
