//! Where contents are stored: in memory, on disk or in an object store.

mod disk;
mod memory;
#[cfg(feature = "object")]
mod object;

use std::fmt::Debug;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

pub use disk::DiskContents;
pub use memory::MemoryContents;
#[cfg(feature = "object")]
pub use object::ObjectContents;

use super::error::BoxError;

/// Something in a [`ContentStore`].
///
/// ```
/// use prowess_workspace::inventory::{ContentStore, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = MemoryContents::default();
/// store.put("notes/one", "low tide".into()).await?;
/// let listed = store.list("notes").await?;
/// assert_eq!(listed[0].name, "notes/one");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredContent {
    /// Its whole name.
    pub name: String,
    /// When it was last written.
    pub written: SystemTime,
}

/// Keeps bytes under names: letters and digits, with slashes in between.
///
/// A write of a name replaces what is there. Writes may come late, more than once or in another order, and a write that
/// succeeded may be lost: [`super::Contents`] write only bytes that their name determines, look whether they are there, and
/// check what they read.
///
/// ```
/// use prowess_workspace::inventory::{ContentStore, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = MemoryContents::default();
/// store.put("notes/one", "low tide".into()).await?;
/// assert_eq!(store.size("notes/one").await?, Some(8));
/// assert_eq!(store.get("notes/one", 1024).await?.as_deref(), Some(&b"low tide"[..]));
/// store.remove("notes/one").await?;
/// assert_eq!(store.size("notes/one").await?, None);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ContentStore: Send + Sync + Debug {
    /// Stores `bytes`, completely or not at all.
    ///
    /// # Errors
    ///
    /// The store failed. The bytes may be stored all the same.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError>;

    /// Reads what has this name; `None` if nothing has.
    ///
    /// # Errors
    ///
    /// The store failed, or there are more than `most` bytes.
    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError>;

    /// How many bytes have this name; `None` if nothing has.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn size(&self, name: &str) -> Result<Option<u64>, BoxError>;

    /// When what has this name was last written, as [`ContentStore::list`] says; `None` if nothing has.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError>;

    /// Removes what has this name. It is not an error if nothing has.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn remove(&self, name: &str) -> Result<(), BoxError>;

    /// Lists everything whose name begins with `directory` and a slash.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError>;
}

/// There are more bytes than the reader wants: the store works, and has something else.
#[derive(Debug, thiserror::Error)]
#[error("it has more than {0} bytes")]
pub(super) struct TooLarge(u64);

fn too_large(most: u64) -> BoxError {
    TooLarge(most).into()
}
