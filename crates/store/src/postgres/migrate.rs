//! Brings a PostgreSQL database to the newest version of the tables.

use deadpool_postgres::Object;

use super::PostgresStore;
use super::error::database_error;
use crate::error::DatabaseError;
use crate::migrations::{self, SqlDialect};

/// The advisory lock of migrations, so that one process migrates at a time: `prowess` in bytes.
const MIGRATION_LOCK: i64 = 0x70_726f_7765_7373;

/// Reads the version of the tables.
const VERSION: &str = "SELECT MAX(version) FROM prowess_schema";

/// Makes the table that holds the version.
const FIRST: &str = "\
CREATE TABLE IF NOT EXISTS prowess_schema (version BIGINT NOT NULL);
INSERT INTO prowess_schema SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM prowess_schema)";

impl PostgresStore {
    /// Runs the missing migrations, each in its own transaction.
    pub(super) async fn migrate(&self) -> Result<(), DatabaseError> {
        let place = &*self.0.place;
        let failed = |error| database_error(place, error);
        let mut client = self.client().await?;
        loop {
            let found = version(&client).await.map_err(failed)?;
            if migrations::missing(place, SqlDialect::Postgres, found)?.next().is_none() {
                return Ok(());
            }
            let transaction = client.transaction().await.map_err(failed)?;
            let lock = "SELECT pg_advisory_xact_lock($1)";
            transaction.execute(lock, &[&MIGRATION_LOCK]).await.map_err(failed)?;
            transaction.batch_execute(FIRST).await.map_err(failed)?;
            // Another process may have migrated meanwhile.
            let found =
                transaction.query_one(VERSION, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
            if let Some((version, text)) = migrations::missing(place, SqlDialect::Postgres, found)?.next() {
                transaction.batch_execute(&text).await.map_err(failed)?;
                let done = "UPDATE prowess_schema SET version = $1";
                transaction.execute(done, &[&version]).await.map_err(failed)?;
            }
            transaction.commit().await.map_err(failed)?;
        }
    }
}

/// The version of the tables; 0 if there are none.
async fn version(client: &Object) -> Result<i64, tokio_postgres::Error> {
    let there = client.query_one("SELECT to_regclass('prowess_schema') IS NOT NULL", &[]).await?;
    if there.try_get(0)? { client.query_one(VERSION, &[]).await?.try_get(0) } else { Ok(0) }
}
