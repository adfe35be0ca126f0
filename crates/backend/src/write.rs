//! Writes and edits of files.

use crate::{BackendError, Entry, Result, VirtualPath};

/// The largest file that [`Backend::edit`](crate::Backend::edit) changes, in bytes.
pub const MAX_EDIT_BYTES: u64 = 16 * 1024 * 1024;

/// What a write does if the file exists.
///
/// ```
/// use prowess_backend::{Backend, BackendError, MemoryBackend, VirtualPath, WriteMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BackendError> {
/// let (files, path) = (MemoryBackend::new(), VirtualPath::parse("/lock")?);
/// files.write(&path, "mine".into(), WriteMode::CreateNew).await?;
/// let second = files.write(&path, "mine".into(), WriteMode::CreateNew).await;
/// assert!(matches!(second, Err(BackendError::AlreadyExists { .. })));
/// files.write(&path, "yours".into(), WriteMode::Replace).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Create the file or replace all of it. A reader sees the old contents or the new, never a mixture.
    Replace,
    /// Create the file, or fail with [`BackendError::AlreadyExists`]. Of two concurrent writers, one wins.
    CreateNew,
}

/// Which occurrences of a text an [`Edit`] replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditScope {
    /// The only occurrence. More than one is an error.
    Unique,
    /// All occurrences, at least one.
    All,
}

/// An exact replacement in a text file.
///
/// ```
/// use prowess_backend::{BackendError, Edit, VirtualPath};
///
/// let path = VirtualPath::parse("/notes.md")?;
/// let (text, count) = Edit::all("tide", "ebb").apply(&path, b"tide and tide")?;
/// assert_eq!((text.as_str(), count), ("ebb and ebb", 2));
///
/// let unclear = Edit::unique("tide", "ebb").apply(&path, b"tide and tide");
/// assert!(unclear.is_err(), "more than one");
/// # Ok::<(), BackendError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The text to replace, compared byte by byte. It must not be empty.
    pub find: String,
    /// The new text. An empty text deletes.
    pub replace: String,
    /// Which occurrences to replace.
    pub scope: EditScope,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The file after the edit.
    pub entry: Entry,
    /// How many occurrences were replaced.
    pub replacements: usize,
}

impl Edit {
    /// Replaces the only occurrence of `find`.
    #[must_use]
    pub fn unique(find: impl Into<String>, replace: impl Into<String>) -> Self {
        Self { find: find.into(), replace: replace.into(), scope: EditScope::Unique }
    }

    /// Replaces every occurrence of `find`.
    #[must_use]
    pub fn all(find: impl Into<String>, replace: impl Into<String>) -> Self {
        Self { find: find.into(), replace: replace.into(), scope: EditScope::All }
    }

    /// Applies the edit to the contents of `path`, without I/O. Returns the new contents and the number of
    /// replacements.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidEdit`] for an empty `find`, [`BackendError::NotText`], [`BackendError::TextNotFound`],
    /// and [`BackendError::TextNotUnique`] with the number of occurrences.
    pub fn apply(&self, path: &VirtualPath, before: &[u8]) -> Result<(String, usize)> {
        let path = || path.clone();
        if self.find.is_empty() {
            let reason = "the text to replace is empty; name the text, or write the whole file";
            return Err(BackendError::InvalidEdit { path: path(), reason });
        }
        let Ok(text) = std::str::from_utf8(before) else {
            return Err(BackendError::NotText { path: path() });
        };
        match (text.matches(&self.find).count(), self.scope) {
            (0, _) => Err(BackendError::TextNotFound { path: path() }),
            (count @ 2.., EditScope::Unique) => Err(BackendError::TextNotUnique { path: path(), count }),
            (count, _) => Ok((text.replace(&self.find, &self.replace), count)),
        }
    }
}
