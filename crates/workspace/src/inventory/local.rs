//! The directories of a thread on this machine.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::contents::quoted;
use super::known::{KnownFile, KnownFiles};
use super::restore;
use super::scan::{Scan, ScanRoot, scan};
use super::{
    ContentDigest, FamilyContents, Inventory, InventoryError, InventoryFile, LeftOut, MAX_FILE_BYTES,
};
use crate::blocking::blocking;
use crate::dir::{Dir, NoFile, Owner};
use crate::workspace::{Workspace, Workspaces};

/// How many files are stored or fetched at once.
const AT_ONCE: usize = 16;
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

/// The directories, opened.
pub(super) struct OpenTree {
    roots: Vec<OpenRoot>,
    /// Keeps the workspace in use.
    _workspace: Option<Workspace>,
}

pub(super) struct OpenRoot {
    pub(super) at: String,
    pub(super) directory: Dir,
    pub(super) owner: Owner,
}

impl OpenTree {
    /// The directory in which a path lies, and the rest of the path.
    pub(super) fn find<'a>(&self, path: &'a str) -> Option<(&OpenRoot, &'a str)> {
        let below = |root: &OpenRoot| path.strip_prefix(&*root.at)?.strip_prefix('/');
        self.roots.iter().find_map(|root| Some((root, below(root)?)))
    }

    pub(super) fn roots(&self) -> &[OpenRoot] {
        &self.roots
    }

    fn scan(&self, known: &KnownFiles) -> std::io::Result<Scan> {
        let roots: Vec<ScanRoot<'_>> =
            self.roots.iter().map(|root| ScanRoot { at: &root.at, directory: &root.directory }).collect();
        scan(&roots, &STANDING, known)
    }
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
        Ok(OpenTree { roots, _workspace: opened })
    }

    /// Makes the directories, except for the workspace. If there is a note, empties all of them.
    fn begin(&self) -> std::io::Result<()> {
        if self.note.exists() {
            restore::prune(&self.open(Missing::LeaveOut)?, &Inventory::default(), &STANDING)?;
        }
        self.roots.iter().try_for_each(|root| make(&root.directory))
    }

    /// Lists what is there.
    fn look(&self, missing: Missing, known: &KnownFiles) -> Result<(OpenTree, Scan), InventoryError> {
        let looked = || {
            let tree = self.open(missing)?;
            let scan = tree.scan(known)?;
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
        let stored = contents.inventory(thread, digest).await?;
        let wanted = Arc::new(changed(stored.clone()));
        let known = self.known(&mut state).await?;
        // Whatever happens, captures begin from there.
        state.stored = Arc::new(stored);
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
        known.extend(self.fetch(&tree, missing, contents).await?);
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
        self.fetch(&tree, vec![file.clone()], contents).await.map(drop)
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

    async fn opened(&self) -> Result<Arc<OpenTree>, InventoryError> {
        let local = Arc::clone(&self.0);
        let opened = blocking(move || local.open(Missing::Make)).await.flatten();
        opened.map(Arc::new).map_err(InventoryError::local("opening the thread's directories"))
    }

    /// Fetches and writes files.
    async fn fetch(
        &self,
        tree: &Arc<OpenTree>,
        files: Vec<InventoryFile>,
        contents: &FamilyContents,
    ) -> Result<HashMap<String, KnownFile>, InventoryError> {
        let fetch = |file: InventoryFile| {
            let (tree, contents) = (Arc::clone(tree), contents.clone());
            async move {
                let _room = contents.room(file.bytes).await;
                let (bytes, path) = (contents.file_within(&file).await?, file.path.clone());
                let written = blocking(move || restore::write(&tree, &file, &bytes)).await.flatten();
                let known = written.map_err(InventoryError::local(format!("writing {}", quoted(&path))))?;
                Ok(Some((path, known)))
            }
        };
        Ok(all(files, fetch).await?.into_iter().collect())
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

/// Stores the contents that the inventory before did not have. A file that changed after it was listed is stored as it is
/// now.
async fn store_new(
    tree: Arc<OpenTree>,
    before: &Inventory,
    inventory: Inventory,
    mut known: HashMap<String, KnownFile>,
    contents: &FamilyContents,
) -> Result<(Inventory, HashMap<String, KnownFile>), InventoryError> {
    let stored: HashSet<ContentDigest> = before.files().iter().map(|file| file.digest).collect();
    let mut seen = HashSet::new();
    let is_new = |file: &&InventoryFile| {
        file.bytes > 0 && !stored.contains(&file.digest) && !contents.is_known(&file.digest)
    };
    let new = inventory.files().iter().filter(is_new).filter(|file| seen.insert(file.digest));
    let new: Vec<InventoryFile> = new.cloned().collect();
    let store = |file: InventoryFile| {
        let (tree, contents) = (Arc::clone(&tree), contents.clone());
        async move {
            let _room = contents.room(file.bytes).await;
            let path = file.path.clone();
            let read = blocking(move || read(&tree, &path)).await.flatten();
            let read = read.map_err(InventoryError::local(format!("reading {}", quoted(&file.path))))?;
            let now = match read {
                Some(bytes) => {
                    let bytes_now = bytes.len() as u64;
                    let digest = contents.put_within(bytes, &quoted(&file.path)).await?;
                    Some(InventoryFile { bytes: bytes_now, digest, ..file.clone() })
                }
                None => None,
            };
            Ok((now.as_ref() != Some(&file)).then_some((file, now)))
        }
    };
    let changed = all(new, store).await?;
    if changed.is_empty() {
        return Ok((inventory, known));
    }
    // Other files may have had the same content when they were listed. They are stored, too.
    let gone: HashSet<ContentDigest> = changed.iter().map(|(before, _)| before.digest).collect();
    let mut files: HashMap<String, Option<InventoryFile>> =
        changed.into_iter().map(|(before, now)| (before.path, now)).collect();
    let twins = inventory.files().iter().filter(|file| gone.contains(&file.digest));
    let twins: Vec<InventoryFile> = twins.filter(|file| !files.contains_key(&file.path)).cloned().collect();
    files.extend(all(twins, store).await?.into_iter().map(|(before, now)| (before.path, now)));
    let now = |file: &InventoryFile| files.get(&file.path).cloned().unwrap_or_else(|| Some(file.clone()));
    let all = inventory.files().iter().filter_map(now).collect();
    known.retain(|path, _| !files.contains_key(path));
    let (empty, left_out) = (inventory.empty_directories().to_vec(), inventory.left_out().to_vec());
    Ok((Inventory::new(all, empty, left_out), known))
}

/// Reads a file that was listed; `None` if it is no longer a file that can be stored.
fn read(tree: &OpenTree, path: &str) -> std::io::Result<Option<Bytes>> {
    use std::io::Read as _;
    let Some((root, rest)) = tree.find(path) else { return Ok(None) };
    let file = match root.directory.file(rest) {
        Ok((file, _)) => file,
        Err(NoFile::Io(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Err(_) => return Ok(None),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Some(Bytes::from(bytes)).filter(|bytes| bytes.len() as u64 <= MAX_FILE_BYTES))
}

/// Does something with each file, with some at once. The first error ends it.
async fn all<T, F>(
    files: Vec<InventoryFile>,
    each: impl Fn(InventoryFile) -> F,
) -> Result<Vec<T>, InventoryError>
where
    T: Send + 'static,
    F: Future<Output = Result<Option<T>, InventoryError>> + Send + 'static,
{
    let mut waiting = files.into_iter();
    let mut working = JoinSet::new();
    let mut done = Vec::new();
    for file in waiting.by_ref().take(AT_ONCE) {
        working.spawn(each(file));
    }
    while let Some(finished) = working.join_next().await {
        let failed = |error: tokio::task::JoinError| interrupted(std::io::Error::other(error));
        done.extend(finished.map_err(failed)??);
        if let Some(file) = waiting.next() {
            working.spawn(each(file));
        }
    }
    Ok(done)
}
