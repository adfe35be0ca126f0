//! The files of a workspace as a backend: the suite of all backends, and commands.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use prowess_backend::testing::{self, Subject};
use prowess_backend::{
    Backend as _, Edit, Execute as _, ExecuteReport, ExecuteRequest, ReadRange, VirtualPath, WriteMode,
};
use prowess_workspace::backend::WorkspaceBackend;
use prowess_workspace::{LocalExecutor, LocalOptions, Workspaces};
use tempfile::TempDir;

fn backend() -> (TempDir, WorkspaceBackend) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let workspaces = Workspaces::open(scratch.path().join("workspaces")).unwrap();
    let executor = Arc::new(LocalExecutor::new(LocalOptions::default()));
    let backend = WorkspaceBackend::new(workspaces.workspace("files").unwrap(), executor).unwrap();
    (scratch, backend)
}

testing::suite!(workspace_files, {
    let (scratch, backend) = backend();
    Subject::new(backend).below(VirtualPath::parse("/inputs").unwrap()).guard(scratch)
});

async fn run(backend: &WorkspaceBackend, directory: &str, command: &str) -> ExecuteReport {
    let mut request = ExecuteRequest::new(command, Duration::from_secs(60));
    request.cwd = VirtualPath::parse(directory).unwrap();
    backend.execute(request).await.unwrap()
}

#[tokio::test]
async fn commands_and_file_tools_see_and_change_the_same_files() {
    let (_scratch, backend) = backend();
    let path = VirtualPath::parse("/notes/today.txt").unwrap();
    backend.write(&path, "one\n".into(), WriteMode::CreateNew).await.unwrap();
    let report =
        run(&backend, "/notes", "echo two >> today.txt; mkdir more; cat today.txt; echo so >&2").await;
    assert_eq!((report.exit_code, report.output.as_str()), (Some(0), "one\ntwo\nso\n"), "{report:?}");
    backend.edit(&path, &Edit::unique("two", "three")).await.unwrap();
    backend.append(&VirtualPath::parse("/notes/more/x").unwrap(), "x\n".into()).await.unwrap();
    let report = run(&backend, "/", "cat notes/today.txt; echo y >> notes/more/x; exit 3").await;
    assert_eq!((report.exit_code, report.output.as_str()), (Some(3), "one\nthree\n"), "{report:?}");
    let read =
        backend.read(&VirtualPath::parse("/notes/more/x").unwrap(), ReadRange::first(100)).await.unwrap();
    assert_eq!(&read.bytes[..], b"x\ny\n");
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_and_says_so() {
    let (_scratch, backend) = backend();
    let request = ExecuteRequest::new("echo begun; sleep 600", Duration::from_secs(1));
    let report = backend.execute(request).await.unwrap();
    assert_eq!(report.exit_code, None);
    assert_eq!(report.output, "begun\n\n[killed: it ran out of time]");
}

#[tokio::test]
async fn commands_do_not_get_out_and_links_are_not_given_away() {
    let (scratch, backend) = backend();
    let outside = scratch.path().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    let before = std::fs::metadata(&outside).unwrap();
    let line = format!("cat {0}; ln -s {0} link; ls /; id -u", outside.display());
    let report = run(&backend, "/", &line).await;
    assert!(!report.output.contains("mine"), "{report:?}");
    let path = VirtualPath::parse("/link").unwrap();
    assert!(backend.append(&path, "more".into()).await.is_err());
    assert!(backend.read(&path, ReadRange::first(10)).await.is_err());
    use std::os::unix::fs::MetadataExt as _;
    let after = std::fs::metadata(&outside).unwrap();
    assert_eq!((after.uid(), after.len()), (before.uid(), before.len()));
}
