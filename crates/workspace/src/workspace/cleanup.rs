//! Removing workspaces that nobody uses any more.

use std::ffi::OsStr;
use std::fs::TryLockError;
use std::io;
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;

use super::metadata::{Metadata, seconds};
use super::{IN_USE, Workspaces, is_same, lock_file};
use crate::digest::short;
use crate::dir::OWN_PREFIX;
use crate::error::WorkspaceError;

/// What a cleanup did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// How many workspaces were removed.
    pub removed: usize,
    /// How many were old enough, and in use.
    pub in_use: usize,
    /// What could not be removed, and why.
    pub warnings: Vec<String>,
}

/// What became of a workspace that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Gone,
    /// There was none.
    NoneThere,
    /// Somebody uses it: it stays.
    InUse,
}

enum CleanupOutcome {
    Removed,
    InUse,
    Young,
}

impl Workspaces {
    /// Removes the workspaces that nobody has used for `older_than`, and what earlier cleanups left.
    ///
    /// One that is in use, by this process or another, stays. Links are removed and never followed. One
    /// that cannot be removed is a warning, and the others go all the same.
    ///
    /// # Errors
    ///
    /// The workspaces cannot be listed.
    pub fn cleanup(&self, older_than: Duration) -> Result<Cleaned, WorkspaceError> {
        let _span = tracing::info_span!("workspace.cleanup").entered();
        let failed = |error| WorkspaceError::io("listing the workspaces at", &self.path, error);
        let (entries, _) = self.root.entries(usize::MAX).map_err(failed)?;
        let limit = seconds(SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH));
        let mut cleaned = Cleaned::default();
        for (name, kind) in entries {
            let text = name.to_string_lossy();
            let outcome = if text.starts_with(OWN_PREFIX) {
                // Renamed by a cleanup that did not end. Whoever renamed it has nothing of it open.
                self.root.remove_tree(&name).map(|()| CleanupOutcome::Young)
            } else if kind == FileType::Directory && is_workspace(&text) {
                self.remove_one(&name, Some(limit))
            } else {
                Ok(CleanupOutcome::Young)
            };
            match outcome {
                Ok(CleanupOutcome::Removed) => cleaned.removed += 1,
                Ok(CleanupOutcome::InUse) => cleaned.in_use += 1,
                Ok(CleanupOutcome::Young) => {}
                // Another cleanup is at it too, and was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => cleaned.warnings.push(format!("`{text}` cannot be removed: {error}")),
            }
        }
        Ok(cleaned)
    }

    /// Removes the workspace of a session, unless somebody uses it. Links are removed and never followed.
    ///
    /// ```
    /// use prowess_workspace::workspace::Removed;
    /// use prowess_workspace::Workspaces;
    ///
    /// # let place = tempfile::tempdir()?;
    /// let workspaces = Workspaces::open(place.path())?;
    /// let workspace = workspaces.workspace("session-1")?;
    /// assert_eq!(workspaces.remove("session-1")?, Removed::InUse);
    /// drop(workspace);
    /// assert_eq!(workspaces.remove("session-1")?, Removed::Gone);
    /// assert_eq!(workspaces.remove("session-1")?, Removed::NoneThere);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The disk does not do its part.
    pub fn remove(&self, session: &str) -> Result<Removed, WorkspaceError> {
        let name = short(session);
        match self.remove_one(OsStr::new(&name), None) {
            Ok(CleanupOutcome::Removed) => Ok(Removed::Gone),
            Ok(CleanupOutcome::InUse) => Ok(Removed::InUse),
            Ok(CleanupOutcome::Young) => Ok(Removed::NoneThere),
            Err(error) => Err(WorkspaceError::io("removing the workspace", self.path.join(name), error)),
        }
    }

    /// How many workspaces somebody uses now, in this process or another.
    ///
    /// ```
    /// # let place = tempfile::tempdir()?;
    /// let workspaces = prowess_workspace::Workspaces::open(place.path())?;
    /// let workspace = workspaces.workspace("session-1")?;
    /// assert_eq!(workspaces.in_use()?, 1);
    /// drop(workspace);
    /// assert_eq!(workspaces.in_use()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The workspaces cannot be listed.
    pub fn in_use(&self) -> Result<usize, WorkspaceError> {
        let failed = |error| WorkspaceError::io("listing the workspaces at", &self.path, error);
        let (entries, _) = self.root.entries(usize::MAX).map_err(failed)?;
        let is_used = |name: &OsStr| {
            let lock = self.root.dir(name).ok().and_then(|home| lock_file(&home, IN_USE).ok());
            lock.is_some_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
        };
        let workspaces = entries.iter().filter(|(name, _)| is_workspace(&name.to_string_lossy()));
        Ok(workspaces.filter(|(name, _)| is_used(name)).count())
    }

    /// Removes a workspace that was not used since `limit`, if there is one.
    fn remove_one(&self, name: &OsStr, limit: Option<u64>) -> io::Result<CleanupOutcome> {
        let home = match self.root.dir(name) {
            Ok(home) => home,
            Err(rustix::io::Errno::NOENT) => return Ok(CleanupOutcome::Young),
            Err(error) => return Err(error.into()),
        };
        let is_young =
            || limit.map_or(Ok(false), |limit| self.is_older(name, &home, limit).map(|is_older| !is_older));
        if is_young()? {
            return Ok(CleanupOutcome::Young);
        }
        let in_use = lock_file(&home, IN_USE)?;
        match in_use.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(CleanupOutcome::InUse),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Somebody may have used it between the look and the lock, or another cleanup taken it away.
        let found = self.root.entry(name)?;
        let is_there = found.is_some_and(|found| home.stat().is_ok_and(|home| is_same(&home, &found)));
        if !is_there || is_young()? {
            return Ok(CleanupOutcome::Young);
        }
        // First out of the way, so that the session can have a new one at once.
        let (gone, _) = self.root.temporary_dir()?;
        let text = name.to_string_lossy();
        self.root.rename(&text, &gone)?;
        self.root.remove_tree(OsStr::new(&gone))?;
        Ok(CleanupOutcome::Removed)
    }

    fn is_older(&self, name: &OsStr, home: &crate::dir::Dir, limit: u64) -> io::Result<bool> {
        let last_used = match Metadata::read(home, &self.path.join(name)) {
            Ok(Some(metadata)) => metadata.last_used(),
            // Half made: the directory's own time is all there is.
            Ok(None) => u64::try_from(home.stat()?.st_mtime).unwrap_or(0),
            Err(error) => return Err(io::Error::other(error)),
        };
        Ok(last_used <= limit)
    }
}

/// Whether a directory's name is one that a session's identity makes.
pub(super) fn is_workspace(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
