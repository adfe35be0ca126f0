//! Errors of backends: what failed, on which path, and what to do.

use std::error::Error;
use std::io;

use crate::{PathProblem, VirtualPath};

/// The result of one operation on a backend.
pub type Result<T, E = BackendError> = std::result::Result<T, E>;

/// Why an operation on a backend failed.
///
/// Each variant has the path as the caller spelled it, except those about malformed input. A composite reports its own
/// paths, never those of a mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The path does not exist.
    #[error("{path} does not exist; list its directory to see the names in it")]
    NotFound {
        /// The requested path.
        path: VirtualPath,
    },
    /// The caller asked for a new file, and the path exists.
    #[error("{path} already exists")]
    AlreadyExists {
        /// The path of the new file.
        path: VirtualPath,
    },
    /// The operation needs a file, and the path is a directory.
    #[error("{path} is a directory; name a file in it")]
    IsDirectory {
        /// The directory.
        path: VirtualPath,
    },
    /// The operation needs a directory, and the path is a file.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The file, or a path below it.
        path: VirtualPath,
    },
    /// The path is a link, FIFO, socket or device: neither a regular file nor a directory.
    #[error("{path} is not a regular file ({what}); prowess reads and writes only regular files")]
    NotAFile {
        /// Its path.
        path: VirtualPath,
        /// Its kind, in one or two words.
        what: &'static str,
    },
    /// The backend refuses the path, because a link leads out of its root or the store denies access.
    #[error("access to {path} is denied: {reason}")]
    PermissionDenied {
        /// The requested path.
        path: VirtualPath,
        /// The reason.
        reason: String,
    },
    /// The text is not a valid path.
    #[error("`{text}` is not a valid path: {problem}")]
    InvalidPath {
        /// The text, escaped and shortened.
        text: String,
        /// The problem.
        problem: PathProblem,
    },
    /// The glob or search pattern is not valid.
    #[error("`{pattern}` is not a usable pattern: {reason}")]
    InvalidPattern {
        /// The pattern, escaped and shortened.
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// The edit cannot be applied to any file.
    #[error("the edit of {path} cannot be applied: {reason}")]
    InvalidEdit {
        /// The file to edit.
        path: VirtualPath,
        /// The problem.
        reason: &'static str,
    },
    /// The file is larger than the operation allows.
    #[error("{path} is larger than the limit of {limit} bytes; read it in parts")]
    TooLarge {
        /// The file.
        path: VirtualPath,
        /// The limit that it exceeds, in bytes.
        limit: u64,
    },
    /// The backend has no room for the file.
    #[error(
        "{path} does not fit: the limit is {files} files and {bytes} bytes in all; delete files that you no longer need"
    )]
    Full {
        /// The file to write.
        path: VirtualPath,
        /// How many bytes all files together may have.
        bytes: u64,
        /// How many files the backend may have.
        files: usize,
    },
    /// The operation needs text, and the file is not UTF-8.
    #[error("{path} is not UTF-8 text; treat it as bytes")]
    NotText {
        /// The file.
        path: VirtualPath,
    },
    /// The text to replace does not occur in the file.
    #[error("the text to replace does not occur in {path}; read the file and copy the text exactly")]
    TextNotFound {
        /// The file.
        path: VirtualPath,
    },
    /// The text to replace occurs more than once, and the edit allows one occurrence.
    #[error(
        "the text to replace occurs {count} times in {path}; include more of the text around it, or replace all"
    )]
    TextNotUnique {
        /// The file.
        path: VirtualPath,
        /// How often it occurs, without overlaps.
        count: usize,
    },
    /// Others changed the file during every attempt.
    #[error("another writer changed {path} during all {attempts} attempts; nothing was written, try again")]
    Conflict {
        /// The file.
        path: VirtualPath,
        /// The number of attempts.
        attempts: u32,
    },
    /// Somebody changed the file since the caller read it.
    #[error("{path} has changed since it was read; nothing was written, read it again")]
    Changed {
        /// The file.
        path: VirtualPath,
    },
    /// The backend does not support the operation.
    #[error("this backend does not support {operation} for {path}")]
    Unsupported {
        /// The requested path.
        path: VirtualPath,
        /// The operation.
        operation: &'static str,
    },
    /// The disk, the network or the store failed.
    #[error("{operation} of {path} failed: {source}")]
    Io {
        /// The path.
        path: VirtualPath,
        /// The operation.
        operation: &'static str,
        /// The error of the system or the store.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BackendError {
    /// A short, stable name for the kind of error, for programs, logs and models.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::IsDirectory { .. } => "is_directory",
            Self::NotADirectory { .. } => "not_a_directory",
            Self::NotAFile { .. } => "not_a_file",
            Self::PermissionDenied { .. } => "permission_denied",
            Self::InvalidPath { .. } => "invalid_path",
            Self::InvalidPattern { .. } => "invalid_pattern",
            Self::InvalidEdit { .. } => "invalid_edit",
            Self::TooLarge { .. } => "too_large",
            Self::Full { .. } => "full",
            Self::NotText { .. } => "not_text",
            Self::TextNotFound { .. } => "text_not_found",
            Self::TextNotUnique { .. } => "text_not_unique",
            Self::Conflict { .. } => "conflict",
            Self::Changed { .. } => "changed",
            Self::Unsupported { .. } => "unsupported",
            Self::Io { .. } => "io",
        }
    }

    /// The path that the error is about; `None` if the input was not a path.
    #[must_use]
    pub fn path(&self) -> Option<&VirtualPath> {
        match self {
            Self::NotFound { path }
            | Self::AlreadyExists { path }
            | Self::IsDirectory { path }
            | Self::NotADirectory { path }
            | Self::NotAFile { path, .. }
            | Self::PermissionDenied { path, .. }
            | Self::InvalidEdit { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Full { path, .. }
            | Self::NotText { path }
            | Self::TextNotFound { path }
            | Self::TextNotUnique { path, .. }
            | Self::Conflict { path, .. }
            | Self::Changed { path }
            | Self::Unsupported { path, .. }
            | Self::Io { path, .. } => Some(path),
            Self::InvalidPath { .. } | Self::InvalidPattern { .. } => None,
        }
    }

    /// Puts `outer` before the path of the error. A backend that wraps another calls this, so that callers see its own
    /// paths. A path that would become too long stays unchanged.
    #[must_use]
    pub fn rebase(mut self, outer: &VirtualPath) -> Self {
        match &mut self {
            // The name of an entry that is not a valid path, found in a listing.
            Self::InvalidPath { text, .. } if text.starts_with('/') && !outer.is_root() => {
                text.insert_str(0, outer.as_str());
            }
            other => {
                if let Some(path) = other.path_mut()
                    && let Ok(rebased) = path.rebase(outer)
                {
                    *path = rebased;
                }
            }
        }
        self
    }

    fn path_mut(&mut self) -> Option<&mut VirtualPath> {
        match self {
            Self::NotFound { path }
            | Self::AlreadyExists { path }
            | Self::IsDirectory { path }
            | Self::NotADirectory { path }
            | Self::NotAFile { path, .. }
            | Self::PermissionDenied { path, .. }
            | Self::InvalidEdit { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Full { path, .. }
            | Self::NotText { path }
            | Self::TextNotFound { path }
            | Self::TextNotUnique { path, .. }
            | Self::Conflict { path, .. }
            | Self::Changed { path }
            | Self::Unsupported { path, .. }
            | Self::Io { path, .. } => Some(path),
            Self::InvalidPath { .. } | Self::InvalidPattern { .. } => None,
        }
    }

    pub(crate) fn not_found(path: &VirtualPath) -> Self {
        Self::NotFound { path: path.clone() }
    }

    pub(crate) fn already_exists(path: &VirtualPath) -> Self {
        Self::AlreadyExists { path: path.clone() }
    }

    pub(crate) fn is_directory(path: &VirtualPath) -> Self {
        Self::IsDirectory { path: path.clone() }
    }

    pub(crate) fn not_a_directory(path: &VirtualPath) -> Self {
        Self::NotADirectory { path: path.clone() }
    }

    pub(crate) fn not_a_file(path: &VirtualPath, what: &'static str) -> Self {
        Self::NotAFile { path: path.clone(), what }
    }

    pub(crate) fn io(
        path: &VirtualPath,
        operation: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Io { path: path.clone(), operation, source: source.into() }
    }

    /// Translates a system error for `path`. A lookup below a file is [`BackendError::NotFound`] on every backend,
    /// because stores without directories cannot say more.
    pub(crate) fn from_system(path: &VirtualPath, operation: &'static str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::not_found(path),
            io::ErrorKind::AlreadyExists => Self::already_exists(path),
            io::ErrorKind::IsADirectory => Self::is_directory(path),
            io::ErrorKind::PermissionDenied => {
                Self::PermissionDenied { path: path.clone(), reason: error.to_string() }
            }
            _ => Self::io(path, operation, error),
        }
    }
}
