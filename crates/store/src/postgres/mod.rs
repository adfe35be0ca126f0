//! PostgreSQL: a server, which many machines may use at once.

#[cfg(feature = "approvals")]
mod approvals;
#[cfg(feature = "artifacts")]
mod artifacts;
mod error;
mod threads;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};

use self::error::{explained, unreachable};
use crate::error::DatabaseError;
use crate::schema::{self, Dialect};

/// How many connections a store has at most.
const CONNECTIONS: usize = 8;
/// How long is waited for a server, for a connection that others use, and for an answer to whether one still works.
const CONNECTING: Duration = Duration::from_secs(10);
const WAITING: Duration = Duration::from_secs(30);
const TRYING: Duration = Duration::from_secs(5);
/// How long a server may leave unanswered what was sent, and after how much silence it is asked whether it is there.
const UNANSWERED: Duration = Duration::from_secs(30);
const SILENT: Duration = Duration::from_secs(30);
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(10);
const QUESTIONS: u32 = 3;
/// How long others may keep what a statement needs, as [`SETTINGS`] says it.
pub(super) const LOCKED: Duration = Duration::from_secs(10);
/// One at a time makes tables: `prowess` in bytes.
const MIGRATION_LOCK: i64 = 0x70_726f_7765_7373;

/// Threads, approvals and the index of artifacts in a database of PostgreSQL.
///
/// What is written is on the server's disk when the call returns. Leases go by the server's clock, which is one for
/// all who use it. Where a connection is lost on the way, what was under way may have been stored: read before you
/// try again.
///
/// Clones are handles to the same connections.
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
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    place: Arc<str>,
}

impl PostgresStore {
    /// Connects to the database at `postgres://user:password@host/name`, and makes the tables that are missing, in
    /// the first schema of the search path. With the feature `postgres-tls` a server that offers TLS must have a
    /// certificate that the system trusts; `sslmode=require` wants TLS of every server, `sslmode=disable` of none.
    ///
    /// # Errors
    ///
    /// The server cannot be reached or refuses, or the database was made by a newer version.
    pub async fn connect(url: &str) -> Result<Self, DatabaseError> {
        let mut config: Config =
            url.parse().map_err(|error| DatabaseError::failed("PostgreSQL", "be found by its URL", error))?;
        config.connect_timeout(CONNECTING);
        // A server that went away without a word is found out.
        config.tcp_user_timeout(UNANSWERED);
        config.keepalives_idle(SILENT).keepalives_interval(BETWEEN_QUESTIONS).keepalives_retries(QUESTIONS);
        if config.get_application_name().is_none() {
            config.application_name("prowess");
        }
        let place = place(&config);
        // A connection is tried before it is used again: the server may have been started anew since.
        let managed = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = tls::manager(config, managed, &place)?;
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAITING))
            .create_timeout(Some(CONNECTING))
            .recycle_timeout(Some(TRYING))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| DatabaseError::failed(&place, "be connected to", error))?;
        let store = Self(Arc::new(Inner { pool, place: Arc::from(place) }));
        store.migrate().await?;
        Ok(store)
    }

    async fn client(&self) -> Result<Object, DatabaseError> {
        self.0.pool.get().await.map_err(|error| unreachable(&self.0.place, error))
    }

    /// What a statement says when it is all of a transaction.
    async fn rows(&self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let failed = |error| explained(&self.0.place, error);
        let client = self.client().await?;
        let statement = prepared!(client, statement).map_err(failed)?;
        client.query(&statement, values).await.map_err(failed)
    }

    /// Brings the tables to today's version, one step and one transaction after the other.
    async fn migrate(&self) -> Result<(), DatabaseError> {
        let place = &*self.0.place;
        let failed = |error| explained(place, error);
        let mut client = self.client().await?;
        loop {
            let found = version(&client).await.map_err(failed)?;
            if schema::missing(place, Dialect::Postgres, found)?.next().is_none() {
                return Ok(());
            }
            let transaction = client.transaction().await.map_err(failed)?;
            let lock = "SELECT pg_advisory_xact_lock($1)";
            transaction.execute(lock, &[&MIGRATION_LOCK]).await.map_err(failed)?;
            transaction.batch_execute(FIRST).await.map_err(failed)?;
            // Another process may have been here since.
            let found =
                transaction.query_one(VERSION, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
            if let Some((version, text)) = schema::missing(place, Dialect::Postgres, found)?.next() {
                transaction.batch_execute(&text).await.map_err(failed)?;
                let done = "UPDATE prowess_schema SET version = $1";
                transaction.execute(done, &[&version]).await.map_err(failed)?;
            }
            transaction.commit().await.map_err(failed)?;
        }
    }
}

/// The version that is kept.
const VERSION: &str = "SELECT MAX(version) FROM prowess_schema";

/// Where it is kept.
const FIRST: &str = "\
CREATE TABLE IF NOT EXISTS prowess_schema (version BIGINT NOT NULL);
INSERT INTO prowess_schema SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM prowess_schema)";

/// A server may be told to answer before it has flushed; a store may not. Nobody waits for a lock without end, and a
/// process that stopped in the middle of a transaction keeps nobody waiting.
const SETTINGS: &str = "SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'; \
    SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s'";

/// The version of the tables: 0 where there are none.
async fn version(client: &Object) -> Result<i64, tokio_postgres::Error> {
    let there = client.query_one("SELECT to_regclass('prowess_schema') IS NOT NULL", &[]).await?;
    if there.try_get(0)? { client.query_one(VERSION, &[]).await?.try_get(0) } else { Ok(0) }
}

/// What is put in for a parameter.
type Value<'a> = &'a (dyn ToSql + Sync);

/// How messages name the database: never with its password.
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

/// A statement with the parameters as PostgreSQL writes them.
fn said(statement: &str) -> String {
    statement.replace('?', "$")
}

/// A prepared statement, known to the connection after its first use.
macro_rules! prepared {
    ($client:expr, $statement:expr) => {
        $client.prepare_cached(&$crate::postgres::said($statement)).await
    };
}
use prepared;
