//! Several backends joined under one root.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::backend::{read_grep, walk_glob};
use crate::entry::Target;
use crate::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Execute, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, ReadRange, Result, VirtualPath, WriteMode,
};

/// Joins several backends: each path goes to the backend of the nearest mount above it, or to the default.
///
/// Callers see only the paths of this backend, in answers and in errors. A mount is always a directory. It hides the
/// files of the default at and below its path. A search across mounts finds each path once, in one order.
///
/// ```
/// use std::sync::Arc;
/// use prowess_backend::{Backend, CompositeBackend, MemoryBackend, VirtualPath, WriteMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let skills = Arc::new(MemoryBackend::new());
/// let files = CompositeBackend::new(Arc::new(MemoryBackend::new()))
///     .mount(VirtualPath::parse("/skills")?, skills.clone());
///
/// files.write(&VirtualPath::parse("/skills/a.md")?, "a".into(), WriteMode::Replace).await?;
/// assert!(skills.stat(&VirtualPath::parse("/a.md")?).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CompositeBackend {
    /// The mounts, longest path first. The default, at the root, is last.
    mounts: Vec<Mount>,
}

#[derive(Debug)]
struct Mount {
    at: VirtualPath,
    backend: Arc<dyn Backend>,
}

impl CompositeBackend {
    /// Sends all paths to `default`.
    #[must_use]
    pub fn new(default: Arc<dyn Backend>) -> Self {
        Self { mounts: vec![Mount { at: VirtualPath::root(), backend: default }] }
    }

    /// Mounts `backend` at `at`. A second mount at the same path replaces the first; a mount at `/` replaces the
    /// default.
    #[must_use]
    pub fn mount(mut self, at: VirtualPath, backend: Arc<dyn Backend>) -> Self {
        self.mounts.retain(|mount| mount.at != at);
        self.mounts.push(Mount { at, backend });
        self.mounts.sort_by_key(|mount| std::cmp::Reverse(mount.at.components().count()));
        self
    }

    /// Finds the mount that is responsible for `path`, and the path inside it.
    fn route(&self, path: &VirtualPath) -> Result<(usize, VirtualPath)> {
        for (index, mount) in self.mounts.iter().enumerate() {
            match path.strip_prefix(&mount.at) {
                Some("") => return Ok((index, VirtualPath::root())),
                Some(inner) => return Ok((index, VirtualPath::root().join(inner)?)),
                None => {}
            }
        }
        // Unreachable: the default is at the root, above every path.
        Err(BackendError::not_found(path))
    }

    /// Like `route`, for a path that must be a file.
    fn route_file(&self, path: &VirtualPath) -> Result<(usize, VirtualPath)> {
        if self.mounts_below(path).next().is_some() {
            return Err(BackendError::is_directory(path));
        }
        self.route(path)
    }

    fn mounts_below(&self, path: &VirtualPath) -> impl Iterator<Item = &VirtualPath> {
        self.mounts.iter().map(|mount| &mount.at).filter(move |at| *at != path && at.starts_with(path))
    }

    /// Groups the items of a batch by the mount that is responsible for them.
    fn split<T>(
        &self,
        items: impl Iterator<Item = (VirtualPath, T)>,
    ) -> (Vec<Share<'_, T>>, Vec<(usize, BackendError)>) {
        let mut shares: BTreeMap<usize, Share<'_, T>> = BTreeMap::new();
        let mut refused = Vec::new();
        for (position, (path, item)) in items.enumerate() {
            match self.route_file(&path) {
                Ok((index, inner)) => {
                    let share = shares.entry(index).or_insert_with(|| Share::new(&self.mounts[index]));
                    share.positions.push((position, path));
                    share.items.push((inner, item));
                }
                Err(error) => refused.push((position, error)),
            }
        }
        (shares.into_values().collect(), refused)
    }
}

impl Mount {
    fn entry(&self, mut entry: Entry) -> Result<Entry> {
        entry.path = entry.path.rebase(&self.at)?;
        Ok(entry)
    }

    fn error(&self, error: BackendError) -> BackendError {
        error.rebase(&self.at)
    }

    fn contents(&self, mut contents: Contents) -> Result<Contents> {
        contents.path = contents.path.rebase(&self.at)?;
        Ok(contents)
    }

    /// Changes paths of the mount to paths of this backend. If one becomes too long, its error joins `skipped`.
    fn entries(&self, entries: &mut Vec<Entry>, skipped: &mut Vec<BackendError>) {
        for error in &mut *skipped {
            let inner = std::mem::replace(error, BackendError::not_found(&self.at));
            *error = self.error(inner);
        }
        *entries = std::mem::take(entries)
            .into_iter()
            .filter_map(|entry| self.entry(entry).map_err(|error| skipped.push(error)).ok())
            .collect();
    }
}

/// The part of a batch that goes to one mount.
#[derive(Debug)]
struct Share<'a, T> {
    mount: &'a Mount,
    /// The position of each item in the batch, and its path.
    positions: Vec<(usize, VirtualPath)>,
    items: Vec<(VirtualPath, T)>,
}

impl<'a, T> Share<'a, T> {
    fn new(mount: &'a Mount) -> Self {
        Self { mount, positions: Vec::new(), items: Vec::new() }
    }

    fn paths(&self) -> Vec<VirtualPath> {
        self.items.iter().map(|(path, _)| path.clone()).collect()
    }
}

