//! The directories of a thread on this machine.

use std::collections::HashMap;
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
    /// A lock: as long as it is held, the directories are in use.
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

    /// Makes the directories, except for the workspace. If there is a note, empties all of them.
    fn begin(&self) -> std::io::Result<()> {
        if self.note.exists() {
            restore::prune(&self.open(Missing::LeaveOut)?, &Inventory::default(), &STANDING)?;
        }
        self.roots.iter().try_for_each(|root| make(&root.directory))
    }

    /// The copy of the last inventory.
    fn inventory_copy(&self) -> PathBuf {
        self.note.with_extension("inventory")
    }

    fn forget_unused(&self, unused_for: Duration) -> std::io::Result<bool> {
        let Some(_taken) = in_use::take_unused(&self.note, unused_for)? else { return Ok(false) };
        if let Some((workspaces, id)) = &self.workspace
            && workspaces.remove(id).map_err(std::io::Error::other)? == Removed::InUse
        {
            return Ok(false);
        }
        // Without its directories, the note would be wrong.
        remove_tree(&self.note)?;
        remove_tree(&self.inventory_copy())?;
        self.roots.iter().try_for_each(|root| remove_tree(&root.directory))?;
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
    /// The disk or the store failed. The next capture tries again.
    pub async fn capture(
        &self,
        contents: &FamilyContents,
        thread: &str,
    ) -> Result<Option<Captured>, InventoryError> {
        let mut state = self.0.state.lock().await;
        let known = self.known(&mut state).await?;
        let local = Arc::clone(&self.0);
        let looked = blocking(move || local.look(Missing::LeaveOut, &known)).await;
        let (tree, Scan { inventory, known }) = looked.map_err(interrupted)??;
        if inventory == *state.stored {
            self.note(&mut state, known, Changed::No).await?;
            return Ok(None);
        }
        let (inventory, known) = store_new(Arc::new(tree), &state.stored, inventory, known, contents).await?;
        let digest = contents.put_inventory(thread, &inventory).await?;
        let is_new = inventory.left_out() != state.stored.left_out();
        let left_out = if is_new { inventory.left_out().to_vec() } else { Vec::new() };
        let inventory = Arc::new(inventory);
        state.stored = Arc::clone(&inventory);
        self.keep_inventory(&inventory).await;
        self.note(&mut state, known, Changed::Yes).await?;
        Ok(Some(Captured { digest, inventory, left_out }))
    }

    /// Makes the directories equal to an inventory with later changes. Files that are there already stay, and everything
    /// else goes: also what a dead process left half-done.
    ///
    /// # Errors
    ///
    /// The disk or the store failed, or the inventory has a path that no directory has. A part may be restored; the next
    /// restore does the rest.
    pub async fn restore(
        &self,
        contents: &FamilyContents,
        thread: &str,
        digest: ContentDigest,
        changed: impl FnOnce(Inventory) -> Inventory,
    ) -> Result<Restored, InventoryError> {
        let mut state = self.0.state.lock().await;
        self.hold(&mut state).await?;
        let stored = match self.last_inventory(digest).await {
            Some(own) => own,
            None => contents.inventory(thread, digest).await?,
        };
        let wanted = Arc::new(changed(stored.clone()));
        let known = self.known(&mut state).await?;
        // Whatever happens, captures begin from there.
        state.stored = Arc::new(stored);
        self.keep_inventory(&state.stored).await;
        let local = Arc::clone(&self.0);
        let looked = blocking(move || local.look(Missing::Make, &known)).await;
        let (tree, Scan { inventory: found, mut known }) = looked.map_err(interrupted)??;
        if found == *wanted {
            self.note(&mut state, known, Changed::No).await?;
            return Ok(Restored::default());
        }
        let outside = wanted.files().iter().map(|file| &file.path).chain(wanted.empty_directories());
        if let Some(path) = outside.into_iter().find(|path| tree.find(path).is_none()) {
            let problem = format!("{} is in no directory of the thread", quoted(path));
            return Err(InventoryError::Unusable { digest, problem });
        }
        let tree = Arc::new(tree);
        let (own, pruned) = (Arc::clone(&tree), Arc::clone(&wanted));
        let pruned = blocking(move || restore::prune(&own, &pruned, &STANDING)).await;
        let removed = pruned.flatten().map_err(InventoryError::local("removing files"))?;
        let missing: Vec<InventoryFile> =
            wanted.files().iter().filter(|file| found.file(&file.path) != Some(file)).cloned().collect();
        known.retain(|path, _| wanted.file(path).is_some() && found.file(path) == wanted.file(path));
        let fetched = missing.len();
        known.extend(fetch(&tree, missing, contents).await?);
        let (own, made) = (Arc::clone(&tree), Arc::clone(&wanted));
        let made = blocking(move || restore::make_directories(&own, &made)).await;
        made.flatten().map_err(InventoryError::local("making directories"))?;
        self.note(&mut state, known, Changed::Yes).await?;
        Ok(Restored { fetched, removed })
    }

    /// Begins to follow a thread that has no inventory. Files that are there from before stay. If they were followed before,
    /// as the note says, everything goes that a dead process left.
    ///
    /// # Errors
    ///
    /// The disk failed.
    pub async fn begin(&self) -> Result<(), InventoryError> {
        let mut state = self.0.state.lock().await;
        self.hold(&mut state).await?;
        let local = Arc::clone(&self.0);
        let begun = blocking(move || local.begin()).await.flatten();
        begun.map_err(InventoryError::local("making the thread's directories"))?;
        state.stored = Arc::default();
        self.note(&mut state, HashMap::new(), Changed::Yes).await
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

    /// Keeps others from removing the directories.
    async fn hold(&self, state: &mut TreeState) -> Result<(), InventoryError> {
        if state.in_use.is_none() {
            let local = Arc::clone(&self.0);
            let held = blocking(move || in_use::hold(&local.note)).await.flatten();
            state.in_use = Some(held.map_err(InventoryError::local("opening the thread's directories"))?);
        }
        Ok(())
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
        let is_same = known.files == files;
        known.files = files;
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
