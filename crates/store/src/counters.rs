//! What a database was asked.

#[cfg(feature = "postgres")]
use std::sync::atomic::{AtomicU64, Ordering};

/// What a database was asked since it was opened, and how busy its connections are. A file has no round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseCounters {
    /// Statements that were sent.
    pub statements: u64,
    /// How often somebody waited for the server. Statements that are sent together are one round trip.
    pub round_trips: u64,
    /// Errors.
    pub errors: u64,
    /// Connections without work.
    pub connections_idle: u64,
    /// Connections with work.
    pub connections_busy: u64,
    /// Callers that wait for a connection.
    pub waiting: u64,
}

/// The numbers as they are counted.
#[cfg(feature = "postgres")]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    statements: AtomicU64,
    round_trips: AtomicU64,
    errors: AtomicU64,
}

#[cfg(feature = "postgres")]
impl Counters {
    /// Counts statements that are sent together.
    pub(crate) fn sent(&self, statements: u64) {
        self.statements.fetch_add(statements, Ordering::Relaxed);
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error.
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> DatabaseCounters {
        DatabaseCounters {
            statements: self.statements.load(Ordering::Relaxed),
            round_trips: self.round_trips.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            ..DatabaseCounters::default()
        }
    }
}
