//! How much to read, and what came back.

use bytes::Bytes;

use crate::{BackendError, Result, Stamp, VirtualPath};

/// The largest file that [`Backend::download`](crate::Backend::download) gives in one piece, in bytes.
pub const MAX_DOWNLOAD_BYTES: u64 = 64 * 1024 * 1024;

/// Which part of a file to read; there is no way to ask for an unbounded one.
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
    /// At most `max_bytes` from the beginning.
    #[must_use]
    pub fn first(max_bytes: u64) -> Self {
        Self { offset: 0, max_bytes }
    }

    /// The same number of bytes from `offset` on.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Where reading begins. Beyond the end there is nothing to read, which is not an error.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// The most bytes to give back.
    #[must_use]
    pub fn max_bytes(self) -> u64 {
        self.max_bytes
    }
}

/// A part of a file, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The file.
    pub path: VirtualPath,
    /// What was read.
    pub bytes: Bytes,
    /// Where in the file `bytes` begins.
    pub offset: u64,
    /// Whether the file went on after `bytes`.
    pub more: bool,
    /// The version of the file that `bytes` come from, where the backend knows.
    pub stamp: Option<Stamp>,
}

impl Contents {
    /// Whether `bytes` is the whole file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// The bytes, if they are the whole file.
    ///
    /// # Errors
    ///
    /// [`BackendError::TooLarge`] if the file is longer than what was read of it.
    pub fn into_whole(self) -> Result<Bytes> {
        if self.is_whole() {
            Ok(self.bytes)
        } else {
            let limit = self.bytes.len() as u64;
            Err(BackendError::TooLarge { path: self.path, limit })
        }
    }

    /// The whole file as text.
    ///
    /// # Errors
    ///
    /// [`BackendError::TooLarge`] if it is not whole, [`BackendError::NotText`] if it is not UTF-8.
    pub fn into_text(self) -> Result<String> {
        let path = self.path.clone();
        String::from_utf8(self.into_whole()?.into()).map_err(|_| BackendError::NotText { path })
    }

    /// The part of `whole` that `range` asks for.
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
