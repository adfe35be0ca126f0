//! The directories of a thread on this machine.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::contents::quoted;
use super::known::{KnownFile, KnownFiles};
use super::open_tree::{OpenRoot, OpenTree};
use super::restore;
use super::scan::Scan;
use super::transfer::{fetch, store_new};
use super::{
    ContentDigest, FamilyContents, Inventory, InventoryError, InventoryFile, LeftOut, in_use, known,
};
use crate::blocking::blocking;
use crate::dir::{Dir, remove_tree};
use crate::workspace::{Removed, Workspaces};

/// The directories of a workspace that belong to a thread. Skills are staged again.
const OF_WORKSPACE: [&str; 3] = ["work", "runs", "out"];
/// How often the directories are tried that another process has, and how long the pauses are: a few seconds in all.
const MAX_TRIES: u32 = 14;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Directories that are always there.
const STANDING: [&str; 1] = ["work/work/inputs"];

/// The directories of a thread on this machine, and where they are in the thread's tree.
///
/// A note beside them says which files were read and when, so that only changed files are read again. No model can write
/// it. Clones are handles to the same directories, and do one thing at a time.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::inventory::{Contents, LocalTree, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// let contents = Contents::new(Arc::new(MemoryContents::default())).family("ada", "thread-1");
/// let tree = |machine: &std::path::Path| {
///     LocalTree::new(machine.join("note.json")).directory("project", machine.join("files"))
/// };
/// std::fs::create_dir(one.path().join("files"))?;
/// std::fs::write(one.path().join("files/plan.md"), "- rest")?;
/// let captured = tree(one.path()).capture(&contents, "thread-1").await?.expect("a new file");
///
/// let restored = tree(other.path()).restore(&contents, "thread-1", captured.digest, |files| files).await?;
/// assert_eq!(restored.fetched, 1);
/// assert_eq!(std::fs::read_to_string(other.path().join("files/plan.md"))?, "- rest");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LocalTree(Arc<Local>);

#[derive(Debug)]
struct Local {
    roots: Vec<Root>,
    workspace: Option<(Workspaces, String)>,
    note: PathBuf,
    state: tokio::sync::Mutex<TreeState>,
}

#[derive(Clone, Debug)]
struct Root {
    at: String,
    directory: PathBuf,
}

#[derive(Debug, Default)]
struct TreeState {
    /// Read from the note when it is first needed.
    known: Option<Arc<KnownFiles>>,
    /// The inventory that was last stored or restored.
    stored: Arc<Inventory>,
    /// Whether a restore began and is not complete. What is there then must not be captured.
    is_half_done: bool,
    /// A lock: as long as it is held, the directories are in use by this tree alone.
    in_use: Option<File>,
}

/// What a capture stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Captured {
    /// The digest of the new inventory.
    pub digest: ContentDigest,
    /// The inventory.
    pub inventory: Arc<Inventory>,
    /// What it lacks, if the inventory before did not lack the same.
    pub left_out: Vec<LeftOut>,
}

/// What a restore changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// How many files came from the store.
    pub fetched: usize,
    /// How many files and directories were removed.
    pub removed: usize,
    /// How many files stayed that the inventory lacks: they are from before the thread was followed, and the log has named
    /// no inventory of this machine since.
    pub kept: usize,
}

/// Whether missing directories are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    LeaveOut,
}

