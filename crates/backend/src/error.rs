//! What can go wrong, to which path, and what to do about it.

use std::error::Error;
use std::io;

use crate::{PathProblem, VirtualPath};

/// The result of one operation on a backend.
pub type Result<T, E = BackendError> = std::result::Result<T, E>;

/// Why an operation on a backend did not happen.
///
/// Every variant but those about malformed input carries the path that it happened to, as the caller
/// spelled it: a composite gives back its own paths, never those of a mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Nothing is there.
    #[error("{path} does not exist; list its directory to see what does")]
    NotFound {
        /// What was asked for.
        path: VirtualPath,
    },
    /// Something is there already, and the caller asked for a new file.
    #[error("{path} exists already; choose another name or allow replacing it")]
    AlreadyExists {
        /// What was to be created.
        path: VirtualPath,
    },
    /// A file was needed and a directory is there.
    #[error("{path} is a directory; name a file in it")]
    IsDirectory {
        /// The directory.
        path: VirtualPath,
    },
    /// A directory was needed and a file is there.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The file, or the path that would lie below it.
        path: VirtualPath,
    },
    /// A link, FIFO, socket or device: neither a regular file nor a directory.
    #[error("{path} is not a regular file ({what}); only regular files are read and written")]
    NotAFile {
        /// Where it is.
        path: VirtualPath,
        /// What it is, in a word or two.
        what: &'static str,
    },
    /// The backend may not go there: a link leads out of its root, or the store refuses.
    #[error("access to {path} is denied: {reason}")]
    PermissionDenied {
        /// What was asked for.
        path: VirtualPath,
        /// Which rule said no.
        reason: String,
    },
    /// A text is not a path.
    #[error("`{text}` is not a valid path: {problem}")]
    InvalidPath {
        /// The text, escaped and shortened.
        text: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// A glob or search pattern cannot be used.
    #[error("`{pattern}` is not a usable pattern: {reason}")]
    InvalidPattern {
        /// The pattern, escaped and shortened.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An edit that could never be applied to any file.
    #[error("the edit of {path} cannot be applied: {reason}")]
    InvalidEdit {
        /// The file that was to be edited.
        path: VirtualPath,
        /// What is wrong with the edit.
        reason: &'static str,
    },
    /// The file is larger than the operation takes in one piece.
    #[error("{path} is larger than the limit of {limit} bytes; read it in parts")]
    TooLarge {
        /// The file.
        path: VirtualPath,
        /// The limit that it exceeds, in bytes.
        limit: u64,
    },
    /// There is no room for it.
    #[error(
        "{path} does not fit: {files} files of {bytes} bytes in all are the most here; delete what is no longer needed"
    )]
    Full {
        /// What was to be written.
        path: VirtualPath,
        /// How many bytes all files may have.
        bytes: u64,
        /// How many files there may be.
        files: usize,
    },
    /// The file is not UTF-8, and the operation works on text.
    #[error("{path} is not UTF-8 text; handle it as bytes")]
    NotText {
        /// The file.
        path: VirtualPath,
    },
    /// The text to replace does not occur.
    #[error("the text to replace does not occur in {path}; read the file and copy the text exactly")]
    TextNotFound {
        /// The file.
        path: VirtualPath,
    },
    /// The text to replace occurs more than once, and the edit is for one occurrence.
    #[error(
        "the text to replace occurs {count} times in {path}; include more of its surroundings, or replace all"
    )]
    TextNotUnique {
        /// The file.
        path: VirtualPath,
        /// How often it occurs, without overlaps.
        count: usize,
    },
    /// Others kept changing the file for as long as the operation was willing to try.
    #[error("{path} was changed by others during {attempts} attempts; nothing was written, try again")]
    Conflict {
        /// The file.
        path: VirtualPath,
        /// How often it was tried.
        attempts: u32,
    },
    /// The backend cannot do this.
    #[error("{operation} is not supported for {path} by this backend")]
    Unsupported {
        /// What it was asked to act on.
        path: VirtualPath,
        /// What it was asked to do.
        operation: &'static str,
    },
    /// The disk, the network or the store failed.
    #[error("{operation} of {path} failed: {source}")]
    Io {
        /// What it happened to.
        path: VirtualPath,
        /// What was being done.
        operation: &'static str,
        /// What the system or the store said.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BackendError {
    /// A short name for the kind of error that never changes, for programs, logs and models.
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
            Self::Unsupported { .. } => "unsupported",
            Self::Io { .. } => "io",
        }
    }

    /// The path that it happened to; `None` where the input was never a path.
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
            | Self::Unsupported { path, .. }
            | Self::Io { path, .. } => Some(path),
            Self::InvalidPath { .. } | Self::InvalidPattern { .. } => None,
        }
    }

    /// The same error about the same file as `outer` names it: what a backend that wraps another owes
    /// its callers. A path that would become too long stays as it is.
    #[must_use]
    pub fn rebase(mut self, outer: &VirtualPath) -> Self {
        match &mut self {
            // The name of something that was found, which has no path of its own.
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

    /// What a system error means for `path`. Lookups below a file are [`BackendError::NotFound`] on
    /// every backend, because stores without directories cannot say more.
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
