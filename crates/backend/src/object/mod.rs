//! Files as objects of an object store.

mod keys;
#[cfg(feature = "s3")]
mod s3;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};

use crate::change_queue::{ChangeQueues, MAX_ATTEMPTS};
use crate::walk::Walk;
use crate::write::MAX_EDIT_BYTES;
use crate::{
    Backend, BackendError, Contents, Edit, Edited, Entry, EntryKind, GlobQuery, GlobReport, Listing,
    ReadRange, Result, VirtualPath, WriteMode,
};
use keys::Keys;
#[cfg(feature = "s3")]
pub use s3::{S3Config, S3Defaults};

/// How many files of one batch are written at once.
const CONCURRENT_WRITES: usize = 16;

/// Files in an object store, below a prefix.
///
/// Each file is one object; its key is the prefix and the path. A directory exists if a key is below it. An append or
/// an edit rewrites the object, if it is still the version that was read; otherwise the backend reads again, a limited
/// number of times. The store must support conditional puts. A file can grow by appends up to [`MAX_EDIT_BYTES`].
///
/// A store cannot lock directories. If two writers create a file and a directory of the same name at once, both can
/// exist. Never use this with a store of local files, which follows links out of its root; use
/// [`LocalBackend`](crate::LocalBackend).
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use prowess_backend::{Backend, ObjectBackend, VirtualPath, WriteMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let store = Arc::new(InMemory::new()); // or any other store
/// let mine = ObjectBackend::new(store.clone(), VirtualPath::parse("/users/ada")?);
/// mine.write(&VirtualPath::parse("/notes.md")?, "- tides\n".into(), WriteMode::CreateNew).await?;
///
/// let all = ObjectBackend::new(store, VirtualPath::root());
/// assert_eq!(all.stat(&VirtualPath::parse("/users/ada/notes.md")?).await?.size, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    keys: Keys,
    turns: Arc<ChangeQueues>,
}

impl fmt::Debug for ObjectBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A store's `Debug` can show its credentials. Its `Display` shows only its name.
        f.debug_struct("ObjectBackend")
            .field("store", &self.store.to_string())
            .field("keys", &self.keys)
            .finish()
    }
}

