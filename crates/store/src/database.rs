//! Opens SQLite or PostgreSQL by name.

use std::sync::Arc;
#[cfg(feature = "serve")]
use std::time::Duration;

use prowess_agent::ThreadStore;
use prowess_agent::queue::TurnQueue;
use prowess_agent::thread::ThreadError;

use crate::acts_for::ActsFor;
use crate::error::DatabaseError;
#[cfg(feature = "postgres")]
use crate::postgres::PostgresStore;
use crate::retention::Retention;
use crate::rows::{Done, Row, Statement};
use crate::sqlite::SqliteStore;

/// A SQLite or PostgreSQL database, chosen by name.
///
/// ```
/// use prowess_agent::ThreadStore as _;
/// use prowess_store::{Database, Retention};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let place = directory.path().join("threads.db").display().to_string();
/// let database = Database::open(&place).await?; // or `postgres://user@host/name`
/// assert!(database.threads().list(10).await?.is_empty());
/// let retention = Retention::default().keep_last(1000);
/// assert_eq!(database.prune(retention).await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Database {
    /// A SQLite file.
    Sqlite(SqliteStore),
    /// A PostgreSQL server.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

impl Database {
    /// Opens the database at `postgres://…`, or in a file.
    ///
    /// # Errors
    ///
    /// The database cannot be opened, the address is not a PostgreSQL address, or this build does not support it.
    pub async fn open(place: &str) -> Result<Self, DatabaseError> {
        match address(place)? {
            None => Ok(Self::Sqlite(SqliteStore::open(place).await?)),
            #[cfg(feature = "postgres")]
            Some(url) => Ok(Self::Postgres(PostgresStore::connect(&url).await?)),
            #[cfg(not(feature = "postgres"))]
            Some(_) => Err(DatabaseError::Unsupported {
                place: "PostgreSQL".to_owned(),
                needs: "the feature `postgres`",
            }),
        }
    }

    /// The store of threads.
    pub fn threads(&self) -> Arc<dyn ThreadStore> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// The queue of turns, for servers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use prowess_agent::queue::{ClaimLimits, Post};
    /// use prowess_agent::{Message, ThreadId};
    /// use prowess_store::{Database, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = Database::from(SqliteStore::in_memory()?).queue();
    /// queue.post(&ThreadId::new(), &Post::say(Message::user("Hi."))).await?;
    /// let claim = queue.claim("worker 1", Duration::from_secs(30), ClaimLimits::default()).await?.expect("a queued thread");
    /// assert_eq!(queue.inbox(&claim).await?.entries.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self) -> Arc<dyn TurnQueue> {
        Arc::new(self.clone())
    }

    /// The store of approvals.
    #[cfg(feature = "approvals")]
    pub fn approvals(&self) -> Arc<dyn prowess_permission::ApprovalStore> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// The index of artifacts.
    #[cfg(feature = "artifacts")]
    pub fn artifacts(&self) -> Arc<dyn prowess_workspace::ArtifactIndex> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Users and their access tokens.
    #[cfg(feature = "serve")]
    pub fn accounts(&self) -> crate::serve::Accounts {
        crate::serve::Accounts::new(self.clone())
    }

    /// Whose each thread is, and what lists of threads show.
    #[cfg(feature = "serve")]
    pub fn owned_threads(&self) -> crate::serve::OwnedThreads {
        crate::serve::OwnedThreads::new(self.clone())
    }

    /// The skills that users uploaded.
    #[cfg(feature = "serve")]
    pub fn own_skills(&self) -> crate::serve::OwnSkillRows {
        crate::serve::OwnSkillRows::new(self.clone())
    }

    /// The processes of the server.
    #[cfg(feature = "serve")]
    pub fn processes(&self) -> crate::serve::Processes {
        crate::serve::Processes::new(self.clone())
    }

    /// The same database for one user: its threads and its queue.
    ///
    /// In PostgreSQL, row-level security then hides what belongs to others, if [`separates_users`](Self::separates_users).
    /// SQLite hides nothing. So first look whether the user has a thread, with
    /// [`OwnedThreads::get`](crate::serve::OwnedThreads::get). A worker acts for the owner of the thread that it claimed.
    ///
    /// ```
    /// use prowess_agent::ThreadId;
    /// use prowess_store::{Database, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = Database::from(SqliteStore::in_memory()?);
    /// let anna = database.accounts().add_user("anna", false).await?;
    /// let thread = database.owned_threads().create(&anna.id, &ThreadId::new(), "default", "").await?;
    ///
    /// // A worker that claimed the thread:
    /// let owned = database.owned_threads().owner_of(&thread.id).await?.expect("an owner");
    /// let store = database.acting_for(&owned.owner).threads();
    /// assert!(store.list(1).await?.is_empty(), "it has no events yet");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "serve")]
    #[must_use]
    pub fn acting_for(&self, user: &str) -> Self {
        self.acting(ActsFor::User(crate::serve::possible_id(user).to_owned()))
    }

    /// Whether the database itself keeps users apart: it is PostgreSQL, and row-level security binds the role of this store.
    /// That role does not own the tables, and is no superuser.
    #[cfg(feature = "serve")]
    pub fn separates_users(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.is_walled(),
        }
    }

    /// The audit log.
    #[cfg(feature = "serve")]
    pub fn audit(&self) -> crate::serve::Audit {
        crate::serve::Audit::new(self.clone())
    }

    /// What the database was asked since it was opened. A file counts nothing.
    ///
    /// ```
    /// use prowess_store::{Database, SqliteStore};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = Database::from(SqliteStore::in_memory()?);
    /// assert_eq!(database.counters().round_trips, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self) -> crate::DatabaseCounters {
        match self {
            Self::Sqlite(_) => crate::DatabaseCounters::default(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.counters(),
        }
    }

    /// Checks that the database answers. For SQLite, also that its file is still the one that was opened.
    ///
    /// ```
    /// use prowess_store::{Database, DatabaseError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let file = directory.path().join("threads.db");
    /// let database = Database::open(&file.to_string_lossy()).await?;
    /// database.ping().await?;
    /// std::fs::remove_file(&file)?;
    /// assert!(matches!(database.ping().await, Err(DatabaseError::Replaced { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Replaced`], or the database does not answer.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(store) => store.check_in_place().await?,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {}
        }
        self.query(Statement::new(crate::sql::PING, [])).await.map(drop)
    }

    /// Checks that this program can still use the tables: a newer one may have changed them since it was opened. In PostgreSQL, newer
    /// tables say which programs can use them. In SQLite, no older program can.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Newer`], or the database failed.
    pub async fn check_tables(&self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(store) => store.check_tables().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.check_tables().await,
        }
    }

    /// Closes this handle; see [`SqliteStore::close`].
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub async fn close(self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Deletes threads that the retention does not keep and nobody has leased. Returns how many were deleted.
    ///
    /// # Errors
    ///
    /// The database failed. Some threads may be deleted already.
    pub async fn prune(&self, retention: Retention) -> Result<u64, ThreadError> {
        match self {
            Self::Sqlite(store) => store.prune(retention).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.prune(retention).await,
        }
    }
}

