//! How much to read, and the contents that were read.

use bytes::Bytes;

use crate::{BackendError, Result, Stamp, VirtualPath};

/// The largest file that [`Backend::download`](crate::Backend::download) returns, in bytes.
pub const MAX_DOWNLOAD_BYTES: u64 = 64 * 1024 * 1024;

/// The part of a file to read. A range always has a maximum.
///
/// ```
/// use prowess_backend::{Backend, MemoryBackend, ReadRange, VirtualPath};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let (files, path) = (MemoryBackend::new(), VirtualPath::parse("/log")?);
/// files.append(&path, "one two three".into()).await?;
/// let part = files.read(&path, ReadRange::first(3).at(4)).await?;
/// assert_eq!(part.bytes, "two");
/// assert!(part.more && !part.is_whole());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRange {
    offset: u64,
    max_bytes: u64,
}

impl ReadRange {
    /// Reads at most `max_bytes` from the beginning.
    #[must_use]
    pub fn first(max_bytes: u64) -> Self {
        Self { offset: 0, max_bytes }
    }

    /// Reads the same number of bytes, from `offset` on.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Where the read begins. A read beyond the end returns nothing and is not an error.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// The most bytes to return.
    #[must_use]
    pub fn max_bytes(self) -> u64 {
        self.max_bytes
    }
}

/// A part of a file, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The path of the file.
    pub path: VirtualPath,
    /// The bytes that were read.
    pub bytes: Bytes,
    /// The position of `bytes` in the file.
    pub offset: u64,
    /// Whether the file has more bytes after `bytes`.
    pub more: bool,
    /// The version of the file that `bytes` come from, if the backend knows.
    pub stamp: Option<Stamp>,
}

impl Contents {
    /// Whether `bytes` is the whole file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Returns the bytes if they are the whole file.
    ///
    /// # Errors
    ///
    /// [`BackendError::TooLarge`] if the file is longer than `bytes`.
    pub fn into_whole(self) -> Result<Bytes> {
        if self.is_whole() {
            Ok(self.bytes)
        } else {
            let limit = self.bytes.len() as u64;
            Err(BackendError::TooLarge { path: self.path, limit })
        }
    }

    /// Returns the whole file as text.
    ///
    /// # Errors
    ///
    /// [`BackendError::TooLarge`] if `bytes` is not the whole file, [`BackendError::NotText`] if it is not UTF-8.
    pub fn into_text(self) -> Result<String> {
        let path = self.path.clone();
        String::from_utf8(self.into_whole()?.into()).map_err(|_| BackendError::NotText { path })
    }

    /// Cuts the part that `range` asks for out of `whole`.
    pub(crate) fn slice(path: &VirtualPath, whole: &Bytes, range: ReadRange, stamp: Option<Stamp>) -> Self {
        let start = usize::try_from(range.offset).unwrap_or(usize::MAX).min(whole.len());
        let length = usize::try_from(range.max_bytes).unwrap_or(usize::MAX).min(whole.len() - start);
        Self {
            path: path.clone(),
            bytes: whole.slice(start..start + length),
            offset: range.offset,
            more: start + length < whole.len(),
            stamp,
        }
    }
}