/// Puts the answers of all mounts into the order of the batch.
fn reassemble<T>(
    shares: impl IntoIterator<Item = (Vec<(usize, VirtualPath)>, Vec<Result<T>>)>,
    refused: Vec<(usize, BackendError)>,
) -> Vec<Result<T>> {
    let mut answers: BTreeMap<usize, Result<T>> =
        refused.into_iter().map(|(position, error)| (position, Err(error))).collect();
    for (positions, given) in shares {
        let mut given = given.into_iter();
        for (position, path) in positions {
            // If a backend returns fewer answers than items, the other answers must not move.
            let silent = || Err(BackendError::io(&path, "the batch", "the backend returned no answer"));
            answers.insert(position, given.next().unwrap_or_else(silent));
        }
    }
    answers.into_values().collect()
}

#[async_trait]
impl Backend for CompositeBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        let (index, inner) = self.route(path)?;
        let mount = &self.mounts[index];
        let shown: Vec<VirtualPath> = self
            .mounts_below(path)
            .filter_map(|at| path.join(at.strip_prefix(path)?.split('/').next()?).ok())
            .collect();
        let mut listing = match mount.backend.ls(&inner).await {
            Ok(listing) => listing,
            // The directory may exist only because of a mount below it.
            Err(BackendError::NotFound { .. } | BackendError::NotADirectory { .. }) if !shown.is_empty() => {
                Listing::default()
            }
            Err(error) => return Err(mount.error(error)),
        };
        mount.entries(&mut listing.entries, &mut listing.skipped);
        let mut entries: BTreeMap<VirtualPath, Entry> =
            listing.entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
        entries.extend(shown.into_iter().map(|path| (path.clone(), Entry::directory(path))));
        listing.entries = entries.into_values().collect();
        Ok(listing)
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        if self.mounts_below(path).next().is_some() {
            return Ok(Entry::directory(path.clone()));
        }
        let (index, inner) = self.route(path)?;
        let mount = &self.mounts[index];
        mount.entry(mount.backend.stat(&inner).await.map_err(|error| mount.error(error))?)
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.contents(mount.backend.read(&inner, range).await.map_err(|error| mount.error(error))?)
    }

    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents>> {
        let (shares, refused) = self.split(paths.iter().map(|path| (path.clone(), ())));
        let reads = shares.into_iter().map(async |share| {
            let reads = share.mount.backend.read_many(&share.paths(), max_bytes).await;
            let renamed = reads.into_iter().map(|read| match read {
                Ok(contents) => share.mount.contents(contents),
                Err(error) => Err(share.mount.error(error)),
            });
            (share.positions, renamed.collect())
        });
        reassemble(join_all(reads).await, refused)
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.entry(mount.backend.write(&inner, bytes, mode).await.map_err(|error| mount.error(error))?)
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.entry(mount.backend.append(&inner, bytes).await.map_err(|error| mount.error(error))?)
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        let edited = mount.backend.edit(&inner, edit).await.map_err(|error| mount.error(error))?;
        Ok(Edited { entry: mount.entry(edited.entry)?, ..edited })
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.entry(mount.backend.swap(&inner, before, after).await.map_err(|error| mount.error(error))?)
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.backend.delete(&inner).await.map_err(|error| mount.error(error))
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        if self.mounts_below(base).next().is_some() {
            return walk_glob(self, base, query).await;
        }
        let (index, inner) = self.route(base)?;
        let mount = &self.mounts[index];
        let mut report = mount.backend.glob(&inner, query).await.map_err(|error| mount.error(error))?;
        mount.entries(&mut report.entries, &mut report.skipped);
        Ok(report)
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport> {
        if self.mounts_below(base).next().is_some() {
            return read_grep(self, base, query).await;
        }
        let (index, inner) = self.route(base)?;
        let mount = &self.mounts[index];
        let mut report = mount.backend.grep(&inner, query).await.map_err(|error| mount.error(error))?;
        mount.entries(&mut Vec::new(), &mut report.skipped);
        for path in report
            .matches
            .iter_mut()
            .map(|found| &mut found.path)
            .chain(report.partial.iter_mut().map(|(path, _)| path))
        {
            *path = path.rebase(&mount.at)?;
        }
        Ok(report)
    }

    async fn upload(&self, files: Vec<(VirtualPath, Bytes)>) -> Vec<Result<Entry>> {
        let (shares, refused) = self.split(files.into_iter());
        let writes = shares.into_iter().map(async |share| {
            let writes = share.mount.backend.upload(share.items).await;
            let renamed = writes.into_iter().map(|write| match write {
                Ok(entry) => share.mount.entry(entry),
                Err(error) => Err(share.mount.error(error)),
            });
            (share.positions, renamed.collect())
        });
        reassemble(join_all(writes).await, refused)
    }

    async fn download(&self, paths: &[VirtualPath]) -> Vec<Result<Bytes>> {
        let (shares, refused) = self.split(paths.iter().map(|path| (path.clone(), ())));
        let reads = shares.into_iter().map(async |share| {
            let reads = share.mount.backend.download(&share.paths()).await;
            let renamed = reads.into_iter().map(|read| read.map_err(|error| share.mount.error(error)));
            (share.positions, renamed.collect())
        });
        reassemble(join_all(reads).await, refused)
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<()> {
        let (index, inner) = self.route_file(path)?;
        let mount = &self.mounts[index];
        mount.backend.check_change(&inner).await.map_err(|error| mount.error(error))
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        let Ok((index, inner)) = self.route(path) else { return Target::itself(path) };
        let Mount { at, backend } = &self.mounts[index];
        let target = backend.target(&inner).await;
        let rebased = target.path.rebase(at).unwrap_or_else(|_| path.clone());
        Target { path: rebased, ..target }
    }

    /// The executor of the default. Its commands do not see the mounts.
    fn executor(&self) -> Option<&dyn Execute> {
        self.mounts.last()?.backend.executor()
    }
}
