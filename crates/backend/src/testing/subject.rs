//! The backend that the suite tests.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Backend, BackendError, GlobQuery, GlobReport, ReadRange, Result, VirtualPath, WriteMode};

/// An empty backend, or an empty directory in one, with its guards.
///
/// The methods panic if they fail, like a test.
#[derive(Debug)]
pub struct Subject {
    backend: Arc<dyn Backend>,
    base: VirtualPath,
    guards: Vec<Box<dyn Guard>>,
}

/// A guard to drop after the backend, such as a temporary directory.
trait Guard: Any + Send + Sync + Debug {}
impl<T: Any + Send + Sync + Debug> Guard for T {}

impl Subject {
    /// Tests the backend from its root.
    #[must_use]
    pub fn new(backend: impl Backend + 'static) -> Self {
        Self { backend: Arc::new(backend), base: VirtualPath::root(), guards: Vec::new() }
    }

    /// Tests the backend below `base`, as below a mount.
    #[must_use]
    pub fn below(self, base: VirtualPath) -> Self {
        Self { base, ..self }
    }

    /// Keeps `guard` until the subject is dropped.
    #[must_use]
    pub fn guard(mut self, guard: impl Any + Send + Sync + Debug) -> Self {
        self.guards.push(Box::new(guard));
        self
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// The backend, for use in another task.
    #[must_use]
    pub fn shared(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    /// The directory in which the suite works.
    #[must_use]
    pub fn base(&self) -> &VirtualPath {
        &self.base
    }

    /// A path below the base.
    ///
    /// # Panics
    ///
    /// If `relative` is not a valid path.
    #[must_use]
    #[track_caller]
    pub fn at(&self, relative: &str) -> VirtualPath {
        self.base.join(relative).expect("the suite's own paths are valid")
    }

    /// Writes a file.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn put(&self, relative: &str, contents: impl Into<Bytes> + Send) {
        let path = self.at(relative);
        match self.backend.write(&path, contents.into(), WriteMode::Replace).await {
            Ok(_) => {}
            Err(error) => panic!("writing {path}: {error:?}"),
        }
    }

    /// Reads a file of up to a few megabytes as text.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn text(&self, relative: &str) -> String {
        let path = self.at(relative);
        match self.backend.read(&path, ReadRange::first(1 << 22)).await {
            Ok(contents) => contents.into_text().expect("the suite's files are text"),
            Err(error) => panic!("reading {path}: {error:?}"),
        }
    }

    /// The names in a directory. Directories have a slash at the end.
    ///
    /// # Panics
    ///
    /// If the directory cannot be listed completely.
    pub async fn names(&self, relative: &str) -> Vec<String> {
        let listing = self.backend.ls(&self.at(relative)).await.expect("the directory can be listed");
        assert!(listing.skipped.is_empty() && listing.stopped.is_none(), "{listing:?}");
        listing
            .into_iter()
            .map(|entry| {
                let slash = if entry.kind == crate::EntryKind::Directory { "/" } else { "" };
                format!("{}{slash}", entry.path.name().unwrap_or_default())
            })
            .collect()
    }

    /// The files below the base that match, as paths relative to it.
    ///
    /// # Panics
    ///
    /// If the search fails or is not complete.
    pub async fn found(&self, pattern: &str) -> Vec<String> {
        let query = GlobQuery::new(pattern).expect("the suite's patterns are valid");
        let report = self.backend.glob(&self.base, &query).await.expect("the base can be searched");
        assert!(report.skipped.is_empty() && report.stopped.is_none(), "{report:?}");
        self.relative(&report)
    }

    pub(super) fn relative(&self, report: &GlobReport) -> Vec<String> {
        let inside = |path: &VirtualPath| {
            path.strip_prefix(&self.base).expect("answers lie below the base").to_owned()
        };
        report.entries.iter().map(|entry| inside(&entry.path)).collect()
    }
}

/// The expected error.
#[track_caller]
pub(super) fn refused<T: Debug>(answer: Result<T>, code: &str) -> BackendError {
    match answer {
        Err(error) if error.code() == code => error,
        other => panic!("expected the error `{code}`, got {other:?}"),
    }
}
