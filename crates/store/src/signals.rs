//! Signals: short messages that the processes of a server send each other. They wake whoever waits.
//!
//! PostgreSQL passes them on with `NOTIFY`. A signal can be lost with a connection, so nobody relies on one: whoever misses some is
//! told so, and looks at the database. With SQLite there are none, and processes look at the file from time to time.

#[cfg(feature = "postgres")]
use std::sync::Arc;

use crate::database::Database;
use crate::error::DatabaseError;
#[cfg(feature = "postgres")]
use crate::postgres::{Listener, Sender};

/// To whom a signal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Processes with workers.
    Workers,
    /// Processes with clients who watch threads.
    Watchers,
}

/// What a process hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A signal.
    Signal(String),
    /// Signals may have been lost before this.
    Missed,
}

/// The signals of the processes that use a database.
///
/// ```
/// use prowess_store::signals::{Audience, Signals};
/// use prowess_store::{Database, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Database::from(SqliteStore::in_memory()?);
/// let signals = Signals::of(&database, None, &[Audience::Workers]).await?;
/// signals.send(Audience::Workers, "somebody posted".to_owned());
/// assert!(!signals.are_heard(), "a file passes no signals on");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Signals(#[cfg(feature = "postgres")] Option<Arc<Connected>>);

#[cfg(feature = "postgres")]
#[derive(Debug)]
struct Connected {
    sender: Sender,
    listener: Listener,
}

impl Signals {
    /// The longest signal, in bytes of text. Longer ones are dropped.
    pub const MAX_BYTES: usize = 7_900;

    /// Signals among the processes that use this database. The process hears those for these audiences. `listen` is the address of a
    /// direct connection, if the database is behind a pooler.
    ///
    /// # Errors
    ///
    /// The database failed, or `listen` is no address of PostgreSQL.
    pub async fn of(
        database: &Database,
        listen: Option<&str>,
        audiences: &[Audience],
    ) -> Result<Self, DatabaseError> {
        match database {
            Database::Sqlite(_) => {
                let _ = (listen, audiences);
                Ok(Self::none())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(store) => {
                let channel = store.channel().await?;
                let sender = Sender::start(store.clone(), &channel);
                let listener = Listener::start(store, listen, &channel, audiences)?;
                Ok(Self(Some(Arc::new(Connected { sender, listener }))))
            }
        }
    }

    /// No signals, for a process that has a database alone.
    pub fn none() -> Self {
        Self(
            #[cfg(feature = "postgres")]
            None,
        )
    }

    /// Sends a signal. Signals that wait go together, so this returns at once.
    pub fn send(&self, audience: Audience, signal: String) {
        #[cfg(feature = "postgres")]
        if let Some(connected) = &self.0 {
            connected.sender.send(audience, signal);
        }
        #[cfg(not(feature = "postgres"))]
        let _ = (audience, signal);
    }

    /// Sends a signal that says nothing more if it is said twice. It is dropped if one like it waits.
    pub fn send_once(&self, audience: Audience, signal: String) {
        #[cfg(feature = "postgres")]
        if let Some(connected) = &self.0 {
            connected.sender.send_once(audience, signal);
        }
        #[cfg(not(feature = "postgres"))]
        let _ = (audience, signal);
    }

    /// The next signal. Without PostgreSQL, it waits forever.
    pub async fn hear(&self) -> Heard {
        #[cfg(feature = "postgres")]
        if let Some(connected) = &self.0 {
            return connected.listener.hear().await;
        }
        std::future::pending().await
    }

    /// Whether signals arrive now. If not, look at the database more often.
    pub fn are_heard(&self) -> bool {
        #[cfg(feature = "postgres")]
        if let Some(connected) = &self.0 {
            return connected.listener.hears();
        }
        false
    }
}
