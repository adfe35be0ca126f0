//! A database by its name.

use std::sync::Arc;

use prowess_agent::{ThreadError, ThreadStore};

use crate::error::DatabaseError;
#[cfg(feature = "postgres")]
use crate::postgres::PostgresStore;
use crate::retention::Retention;
use crate::sqlite::SqliteStore;

/// One of the databases, for those who let their users choose.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Database {
    /// A file.
    Sqlite(SqliteStore),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

impl Database {
    /// Opens the database at `postgres://…`, or in a file.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or this program was built without what it needs.
    pub async fn open(place: &str) -> Result<Self, DatabaseError> {
        if place.starts_with("postgres://") || place.starts_with("postgresql://") {
            #[cfg(feature = "postgres")]
            return Ok(Self::Postgres(PostgresStore::connect(place).await?));
            #[cfg(not(feature = "postgres"))]
            return Err(DatabaseError::Unsupported {
                place: "PostgreSQL".to_owned(),
                needs: "the feature `postgres`",
            });
        }
        Ok(Self::Sqlite(SqliteStore::open(place).await?))
    }

    /// Its threads.
    pub fn threads(&self) -> Arc<dyn ThreadStore> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Its approvals.
    #[cfg(feature = "approvals")]
    pub fn approvals(&self) -> Arc<dyn prowess_permission::ApprovalStore> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Its index of artifacts.
    #[cfg(feature = "artifacts")]
    pub fn artifacts(&self) -> Arc<dyn prowess_workspace::ArtifactIndex> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Deletes threads that are past what is to be kept and that nobody writes to, and says how many.
    ///
    /// # Errors
    ///
    /// The database failed. Those that were deleted before are gone.
    pub async fn prune(&self, retention: Retention) -> Result<u64, ThreadError> {
        match self {
            Self::Sqlite(store) => store.prune(retention).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.prune(retention).await,
        }
    }
}
