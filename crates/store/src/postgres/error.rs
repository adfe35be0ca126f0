//! What PostgreSQL says, in the words of this crate.

use std::sync::Arc;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;

use super::LOCKED;
use crate::error::DatabaseError;

/// An error of a statement.
pub(super) fn explained(place: &str, error: Error) -> DatabaseError {
    let owned = place.to_owned();
    let Some(code) = error.code() else {
        return if error.is_closed() || is_io(&error) {
            DatabaseError::Unreachable { place: owned, source: Arc::new(error) }
        } else {
            // A column that is not of its type.
            DatabaseError::damaged(place, said(&error))
        };
    };
    // The driver's own words are "db error"; the server's are in its source.
    let source = || Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(said(&error)));
    match code.code() {
        // No room on the disk, or in memory.
        "53100" | "53200" => DatabaseError::Full { place: owned, source: source() },
        // Others have what it needs.
        "55P03" => DatabaseError::Busy { place: owned, seconds: LOCKED.as_secs() },
        // It was in the middle of a transaction for too long, and the server closed the connection.
        "25P03" => DatabaseError::Unreachable { place: owned, source: source() },
        // Read-only, or an error of the server's system.
        "25006" | "58030" => DatabaseError::Unwritable { place: owned, source: source() },
        // The server found damage, or the tables are not those that were made.
        "XX001" | "XX002" | "42P01" | "42703" => DatabaseError::damaged(place, said(&error)),
        code => match code.get(..2) {
            // The rows are not those that were made.
            Some("23") => DatabaseError::damaged(place, said(&error)),
            // The connection is gone, was refused, or ended by the server.
            Some("08" | "28" | "57") => DatabaseError::Unreachable { place: owned, source: source() },
            _ => DatabaseError::failed(place, "do what it was told", said(&error)),
        },
    }
}

/// An error of getting a connection.
pub(super) fn unreachable(place: &str, error: PoolError) -> DatabaseError {
    match error {
        PoolError::Backend(error) if error.code().is_some() => explained(place, error),
        error => DatabaseError::Unreachable {
            place: place.to_owned(),
            source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(chain(&error))),
        },
    }
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

/// What the server said, or the driver with its reasons.
fn said(error: &Error) -> String {
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
