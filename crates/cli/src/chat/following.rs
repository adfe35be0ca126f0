//! How the files of a server's thread follow it to the worker that takes the thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use prowess_agent::ThreadId;
use prowess_agent::middleware::{
    CapturedFiles, FileStorage, FollowedFiles, FollowingFiles, PersonalChange, StorageError,
};
use prowess_store::serve::OwnedThreads;
use prowess_workspace::Workspaces;
use prowess_workspace::inventory::{
    ContentDigest, Contents, FamilyContents, Inventory, InventoryError, InventoryFile, LeftOut, LocalTree,
};
use tokio::sync::OnceCell;

use super::tree::{ChatTree, THREAD_FILES};

/// The directory of notes about the files of threads, in the state directory.
const NOTES: &str = "inventories";

/// How the files of a user's threads follow them.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    contents: Contents,
    owner: String,
    /// The state directory.
    state: PathBuf,
    threads: OwnedThreads,
}

impl Following {
    pub(crate) fn new(contents: Contents, owner: &str, state: &Path, threads: OwnedThreads) -> Self {
        Self { contents, owner: owner.to_owned(), state: state.to_owned(), threads }
    }

    /// The middleware of a thread.
    pub(super) fn middleware(&self, tree: &ChatTree) -> FollowingFiles {
        let workspaces = tree.runner.workspaces.clone();
        let local = local(&self.state, &tree.thread, &tree.project, &tree.thread_files, workspaces);
        let (following, thread) = (self.clone(), tree.thread.clone());
        FollowingFiles::new(
            tree.thread.clone(),
            Arc::new(ThreadStorage { following, thread, local, unnamed: OnceCell::new() }),
        )
    }

    /// The contents of a thread, whose log names this family if it names one.
    pub(crate) async fn family(
        &self,
        thread: &ThreadId,
        family: Option<&str>,
    ) -> Result<FamilyContents, InventoryError> {
        if let Some(first) = family {
            return Ok(self.contents.family(&self.owner, first));
        }
        let failed = |source: StorageError| {
            let action = "looking for the thread".to_owned();
            InventoryError::Store { action, attempts: 1, source }
        };
        let found = self.threads.get(&self.owner, thread).await.map_err(|error| failed(error.into()))?;
        let found = found.ok_or_else(|| failed("it was deleted".into()))?;
        // An AG-UI client can delete a thread and make another one with its id. What belongs to the first one, and is removed
        // later, must not belong to the second one.
        let made = found.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        self.contents.family_of(&self.owner, thread.as_str(), &format!("{thread} {made}")).await
    }

    /// The files that a log says a thread has.
    pub(crate) async fn inventory(
        &self,
        thread: &ThreadId,
        files: &FollowedFiles,
    ) -> Result<(FamilyContents, Inventory), StorageError> {
        let contents = self.family(thread, files.family()).await?;
        let inventory = match files.inventory() {
            Some(digest) => contents.inventory(thread.as_str(), digest.parse()?).await?,
            None => Inventory::default(),
        };
        Ok((contents, changed(inventory, files)?))
    }
}

/// The note about the files of a thread on this machine.
fn note(state: &Path, thread: &ThreadId) -> PathBuf {
    state.join(NOTES).join(format!("{thread}.json"))
}

/// Whether this machine has files of a thread from before files followed threads, as far as is known.
pub(crate) async fn has_files_from_before(
    state: &Path,
    workspaces: &Workspaces,
    thread: &ThreadId,
    project: &Path,
) -> bool {
    let files = crate::threads::files(state, thread);
    let local = local(state, thread, project, &files, workspaces.clone());
    local.has_files_from_before().await.unwrap_or_else(|error| {
        tracing::warn!(%thread, %error, "Could not look for files of a thread");
        false
    })
}

/// The directories of a thread on this machine.
fn local(
    state: &Path,
    thread: &ThreadId,
    project: &Path,
    thread_files: &Path,
    workspaces: Workspaces,
) -> LocalTree {
    let mut local = LocalTree::new(note(state, thread));
    // The thread needs these most, so they come first.
    for name in THREAD_FILES {
        local = local.directory(&format!("work/{name}"), thread_files.join(name));
    }
    local.directory("project", project).workspace(workspaces, thread.as_str())
}

