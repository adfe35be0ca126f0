//! Removes workspaces that are no longer used.

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

/// The result of a cleanup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// How many workspaces were removed.
    pub removed: usize,
    /// How many were old enough, but in use.
    pub in_use: usize,
    /// The workspaces that could not be removed, and why.
    pub warnings: Vec<String>,
}

/// The result of removing a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It was removed.
    Gone,
    /// There was no such workspace.
    NoneThere,
    /// It is in use and stays.
    InUse,
}

enum CleanupOutcome {
    Removed,
    InUse,
    Young,
}

impl Workspaces {
    /// Removes the workspaces that were not used for `older_than`, and the remains of earlier cleanups.
    ///
    /// Workspaces in use stay, also those of other processes. Links are removed and never followed. A workspace that cannot
    /// be removed is a warning, and the cleanup goes on.
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
                // Renamed by a cleanup that did not finish.
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
                // Another cleanup was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => cleaned.warnings.push(format!("`{text}` cannot be removed: {error}")),
            }
        }
        Ok(cleaned)
    }

    /// Removes a workspace, unless it is in use. Links are removed and never followed.
    ///
    /// ```
    /// use prowess_workspace::workspace::Removed;
    /// use prowess_workspace::Workspaces;
    ///
    /// # let place = tempfile::tempdir()?;
    /// let workspaces = Workspaces::open(place.path())?;
    /// let workspace = workspaces.workspace("workspace-1")?;
    /// assert_eq!(workspaces.remove("workspace-1")?, Removed::InUse);
    /// drop(workspace);
    /// assert_eq!(workspaces.remove("workspace-1")?, Removed::Gone);
    /// assert_eq!(workspaces.remove("workspace-1")?, Removed::NoneThere);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The workspace cannot be removed.
    pub fn remove(&self, id: &str) -> Result<Removed, WorkspaceError> {
        let name = short(id);
        match self.remove_one(OsStr::new(&name), None) {
            Ok(CleanupOutcome::Removed) => Ok(Removed::Gone),
            Ok(CleanupOutcome::InUse) => Ok(Removed::InUse),
            Ok(CleanupOutcome::Young) => Ok(Removed::NoneThere),
            Err(error) => Err(WorkspaceError::io("removing the workspace", self.path.join(name), error)),
        }
    }

    /// How many workspaces are in use now, by this process or others.
    ///
    /// ```
    /// # let place = tempfile::tempdir()?;
    /// let workspaces = prowess_workspace::Workspaces::open(place.path())?;
    /// let workspace = workspaces.workspace("workspace-1")?;
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

    /// Removes a workspace that was not used since `limit`, if it exists.
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
        // Before the lock, somebody may have used it, or another cleanup may have removed it.
        let found = self.root.entry(name)?;
        let is_there = found.is_some_and(|found| home.stat().is_ok_and(|home| is_same(&home, &found)));
        if !is_there || is_young()? {
            return Ok(CleanupOutcome::Young);
        }
        // Renamed first, so that a new one can be made at once.
        let (gone, _) = self.root.temporary_dir()?;
        let text = name.to_string_lossy();
        self.root.rename(&text, &gone)?;
        self.root.remove_tree(OsStr::new(&gone))?;
        Ok(CleanupOutcome::Removed)
    }

    fn is_older(&self, name: &OsStr, home: &crate::dir::Dir, limit: u64) -> io::Result<bool> {
        let last_used = match Metadata::read(home, &self.path.join(name)) {
            Ok(Some(metadata)) => metadata.last_used(),
            // Half made: only the directory's own time is known.
            Ok(None) => u64::try_from(home.stat()?.st_mtime).unwrap_or(0),
            Err(error) => return Err(io::Error::other(error)),
        };
        Ok(last_used <= limit)
    }
}

/// Whether this is the directory name of a workspace.
pub(super) fn is_workspace(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
