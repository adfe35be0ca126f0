//! Directories of skills to be found, written file by file, and what was found in short.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prowess_backend::{Backend, MemoryBackend, VirtualPath, WriteMode};
use prowess_catalog::diagnostic::CodeClass;
use prowess_catalog::{Catalog, Root, RootKind, ScanOptions, Severity, scan_backend};

/// How long to wait for something that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A directory that is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// A tree in memory where there is such a place: for very many directories, which some disks are
    /// slow to forget.
    pub(crate) fn in_memory() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(directory: tempfile::TempDir) -> Self {
        // Anybody may enter: some tests give up their rights.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// A skill in the directory `path`, named after it.
    pub(crate) fn skill(self, path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap().to_owned();
        self.named(path, &name)
    }

    /// A skill in the directory `path` with another name.
    pub(crate) fn named(self, path: &str, name: &str) -> Self {
        self.file(
            &format!("{path}/SKILL.md"),
            manifest(name, &format!("Looks after {name}. Use it when asked.")),
        )
    }

    pub(crate) fn file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.write(path, contents);
        self
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        std::fs::create_dir_all(self.join(path)).unwrap();
        self
    }

    pub(crate) fn link(self, path: &str, target: impl AsRef<Path>) -> Self {
        std::fs::create_dir_all(self.join(path).parent().unwrap()).unwrap();
        symlink(target, self.join(path)).unwrap();
        self
    }

    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.join(path).parent().unwrap()).unwrap();
        std::fs::write(self.join(path), contents).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        std::fs::remove_dir_all(self.join(path)).unwrap();
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root::explicit(self.path())
    }

    /// The directory `path` as a root of some kind.
    pub(crate) fn root_at(&self, path: &str, kind: RootKind) -> Root {
        Root::new(self.join(path), kind, path)
    }

    pub(crate) fn discover(&self) -> Catalog {
        self.discover_with(|_| {})
    }

    pub(crate) fn discover_with(&self, change: impl FnOnce(&mut ScanOptions)) -> Catalog {
        Catalog::discover(&[self.root()], &options(change))
    }

    /// What `catalog` reports, as `code path` with paths in this tree, sorted. Advice is left out.
    pub(crate) fn findings(&self, catalog: &Catalog) -> Vec<String> {
        let mut findings: Vec<String> = catalog
            .diagnostics()
            .filter(|found| found.code.class() != CodeClass::Advice)
            .map(|found| {
                let below = found.file.strip_prefix(self.path().to_str().unwrap()).unwrap_or(&found.file);
                format!("{} {}", found.code, below.trim_start_matches('/'))
            })
            .collect();
        findings.sort();
        findings
    }
}

pub(crate) fn options(change: impl FnOnce(&mut ScanOptions)) -> ScanOptions {
    let mut options = ScanOptions::default();
    change(&mut options);
    options
}

pub(crate) fn manifest(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nFollow the steps.\n")
}

/// `text` as a YAML scalar whatever is in it.
pub(crate) fn yaml_text(text: &str) -> String {
    let escape = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\U{:08X}", u32::from(c)) }
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

pub(crate) fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect()
}

/// The codes of all errors, each as often as it was reported.
pub(crate) fn errors(catalog: &Catalog) -> Vec<&'static str> {
    let errors = catalog.diagnostics().filter(|found| found.severity == Severity::Error);
    errors.map(|found| found.code.as_str()).collect()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// A backend that holds `files`, by path.
pub(crate) async fn fill(backend: &dyn Backend, files: &[(&str, Vec<u8>)]) {
    for (path, contents) in files {
        let path = VirtualPath::parse(path).unwrap();
        backend.write(&path, contents.clone().into(), WriteMode::Replace).await.unwrap();
    }
}

/// The catalog of skills that are nowhere on a disk: `(name, manifest)`.
pub(crate) fn in_memory(skills: &[(&str, String)]) -> Catalog {
    block_on(async {
        let backend = MemoryBackend::new();
        for (name, manifest) in skills {
            let path = format!("/skills/{name}/SKILL.md");
            fill(&backend, &[(&path, manifest.clone().into_bytes())]).await;
        }
        let root = Root::explicit("/skills").into();
        let scan = scan_backend(&backend, &root, &ScanOptions::default(), None).await;
        Catalog::empty().assembled(vec![scan])
    })
}

/// Runs `work` in a thread that may do no more than a plain user.
pub(crate) fn without_rights<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Gid, Uid, getuid};
    if !getuid().is_root() {
        return work();
    }
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65534));
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        plain.join().unwrap()
    })
}

/// Runs `work` in another thread, and fails when it does not end.
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(PATIENCE).expect("it hangs, or it panicked")
}

/// Processor time that this thread has used.
pub(crate) fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

/// Asks until the answer is yes, and fails when it never is.
pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !ask() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}
