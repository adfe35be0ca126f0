//! Why files could not be stored or restored.

use super::ContentDigest;

/// Any error of a store.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why files could not be stored or restored. A path is that of a tree, never one of this machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// The store failed, again and again.
    #[error("{action} failed {attempts} times: {source}")]
    Store {
        /// The failed action, such as ``storing `/project/plan.md` ``.
        action: String,
        /// How often it was tried.
        attempts: u32,
        /// The last error.
        source: BoxError,
    },
    /// The store no longer has a content.
    #[error("the object store no longer has {what} (SHA-256 {digest})")]
    Gone {
        /// What the content is, such as `` `/project/plan.md` ``.
        what: String,
        /// Its digest.
        digest: ContentDigest,
    },
    /// The store has other bytes than those that were stored.
    #[error("the object store has other bytes for {what} than were stored (SHA-256 {digest})")]
    Damaged {
        /// What the content is.
        what: String,
        /// Its digest.
        digest: ContentDigest,
    },
    /// An inventory is not one that this version can use.
    #[error("the inventory {digest} cannot be used: {problem}")]
    Unusable {
        /// Its digest.
        digest: ContentDigest,
        /// What is wrong.
        problem: String,
    },
    /// Another process of this machine works with the directories of the thread.
    #[error("another process of this machine still works with the thread's directories")]
    InUse,
    /// The last restore failed, so the directories are neither what they were nor what they should be.
    #[error("the thread's files were restored only in part")]
    HalfRestored,
    /// The local disk failed.
    #[error("{action} failed: {error}")]
    Local {
        /// The failed action.
        action: String,
        /// The error of the system.
        error: std::io::Error,
    },
}

impl InventoryError {
    /// Whether the same can work later, although nothing about the thread changes: the store did not answer, or another
    /// process uses the directories.
    ///
    /// ```
    /// use prowess_workspace::inventory::InventoryError;
    ///
    /// assert!(InventoryError::InUse.passes());
    /// assert!(!InventoryError::HalfRestored.passes());
    /// ```
    pub fn passes(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::InUse)
    }

    pub(super) fn local(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Local { action: action.into(), error }
    }
}
