//! Behaviours of the composite backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{
    Backend, CompositeBackend, Contents, Edit, Edited, Entry, EntryKind, Execute, ExecuteReport,
    ExecuteRequest, GlobQuery, GrepQuery, Listing, MemoryBackend, ReadRange, Result, VirtualPath, WriteMode,
};

use crate::cage::{Cage, at, code};

/// A memory backend that counts its batches and runs commands, after a fashion.
#[derive(Debug, Default)]
struct Observed {
    files: MemoryBackend,
    batches: AtomicUsize,
    reads: AtomicUsize,
}

#[async_trait]
impl Backend for Observed {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.files.read(path, range).await
    }

    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.files.read_many(paths, max_bytes).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        self.files.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        self.files.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        self.files.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        self.files.delete(path).await
    }

    fn executor(&self) -> Option<&dyn Execute> {
        Some(self)
    }
}

#[async_trait]
impl Execute for Observed {
    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport> {
        let output = format!("{} in {}", request.command, request.cwd);
        Ok(ExecuteReport::new(Some(0), output))
    }
}

async fn put(backend: &dyn Backend, paths: &[&str]) {
    for path in paths {
        backend.write(&at(path), (*path).to_owned().into(), WriteMode::Replace).await.unwrap();
    }
}

async fn names(backend: &dyn Backend, path: &str) -> Vec<(String, EntryKind)> {
    let listing = backend.ls(&at(path)).await.unwrap();
    listing.into_iter().map(|entry| (entry.path.to_string(), entry.kind)).collect()
}

/// A default with mounts at `/m`, `/m/inner` and `/far/away`.
struct Mounted {
    default: Arc<Observed>,
    outer: Arc<Observed>,
    inner: Arc<Observed>,
    away: Arc<Observed>,
    all: CompositeBackend,
}

fn mounted() -> Mounted {
    let [default, outer, inner, away] = std::array::from_fn(|_| Arc::new(Observed::default()));
    let all = CompositeBackend::new(default.clone())
        .mount(at("/m"), outer.clone())
        .mount(at("/far/away"), away.clone())
        .mount(at("/m/inner"), inner.clone());
    Mounted { default, outer, inner, away, all }
}

#[tokio::test]
async fn the_nearest_mount_above_a_path_answers() {
    let Mounted { default, outer, inner, away, all } = mounted();
    put(&all, &["/a", "/m/a", "/m/inner/a", "/m/innermost/a", "/far/a", "/far/away/a"]).await;
    let everything = GlobQuery::new("**").unwrap();
    let held = async |backend: &Observed| {
        let report = backend.glob(&VirtualPath::root(), &everything).await.unwrap();
        report.entries.into_iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(held(&default).await, ["/a", "/far/a"]);
    assert_eq!(held(&outer).await, ["/a", "/innermost/a"]);
    assert_eq!(held(&inner).await, ["/a"]);
    assert_eq!(held(&away).await, ["/a"]);
}

#[tokio::test]
async fn a_mount_is_a_directory_wherever_it_is() {
    let Mounted { all, .. } = mounted();
    let directory = |path: &str| (path.to_owned(), EntryKind::Directory);
    assert_eq!(names(&all, "/").await, [directory("/far"), directory("/m")]);
    assert_eq!(names(&all, "/far").await, [directory("/far/away")]);
    assert_eq!(names(&all, "/far/away").await, []);
    for path in ["/far", "/far/away", "/m", "/m/inner"] {
        assert_eq!(all.stat(&at(path)).await.unwrap().kind, EntryKind::Directory, "{path}");
        assert_eq!(code(all.read(&at(path), ReadRange::first(1))).await, "is_directory", "{path}");
        assert_eq!(
            code(all.write(&at(path), Bytes::new(), WriteMode::Replace)).await,
            "is_directory",
            "{path}"
        );
        assert_eq!(code(all.append(&at(path), Bytes::new())).await, "is_directory", "{path}");
        assert_eq!(code(all.delete(&at(path))).await, "is_directory", "{path}");
    }
    assert_eq!(code(all.ls(&at("/nowhere"))).await, "not_found");
}

#[tokio::test]
async fn what_lies_under_a_mount_is_out_of_reach() {
    let Mounted { default, all, .. } = mounted();
    put(&*default, &["/m/hidden", "/far", "/b"]).await;
    assert_eq!(code(all.read(&at("/m/hidden"), ReadRange::first(1))).await, "not_found");
    // The default has a file `/far`, where the path to a mount needs a directory.
    assert_eq!(all.stat(&at("/far")).await.unwrap().kind, EntryKind::Directory);
    assert_eq!(names(&all, "/far").await, [("/far/away".to_owned(), EntryKind::Directory)]);
    let found = all.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/b"]);
    let lines = all.grep(&VirtualPath::root(), &GrepQuery::literal("hidden").unwrap()).await.unwrap();
    assert!(lines.matches.is_empty());
}

#[tokio::test]
async fn searches_that_span_mounts_find_each_path_once_in_order() {
    let Mounted { all, .. } = mounted();
    let paths = ["/a", "/far/away/a", "/far/b", "/m/inner/a", "/m/z", "/z"];
    put(&all, &paths).await;
    let found = all.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), paths);
    let found = all.glob(&at("/m"), &GlobQuery::new("*/a").unwrap()).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/m/inner/a"]);
    let lines = all.grep(&VirtualPath::root(), &GrepQuery::regex("^/").unwrap()).await.unwrap();
    let texts: Vec<_> = lines.matches.iter().map(|line| (line.path.as_str(), line.text.as_str())).collect();
    assert_eq!(texts, paths.map(|path| (path, path)));
    // Inside one mount, paths are still those of the composite.
    let lines = all.grep(&at("/m/inner"), &GrepQuery::regex("^/").unwrap().max_per_file(0)).await.unwrap();
    assert_eq!(lines.partial[0].0, at("/m/inner/a"));
}

