//! Backends: where files live. A local directory, memory, an object store, or several of them under one root.
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
//! The five types to know:
//!
//! - [`Backend`] is the trait of all backends.
//! - [`LocalBackend`] holds the files below a local directory. No link or race leads out of it.
//! - [`MemoryBackend`] holds files in memory. `ObjectBackend` (features `object` and `s3`) holds them in an object store.
//! - [`CompositeBackend`] joins several backends under one root, by path.
//! - [`VirtualPath`] is a checked path. There is no other way to name a file.
//!
//! Promises of all backends:
//!
//! - Everything has a limit. A read has a maximum, a search has caps, and the result says which cap was reached
//!   ([`Cap`](cap::Cap)).
//! - A batch has a result for each item, in order. One failure does not affect the others.
//! - Writes are atomic: a reader sees the old file or the new one. Concurrent appends and edits lose nothing, or fail with
//!   [`BackendError::Conflict`]. Writes may be lost in a power failure.
//!
//! The crate does not know what the files mean. It needs a Tokio runtime with its time driver. [`LocalBackend`] exists on
//! Unix only.
//!
//! All features are off by default: `object`, `s3`, `serde`, and `testing`, which has the test suite for your own backends.

mod backend;
pub mod cap;
mod change_queue;
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
