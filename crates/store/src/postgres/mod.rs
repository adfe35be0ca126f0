//! The PostgreSQL store: a server that many machines can use.

#[cfg(feature = "approvals")]
mod approvals;
#[cfg(feature = "artifacts")]
mod artifacts;
mod error;
mod migrate;
mod rows;
mod server_lock;
mod threads;
mod tls;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Transaction,
};
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};

use self::error::{database_error, unreachable};
pub use self::server_lock::ServerLock;
use crate::acts_for::ActsFor;
use crate::error::DatabaseError;
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
/// How long sent data may stay unacknowledged.
const TCP_TIMEOUT: Duration = Duration::from_secs(30);
/// After how much silence keepalive probes start, how far apart they are, and how many there are.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// How long a statement waits for locks. [`SETTINGS`] has the same value.
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
    place: Arc<str>,
    /// Whether row-level security binds the role of this store.
    is_walled: OnceLock<bool>,
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
        let place = place(&config);
        // An idle connection is tested before use: the server may have restarted.
        let managed = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = tls::manager(config, managed, &place)?;
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(TEST_TIMEOUT))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| DatabaseError::failed(&place, "be connected to", error))?;
        let inner = Inner { pool, place: Arc::from(place), is_walled: OnceLock::new() };
        let store = Self(Arc::new(inner), ActsFor::Nobody);
        store.migrate().await?;
        let is_walled = store.rows(sql::acts_for::IS_WALLED, &[]).await?;
        let is_walled = is_walled.first().map(|row| row.try_get(0)).transpose();
        let is_walled = is_walled.map_err(|error| database_error(&store.0.place, error))?;
        // Nobody else has the store yet.
        let _ = store.0.is_walled.set(is_walled.unwrap_or_default());
        Ok(store)
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

    async fn client(&self) -> Result<Object, DatabaseError> {
        self.0.pool.get().await.map_err(|error| unreachable(&self.0.place, error))
    }

    /// Runs one statement as its own transaction, and returns its rows.
    async fn rows(&self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let failed = |error| database_error(&self.0.place, error);
        let mut client = self.client().await?;
        let statement = prepared!(client, statement).map_err(failed)?;
        if self.says_for_whom().is_none() {
            return client.query(&statement, values).await.map_err(failed);
        }
        let transaction = self.begin(&mut client).await?;
        let rows = transaction.query(&statement, values).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(rows)
    }

    /// Begins a transaction, and says for whom it runs. Nothing outside of the transaction runs for this user.
    async fn begin<'a>(&self, client: &'a mut Object) -> Result<Transaction<'a>, DatabaseError> {
        let failed = |error| database_error(&self.0.place, error);
        let transaction = client.transaction().await.map_err(failed)?;
        if let Some(says) = self.says_for_whom() {
            let prepared = prepared!(transaction, says.sql).map_err(failed)?;
            transaction.query(&prepared, &rows::values(&says)).await.map_err(failed)?;
        }
        Ok(transaction)
    }

    /// The statement that says for whom a transaction runs. Without a wall, nobody needs to know.
    fn says_for_whom(&self) -> Option<Statement> {
        if self.is_walled() { self.1.statement() } else { None }
    }
}

/// The settings of each connection. The server must flush before it responds, each statement sees what others committed
/// before it, waits for locks have a limit, and a process that stops in a transaction does not block others forever.
const SETTINGS: &str = "SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'; \
    SET default_transaction_isolation = 'read committed'; \
    SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s'";

/// The value of a parameter.
type Value<'a> = &'a (dyn ToSql + Sync);

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

/// A prepared statement, cached by the connection.
macro_rules! prepared {
    ($client:expr, $statement:expr) => {
        $client.prepare_cached(&$crate::postgres::for_postgres($statement)).await
    };
}
use prepared;
