//! SQLite connections, with the settings that the store's promises need.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, ffi};

use super::migrate::migrate;
use crate::error::DatabaseError;
use crate::migrations::{self, SqlDialect};

/// How long a process waits for others.
pub(super) const BUSY: Duration = Duration::from_secs(20);
/// The largest empty log that stays beside the database, in bytes.
const MAX_IDLE_LOG: i64 = 16 << 20;
/// The application id of the file: `prws`.
pub(super) const APPLICATION: u32 = 0x7072_7773;

/// Opens an existing database.
pub(super) fn open(path: &Path, place: &str) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error| database_error(place, error);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    // Check the version before anything changes, even the kind of log. The contents of the log stay.
    let keep_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(keep_log, true).map_err(failed)?;
    drop(migrations::missing(
        place,
        SqlDialect::Sqlite,
        number(&connection, "user_version").map_err(failed)?,
    )?);
    set_up(&connection).map_err(failed)?;
    connection.set_db_config(keep_log, false).map_err(failed)?;
    Ok(connection)
}

/// Opens a connection for reading.
pub(super) fn open_to_read(path: &Path, place: &str) -> Result<Connection, DatabaseError> {
    let connection = open(path, place)?;
    connection.pragma_update(None, "query_only", true).map_err(|error| database_error(place, error))?;
    Ok(connection)
}

/// Makes a database in an empty file, and closes it.
pub(super) fn begin(path: &Path, place: &str) -> Result<(), DatabaseError> {
    let failed = |error| database_error(place, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    set_up(&connection).map_err(failed)?;
    migrate(&mut connection, place)?;
    connection.close().map_err(|(_, error)| failed(error))
}

pub(super) fn in_memory(place: &str) -> Result<Connection, DatabaseError> {
    let failed = |error| database_error(place, error);
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    set_up(&connection).map_err(failed)?;
    migrate(&mut connection, place)?;
    Ok(connection)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    // Else SQLite compiles a statement again whenever a parameter of its LIMIT or LIKE has another value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A database in memory has no log.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", MAX_IDLE_LOG, |_| Ok(()))?;
    Flush::Now.set(connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Deleted data is overwritten, damage shows early, and the file's schema cannot run code.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_prepared_statement_cache_capacity(64);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("prowess_now", 0, flags, |_| Ok(now()))?;
    // The time that Rust's search takes grows with the text alone, whatever the part is.
    connection.create_scalar_function("prowess_has", 2, flags, |context| {
        let (text, part) = (context.get_raw(0).as_str()?, context.get_raw(1).as_str()?);
        Ok(text.contains(part))
    })
}

/// When what a transaction wrote is flushed to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// With the next transaction that is flushed. If the machine crashes before, the transaction is undone. A process that is
    /// killed loses nothing.
    Later,
    /// Before the commit returns.
    Now,
}

impl Flush {
    /// Sets it for the transactions that follow.
    pub(super) fn set(self, connection: &Connection) -> rusqlite::Result<()> {
        let mode = match self {
            Self::Later => "normal",
            Self::Now => "full",
        };
        connection.pragma_update(None, "synchronous", mode)
    }
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Translates a SQLite error.
pub(super) fn database_error(place: &str, error: Error) -> DatabaseError {
    let owned = || place.to_owned();
    let (code, extended) = match &error {
        Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
        // Our SQL is right, so the tables or types are wrong.
        Error::SqlInputError { msg, .. } => return DatabaseError::damaged(place, msg),
        Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnIndex(..)
        | Error::Utf8Error(..) => return DatabaseError::damaged(place, error.to_string()),
        _ => return DatabaseError::failed(place, "run a statement", error),
    };
    match (code, extended) {
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation, _)
        | (_, ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS | ffi::SQLITE_IOERR_DATA) => {
            DatabaseError::damaged(place, error.to_string())
        }
        (ErrorCode::DiskFull, _) => DatabaseError::Full { place: owned(), source: Arc::new(error) },
        (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => {
            DatabaseError::Unflushed { place: owned(), source: Arc::new(error) }
        }
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE | ffi::SQLITE_IOERR_SHMSIZE)
        | (ErrorCode::ReadOnly, _) => DatabaseError::Unwritable { place: owned(), source: Arc::new(error) },
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            DatabaseError::Busy { place: owned(), seconds: BUSY.as_secs() }
        }
        (ErrorCode::OperationInterrupted, _) => DatabaseError::TimedOut { place: owned() },
        _ => DatabaseError::failed(place, "run a statement", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_failed_promises_nothing() {
        let failed =
            |code| database_error("x", Error::SqliteFailure(ffi::Error::new(code), None)).to_string();
        let words = failed(ffi::SQLITE_IOERR_FSYNC);
        assert!(
            words.contains("may be lost in a crash") && !words.contains("nothing new was stored"),
            "{words}"
        );
        assert!(failed(ffi::SQLITE_IOERR_WRITE).contains("nothing new was stored"));
    }

    #[test]
    fn every_connection_flushes_what_it_writes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        std::fs::write(&path, "").unwrap();
        begin(&path, "x").unwrap();
        for connection in [open(&path, "x").unwrap(), open_to_read(&path, "x").unwrap()] {
            let log: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            let numbers = ["synchronous", "foreign_keys", "secure_delete"];
            let numbers = numbers.map(|name| number(&connection, name).unwrap());
            assert_eq!((log.as_str(), numbers), ("wal", [2, 1, 1]));
        }
        assert!(open_to_read(&path, "x").unwrap().execute("DELETE FROM prowess_threads", []).is_err());
    }
}
