//! Brings a PostgreSQL database to the newest version of the tables.

use std::time::Duration;

use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::PostgresStore;
use crate::error::DatabaseError;
use crate::migrations::{self, KNOWN, SqlDialect};

/// The advisory lock of migrations, so that one process migrates at a time: `prowess` in bytes.
const MIGRATION_LOCK: i64 = 0x70_726f_7765_7373;

/// Reads the version of the tables.
const VERSION: &str = "SELECT MAX(version) FROM prowess_schema";

/// Makes the table that holds the version.
const FIRST: &str = "\
CREATE TABLE IF NOT EXISTS prowess_schema (version BIGINT NOT NULL);
INSERT INTO prowess_schema SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM prowess_schema)";

/// The first version of the tables that several processes use.
const FIRST_FOR_MANY: i64 = 10;

/// Whether no server uses tables of an earlier version: each has a lock. The transaction has it from now on, so none begins meanwhile.
const NO_OLDER_SERVER: &str =
    "SELECT 1 WHERE pg_try_advisory_xact_lock(1886547831, 'prowess_schema'::REGCLASS::OID::INT4)";

/// The connection of such a server.
const OLDER_SERVER: &str = "\
SELECT held.pid FROM pg_locks AS held
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 2 AND held.classid = 1886547831
    AND held.objid = to_regclass('prowess_schema')::oid
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// How often the lock of an older server is tried, and the pause after each time.
const OLDER_SERVER_TRIES: u32 = 20;
const OLDER_SERVER_PAUSE: Duration = Duration::from_millis(50);

/// How long a migration waits for those of other processes. [`BEGIN`] has the same value.
const MIGRATION_LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const BEGIN: &str = "SET LOCAL lock_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '60s'";

impl PostgresStore {
    /// Runs the missing migrations, each in its own transaction.
    pub(super) async fn migrate(&self) -> Result<(), DatabaseError> {
        let place = &*self.0.place;
        let failed = |error| self.failed(error).waited(MIGRATION_LOCK_TIMEOUT);
        let mut client = self.client().await?;
        loop {
            let found = version(&client).await.map_err(failed)?;
            if found > KNOWN as i64 {
                return self.check_tables().await;
            }
            if migrations::missing(place, SqlDialect::Postgres, found)?.next().is_none() {
                return Ok(());
            }
            let transaction = client.transaction().await.map_err(failed)?;
            transaction.batch_execute(BEGIN).await.map_err(failed)?;
            let lock = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})");
            transaction.batch_execute(&lock).await.map_err(failed)?;
            transaction.batch_execute(FIRST).await.map_err(failed)?;
            // Another process may have migrated meanwhile, and further than this program can.
            let found = version(transaction.client()).await.map_err(failed)?;
            if found > KNOWN as i64 {
                continue;
            }
            if let Some((version, text)) = migrations::missing(place, SqlDialect::Postgres, found)?.next() {
                if (1..FIRST_FOR_MANY).contains(&found) {
                    self.check_no_older_server(transaction.client()).await?;
                }
                transaction.batch_execute(&text).await.map_err(failed)?;
                let done = format!("UPDATE prowess_schema SET version = {version}");
                transaction.batch_execute(&done).await.map_err(failed)?;
            }
            transaction.commit().await.map_err(failed)?;
        }
    }
}

impl PostgresStore {
    /// Checks that this program can use the tables. A newer one may have changed them since.
    pub(crate) async fn check_tables(&self) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let failed = |error| self.failed(error);
        let oldest = number(&client, "SELECT MAX(works_with) FROM prowess_schema").await.map_err(failed)?;
        if oldest.is_some_and(|oldest| oldest > KNOWN as i64) {
            let found = version(&client).await.map_err(failed)?;
            return Err(migrations::newer(&self.0.place, found));
        }
        Ok(())
    }

    /// Refuses to change the tables while a server of an older version uses them. Such a server holds a lock.
    async fn check_no_older_server(&self, client: &Client) -> Result<(), DatabaseError> {
        let failed = |error| self.failed(error);
        // Another process that just migrated may not have let go of the lock yet.
        for _ in 0..OLDER_SERVER_TRIES {
            if number(client, NO_OLDER_SERVER).await.map_err(failed)?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(OLDER_SERVER_PAUSE).await;
        }
        let holder = number(client, OLDER_SERVER).await.map_err(failed)?;
        let connection =
            holder.map_or_else(String::new, |pid| format!(", with the connection {pid} in pg_stat_activity"));
        let by = format!("an older version{connection}");
        Err(DatabaseError::Served { place: self.0.place.to_string(), by })
    }
}

/// The version of the tables; 0 if there are none.
async fn version(client: &Client) -> Result<i64, Error> {
    let is_there = "SELECT 1 WHERE to_regclass('prowess_schema') IS NOT NULL";
    if number(client, is_there).await?.is_none() {
        return Ok(0);
    }
    Ok(number(client, VERSION).await?.unwrap_or_default())
}

/// The first number that a query finds. A simple query needs no name, so it works through a pooler.
async fn number(client: &Client, query: &str) -> Result<Option<i64>, Error> {
    let found = client.simple_query(query).await?;
    Ok(found.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    }))
}
