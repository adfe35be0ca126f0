//! A temporary directory for workspaces, skills and local files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prowess_workspace::collect::{CollectLimits, CollectedFile};
use prowess_workspace::stage::StageSource;
use prowess_workspace::testing::FakeExecutor;
use prowess_workspace::{
    Artifacts, RunContext, RunError, RunReport, RunRequest, RunWarning, Runner, Workspace, Workspaces,
};

/// How long a step may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A temporary directory that can remove staged skills, although they are read-only.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut pending = vec![self.path().to_owned()];
        while let Some(directory) = pending.pop() {
            // Files of other users stay.
            let _ = std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700));
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            pending.extend(directories.map(|entry| entry.path()));
        }
    }
}

pub(crate) struct Place {
    directory: Scratch,
    pub(crate) workspaces: Workspaces,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = Scratch::new();
        let workspaces = Workspaces::open(directory.path().join("workspaces")).unwrap();
        Self { directory, workspaces }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Writes a file outside every workspace.
    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn workspace(&self) -> Workspace {
        self.workspaces.workspace("test").unwrap()
    }

    /// Makes a skill with these files beside SKILL.md.
    pub(crate) fn skill(&self, name: &str, files: &[(&str, &str)]) -> StageSource {
        self.file(&format!("skills/{name}/SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"));
        for (path, content) in files {
            self.file(&format!("skills/{name}/{path}"), content);
        }
        StageSource::Directory(self.path(&format!("skills/{name}")))
    }

    pub(crate) fn source(&self, name: &str) -> Option<StageSource> {
        let path = self.path("skills").join(name);
        path.is_dir().then_some(StageSource::Directory(path))
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner {
            workspaces: self.workspaces.clone(),
            artifacts: Some(Arc::new(Artifacts::on_disk(self.path("artifacts")).unwrap())),
            executor: Some(Arc::new(FakeExecutor)),
        }
    }

    pub(crate) async fn run(&self, request: RunRequest) -> Result<RunReport, RunError> {
        self.run_with(request, |_: &Path| false).await
    }

    pub(crate) async fn run_with(
        &self,
        request: RunRequest,
        host: impl Fn(&Path) -> bool + Send + Sync,
    ) -> Result<RunReport, RunError> {
        let skills = |name: &str| self.source(name);
        let mut context = RunContext::new(&skills);
        context.input_gate = &host;
        self.runner().run("test", request, context).await
    }
}

/// Writes a file into a workspace.
pub(crate) fn put(workspace: &Workspace, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = workspace.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

pub(crate) fn collect(workspace: &Workspace, globs: &[&str]) -> (Vec<CollectedFile>, Vec<String>) {
    collect_within(workspace, globs, CollectLimits::default())
}

pub(crate) fn collect_within(
    workspace: &Workspace,
    globs: &[&str],
    limits: CollectLimits,
) -> (Vec<CollectedFile>, Vec<String>) {
    let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
    let (files, warnings) = workspace.collect(&globs, limits).unwrap();
    (files, said(&warnings))
}

/// Warnings as text.
pub(crate) fn said(warnings: &[RunWarning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

pub(crate) fn names(files: &[CollectedFile]) -> Vec<&str> {
    files.iter().map(|file| file.name.as_str()).collect()
}

pub(crate) fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Every path below a directory, without following links.
pub(crate) fn tree(path: &Path) -> Vec<String> {
    fn add(path: &Path, base: &Path, all: &mut Vec<String>) {
        for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
            all.push(entry.path().strip_prefix(base).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                add(&entry.path(), base, all);
            }
        }
    }
    let mut all = Vec::new();
    add(path, path, &mut all);
    all.sort();
    all
}

/// Runs `work` in a thread with the rights of a plain user.
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

/// Runs `work` in another thread, and fails if it does not end in time.
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(PATIENCE).expect("it hangs, or it panicked")
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn nothing_stays_of_a_place() {
    without_rights(|| {
        let place = Place::new();
        let root = place.path("");
        block_on(place.workspace().stage("demo", &place.skill("demo", &[("a/b/c", "text")]))).unwrap();
        drop(place);
        assert!(!root.exists(), "{}", root.display());
    });
}