impl ObjectBackend {
    /// Opens the objects of `store` below `prefix`. With `/` as the prefix it is the whole store.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, prefix: VirtualPath) -> Self {
        Self { store, keys: Keys::below(prefix), turns: Arc::new(ChangeQueues::new()) }
    }

    /// Translates an error of the store for `path`, which is not a directory.
    fn failed(path: &VirtualPath, operation: &'static str, error: Error) -> BackendError {
        match error {
            Error::NotFound { .. } => BackendError::not_found(path),
            Error::AlreadyExists { .. } => BackendError::already_exists(path),
            Error::Precondition { .. } => BackendError::Conflict { path: path.clone(), attempts: 1 },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                BackendError::PermissionDenied {
                    path: path.clone(),
                    reason: "the store rejects these credentials".to_owned(),
                }
            }
            Error::NotSupported { .. } | Error::NotImplemented { .. } => {
                BackendError::Unsupported { path: path.clone(), operation }
            }
            other => BackendError::io(path, operation, other),
        }
    }

    /// Whether an object is below `path`.
    async fn is_directory(&self, path: &VirtualPath) -> Result<bool> {
        if path.is_root() {
            return Ok(true);
        }
        let key = self.keys.key(path)?;
        let mut below = self.store.list(Some(&key));
        while let Some(meta) = below.try_next().await.map_err(|error| Self::failed(path, "listing", error))? {
            // An object with exactly this key is a file, so it does not make a directory.
            if meta.location != key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The error for a missing file: the path may be a directory.
    async fn absent(&self, path: &VirtualPath) -> BackendError {
        match self.is_directory(path).await {
            Ok(true) => BackendError::is_directory(path),
            Ok(false) => BackendError::not_found(path),
            Err(error) => error,
        }
    }

    async fn head(&self, path: &VirtualPath) -> Result<Option<ObjectMeta>> {
        if path.is_root() {
            return Ok(None);
        }
        match self.store.head(&self.keys.key(path)?).await {
            Ok(meta) => Ok(Some(meta)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Self::failed(path, "looking up", error)),
        }
    }

    /// Checks that a file can be at `path`: no directory has that path, and no file is in the place of a parent
    /// directory.
    async fn check_place(&self, path: &VirtualPath) -> Result<()> {
        let mut above = Vec::new();
        let mut next = path.parent();
        while let Some(directory) = next {
            next = directory.parent();
            above.push(directory);
        }
        let (is_directory, files) = futures_util::join!(
            self.is_directory(path),
            join_all(above.iter().map(|directory| self.head(directory)))
        );
        if is_directory? {
            return Err(BackendError::is_directory(path));
        }
        for (directory, file) in above.iter().zip(files) {
            if file?.is_some() {
                return Err(BackendError::not_a_directory(directory));
            }
        }
        Ok(())
    }

    async fn put(&self, path: &VirtualPath, bytes: Bytes, mode: PutMode) -> Result<Entry, Error> {
        let key =
            self.keys.key(path).map_err(|error| Error::Generic { store: "keys", source: error.into() })?;
        let size = bytes.len() as u64;
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&key, PutPayload::from(bytes), options).await?;
        let stamp = keys::stamp(put.e_tag.as_deref(), put.version.as_deref());
        Ok(Entry { path: path.clone(), kind: EntryKind::File, size, modified: None, stamp })
    }

    /// Reads the whole object and its version, if it exists.
    async fn whole(&self, path: &VirtualPath) -> Result<Option<(Bytes, UpdateVersion)>> {
        let failed = |error| Self::failed(path, "reading", error);
        let got = match self.store.get(&self.keys.key(path)?).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if got.meta.size > MAX_EDIT_BYTES {
            return Err(BackendError::TooLarge { path: path.clone(), limit: MAX_EDIT_BYTES });
        }
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        Ok(Some((got.bytes().await.map_err(failed)?, version)))
    }

    /// Rewrites the object with `change`. If another writer was faster, it tries again.
    async fn rewrite<T, C>(
        &self,
        path: &VirtualPath,
        operation: &'static str,
        change: C,
    ) -> Result<(Entry, T)>
    where
        C: Fn(Option<Bytes>) -> Result<(Bytes, T)> + Send + Sync,
        T: Send,
    {
        let _turn = self.turns.wait(path).await;
        for attempt in 0..MAX_ATTEMPTS {
            let (before, mode) = match self.whole(path).await? {
                Some((bytes, version)) => (Some(bytes), PutMode::Update(version)),
                None => (None, PutMode::Create),
            };
            let is_new = before.is_none();
            let (after, value) = change(before)?;
            if is_new {
                self.check_place(path).await?;
            }
            match self.put(path, after, mode).await {
                Ok(entry) => return Ok((entry, value)),
                // The object was changed, created or deleted after the read.
                Err(Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
                    self.turns.pause(attempt).await;
                }
                Err(error) => return Err(Self::failed(path, operation, error)),
            }
        }
        Err(BackendError::Conflict { path: path.clone(), attempts: MAX_ATTEMPTS })
    }
}

