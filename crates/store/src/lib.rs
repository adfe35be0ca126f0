//! Threads, approvals and the index of artifacts on SQLite and PostgreSQL.
//!
//! ```
//! use std::time::Duration;
//!
//! use prowess_agent::{Event, Message, ThreadId, ThreadStore};
//! use prowess_store::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("threads.db");
//! let store = SqliteStore::open(&path).await?;
//! let lease = store.lease(&ThreadId::new(), "this process", Duration::from_secs(60)).await?;
//! let said = Event::TurnStarted { messages: vec![Message::user("Write the release notes.")] };
//! store.append(&lease, 0, &[said]).await?;
//! store.release(&lease).await?;
//! drop(store);
//!
//! let again = SqliteStore::open(&path).await?;
//! assert_eq!(again.events(&lease.thread, 0, 100).await?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`SqliteStore`] and, with the feature `postgres`, `PostgresStore` implement the traits that others define, with the
//! same statements and the same suites: [`ThreadStore`](prowess_agent::ThreadStore); with the feature `approvals`
//! `ApprovalStore` of `prowess-permission`; with the feature `artifacts` `ArtifactIndex` of `prowess-workspace`.
//! [`Database`] is one of the two, chosen by a name.
//!
//! Promises:
//!
//! - What a call returned `Ok` for survives the death of the process and of the machine.
//! - Conditions are checked by the statement that changes something. A lease ends with its time for those who want
//!   it, and with the next one for who has it: a writer is told apart by its epoch and not by a clock.
//! - Every event has a checksum, and a thread no gaps: what a disk did not keep is an error, never another text or
//!   a shorter thread.
//! - A damaged file is left as it is. [`SqliteStore::set_aside`] moves it away, when somebody asks for it.
//! - A database of a newer version is not touched.

#[cfg(feature = "approvals")]
mod approval;
#[cfg(feature = "artifacts")]
mod artifact;
mod database;
mod doing;
mod error;
mod event;
mod lease;
mod list;
#[cfg(feature = "postgres")]
mod postgres;
mod retention;
mod schema;
mod sql;
mod sqlite;

pub use database::Database;
pub use error::DatabaseError;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use retention::Retention;
pub use sqlite::{SetAside, SqliteStore};
