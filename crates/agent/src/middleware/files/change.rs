//! Tells somebody about the changes that the file tools make.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::write::MAX_EDIT_BYTES;
use prowess_backend::{Backend, Edit, ReadRange, VirtualPath};
use prowess_permission::{Granted, Rule, RuleSource};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A change of a file on this machine, by `write_file`, `edit_file` or `copy_file`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileChange {
    /// The real path of the file.
    pub path: PathBuf,
    /// What the file contained just before the change. `None` if the change created the file.
    pub before: Option<Bytes>,
    /// What the file contains after the change, if nobody else changed it.
    pub after: Bytes,
    /// How many directories above the file did not exist.
    pub new_directories: usize,
    /// Who allowed the change.
    pub allowed: ChangeAllowed,
}

/// Who allowed a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeAllowed {
    /// Nobody: the tools have no permission rules.
    Unchecked,
    /// This rule.
    Rule(RuleSource, Rule),
    /// A reply, an approval, or something that the user trusts.
    Granted(Granted),
}

/// Is told about changes of files, such as to keep a record of them.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{ChangeWatcher, FileChange};
///
/// #[derive(Debug)]
/// struct Printed;
///
/// #[async_trait]
/// impl ChangeWatcher for Printed {
///     async fn changed(&self, change: FileChange) {
///         println!("{} has {} bytes now", change.path.display(), change.after.len());
///     }
/// }
/// ```
#[async_trait]
pub trait ChangeWatcher: Debug + Send + Sync {
    /// A file was changed. No other change is made by the file tools until this returns.
    async fn changed(&self, change: FileChange);
}

/// The watcher of changes, and the lock that makes them one by one. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct WatchedChanges {
    watcher: Arc<dyn ChangeWatcher>,
    /// A watcher that compares a file with its record must not see half of two changes.
    turn: Arc<Mutex<()>>,
}

/// A permission to change a file.
#[derive(Debug)]
pub(super) struct ChangePermit {
    pub(super) target: Target,
    pub(super) allowed: ChangeAllowed,
}

/// A change that is about to be made.
pub(super) struct PlannedChange {
    watcher: Arc<dyn ChangeWatcher>,
    change: FileChange,
    _turn: OwnedMutexGuard<()>,
}

impl WatchedChanges {
    pub(crate) fn new(watcher: Arc<dyn ChangeWatcher>) -> Self {
        Self { watcher, turn: Arc::default() }
    }

    /// Plans to create a file, unless it is not on this machine.
    pub(super) async fn plan_creation(
        &self,
        backend: &dyn Backend,
        path: &VirtualPath,
        after: Bytes,
        permit: ChangePermit,
    ) -> Option<PlannedChange> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let mut new_directories = 0;
        let mut above = path.parent();
        while let Some(directory) = above.filter(|directory| !directory.is_root()) {
            if backend.stat(&directory).await.is_ok() {
                break;
            }
            new_directories += 1;
            above = directory.parent();
        }
        self.plan(permit, None, after, new_directories, turn)
    }

    /// Plans to edit a file, unless it is not on this machine or cannot be edited.
    pub(super) async fn plan_edit(
        &self,
        backend: &dyn Backend,
        path: &VirtualPath,
        edit: &Edit,
        permit: ChangePermit,
    ) -> Option<PlannedChange> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let read = backend.read(path, ReadRange::first(MAX_EDIT_BYTES)).await.ok()?;
        let before = read.into_whole().ok()?;
        let (after, _) = edit.apply(path, &before).ok()?;
        self.plan(permit, Some(before), after.into(), 0, turn)
    }

    /// Plans to copy over a file or to a new one, unless it is not on this machine.
    pub(super) async fn plan_copy(
        &self,
        backend: &dyn Backend,
        path: &VirtualPath,
        before: Option<Bytes>,
        after: Bytes,
        permit: ChangePermit,
    ) -> Option<PlannedChange> {
        match before {
            None => self.plan_creation(backend, path, after, permit).await,
            before => {
                let turn = Arc::clone(&self.turn).lock_owned().await;
                self.plan(permit, before, after, 0, turn)
            }
        }
    }

    fn plan(
        &self,
        permit: ChangePermit,
        before: Option<Bytes>,
        after: Bytes,
        new_directories: usize,
        turn: OwnedMutexGuard<()>,
    ) -> Option<PlannedChange> {
        let path = permit.target.on_disk.last()?.clone();
        let change = FileChange { path, before, after, new_directories, allowed: permit.allowed };
        Some(PlannedChange { watcher: Arc::clone(&self.watcher), change, _turn: turn })
    }
}

impl PlannedChange {
    /// Tells the watcher that the change was made.
    pub(super) async fn made(self) {
        self.watcher.changed(self.change).await;
    }
}