#[tokio::test]
async fn a_batch_is_one_batch_per_backend() {
    let Mounted { default, outer, inner, away, all } = mounted();
    put(&all, &["/a", "/b", "/m/a", "/m/inner/a"]).await;
    let paths = ["/m/a", "/a", "/m/inner/a", "/m", "/nothing", "/b", "/m/a"].map(at);
    let answers: Vec<_> = all
        .read_many(&paths, 100)
        .await
        .into_iter()
        .map(|read| read.map_or_else(|error| error.code().to_owned(), |read| read.into_text().unwrap()))
        .collect();
    assert_eq!(answers, ["/m/a", "/a", "/m/inner/a", "is_directory", "not_found", "/b", "/m/a"]);
    let counts = [&default, &outer, &inner, &away]
        .map(|backend| (backend.batches.load(Ordering::Relaxed), backend.reads.load(Ordering::Relaxed)));
    assert_eq!(counts, [(1, 0), (1, 0), (1, 0), (0, 0)]);
}

#[tokio::test]
async fn commands_run_where_the_default_is() {
    let Mounted { all, .. } = mounted();
    let mut request = ExecuteRequest::new("true", Duration::from_secs(1));
    request.cwd = at("/work");
    let report = all.executor().expect("the default runs commands").execute(request).await.unwrap();
    assert_eq!((report.exit_code, report.output.as_str()), (Some(0), "true in /work"));
    let without =
        CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(at("/m"), Arc::new(Observed::default()));
    assert!(without.executor().is_none(), "a mount's commands are not the whole's");
}

#[tokio::test]
async fn a_second_mount_takes_the_place_of_the_first() {
    let (first, second) = (Arc::new(MemoryBackend::new()), Arc::new(MemoryBackend::new()));
    let all = CompositeBackend::new(Arc::new(MemoryBackend::new()))
        .mount(at("/m"), first.clone())
        .mount(at("/m"), second.clone())
        .mount(VirtualPath::root(), first.clone());
    put(&all, &["/m/a", "/b"]).await;
    assert!(second.stat(&at("/a")).await.is_ok());
    assert!(first.stat(&at("/b")).await.is_ok() && first.stat(&at("/a")).await.is_err());
}

#[tokio::test]
async fn what_is_skipped_in_a_mount_is_named_from_outside() {
    let cage = Cage::new();
    std::fs::create_dir(cage.inside("dir")).unwrap();
    std::fs::write(cage.inside("dir/new\nline"), "x").unwrap();
    let all = CompositeBackend::new(Arc::new(MemoryBackend::new()))
        .mount(at("/disk"), Arc::new(cage.backend.clone()));
    let listing = all.ls(&at("/disk/dir")).await.unwrap();
    let message = listing.skipped[0].to_string();
    assert!(message.starts_with(r"`/disk/dir/new\nline` is not a valid path"), "{message}");
    let found = all.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    assert_eq!(found.skipped[0].to_string(), message);
}

/// A target follows links and uses the paths of the composite.
#[tokio::test]
async fn targets_are_told_by_the_composites_names() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("real")).unwrap();
    std::fs::write(directory.path().join("real/file"), "x").unwrap();
    std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
    let local = prowess_backend::LocalBackend::open(directory.path()).unwrap();
    let composite = CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(at("/disk"), Arc::new(local));
    let target = composite.target(&at("/disk/link/file")).await;
    assert_eq!(target.path, at("/disk/real/file"));
    assert_eq!(target.on_disk[0], directory.path().join("link/file"), "as it is spelled");
    assert!(target.on_disk[1].ends_with("real/file"), "as links lead");
    for itself in ["/disk/nothing/there", "/disk", "/memory", "/disk/real/file"] {
        assert_eq!(composite.target(&at(itself)).await.path, at(itself));
    }
    assert!(composite.target(&at("/memory")).await.on_disk.is_empty());
}
