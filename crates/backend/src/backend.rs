//! The trait that everything which holds files implements.

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

/// How many operations of one batch are under way at once, where a backend waits for a network.
const CONCURRENT_OPERATIONS: usize = 16;

/// How many files a search reads at once, which bounds the memory that it takes.
const SEARCH_BATCH_FILES: usize = 16;

/// A place where files live.
///
/// Paths are absolute inside the backend, and mean nothing outside it. Directories come and go with
/// the files in them: writing creates those that are missing, and whether an empty one is remembered
/// is the backend's affair. What lies below a file does not exist; reading there is
/// [`BackendError::NotFound`], writing there [`BackendError::NotADirectory`].
///
/// The methods with a body are right for every backend, and worth replacing where one can do better.
/// The feature `testing` has the suite that an implementation must pass.
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
    /// What the directory holds, sorted by name. The root can always be listed.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::NotADirectory`] for a file.
    async fn ls(&self, path: &VirtualPath) -> Result<Listing>;

    /// What lies at `path`: what reading or listing it would act on.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`].
    async fn stat(&self, path: &VirtualPath) -> Result<Entry>;

    /// A part of a file, never more than asked for.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::IsDirectory`]; [`BackendError::NotAFile`].
    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents>;

    /// The first `max_bytes` of each file, in the order given, each with its own error.
    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents>> {
        let reads: Vec<_> = paths.iter().map(|path| self.read(path, ReadRange::first(max_bytes))).collect();
        stream::iter(reads).buffered(CONCURRENT_OPERATIONS).collect().await
    }

    /// Writes a whole file, with the directories that it needs. Readers see all of it or none.
    ///
    /// # Errors
    ///
    /// [`BackendError::AlreadyExists`] as `mode` says; [`BackendError::IsDirectory`];
    /// [`BackendError::NotADirectory`] if a file is where a directory is needed.
    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry>;

    /// Adds `bytes` to the end of a file, which is created if need be. Of appends at the same time none
    /// is lost and none is torn.
    ///
    /// # Errors
    ///
    /// As for [`Backend::write`], and [`BackendError::Conflict`].
    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry>;

    /// Replaces a text in a file of at most [`MAX_EDIT_BYTES`](crate::write::MAX_EDIT_BYTES), on exactly the
    /// contents that were checked.
    ///
    /// # Errors
    ///
    /// As for [`Backend::read`] and [`Edit::apply`]; [`BackendError::TooLarge`];
    /// [`BackendError::Conflict`].
    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// [`BackendError::NotFound`]; [`BackendError::IsDirectory`].
    async fn delete(&self, path: &VirtualPath) -> Result<()>;

    /// The files below `base` whose path from there matches. Links are not followed, so loops end.
    ///
    /// # Errors
    ///
    /// As for [`Backend::ls`] of `base`; what fails further down is in the report.
    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        walk_glob(self, base, query).await
    }

    /// The lines that match in the text files below `base`, or in `base` itself if it is a file.
    ///
    /// # Errors
    ///
    /// As for [`Backend::stat`] of `base`; what fails further down is in the report.
    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport> {
        read_grep(self, base, query).await
    }

    /// Writes each file as [`Backend::write`] with [`WriteMode::Replace`] does, in the order given for
    /// files of the same path, each with its own error in its place.
    async fn upload(&self, files: Vec<(VirtualPath, Bytes)>) -> Vec<Result<Entry>> {
        let mut answers = Vec::with_capacity(files.len());
        for (path, bytes) in files {
            answers.push(self.write(&path, bytes, WriteMode::Replace).await);
        }
        answers
    }

    /// Each whole file of at most [`MAX_DOWNLOAD_BYTES`], in the order given, each with its own error;
    /// [`BackendError::TooLarge`] for what must be read in parts.
    async fn download(&self, paths: &[VirtualPath]) -> Vec<Result<Bytes>> {
        let reads = self.read_many(paths, MAX_DOWNLOAD_BYTES).await;
        reads.into_iter().map(|read| read?.into_whole()).collect()
    }

    /// Where a path leads, for whoever decides by places. What is not there leads to itself.
    async fn target(&self, path: &VirtualPath) -> Target {
        Target::itself(path)
    }

    /// The means to run commands where the files are, if this backend has them.
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

/// Finds lines by reading the files that the backend's own [`Backend::glob`] finds.
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

/// The file at `path` as if it had been found in its directory, if its name matches.
async fn only_file<B>(backend: &B, path: &VirtualPath, query: &GlobQuery) -> Result<GlobReport>
where
    B: Backend + ?Sized,
{
    let entry = backend.stat(path).await?;
    let matches = entry.kind == EntryKind::File && path.name().is_some_and(|name| query.matches(name));
    Ok(GlobReport { entries: if matches { vec![entry] } else { Vec::new() }, ..GlobReport::default() })
}
