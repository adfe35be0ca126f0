//! Stores threads, approvals, the index of artifacts and the queue of turns in SQLite or PostgreSQL.
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
//! The five types to know:
//!
//! - [`SqliteStore`] stores everything in one file, which several processes can use.
//! - `PostgresStore` (feature `postgres`) stores everything on a server, which many machines can use.
//! - [`Database`] is one of the two, chosen by name.
//! - [`Retention`] says which threads are deleted.
//! - [`DatabaseError`] says why a database failed.
//!
//! Both stores implement traits of other crates, with the same SQL and the same test suites:
//! [`ThreadStore`](prowess_agent::ThreadStore), `ApprovalStore` of `prowess-permission` (feature `approvals`), and
//! `ArtifactIndex` of `prowess-workspace` (feature `artifacts`). [`Database::queue`] returns a
//! [`TurnQueue`](prowess_agent::queue::TurnQueue) for either database.
//!
//! With the feature `serve`, `prowess_store::serve` has what a server for several people keeps: users and their access
//! tokens, whose each thread is, and the audit log.
//!
//! Promises:
//!
//! - When a call returns `Ok`, its data survives a crash of the process and of the machine.
//! - Conditional writes carry their condition in the SQL. A fencing epoch decides who owns a thread, not the clock.
//! - Every event has a checksum, and a thread has no gaps. Damage is an error, never a different or shorter thread.
//! - A damaged file is not changed. [`SqliteStore::set_aside`] moves it away on request.
//! - A database of a newer version is not changed.

mod action;
mod acts_for;
#[cfg(feature = "approvals")]
mod approval;
#[cfg(feature = "artifacts")]
mod artifact;
mod counters;
mod database;
mod error;
mod event;
mod lease;
mod list;
mod migrations;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod retention;
mod rows;
#[cfg(feature = "serve")]
pub mod serve;
pub mod signals;
mod sql;
mod sqlite;

pub use counters::DatabaseCounters;
pub use database::Database;
pub use error::DatabaseError;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use retention::Retention;
pub use sqlite::{SetAside, SqliteStore};
