//! Translates PostgreSQL errors.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;

use super::LOCK_TIMEOUT;
use crate::error::DatabaseError;

/// The error of a statement.
pub(super) fn database_error(place: &str, error: Error) -> DatabaseError {
    let owned = place.to_owned();
    let Some(code) = error.code() else {
        return if error.is_closed() || is_io(&error) {
            DatabaseError::Unreachable { place: owned, source: Arc::new(error) }
        } else {
            // A column has the wrong type.
            DatabaseError::damaged(place, message_of(&error))
        };
    };
    // The driver only says "db error"; the server's message is in its source.
    let source = || Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(message_of(&error)));
    match code.code() {
        // No space on the disk or in memory.
        "53100" | "53200" => DatabaseError::Full { place: owned, source: source() },
        // Others hold a lock, or wait for a lock of this one.
        "55P03" | "40P01" | "40001" => DatabaseError::Busy { place: owned, seconds: LOCK_TIMEOUT.as_secs() },
        // The statement took longer than it may.
        "57014" => DatabaseError::TimedOut { place: owned },
        // The transaction was idle for too long, and the server closed the connection.
        "25P03" => DatabaseError::Unreachable { place: owned, source: source() },
        // Read-only, or an I/O error of the server.
        "25006" | "58030" => DatabaseError::Unwritable { place: owned, source: source() },
        // The database does not exist.
        "3D000" => DatabaseError::Missing { place: owned },
        // The role lacks a right, or row-level security refuses a row.
        "42501" => DatabaseError::Denied { place: owned, source: source() },
        // The server found damage, or a table is missing or different.
        "XX001" | "XX002" | "42P01" | "42703" => DatabaseError::damaged(place, message_of(&error)),
        code => match code.get(..2) {
            // A constraint is violated.
            Some("23") => DatabaseError::damaged(place, message_of(&error)),
            // The role or its password.
            Some("28") => DatabaseError::Refused { place: owned, source: source() },
            // The connection was lost, or closed by the server, or the server has no more of them.
            Some("08" | "57" | "53") => DatabaseError::Unreachable { place: owned, source: source() },
            _ => DatabaseError::failed(place, "run a statement", message_of(&error)),
        },
    }
}

/// The error of a failed connection.
pub(super) fn unreachable(place: &str, error: PoolError) -> DatabaseError {
    match error {
        PoolError::Backend(error) if error.code().is_some() => database_error(place, error),
        PoolError::Backend(error) => unreachable_because(place, chain(&error)),
        error => unreachable_because(place, chain(&error)),
    }
}

/// The error of a server that does not answer.
pub(super) fn unreachable_because(place: &str, why: String) -> DatabaseError {
    let source = Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(why));
    DatabaseError::Unreachable { place: place.to_owned(), source }
}

fn is_io(error: &Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        if source.is::<std::io::Error>() {
            return true;
        }
        next = source.source();
    }
    false
}

/// The message of the server, or of the driver with its causes.
fn message_of(error: &Error) -> String {
    error.as_db_error().map_or_else(|| chain(error), ToString::to_string)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

impl DatabaseError {
    /// The same error of a statement that waited for locks for another time than others.
    pub(super) fn waited(self, time: Duration) -> Self {
        match self {
            Self::Busy { place, .. } => Self::Busy { place, seconds: time.as_secs() },
            other => other,
        }
    }
}
