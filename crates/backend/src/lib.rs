//! Where files live: a local directory, memory, an object store, or several of them under one root.
//!
//! ```
//! use std::sync::Arc;
//! use prowess_backend::{Backend, CompositeBackend, GlobQuery, MemoryBackend, VirtualPath, WriteMode};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), prowess_backend::BackendError> {
//! let files = CompositeBackend::new(Arc::new(MemoryBackend::new()))
//!     .mount(VirtualPath::parse("/skills")?, Arc::new(MemoryBackend::new()));
//!
//! let manifest = VirtualPath::parse("/skills/pdf/SKILL.md")?;
//! files.write(&manifest, "---\nname: pdf\n---\n".into(), WriteMode::CreateNew).await?;
//!
//! let found = files.glob(&VirtualPath::root(), &GlobQuery::new("skills/**/SKILL.md")?).await?;
//! assert_eq!(found.entries[0].path, manifest);
//! assert!(found.stopped.is_none(), "a cap that ends a search early says so");
//!
//! let paths: Vec<VirtualPath> = found.entries.into_iter().map(|entry| entry.path).collect();
//! for read in files.read_many(&paths, 64 * 1024).await {
//!     let contents = read?; // each file has its own error
//!     assert!(contents.is_whole() && contents.stamp.is_some());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything is a [`Backend`]: one object-safe trait. [`LocalBackend`] is rooted at a directory that
//! neither links nor races lead out of; [`MemoryBackend`] lives as long as its value;
//! `ObjectBackend` (feature `object`, and `s3` for its settings) keeps files in an object store;
//! [`CompositeBackend`] routes by path.
//!
//! Promises that hold for all of them:
//!
//! - A path is a [`VirtualPath`], checked once. There is no other way to name a file.
//! - Nothing is unbounded. A read has a maximum, a search has caps, and a cap that bites is a value in
//!   the answer ([`Cap`]), never silence.
//! - A batch answers for each item, in order; one failure is not the batch's.
//! - Writes are whole: a reader sees the old file or the new one. Appends and edits at the same time
//!   lose nothing, or say [`BackendError::Conflict`]. Surviving a loss of power is not promised.
//!
//! The crate knows nothing of what the files mean. It needs a Tokio runtime with its time driver.
//! [`LocalBackend`] is there on Unix.
//!
//! Features, all off by default: `object`, `s3`, `serde`, and `testing`, which has the suite that every
//! backend passes, for your own.

mod backend;
pub mod cap;
mod composite;
pub mod entry;
mod error;
mod execute;
pub mod glob;
pub mod grep;
#[cfg(unix)]
mod local;
mod memory;
#[cfg(feature = "object")]
pub mod object;
pub mod path;
pub mod read;
#[cfg(feature = "testing")]
pub mod testing;
mod turns;
mod walk;
pub mod write;

pub use backend::Backend;
pub use composite::CompositeBackend;
pub use entry::{Entry, EntryKind, Listing, Stamp};
pub use error::{BackendError, Result};
pub use execute::{Execute, ExecuteReport, ExecuteRequest};
pub use glob::{GlobQuery, GlobReport};
pub use grep::{GrepMatch, GrepQuery, GrepReport};
#[cfg(unix)]
pub use local::LocalBackend;
pub use memory::MemoryBackend;
#[cfg(feature = "object")]
pub use object::ObjectBackend;
pub use path::{PathProblem, VirtualPath};
pub use read::{Contents, ReadRange};
pub use write::{Edit, EditScope, Edited, WriteMode};
