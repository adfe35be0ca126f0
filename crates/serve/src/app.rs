//! What all requests and workers of a server share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prowess_agent::queue::{Claim, TurnQueue};
use prowess_agent::thread::ThreadError;
use prowess_agent::{AgentError, ThreadId, ThreadStore};
use prowess_store::serve::{Accounts, Audit, OwnedThreads};
use prowess_store::{Database, DatabaseCounters, DatabaseError};
use tokio::sync::{Notify, watch};

use crate::agents::{AgentCard, ServedAgents};
use crate::auth::RateLimits;
use crate::limits::ServeLimits;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::process::{Process, Role};
use crate::queue::QueueAdmin;
use crate::relay::Relay;
use crate::replays::Replays;
use crate::token_watch::TokenWatch;

/// What all requests and workers of a server share.
pub(crate) struct App {
    pub(crate) agents: Arc<dyn ServedAgents>,
    /// The name and the model of the agent. Its whole card takes longer to make.
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) queue: Arc<dyn TurnQueue>,
    database: Database,
    pub(crate) threads: OwnedThreads,
    pub(crate) accounts: Accounts,
    pub(crate) audit: Audit,
    pub(crate) queue_admin: QueueAdmin,
    pub(crate) live: Live,
    pub(crate) limits: ServeLimits,
    pub(crate) rates: RateLimits,
    pub(crate) tokens: TokenWatch,
    pub(crate) metrics: Metrics,
    /// Signing in with OpenID Connect, if it is set up.
    #[cfg(feature = "oidc")]
    pub(crate) oidc: crate::auth::OidcPart,
    /// What other processes of the server say.
    pub(crate) relay: Arc<Relay>,
    /// What this process does.
    pub(crate) role: Role,
    /// The name of its host.
    pub(crate) host: String,
    /// Something was posted.
    pub(crate) posted: Notify,
    /// Whether the server stops.
    pub(crate) stop: watch::Sender<bool>,
    /// Whether workers give their threads back at once.
    pub(crate) hands_over: watch::Sender<bool>,
    /// The number of requests in progress, of large bodies that arrive, of files and of logs that are read, of forks, of searches and of open
    /// event streams, by user.
    pub(crate) requests: Counts,
    pub(crate) uploads: Counts,
    pub(crate) downloads: Counts,
    pub(crate) reads: Counts,
    pub(crate) forks: Counts,
    pub(crate) searches: Counts,
    pub(crate) streams: Counts,
    /// The threads that were looked at last.
    pub(crate) replays: Replays,
}

impl App {
    pub(crate) fn new(
        agents: Arc<dyn ServedAgents>,
        database: &Database,
        limits: ServeLimits,
        process: Process,
    ) -> Self {
        let Process { role, host, signals } = process;
        let relay = Arc::new(Relay::new(signals));
        let AgentCard { name: agent, model, .. } = agents.card();
        Self {
            agents,
            agent,
            model,
            queue: database.queue(),
            database: database.clone(),
            threads: database.owned_threads(),
            accounts: database.accounts(),
            audit: database.audit(),
            queue_admin: QueueAdmin::of(database),
            live: Live::new(Arc::clone(&relay)),
            relay,
            role,
            host,
            rates: RateLimits::new(limits.requests_per_second),
            limits,
            tokens: TokenWatch::default(),
            metrics: Metrics::default(),
            #[cfg(feature = "oidc")]
            oidc: crate::auth::OidcPart::new(),
            posted: Notify::new(),
            stop: watch::Sender::new(false),
            hands_over: watch::Sender::new(false),
            requests: Counts::default(),
            uploads: Counts::default(),
            downloads: Counts::default(),
            reads: Counts::default(),
            forks: Counts::default(),
            searches: Counts::default(),
            streams: Counts::default(),
            replays: Replays::default(),
        }
    }

    /// Whether the database answers, and what is written now is found after a restart.
    pub(crate) async fn ping(&self) -> Result<(), DatabaseError> {
        self.database.ping().await
    }

    /// The logs of a user's threads. If the database keeps users apart, it shows no others.
    pub(crate) fn log_of(&self, owner: &str) -> Arc<dyn ThreadStore> {
        self.database.acting_for(owner).threads()
    }

    /// The queue for posts of a user. If the database keeps users apart, it takes none for threads of others.
    pub(crate) fn inbox_of(&self, user: &str) -> Arc<dyn TurnQueue> {
        self.database.acting_for(user).queue()
    }

    /// Says that something was posted to a thread, or that it was queued: to the workers here and in other processes.
    pub(crate) fn tell_posted(&self, thread: &ThreadId) {
        self.note_posted(thread);
        self.relay.posted(thread);
    }

    /// Notes that something was posted to a thread.
    pub(crate) fn note_posted(&self, thread: &ThreadId) {
        self.posted.notify_one();
        if let Some(live) = self.live.working(thread) {
            live.posted.notify_one();
        }
    }

    /// Lets workers look at the inboxes of their threads.
    pub(crate) fn look_after_all(&self) {
        for live in self.live.all_working() {
            live.posted.notify_one();
        }
    }

    /// Ends the lease of a claim that is lost.
    pub(crate) async fn let_go(&self, claim: &Claim) -> Result<(), ThreadError> {
        self.database.threads().release(&claim.lease).await
    }

    /// Forgets a claimed thread that has no owner any more. Its claim made it again.
    pub(crate) async fn forget(&self, claim: &Claim) -> Result<(), AgentError> {
        let store = self.database.threads();
        store.release(&claim.lease).await?;
        let is_empty = match store.events(claim.thread(), 0, 1).await {
            Err(ThreadError::NotFound(_)) => true,
            events => events?.is_empty(),
        };
        if is_empty {
            store.delete(claim.thread()).await?;
        }
        let forgotten = self.queue.forget(claim.thread()).await;
        if let Err(error) = forgotten {
            tracing::warn!(%error, "Could not forget a thread that was deleted");
        }
        Ok(())
    }

    /// What the database was asked.
    pub(crate) fn database_counters(&self) -> DatabaseCounters {
        self.database.counters()
    }
}

/// How many things somebody has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<HashMap<String, usize>>>);

/// One of these things. Dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Counts,
    key: String,
}

impl Counts {
    /// One more, unless there are so many of this key, or of all keys together.
    pub(crate) fn take(&self, key: &str, most: usize, most_in_all: usize) -> Option<Counted> {
        let mut counts = lock(&self.0);
        if counts.values().sum::<usize>() >= most_in_all {
            return None;
        }
        let own = counts.entry(key.to_owned()).or_default();
        if *own >= most {
            return None;
        }
        *own += 1;
        Some(Counted { counts: self.clone(), key: key.to_owned() })
    }

    /// How many there are of all keys.
    pub(crate) fn total(&self) -> usize {
        lock(&self.0).values().sum()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts.0);
        if let Some(own) = counts.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