impl Local {
    fn open(&self, missing: Missing) -> std::io::Result<OpenTree> {
        let mut roots = Vec::new();
        for Root { at, directory } in &self.roots {
            if missing == Missing::Make {
                make(directory)?;
            }
            match Dir::open(directory) {
                Ok(directory) => roots.push(OpenRoot { at: at.clone(), directory, owner: None }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut opened = None;
        if let Some((workspaces, id)) = &self.workspace
            && (missing == Missing::Make || workspaces.path_of(id).is_dir())
        {
            let workspace = workspaces.workspace(id).map_err(std::io::Error::other)?;
            for name in OF_WORKSPACE {
                let directory = workspace.dir().dir(name)?;
                roots.push(OpenRoot { at: format!("work/{name}"), directory, owner: workspace.owner() });
            }
            opened = Some(workspace);
        }
        Ok(OpenTree::new(roots, opened))
    }

    /// Makes the directories, except for the workspace. Empties all of them, unless they have files from before the thread
    /// was followed. Returns the note about the files that stay.
    fn begin(&self, known: &KnownFiles) -> std::io::Result<KnownFiles> {
        let tree = self.open(Missing::LeaveOut)?;
        let mut note = known.clone();
        (note.is_new, note.captured) = (false, None);
        if known.is_new || known.from_before {
            let found = tree.scan(&STANDING, known)?;
            note.from_before = known.from_before || !found.inventory.is_bare();
            note.files = found.known;
        } else {
            restore::prune(&tree, &Inventory::default(), &STANDING)?;
            note.files.clear();
        }
        self.roots.iter().try_for_each(|root| make(&root.directory))?;
        Ok(note)
    }

    fn has_files_from_before(&self) -> std::io::Result<bool> {
        let known = KnownFiles::read(&self.note);
        if !known.is_new {
            return Ok(known.from_before && known.captured.is_none());
        }
        for root in self.open(Missing::LeaveOut)?.roots() {
            let (entries, _) = root.directory.entries(usize::MAX)?;
            let stands = |name: &OsStr| {
                name.to_str().is_some_and(|name| STANDING.contains(&&*format!("{}/{name}", root.at)))
            };
            if entries.iter().any(|(name, _)| !stands(name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The copy of the last inventory.
    fn inventory_copy(&self) -> PathBuf {
        self.note.with_extension("inventory")
    }

    fn forget_unused(&self, unused_for: Duration) -> std::io::Result<bool> {
        let Some(_taken) = in_use::take_unused(&self.note, unused_for)? else { return Ok(false) };
        let known = KnownFiles::read(&self.note);
        // The store may lack these files.
        if known.is_new || known.from_before {
            return Ok(false);
        }
        if let Some((workspaces, id)) = &self.workspace
            && workspaces.remove(id).map_err(std::io::Error::other)? == Removed::InUse
        {
            return Ok(false);
        }
        self.roots.iter().try_for_each(|root| remove_tree(&root.directory))?;
        // The note goes last: without one, the files would seem to be from before the thread was followed.
        remove_tree(&self.inventory_copy())?;
        remove_tree(&self.note)?;
        in_use::remove(&self.note).map(|()| true)
    }

    /// Lists what is there.
    fn look(&self, missing: Missing, known: &KnownFiles) -> Result<(OpenTree, Scan), InventoryError> {
        let looked = || {
            let tree = self.open(missing)?;
            let scan = tree.scan(&STANDING, known)?;
            Ok((tree, scan))
        };
        looked().map_err(InventoryError::local("reading the thread's directories"))
    }
}

impl LocalTree {
    /// No directories yet, with a note at this path.
    pub fn new(note: impl Into<PathBuf>) -> Self {
        let (roots, state) = (Vec::new(), tokio::sync::Mutex::default());
        Self(Arc::new(Local { roots, workspace: None, note: note.into(), state }))
    }

    /// Adds a directory at a path of the tree, such as `project`. If there is too much to store, what was added last is
    /// left out first.
    #[must_use]
    pub fn directory(self, at: &str, directory: impl Into<PathBuf>) -> Self {
        let root = Root { at: at.to_owned(), directory: directory.into() };
        self.changed(|local| local.roots.push(root))
    }

    /// Adds the directories of a workspace, at `work`. If there is no such workspace, a restore makes it.
    #[must_use]
    pub fn workspace(self, workspaces: Workspaces, id: &str) -> Self {
        let id = id.to_owned();
        self.changed(|local| local.workspace = Some((workspaces, id)))
    }

    fn changed(self, change: impl FnOnce(&mut Local)) -> Self {
        let shared = &self.0;
        let (roots, workspace) = (shared.roots.clone(), shared.workspace.clone());
        let mut local =
            Local { roots, workspace, note: shared.note.clone(), state: tokio::sync::Mutex::default() };
        change(&mut local);
        Self(Arc::new(local))
    }

    /// Stores what changed since the last capture or restore. `None` if nothing did.
    ///
    /// # Errors
    ///
    /// The disk or the store failed, and the next capture tries again. Or the last restore failed, and has to be repeated first.
    pub async fn capture(
        &self,
        contents: &FamilyContents,
        thread: &str,
    ) -> Result<Option<Captured>, InventoryError> {
        self.capture_to(async { Ok(contents.clone()) }, thread).await
    }

    /// The same, and looks for the contents only if something changed.
    ///
    /// # Errors
    ///
    /// The same, and those of `contents`.
    pub async fn capture_to(
        &self,
        contents: impl Future<Output = Result<FamilyContents, InventoryError>>,
        thread: &str,
    ) -> Result<Option<Captured>, InventoryError> {
        let mut state = self.0.state.lock().await;
        if state.is_half_done {
            return Err(InventoryError::HalfRestored);
        }
        let known = self.known(&mut state).await?;
        let local = Arc::clone(&self.0);
        let looked = blocking(move || local.look(Missing::LeaveOut, &known)).await;
        let (tree, Scan { inventory, known }) = looked.map_err(interrupted)??;
        if inventory == *state.stored {
            self.note(&mut state, known, Changed::No).await?;
            return Ok(None);
        }
        let contents = &contents.await?;
        let (inventory, known) = store_new(Arc::new(tree), &state.stored, inventory, known, contents).await?;
        let digest = contents.put_inventory(thread, &inventory).await?;
        let is_new = inventory.left_out() != state.stored.left_out();
        let left_out = if is_new { inventory.left_out().to_vec() } else { Vec::new() };
        let inventory = Arc::new(inventory);
        state.stored = Arc::clone(&inventory);
        self.keep_inventory(&inventory).await;
        state.change_note(|note| note.captured = note.from_before.then_some(digest));
        self.note(&mut state, known, Changed::Yes).await?;
        Ok(Some(Captured { digest, inventory, left_out }))
    }

    /// Makes the directories equal to an inventory with later changes. Files that are there already stay, and everything
    /// else goes: also what a dead process left half-done.
    ///
    /// Files from before the thread was followed do not go, unless the inventory is one that was captured here and so has them.
    /// If the inventory has another file at the place of one, the file gets a name that ends in `.from-before`.
    ///
    /// # Errors
    ///
    /// The disk or the store failed, another process uses the directories, or the inventory has a path that no directory has.
    /// A part may be restored. Then nothing is captured until a restore does the rest.
    pub async fn restore(
        &self,
        contents: &FamilyContents,
        thread: &str,
        digest: ContentDigest,
        changed: impl FnOnce(Inventory) -> Inventory,
    ) -> Result<Restored, InventoryError> {
        let mut state = self.0.state.lock().await;
        // Until it is complete, also if this future is dropped.
        state.is_half_done = true;
        self.hold(&mut state).await?;
        let stored = match self.last_inventory(digest).await {
            Some(own) => own,
            None => contents.inventory(thread, digest).await?,
        };
        let wanted = Arc::new(changed(stored.clone()));
        let known = self.known(&mut state).await?;
        let stored = Arc::new(stored);
        self.keep_inventory(&stored).await;
        let (local, is_new) = (Arc::clone(&self.0), known.is_new);
        let has_them = known.captured == Some(digest);
        let from_before = known.from_before && !has_them;
        let looked = blocking(move || local.look(Missing::Make, &known)).await;
        let (tree, Scan { inventory: found, mut known }) = looked.map_err(interrupted)??;
        let from_before = (from_before || is_new && !found.is_bare()) && found != *wanted;
        let changed = state.change_note(|note| {
            (note.from_before, note.is_new) = (from_before, false);
            note.captured = note.captured.filter(|_| from_before);
        });
        if found == *wanted {
            self.note(&mut state, known, changed).await?;
            (state.stored, state.is_half_done) = (stored, false);
            return Ok(Restored::default());
        }
        if changed == Changed::Yes {
            // Before anything goes.
            self.note(&mut state, known.clone(), changed).await?;
        }
        let outside = wanted.files().iter().map(|file| &file.path).chain(wanted.empty_directories());
        if let Some(path) = outside.into_iter().find(|path| tree.find(path).is_none()) {
            let problem = format!("{} is in no directory of the thread", quoted(path));
            return Err(InventoryError::Unusable { digest, problem });
        }
        let tree = Arc::new(tree);
        let (own, all, there) = (Arc::clone(&tree), Arc::clone(&wanted), found.clone());
        let pruned = blocking(move || {
            if from_before {
                restore::set_aside(&own, &there, &all).map(|()| 0)
            } else {
                restore::prune(&own, &all, &STANDING)
            }
        });
        let removed = pruned.await.flatten().map_err(InventoryError::local("removing files"))?;
        let kept = if from_before {
            found.files().iter().filter(|file| wanted.file(&file.path) != Some(file)).count()
        } else {
            0
        };
        let missing: Vec<InventoryFile> =
            wanted.files().iter().filter(|file| found.file(&file.path) != Some(file)).cloned().collect();
        known.retain(|path, _| wanted.file(path).is_some() && found.file(path) == wanted.file(path));
        let fetched = missing.len();
        known.extend(fetch(&tree, missing, contents).await?);
        let (own, made) = (Arc::clone(&tree), Arc::clone(&wanted));
        let made = blocking(move || restore::make_directories(&own, &made)).await;
        made.flatten().map_err(InventoryError::local("making directories"))?;
        self.note(&mut state, known, Changed::Yes).await?;
        (state.stored, state.is_half_done) = (stored, false);
        Ok(Restored { fetched, removed, kept })
    }

    /// Begins to follow a thread that has no inventory. Files that are there from before stay, until the log names an
    /// inventory that has them. If there were none, everything goes that a dead process left.
    ///
    /// # Errors
    ///
    /// The disk failed, or another process uses the directories.
    pub async fn begin(&self) -> Result<(), InventoryError> {
        let mut state = self.0.state.lock().await;
        state.is_half_done = true;
        self.hold(&mut state).await?;
        let known = self.known(&mut state).await?;
        let local = Arc::clone(&self.0);
        let begun = blocking(move || local.begin(&known)).await.flatten();
        let begun = begun.map_err(InventoryError::local("making the thread's directories"))?;
        let files = begun.files.clone();
        state.known = Some(Arc::new(begun));
        self.note(&mut state, files, Changed::Yes).await?;
        (state.stored, state.is_half_done) = (Arc::default(), false);
        Ok(())
    }

    /// Whether there are files from before the thread was followed that no inventory has.
    ///
    /// # Errors
    ///
    /// The disk failed.
    pub async fn has_files_from_before(&self) -> Result<bool, InventoryError> {
        let local = Arc::clone(&self.0);
        let found = blocking(move || local.has_files_from_before()).await.flatten();
        found.map_err(InventoryError::local("looking at the thread's directories"))
    }

    /// Writes a file whose content is stored, in place of what is at its path.
    ///
    /// # Errors
    ///
    /// The disk or the store failed, or no directory has the path.
    pub async fn put(&self, contents: &FamilyContents, file: &InventoryFile) -> Result<(), InventoryError> {
        let _state = self.0.state.lock().await;
        let tree = self.opened().await?;
        fetch(&tree, vec![file.clone()], contents).await.map(drop)
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    ///
    /// The disk failed.
    pub async fn remove(&self, path: &str) -> Result<(), InventoryError> {
        let _state = self.0.state.lock().await;
        let (tree, path) = (self.opened().await?, path.to_owned());
        let removed = blocking(move || restore::remove(&tree, &path)).await.flatten();
        removed.map_err(InventoryError::local("removing a file"))
    }

    /// Removes the directories if nobody has used them for so long: the store has the files. Returns whether it did. A tree is
    /// in use from its first restore until its last clone is dropped.
    ///
    /// # Errors
    ///
    /// The disk failed. A part may be removed.
    pub async fn forget_unused(&self, unused_for: Duration) -> Result<bool, InventoryError> {
        let local = Arc::clone(&self.0);
        let forgotten = blocking(move || local.forget_unused(unused_for)).await.flatten();
        forgotten.map_err(InventoryError::local("removing the thread's directories"))
    }

    /// The last inventory on this machine, if it is this one: then nobody needs to be asked for it.
    async fn last_inventory(&self, digest: ContentDigest) -> Option<Inventory> {
        let local = Arc::clone(&self.0);
        let read = blocking(move || std::fs::read(local.inventory_copy())).await.flatten().ok()?;
        (ContentDigest::of(&read) == digest).then(|| Inventory::from_bytes(&read).ok()).flatten()
    }

    /// Keeps a copy of the last inventory. Without it, the next restore reads it from the store.
    async fn keep_inventory(&self, inventory: &Arc<Inventory>) {
        let (local, inventory) = (Arc::clone(&self.0), Arc::clone(inventory));
        let kept =
            blocking(move || known::write_beside(&local.inventory_copy(), &inventory.to_bytes())).await;
        if let Err(error) = kept.flatten() {
            tracing::warn!(%error, "Could not keep a copy of the list of a thread's files");
        }
    }

    /// Takes the directories for this tree alone. A process that lost the thread may take a moment to notice.
    async fn hold(&self, state: &mut TreeState) -> Result<(), InventoryError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MAX_TRIES {
            if state.in_use.is_some() {
                return Ok(());
            }
            let local = Arc::clone(&self.0);
            let held = blocking(move || in_use::hold(&local.note)).await.flatten();
            state.in_use = held.map_err(InventoryError::local("opening the thread's directories"))?;
            if state.in_use.is_none() {
                tokio::time::sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
        if state.in_use.is_some() { Ok(()) } else { Err(InventoryError::InUse) }
    }

    async fn opened(&self) -> Result<Arc<OpenTree>, InventoryError> {
        let local = Arc::clone(&self.0);
        let opened = blocking(move || local.open(Missing::Make)).await.flatten();
        opened.map(Arc::new).map_err(InventoryError::local("opening the thread's directories"))
    }

    async fn known(&self, state: &mut TreeState) -> Result<Arc<KnownFiles>, InventoryError> {
        if state.known.is_none() {
            let local = Arc::clone(&self.0);
            let read = blocking(move || KnownFiles::read(&local.note)).await.map_err(interrupted)?;
            state.known = Some(Arc::new(read));
        }
        Ok(state.known.clone().unwrap_or_default())
    }

    /// Remembers what is known, on disk if it changed. Without the note, files are read again.
    async fn note(
        &self,
        state: &mut TreeState,
        files: HashMap<String, KnownFile>,
        changed: Changed,
    ) -> Result<(), InventoryError> {
        let mut known = state.known.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        let is_same = known.files == files && !known.is_new;
        (known.files, known.is_new) = (files, false);
        let known = Arc::new(known);
        state.known = Some(Arc::clone(&known));
        if is_same && changed == Changed::No {
            return Ok(());
        }
        let local = Arc::clone(&self.0);
        let written = blocking(move || known.write(&local.note)).await.flatten();
        written.map_err(InventoryError::local("writing the note about the thread's files"))
    }
}

impl TreeState {
    /// Changes what the note says besides the files.
    fn change_note(&mut self, change: impl FnOnce(&mut KnownFiles)) -> Changed {
        let mut note = self.known.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        let before = (note.from_before, note.captured, note.is_new);
        change(&mut note);
        let is_same = before == (note.from_before, note.captured, note.is_new);
        self.known = Some(Arc::new(note));
        if is_same { Changed::No } else { Changed::Yes }
    }
}

fn make(directory: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

fn interrupted(error: std::io::Error) -> InventoryError {
    InventoryError::local("reading the thread's directories")(error)
}
