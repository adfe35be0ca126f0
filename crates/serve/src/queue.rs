//! Looks after the queue of turns: what is in it, and what becomes of dead letters.

use std::collections::HashMap;
use std::sync::Arc;

use prowess_agent::ThreadId;
use prowess_agent::queue::{ClaimLimits, QueueError, QueueState, TurnQueue};
use prowess_store::Database;
use prowess_store::serve::{
    AccountError, Accounts, Audit, AuditError, OwnedThread, OwnedThreadError, OwnedThreads,
};
use serde_json::{Value, json};

use crate::view::{QueueNumbersView, QueueView, QueuedThreadView};

/// What the user of a dead letter reads.
pub(crate) const CANNOT_GO_ON: &str =
    "The server cannot continue this turn. Cancel it to go on, or ask an administrator to try again.";

/// The queue of a server, for its administrators. It does not check who asks.
///
/// ```
/// use prowess_agent::ThreadId;
/// use prowess_serve::{QueueAdmin, QueueAdminError};
/// use prowess_store::serve::Audit;
/// use prowess_store::{Database, SqliteStore};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = QueueAdmin::of(&Database::from(SqliteStore::in_memory()?));
/// assert_eq!(queue.list(100).await?.numbers.dead, 0);
/// let retried = queue.retry(&ThreadId::new(), Audit::COMMAND_LINE, json!({})).await;
/// assert!(matches!(retried, Err(QueueAdminError::NoThread(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QueueAdmin {
    queue: Arc<dyn TurnQueue>,
    threads: OwnedThreads,
    accounts: Accounts,
    audit: Audit,
}

/// Why the queue could not be read, or a dead letter stays one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueAdminError {
    /// The server has no such thread.
    #[error("there is no thread `{0}`")]
    NoThread(ThreadId),
    /// The thread is no dead letter.
    #[error("the thread `{thread}` is no dead letter: {}", words(*state))]
    NotDead {
        /// The thread.
        thread: ThreadId,
        /// Its state.
        state: QueueState,
    },
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The threads failed.
    #[error(transparent)]
    Threads(#[from] OwnedThreadError),
    /// The accounts failed.
    #[error(transparent)]
    Accounts(#[from] AccountError),
    /// The audit log failed.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

fn words(state: QueueState) -> &'static str {
    match state {
        QueueState::Rests => "it rests",
        QueueState::Queued => "it waits for a worker",
        QueueState::Claimed => "a worker has it",
        QueueState::Dead => "it was none a moment ago; try again",
    }
}

/// What can be done with a dead letter.
#[derive(Clone, Copy, Debug)]
enum Act {
    Retry,
    Drop,
}

impl Act {
    /// The name in the audit log.
    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry dead letter",
            Self::Drop => "drop dead letter",
        }
    }
}

impl QueueAdmin {
    /// The queue of a database.
    pub fn of(database: &Database) -> Self {
        Self {
            queue: database.queue(),
            threads: database.owned_threads(),
            accounts: database.accounts(),
            audit: database.audit(),
        }
    }

    /// How full the queue is, and up to `most` threads in it.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn list(&self, most: usize) -> Result<QueueView, QueueAdminError> {
        let mut threads = self.queue.list(most.saturating_add(1)).await?;
        // Who looks may not know the limits of the workers: what they keep back counts as queued.
        let numbers = QueueNumbersView::from(self.queue.numbers(ClaimLimits::default()).await?);
        let mut left_off = 0;
        if threads.len() > most {
            threads.truncate(most);
            // The numbers are from another moment.
            left_off = numbers.total().saturating_sub(most as u64).max(1);
        }
        let users = if threads.is_empty() { Vec::new() } else { self.accounts.users().await? };
        let names: HashMap<&str, &str> = users.iter().map(|user| (&*user.id, &*user.name)).collect();
        let view = |thread: prowess_agent::queue::QueuedThread| {
            let name = thread.user.as_deref().and_then(|user| names.get(user));
            let name = name.map(|&name| name.to_owned());
            QueuedThreadView::new(thread, name)
        };
        Ok(QueueView { numbers, items: threads.into_iter().map(view).collect(), left_off })
    }

    /// Lets workers take a dead letter again. The audit log says `by` whom, with this object.
    ///
    /// # Errors
    ///
    /// [`QueueAdminError::NoThread`] and [`QueueAdminError::NotDead`], or the database failed.
    pub async fn retry(&self, thread: &ThreadId, by: &str, detail: Value) -> Result<(), QueueAdminError> {
        self.act(Act::Retry, thread, by, detail).await
    }

    /// Drops the work of a dead letter: messages that no worker has taken are gone, and a worker ends the turn. The audit log says
    /// `by` whom, with this object.
    ///
    /// # Errors
    ///
    /// [`QueueAdminError::NoThread`] and [`QueueAdminError::NotDead`], or the database failed.
    pub async fn drop_work(&self, thread: &ThreadId, by: &str, detail: Value) -> Result<(), QueueAdminError> {
        self.act(Act::Drop, thread, by, detail).await
    }

    async fn act(
        &self,
        act: Act,
        thread: &ThreadId,
        by: &str,
        mut detail: Value,
    ) -> Result<(), QueueAdminError> {
        let owned = self.threads.owner_of(thread).await?;
        let was_dead = match act {
            Act::Retry => self.queue.retry(thread).await?,
            Act::Drop => self.queue.drop_work(thread).await?,
        };
        if !was_dead {
            return Err(self.not_dead(thread, owned.as_ref()).await?);
        }
        if let Some(owned) = owned {
            detail["user"] = json!(owned.owner);
        }
        Ok(self.audit.note(by, act.name(), Some(thread), &detail).await?)
    }

    async fn not_dead(
        &self,
        thread: &ThreadId,
        owned: Option<&OwnedThread>,
    ) -> Result<QueueAdminError, QueueAdminError> {
        let state = self.queue.state(thread).await?;
        Ok(match (state, owned) {
            (QueueState::Rests, None) => QueueAdminError::NoThread(thread.clone()),
            _ => QueueAdminError::NotDead { thread: thread.clone(), state },
        })
    }
}
