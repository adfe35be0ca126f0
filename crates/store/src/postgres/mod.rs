//! The PostgreSQL store: a server that many machines can use.

#[cfg(feature = "approvals")]
mod approvals;
#[cfg(feature = "artifacts")]
mod artifacts;
mod error;
mod migrate;
mod queue;
mod rows;
mod signals;
mod threads;
mod tls;
mod transaction;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use self::error::unreachable;
pub(crate) use self::signals::{Listener, Sender};
use crate::acts_for::ActsFor;
use crate::counters::{Counters, DatabaseCounters};
use crate::error::DatabaseError;
use crate::queue::DeadLetters;
use crate::rows::Statement;
use crate::sql;

/// How many connections a store has at most.
const CONNECTIONS: usize = 8;
/// How long connecting to the server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller waits for a free connection.
const POOL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a test of an idle connection may take.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);
/// After how much idle time a connection is tested before its next use.
const TEST_AFTER: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged.
const TCP_TIMEOUT: Duration = Duration::from_secs(30);
/// After how much silence keepalive probes start, how far apart they are, and how many there are.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// How long a statement waits for locks. The statements in `transaction.rs` have the same value.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads, approvals and the index of artifacts in a PostgreSQL database.
///
/// When a call returns, its data is on the server's disk. Leases use the server's clock, which all users share. If a
/// connection is lost during a call, the change may or may not be stored: read before you try again.
///
/// Clones share the same connections.
///
/// ```no_run
/// use prowess_agent::ThreadStore as _;
/// use prowess_store::PostgresStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://prowess@db.example.com/prowess?sslmode=require").await?;
/// for thread in store.list(10).await? {
///     println!("{}: {} events", thread.id, thread.events);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore(Arc<Inner>, ActsFor);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    config: Config,
    place: Arc<str>,
    counters: Counters,
    /// Whether row-level security binds the role of this store.
    is_walled: OnceLock<bool>,
    /// Whether the server flushes a transaction before it responds, unless a transaction asks for that.
    flushes: OnceLock<bool>,
    dead_letters: DeadLetters,
}

impl PostgresStore {
    /// Connects to the database at `postgres://user:password@host/name`. Missing tables are created in the first schema of
    /// the search path.
    ///
    /// With the feature `postgres-tls`, a server that offers TLS must have a certificate that the system trusts.
    /// `sslmode=require` requires TLS, and `sslmode=disable` turns it off.
    ///
    /// # Errors
    ///
    /// The server cannot be reached or refuses the connection, or a newer version of prowess made the database.
    pub async fn connect(url: &str) -> Result<Self, DatabaseError> {
        let config = configuration(url)?;
        let place = place(&config);
        let managed = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = tls::manager(config.clone(), managed, &place)?;
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(TEST_TIMEOUT))
            // The network may have lost a connection that was idle. A server that restarts closes its connections.
            .pre_recycle(Hook::async_fn(|client, metrics| {
                let is_due = metrics.last_used() > TEST_AFTER;
                Box::pin(async move {
                    if is_due {
                        client.batch_execute("").await.map_err(HookError::Backend)?;
                    }
                    Ok(())
                })
            }))
            .build()
            .map_err(|error| DatabaseError::failed(&place, "be connected to", error))?;
        let (place, counters) = (Arc::from(place), Counters::default());
        let (is_walled, flushes) = (OnceLock::new(), OnceLock::new());
        let dead_letters = DeadLetters::default();
        let inner = Inner { pool, config, place, counters, is_walled, flushes, dead_letters };
        let store = Self(Arc::new(inner), ActsFor::Nobody);
        store.migrate().await?;
        let found = store.query(Statement::new(sql::acts_for::IS_WALLED, [])).await?;
        let setting =
            |column| Ok(found.first().map(|row| row.number(column)).transpose()?.unwrap_or_default());
        // Nobody else has the store yet.
        let _ = store.0.is_walled.set(setting(0)? != 0);
        let _ = store.0.flushes.set(setting(1)? != 0);
        Ok(store)
    }

    /// The name of the database in messages.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    pub(crate) fn dead_letters(&self) -> &DeadLetters {
        &self.0.dead_letters
    }

    /// The same store, whose statements run for somebody.
    pub(crate) fn acting_for(&self, acts_for: ActsFor) -> Self {
        Self(Arc::clone(&self.0), acts_for)
    }

    /// Whether its statements run for a user.
    pub(crate) fn acts_for_user(&self) -> bool {
        matches!(self.1, ActsFor::User(_))
    }

    /// Whether row-level security binds the role of this store.
    pub(crate) fn is_walled(&self) -> bool {
        self.0.is_walled.get().copied().unwrap_or_default()
    }

    /// What it did since it was opened.
    pub(crate) fn counters(&self) -> DatabaseCounters {
        let pool = self.0.pool.status();
        let connections = pool.size as u64;
        let idle = (pool.available as u64).min(connections);
        DatabaseCounters {
            connections_idle: idle,
            connections_busy: connections - idle,
            waiting: pool.waiting as u64,
            ..self.0.counters.read()
        }
    }

    async fn client(&self) -> Result<Object, DatabaseError> {
        self.0.pool.get().await.map_err(|error| {
            self.0.counters.failed();
            unreachable(&self.0.place, error)
        })
    }

    /// The statement that says for whom a transaction runs. Without a wall, nobody needs to know.
    fn says_for_whom(&self) -> Option<Statement> {
        if self.is_walled() { self.1.statement() } else { None }
    }
}

/// The configuration of connections to the database at a URL.
fn configuration(url: &str) -> Result<Config, DatabaseError> {
    let unread = |problem: &str| {
        let problem = format!(
            "{problem}; write postgres://USER:PASSWORD@HOST/NAME, and a character such as `@` in a password as %40"
        );
        DatabaseError::failed("the URL of PostgreSQL", "be read", problem)
    };
    let mut config: Config = url.parse().map_err(|_| unread("it is not valid"))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(unread("it has no host"));
    }
    config.connect_timeout(CONNECT_TIMEOUT);
    // Detects a server that disappeared.
    config.tcp_user_timeout(TCP_TIMEOUT);
    config
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_PROBES);
    if config.get_application_name().is_none() {
        config.application_name("prowess");
    }
    Ok(config)
}

/// The name of the database in messages, without its password.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "this machine".to_owned(),
    };
    let name = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    format!("the database `{name}` of PostgreSQL at {host}")
}

/// A statement in the form of PostgreSQL: `$1` instead of `?1`, and with the text that is only for PostgreSQL.
fn for_postgres(statement: &str) -> String {
    let own = statement.split_once("-- postgres instead:").map_or(statement, |(_, own)| own);
    own.replace('?', "$").replace("-- postgres:", "")
}