#[async_trait]
impl Backend for ObjectBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        let failed = |error| Self::failed(path, "listing", error);
        let key = self.keys.key(path)?;
        let found = self.store.list_with_delimiter(Some(&key)).await.map_err(failed)?;
        let mut listing = self.keys.listing(&found, &key);
        if listing.entries.is_empty() && listing.skipped.is_empty() && !path.is_root() {
            return Err(match self.head(path).await? {
                Some(_) => BackendError::not_a_directory(path),
                None => BackendError::not_found(path),
            });
        }
        listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
        // Only another program can create a file and a directory of the same name. The file wins, because it can be
        // read.
        listing.entries.dedup_by(|later, first| later.path == first.path);
        Ok(listing)
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        if let Some(meta) = self.head(path).await? {
            return Ok(keys::entry(path.clone(), &meta));
        }
        match self.absent(path).await {
            BackendError::IsDirectory { path } => Ok(Entry::directory(path)),
            error => Err(error),
        }
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        if path.is_root() {
            return Err(BackendError::is_directory(path));
        }
        let nothing = |meta: &ObjectMeta| Contents {
            path: path.clone(),
            bytes: Bytes::new(),
            offset: range.offset(),
            more: range.offset() < meta.size,
            stamp: keys::stamp(meta.e_tag.as_deref(), meta.version.as_deref()),
        };
        if range.max_bytes() == 0 {
            // A store ignores an empty range.
            return match self.head(path).await? {
                Some(meta) => Ok(nothing(&meta)),
                None => Err(self.absent(path).await),
            };
        }
        let end = range.offset().saturating_add(range.max_bytes());
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.offset()..end)), ..GetOptions::default() };
        match self.store.get_opts(&self.keys.key(path)?, options).await {
            Ok(got) => {
                let (more, contents) = (end < got.meta.size, nothing(&got.meta));
                let bytes = got.bytes().await.map_err(|error| Self::failed(path, "reading", error))?;
                Ok(Contents { bytes, more, ..contents })
            }
            Err(Error::NotFound { .. }) => Err(self.absent(path).await),
            // Stores refuse a range at or beyond the end, each with another error.
            Err(error) => match self.head(path).await? {
                Some(meta) if range.offset() >= meta.size => Ok(nothing(&meta)),
                _ => Err(Self::failed(path, "reading", error)),
            },
        }
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        self.check_place(path).await?;
        let mode = match mode {
            WriteMode::Replace => PutMode::Overwrite,
            WriteMode::CreateNew => PutMode::Create,
        };
        self.put(path, bytes, mode).await.map_err(|error| Self::failed(path, "writing", error))
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        if path.is_root() {
            return Err(BackendError::is_directory(path));
        }
        let append = |before: Option<Bytes>| {
            let before = before.unwrap_or_default();
            let mut whole = BytesMut::with_capacity(before.len() + bytes.len());
            whole.extend_from_slice(&before);
            whole.extend_from_slice(&bytes);
            Ok((whole.freeze(), ()))
        };
        self.rewrite(path, "appending", append).await.map(|(entry, ())| entry)
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let apply = |before: Option<Bytes>| {
            let before = before.ok_or_else(|| BackendError::not_found(path))?;
            let (after, replacements) = edit.apply(path, &before)?;
            Ok((Bytes::from(after), replacements))
        };
        if path.is_root() {
            return Err(BackendError::is_directory(path));
        }
        match self.rewrite(path, "editing", apply).await {
            Ok((entry, replacements)) => Ok(Edited { entry, replacements }),
            Err(BackendError::NotFound { path }) => Err(self.absent(&path).await),
            Err(error) => Err(error),
        }
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        let swap = |present: Option<Bytes>| match present {
            Some(present) if present == before => Ok((after.clone(), ())),
            Some(_) => Err(BackendError::Changed { path: path.clone() }),
            None => Err(BackendError::not_found(path)),
        };
        if path.is_root() {
            return Err(BackendError::is_directory(path));
        }
        match self.rewrite(path, "writing", swap).await {
            Ok((entry, ())) => Ok(entry),
            Err(BackendError::NotFound { path }) => Err(self.absent(&path).await),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        // Stores report success for the deletion of a missing object.
        if self.head(path).await?.is_none() {
            return Err(self.absent(path).await);
        }
        self.store.delete(&self.keys.key(path)?).await.map_err(|error| Self::failed(path, "deleting", error))
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        let key: Path = self.keys.key(base)?;
        let mut found = self.store.list(Some(&key));
        let (mut entries, mut skipped) = (Vec::new(), Vec::new());
        // One more than the cap, so that the walk notices and reports the cap.
        while entries.len() <= query.max_visited
            && let Some(meta) =
                found.try_next().await.map_err(|error| Self::failed(base, "listing", error))?
        {
            match self.keys.path(&meta.location) {
                Ok(path) if path == *base => {}
                Ok(path) => entries.push(keys::entry(path, &meta)),
                Err(error) => skipped.push(error),
            }
        }
        if entries.is_empty() && skipped.is_empty() && !base.is_root() {
            return Err(match self.head(base).await? {
                Some(_) => BackendError::not_a_directory(base),
                None => BackendError::not_found(base),
            });
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let mut report = Walk::over_files(base, query, entries);
        skipped.truncate(crate::glob::MAX_SKIPPED);
        report.skipped = skipped;
        Ok(report)
    }

    async fn upload(&self, files: Vec<(VirtualPath, Bytes)>) -> Vec<Result<Entry>> {
        // Writes run concurrently, unless a path occurs twice: then the last one must win.
        let paths: std::collections::HashSet<&VirtualPath> = files.iter().map(|(path, _)| path).collect();
        let at_once = if paths.len() == files.len() { CONCURRENT_WRITES } else { 1 };
        let writes: Vec<_> =
            files.iter().map(|(path, bytes)| self.write(path, bytes.clone(), WriteMode::Replace)).collect();
        stream::iter(writes).buffered(at_once).collect().await
    }
}
