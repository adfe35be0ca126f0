//! Behaviours of the object store backend.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use prowess_backend::{Backend, Edit, GlobQuery, ObjectBackend, VirtualPath, WriteMode};

use crate::cage::{at, code};

/// How the store behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Another process always writes first.
    Contested,
    /// The store answers late, as over a network.
    Slow,
}

/// A memory store with a given behaviour.
#[derive(Debug)]
struct Wrapped {
    store: InMemory,
    manner: Manner,
    refused: AtomicUsize,
}

impl Wrapped {
    fn new(manner: Manner) -> Arc<Self> {
        Arc::new(Self { store: InMemory::new(), manner, refused: AtomicUsize::new(0) })
    }

    async fn wait(&self) {
        if self.manner == Manner::Slow {
            tokio::task::yield_now().await;
        }
    }
}

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrapped")
    }
}

#[async_trait]
impl ObjectStore for Wrapped {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.wait().await;
        if self.manner == Manner::Contested && matches!(options.mode, PutMode::Update(_)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::Precondition { path: location.to_string(), source: "changed".into() });
        }
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.wait().await;
        self.store.get_opts(location, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_a_conflict_after_a_bounded_number_of_attempts() {
    let store = Wrapped::new(Manner::Contested);
    let backend = ObjectBackend::new(store.clone(), VirtualPath::root());
    backend.write(&at("/file"), "text".into(), WriteMode::Replace).await.unwrap();
    assert_eq!(code(backend.append(&at("/file"), "x".into())).await, "conflict");
    let attempts = store.refused.load(Ordering::Relaxed);
    assert!((2..100).contains(&attempts), "{attempts}");
    assert_eq!(code(backend.edit(&at("/file"), &Edit::unique("text", "x"))).await, "conflict");
    assert_eq!(store.refused.load(Ordering::Relaxed), 2 * attempts);
}

/// Two backends over one store behave like two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_backends_over_one_store_lose_nothing() {
    let store: Arc<dyn ObjectStore> = Wrapped::new(Manner::Slow);
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let backend = ObjectBackend::new(Arc::clone(&store), at("/prefix"));
            tokio::spawn(async move {
                for round in 0..20 {
                    backend.append(&at("/log"), format!("{number}:{round}\n").into()).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let log = store.get(&Path::from("prefix/log")).await.unwrap().bytes().await.unwrap();
    let lines: std::collections::BTreeSet<&str> = std::str::from_utf8(&log).unwrap().lines().collect();
    assert_eq!(lines.len(), 80);
}

#[tokio::test]
async fn a_prefix_bounds_what_is_seen() {
    let store = Arc::new(InMemory::new());
    for key in ["tenant/one/a", "tenant/one2/b", "tenant/one", "c"] {
        store.put(&Path::from(key), "x".into()).await.unwrap();
    }
    let backend = ObjectBackend::new(store.clone(), at("/tenant/one"));
    let listed = backend.ls(&VirtualPath::root()).await.unwrap();
    assert_eq!(listed.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/a"]);
    let found = backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/a"]);
    assert_eq!(code(backend.stat(&at("/b"))).await, "not_found");
}

#[tokio::test]
async fn keys_that_are_no_paths_are_reported() {
    let store = Arc::new(InMemory::new());
    for key in ["dir/good", "dir/back\\slash"] {
        store.put(&Path::parse(key).unwrap(), "x".into()).await.unwrap();
    }
    let backend = ObjectBackend::new(store, VirtualPath::root());
    let listing = backend.ls(&at("/dir")).await.unwrap();
    assert_eq!((listing.entries.len(), listing.skipped[0].code()), (1, "invalid_path"));
    let found = backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!((found.entries.len(), found.skipped.len()), (1, 1));
}
