//! The lock of the only server that uses a database.

use deadpool_postgres::{ClientWrapper, Object};
use tokio_postgres::error::SqlState;

use super::PostgresStore;
use super::error::database_error;
use crate::error::DatabaseError;

/// What the connection with the lock calls itself, before the name of its holder.
const NAMED: &str = "prowess serve: ";

/// Prepares the connection. PostgreSQL frees the lock when it notices that the connection is gone: at once if the process was
/// killed, and by these probes if its machine vanished. A server that starts again waits for the first. The connection is idle for
/// as long as the server runs; PostgreSQL has a limit for that since version 14.
const SETTINGS: &str = "SET lock_timeout = '3s'; \
    SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'; \
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/// Advisory locks belong to a whole database, so the table stands for its schema. The number is `prow` in bytes.
const TAKE: &str = "SELECT pg_advisory_lock(1886547831, 'prowess_schema'::regclass::oid::int4)";

/// Who has the lock.
const HOLDER: &str = "\
SELECT held.pid, COALESCE(activity.application_name, '') FROM pg_locks AS held
LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 2 AND held.classid = 1886547831
    AND held.objid = 'prowess_schema'::regclass::oid
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The lock of the only server that uses a PostgreSQL database. It has a connection of its own, and ends with it.
///
/// ```no_run
/// use prowess_store::{DatabaseError, PostgresStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://prowess@db.example.com/prowess").await?;
/// let lock = store.lock_for_server("process 7 on mars").await?;
/// assert!(lock.is_held());
/// let refused = store.lock_for_server("process 8 on mars").await;
/// assert!(matches!(refused, Err(DatabaseError::Served { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServerLock(ClientWrapper);

impl ServerLock {
    /// Whether the connection is still there.
    pub fn is_held(&self) -> bool {
        !self.0.is_closed()
    }
}

impl PostgresStore {
    /// Takes the lock of the only server that uses this database. Other servers see the name of the holder.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Served`] if another server has the lock, or the database failed.
    pub async fn lock_for_server(&self, holder: &str) -> Result<ServerLock, DatabaseError> {
        let place = &*self.0.place;
        let failed = |error| database_error(place, error);
        let client = Object::take(self.client().await?);
        client.batch_execute(SETTINGS).await.map_err(failed)?;
        let name = "SELECT set_config('application_name', $1, false)";
        client.execute(name, &[&format!("{NAMED}{holder}")]).await.map_err(failed)?;
        match client.execute(TAKE, &[]).await {
            Ok(_) => Ok(ServerLock(client)),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                let by = match client.query_opt(HOLDER, &[]).await.map_err(failed)? {
                    None => "one that has just ended".to_owned(),
                    Some(row) => {
                        let (pid, name): (i32, String) =
                            (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
                        // Roles do not see how the connections of others call themselves.
                        match name.strip_prefix(NAMED) {
                            Some(holder) => holder.to_owned(),
                            None => format!("the connection {pid} in pg_stat_activity"),
                        }
                    }
                };
                Err(DatabaseError::Served { place: place.to_owned(), by })
            }
            Err(error) => Err(failed(error)),
        }
    }
}
