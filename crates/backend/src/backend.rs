//! The trait of all backends.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;

use crate::entry::Target;
use crate::grep::{Progress, Search};
use crate::read::MAX_DOWNLOAD_BYTES;
use crate::walk::Walk;
use crate::{
    BackendError, Contents, Edit, Edited, Entry, EntryKind, Execute, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, ReadRange, Result, VirtualPath, WriteMode,
};

/// How many operations of one batch a backend runs at once, if it has no method that does better.
const CONCURRENT_OPERATIONS: usize = 16;

/// How many files a search reads at once. This limits the memory that the search uses.
const SEARCH_BATCH_FILES: usize = 16;

/// A place where files live.
///
/// Paths are absolute inside the backend and mean nothing outside it. A write creates the directories that are missing.
/// Each backend decides whether it remembers an empty directory. Nothing exists below a file: a read there fails with
/// [`BackendError::NotFound`], a write with [`BackendError::NotADirectory`].
///
/// The methods with a body work for every backend. Replace one if your backend can do it faster. The feature `testing`
/// has the suite that an implementation must pass.
///
/// ```
/// use prowess_backend::{Backend, BackendError, MemoryBackend, ReadRange, VirtualPath};
///
/// async fn log(files: &dyn Backend, line: &str) -> Result<String, BackendError> {
///     let path = VirtualPath::parse("/notes/log.txt")?;
///     files.append(&path, format!("{line}\n").into()).await?;
///     files.read(&path, ReadRange::first(4096)).await?.into_text()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BackendError> {
/// let files = MemoryBackend::new();
/// log(&files, "begun").await?;
/// assert_eq!(log(&files, "done").await?, "begun\ndone\n");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// Lists a directory, sorted by name. The root can always be listed.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::NotADirectory`] for a file.
    async fn ls(&self, path: &VirtualPath) -> Result<Listing>;

    /// Describes the file or directory at `path`. It follows links, like a read or a listing of `path`.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`].
    async fn stat(&self, path: &VirtualPath) -> Result<Entry>;

    /// Reads a part of a file, never more than `range` allows.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::IsDirectory`]; [`BackendError::NotAFile`].
    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents>;

    /// Reads the first `max_bytes` of each file, in the given order. Each file has its own error.
    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents>> {
        let reads: Vec<_> = paths.iter().map(|path| self.read(path, ReadRange::first(max_bytes))).collect();
        stream::iter(reads).buffered(CONCURRENT_OPERATIONS).collect().await
    }

    /// Writes a whole file and creates missing directories. Readers see all of it or none.
    ///
    /// # Errors
    ///
    /// [`BackendError::AlreadyExists`] if `mode` is [`WriteMode::CreateNew`]; [`BackendError::IsDirectory`];
    /// [`BackendError::NotADirectory`] if a file is in the place of a directory.
    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry>;

    /// Adds `bytes` to the end of a file and creates the file if it is missing. Concurrent appends neither lose nor mix
    /// bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::write`], and [`BackendError::Conflict`].
    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry>;

    /// Replaces a text in a file of at most [`MAX_EDIT_BYTES`](crate::write::MAX_EDIT_BYTES). If the file changes
    /// meanwhile, the backend tries again.
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::read`] and [`Edit::apply`]; [`BackendError::TooLarge`]; [`BackendError::Conflict`].
    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited>;

    /// Replaces a whole file if its contents are still `before`. Readers see the old contents or the new.
    ///
    /// The check is as exact as the backend allows. This method reads and then writes; a backend that can do both at once
    /// replaces it.
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::read`] and [`Backend::write`]; [`BackendError::Changed`] if the contents are different.
    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        let present = self.read(path, ReadRange::first((before.len() as u64).saturating_add(1))).await?;
        if present.bytes != before {
            return Err(BackendError::Changed { path: path.clone() });
        }
        self.write(path, after, WriteMode::Replace).await
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::IsDirectory`].
    async fn delete(&self, path: &VirtualPath) -> Result<()>;

    /// Finds the files below `base` whose path, relative to `base`, matches. It does not follow links, so loops end.
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::ls`] for `base`. The report lists failures further down.
    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        walk_glob(self, base, query).await
    }

    /// Finds the matching lines in the text files below `base`, or in `base` itself if it is a file.
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::stat`] for `base`. The report lists failures further down.
    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport> {
        read_grep(self, base, query).await
    }

    /// Writes each file as [`Backend::write`] does with [`WriteMode::Replace`]. Each file has its own error. If a path
    /// occurs twice, the last one wins.
    async fn upload(&self, files: Vec<(VirtualPath, Bytes)>) -> Vec<Result<Entry>> {
        let mut answers = Vec::with_capacity(files.len());
        for (path, bytes) in files {
            answers.push(self.write(&path, bytes, WriteMode::Replace).await);
        }
        answers
    }

    /// Reads whole files of at most [`MAX_DOWNLOAD_BYTES`], in the given order. Each file has its own error; a larger
    /// file fails with [`BackendError::TooLarge`].
    async fn download(&self, paths: &[VirtualPath]) -> Vec<Result<Bytes>> {
        let reads = self.read_many(paths, MAX_DOWNLOAD_BYTES).await;
        reads.into_iter().map(|read| read?.into_whole()).collect()
    }

    /// Follows the links in `path` and says where it ends, so that rules about places can be checked. A path that does
    /// not exist leads to itself.
    async fn target(&self, path: &VirtualPath) -> Target {
        Target::itself(path)
    }

    /// Checks that files at this path can be changed at all. It looks at the path only, not at the file. A caller that asks a
    /// person before a change needs this: the change itself checks everything again.
    ///
    /// # Errors
    ///
    /// [`BackendError::PermissionDenied`] if the place is read-only.
    async fn check_change(&self, _path: &VirtualPath) -> Result<()> {
        Ok(())
    }

    /// The path by which this backend knows a file. It differs from `path` only if the backend has several spellings of paths.
    fn known_as(&self, path: &VirtualPath) -> VirtualPath {
        path.clone()
    }

    /// Runs commands where the files are, if this backend can.
    fn executor(&self) -> Option<&dyn Execute> {
        None
    }
}

/// Finds files by listing one directory after another.
pub(crate) async fn walk_glob<B>(backend: &B, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport>
where
    B: Backend + ?Sized,
{
    let mut walk = Walk::new(base, query);
    walk.enter(backend.ls(base).await?);
    while let Some(directory) = walk.next_directory() {
        match backend.ls(&directory).await {
            Ok(listing) => walk.enter(listing),
            Err(error) => walk.skip(error),
        }
    }
    Ok(walk.finish())
}

/// Finds lines: reads the files that the backend's own [`Backend::glob`] finds.
pub(crate) async fn read_grep<B>(backend: &B, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport>
where
    B: Backend + ?Sized,
{
    let mut found = match backend.glob(base, query.searched_files()).await {
        Err(BackendError::NotADirectory { .. }) => only_file(backend, base, query.searched_files()).await?,
        found => found?,
    };
    let mut search = Search::new(query, &mut found);
    let paths: Vec<VirtualPath> = found.entries.into_iter().map(|entry| entry.path).collect();
    for batch in paths.chunks(SEARCH_BATCH_FILES) {
        for read in backend.read_many(batch, query.file_bytes()).await {
            if search.file(read) == Progress::Enough {
                return Ok(search.finish());
            }
        }
    }
    Ok(search.finish())
}

/// Reports the file at `path` as a search would, if its name matches.
async fn only_file<B>(backend: &B, path: &VirtualPath, query: &GlobQuery) -> Result<GlobReport>
where
    B: Backend + ?Sized,
{
    let entry = backend.stat(path).await?;
    let matches = entry.kind == EntryKind::File && path.name().is_some_and(|name| query.matches(name));
    Ok(GlobReport { entries: if matches { vec![entry] } else { Vec::new() }, ..GlobReport::default() })
}