impl Database {
    /// The same database, whose statements run for somebody.
    pub(crate) fn acting(&self, acts_for: ActsFor) -> Self {
        match self {
            Self::Sqlite(store) => {
                // A SQLite file has no wall.
                drop(acts_for);
                Self::Sqlite(store.clone())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Self::Postgres(store.acting_for(acts_for)),
        }
    }

    /// The name of the database in messages.
    pub(crate) fn place(&self) -> &str {
        match self {
            Self::Sqlite(store) => store.place(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.place(),
        }
    }

    /// Whether statements run for a user.
    pub(crate) fn acts_for_user(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.acts_for_user(),
        }
    }

    /// Runs a statement that changes nothing.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Self::Sqlite(store) => store.query(statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.query(statement).await,
        }
    }

    /// Runs a statement that changes nothing, and looks at a few small rows.
    pub(crate) async fn query_briefly(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Self::Sqlite(store) => store.query_briefly(statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.query(statement).await,
        }
    }

    /// Runs statements that change nothing, and look at a few small rows. In PostgreSQL, they are one round trip.
    #[cfg(feature = "serve")]
    pub(crate) async fn query_all(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DatabaseError> {
        match self {
            Self::Sqlite(store) => {
                let mut all = Vec::with_capacity(statements.len());
                for statement in statements {
                    all.push(store.query_briefly(statement).await?);
                }
                Ok(all)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.transact(statements).await.map(Result::unwrap_or_default),
        }
    }

    /// Runs a statement that changes nothing, for no longer than this. Then it fails with [`DatabaseError::TimedOut`].
    #[cfg(feature = "serve")]
    pub(crate) async fn query_within(
        &self,
        statement: Statement,
        time: Duration,
    ) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Self::Sqlite(store) => store.query_within(statement, time).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.query_within(statement, time).await,
        }
    }

    /// Runs statements in a transaction, and returns when it is on the disk.
    pub(crate) async fn transact(&self, statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        match self {
            Self::Sqlite(store) => store.transact(statements).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.transact(statements).await,
        }
    }
}

impl From<SqliteStore> for Database {
    fn from(store: SqliteStore) -> Self {
        Self::Sqlite(store)
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresStore> for Database {
    fn from(store: PostgresStore) -> Self {
        Self::Postgres(store)
    }
}

/// The address of a server; `None` if this is the name of a file. No error repeats it, because it can have a password.
fn address(place: &str) -> Result<Option<String>, DatabaseError> {
    let Some((scheme, rest)) = place.split_once("://") else { return Ok(None) };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("postgres" | "postgresql") => Ok(Some(format!("{scheme}://{rest}"))),
        _ if is_scheme => {
            let problem = "it is not an address that starts with postgres://; write a file as its path";
            Err(DatabaseError::failed("the database", "be found by its name", problem))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_becomes_a_file() {
        for url in ["postgres://me:secret@db", "Postgres://me:secret@db", "POSTGRESQL://me:secret@db"] {
            let found = address(url).unwrap().unwrap();
            assert!(found.starts_with("postgres") && found.ends_with("://me:secret@db"), "{found}");
        }
        for other in ["mysql://me:secret@db", "postgres+tls://me:secret@db", "file:///secret.db"] {
            let refused = address(other).unwrap_err().to_string();
            assert!(refused.contains("write a file as its path") && !refused.contains("secret"), "{refused}");
        }
        for file in ["a.db", "/tmp/a.db", "postgres", "./odd://name.db", "C:\\a.db"] {
            assert_eq!(address(file).unwrap(), None, "{file}");
        }
    }
}
