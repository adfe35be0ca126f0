//! A local directory, without access to anything outside it.

mod changing;
mod reading;
mod system;
mod temporary;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::change_queue::{ChangeQueues, MAX_ATTEMPTS};
use crate::entry::Target;
use crate::{
    Backend, BackendError, Contents, Edit, Edited, Entry, GlobQuery, GlobReport, Listing, ReadRange, Result,
    VirtualPath, WriteMode,
};
use changing::Attempt;

/// How many threads read one batch, and the fewest files that are worth a thread.
const READ_THREADS: usize = 4;
const MIN_FILES_PER_THREAD: usize = 32;

/// The files below one directory of the local disk.
///
/// The backend opens the directory once. The kernel resolves all paths from that descriptor, so no link, `..` or race
/// leads out of it. Reads follow relative links that stay inside; links that lead out fail with
/// [`BackendError::PermissionDenied`]. Writes never follow links. FIFOs, sockets and devices are listed but never read.
///
/// A write goes to a temporary file beside its target, named `.prowess-….tmp`, and is then renamed. The new file has
/// the permissions of the old one, without the set-uid and set-gid bits. Its owner is the user of this process.
///
/// Advisory locks protect against other processes, if those use the locks too, as this type does. The backend replaces
/// a file with several hard links instead of changing it, so the other names keep their contents.
///
/// ```
/// use prowess_backend::{Backend, BackendError, LocalBackend, ReadRange, VirtualPath};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let directory = scratch.path();
/// let files = LocalBackend::open(directory)?;
/// let notes = VirtualPath::parse("/drafts/notes.md")?;
/// files.append(&notes, "- tides\n".into()).await?;
/// assert_eq!(std::fs::read_to_string(directory.join("drafts/notes.md"))?, "- tides\n");
///
/// std::os::unix::fs::symlink("/etc/passwd", directory.join("way-out"))?;
/// let read = files.read(&VirtualPath::parse("/way-out")?, ReadRange::first(100)).await;
/// assert!(matches!(read, Err(BackendError::PermissionDenied { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LocalBackend {
    root: Arc<Dir>,
    /// The path of the root: as spelled, and with links followed. Only for reports; the backend opens nothing by these
    /// paths.
    root_paths: Arc<[PathBuf; 2]>,
    turns: Arc<ChangeQueues>,
}

impl LocalBackend {
    /// Opens `root`, which must be an existing directory. Its own path may contain links.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn open(root: impl AsRef<Path>) -> io::Result<Self> {
        let spelled = std::path::absolute(&root)?;
        #[allow(clippy::disallowed_methods, reason = "it is only reported; nothing is opened by it")]
        let followed = root.as_ref().canonicalize().unwrap_or_else(|_| spelled.clone());
        let root = Dir::open_ambient_dir(root, ambient_authority())?;
        Ok(Self {
            root: Arc::new(root),
            root_paths: Arc::new([spelled, followed]),
            turns: Arc::new(ChangeQueues::new()),
        })
    }

    /// Runs blocking work on a thread outside the runtime.
    async fn blocking<T, W>(&self, path: &VirtualPath, operation: &'static str, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Dir, &VirtualPath) -> Result<T> + Send + 'static,
    {
        let (root, inner) = (Arc::clone(&self.root), path.clone());
        tokio::task::spawn_blocking(move || work(&root, &inner))
            .await
            .unwrap_or_else(|stopped| Err(BackendError::io(path, operation, stopped)))
    }

    /// Waits for its turn, then makes a change. It tries again while others change the file.
    async fn change<T, W>(&self, path: &VirtualPath, operation: &'static str, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Dir, &VirtualPath) -> Result<Attempt<T>> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let _turn = self.turns.wait(path).await;
        for attempt in 0..MAX_ATTEMPTS {
            let work = Arc::clone(&work);
            match self.blocking(path, operation, move |root, path| work(root, path)).await? {
                Attempt::Done(value) => return Ok(value),
                Attempt::Busy => self.turns.pause(attempt).await,
            }
        }
        Err(BackendError::Conflict { path: path.clone(), attempts: MAX_ATTEMPTS })
    }
}

#[async_trait]
impl Backend for LocalBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        self.blocking(path, "listing", reading::list).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        self.blocking(path, "looking up", reading::stat).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        self.blocking(path, "reading", move |root, path| reading::read(root, path, range)).await
    }

    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents>> {
        let range = ReadRange::first(max_bytes);
        let per_thread = paths.len().div_ceil(READ_THREADS).max(MIN_FILES_PER_THREAD);
        let batches: Vec<_> = paths
            .chunks(per_thread)
            .map(|batch| {
                let (root, batch) = (Arc::clone(&self.root), batch.to_vec());
                let names = batch.clone();
                let reads =
                    move || batch.iter().map(|path| reading::read(&root, path, range)).collect::<Vec<_>>();
                (tokio::task::spawn_blocking(reads), names)
            })
            .collect();
        let mut answers = Vec::with_capacity(paths.len());
        for (batch, names) in batches {
            match batch.await {
                Ok(reads) => answers.extend(reads),
                Err(stopped) => answers.extend(
                    names.iter().map(|path| Err(BackendError::io(path, "reading", stopped.to_string()))),
                ),
            }
        }
        answers
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        self.change(path, "writing", move |root, path| changing::write(root, path, &bytes, mode)).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        self.change(path, "appending", move |root, path| changing::append(root, path, &bytes)).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let edit = edit.clone();
        self.change(path, "editing", move |root, path| changing::edit(root, path, &edit)).await
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        self.change(path, "writing", move |root, path| changing::swap(root, path, &before, &after)).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        self.change(path, "deleting", changing::delete).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        let query = query.clone();
        self.blocking(base, "searching", move |root, base| reading::glob(root, base, &query)).await
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        let found = self.blocking(path, "following", |root, path| Ok(reading::target(root, path))).await;
        let (real, ignores_case) = found.unwrap_or_else(|_| (path.clone(), false));
        let [spelled, followed] = &*self.root_paths;
        let below = |place: &Path, path: &VirtualPath| {
            let mut place = place.to_owned();
            place.extend(path.components());
            place
        };
        Target { on_disk: vec![below(spelled, path), below(followed, &real)], path: real, ignores_case }
    }
}