/// Removes the directories of threads that nobody has used here for so long: the store has their files. `project` gives the
/// project of a thread. Returns how many.
pub(crate) async fn forget_unused(
    state: &Path,
    workspaces: &Workspaces,
    project: impl Fn(&ThreadId) -> PathBuf,
    unused_for: Duration,
) -> usize {
    let Ok(notes) = std::fs::read_dir(state.join(NOTES)) else { return 0 };
    let mut forgotten = 0;
    for note in notes.flatten() {
        let name = note.file_name();
        let thread = name.to_str().and_then(|name| name.strip_suffix(".lock")?.parse::<ThreadId>().ok());
        let Some(thread) = thread else { continue };
        let (project, files) = (project(&thread), crate::threads::files(state, &thread));
        let local = local(state, &thread, &project, &files, workspaces.clone());
        match local.forget_unused(unused_for).await {
            Ok(true) => {
                // Nothing else is in it.
                let _ = std::fs::remove_dir(&files);
                forgotten += 1;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%thread, %error, "Could not remove the directories of an unused thread");
            }
        }
    }
    forgotten
}

/// An inventory with the changes that people made after it.
fn changed(mut inventory: Inventory, files: &FollowedFiles) -> Result<Inventory, StorageError> {
    for change in files.changes() {
        inventory = match file(change)? {
            Some(file) => inventory.with(file),
            None => inventory.without(&change.path),
        };
    }
    Ok(inventory)
}

/// The file of a change; `None` if the change removes it.
fn file(change: &PersonalChange) -> Result<Option<InventoryFile>, StorageError> {
    let Some((digest, bytes)) = &change.content else { return Ok(None) };
    let digest: ContentDigest = digest.parse()?;
    Ok(Some(InventoryFile { path: change.path.clone(), bytes: *bytes, digest, executable: false }))
}

/// The files of one thread, on this machine and in the store.
#[derive(Debug)]
struct ThreadStorage {
    following: Following,
    thread: ThreadId,
    local: LocalTree,
    /// The contents, if the log did not name the family.
    unnamed: OnceCell<FamilyContents>,
}

impl ThreadStorage {
    async fn contents(&self, family: Option<&str>) -> Result<FamilyContents, InventoryError> {
        if family.is_some() {
            return self.following.family(&self.thread, family).await;
        }
        Ok(self.unnamed.get_or_try_init(|| self.following.family(&self.thread, None)).await?.clone())
    }
}

#[async_trait]
impl FileStorage for ThreadStorage {
    async fn restore(&self, files: &FollowedFiles) -> Result<(), StorageError> {
        let Some(digest) = files.inventory() else {
            self.local.begin().await?;
            for change in files.changes() {
                self.apply(files.family(), change).await?;
            }
            return Ok(());
        };
        let contents = self.contents(files.family()).await?;
        // Checked before anything changes.
        changed(Inventory::default(), files)?;
        let with_changes = |inventory: Inventory| changed(inventory, files).unwrap_or_default();
        let thread = self.thread.as_str();
        let restored = self.local.restore(&contents, thread, digest.parse()?, with_changes).await?;
        tracing::debug!(thread, ?restored, "Restored the files of a thread");
        if restored.kept > 0 {
            tracing::warn!(
                thread,
                kept = restored.kept,
                "Kept files from before the files of this thread were in the bucket. Where another file had the name of one, it \
                 ends in .from-before now"
            );
        }
        Ok(())
    }

    async fn capture(&self, family: Option<&str>) -> Result<Option<CapturedFiles>, StorageError> {
        let first = OnceLock::new();
        // Only if something changed: the store may be away.
        let contents = async {
            let contents = self.contents(family).await?;
            let _ = first.set(contents.first().to_owned());
            Ok(contents)
        };
        let captured = self.local.capture_to(contents, self.thread.as_str()).await?;
        let Some(captured) = captured else { return Ok(None) };
        Ok(Some(CapturedFiles {
            inventory: captured.digest.to_string(),
            family: first.into_inner().unwrap_or_default(),
            notice: notice(&captured.left_out),
        }))
    }

    async fn apply(&self, family: Option<&str>, change: &PersonalChange) -> Result<(), StorageError> {
        match file(change)? {
            Some(file) => {
                let contents = self.contents(family).await?;
                self.local.put(&contents, &file).await?;
            }
            None => self.local.remove(&change.path).await?,
        }
        Ok(())
    }

    fn passes(&self, error: &StorageError) -> bool {
        error.downcast_ref::<InventoryError>().is_some_and(InventoryError::passes)
    }
}

/// What the model and the person are told about files that are not stored.
fn notice(left_out: &[LeftOut]) -> Option<String> {
    let all: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    (!all.is_empty()).then(|| {
        format!(
            "Note: these files are not stored, and are lost when another machine takes this thread over: {}.",
            all.join("; ")
        )
    })
}
