//! Where approvals are kept.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use prowess_permission::approval::{MAX_APPROVALS_BYTES, StoreError};
use prowess_permission::testing::approval_store_suite;
use prowess_permission::{Approval, ApprovalStore, Broker, FileApprovals, Kind, MemoryApprovals, Pattern};

fn approval(pattern: &str) -> Approval {
    Approval { project: "p".to_owned(), kind: Kind::RUN, pattern: Pattern::literal(pattern), binding: None }
}

/// What an error says, without the directory that is another one each time.
fn message(error: &StoreError, directory: &Path) -> String {
    error.to_string().replace(&directory.display().to_string(), "DIR")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_passes_the_suite() {
    let store = Arc::new(MemoryApprovals::new());
    approval_store_suite(|| store.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_passes_the_suite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/approvals.json");
    approval_store_suite(|| Arc::new(FileApprovals::at(&path))).await;
}

#[tokio::test]
async fn the_file_is_the_users_alone_and_readable_by_eye() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state/approvals.json");
    FileApprovals::at(&path).add(&[approval("git *")]).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
    {
      "version": 1,
      "approvals": [
        {
          "project": "p",
          "kind": "run",
          "pattern": "git \\*"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    let store = FileApprovals::at(&path);
    let one = |fields: &str| format!(r#"{{"version":1,"approvals":[{{{fields}}}]}}"#);
    let contents = [
        String::new(),
        "{\"version\": 1, \"appro".to_owned(),
        "[]".to_owned(),
        r#"{"version": 2, "approvals": []}"#.to_owned(),
        r#"{"version": 1, "approvals": [], "also": 1}"#.to_owned(),
        one(r#""project":"p","kind":"run","pattern":"*","only_until":1"#),
        one(r#""project":"p","kind":"*","pattern":"*""#),
        one(r#""project":"p","pattern":"*""#),
    ];
    let mut said = Vec::new();
    for content in &contents {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        said.push(message(&store.load("p").await.unwrap_err(), directory.path()));
        assert!(store.add(&[approval("x")]).await.is_err());
        assert!(store.remove(&approval("x")).await.is_err());
        assert!(Broker::open(Arc::new(store.clone()), "p").await.is_err());
        assert_eq!(&fs::read_to_string(&path).unwrap(), content, "nothing is written over it");
    }
    insta::assert_snapshot!(said.join("\n"));
}

#[tokio::test]
async fn a_file_that_others_may_write_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    let store = FileApprovals::at(&path);
    store.add(&[approval("x")]).await.unwrap();
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(store.load("p").await, Err(StoreError::WritableByOthers { .. })), "{mode:o}");
    }
    insta::assert_snapshot!(message(&store.add(&[approval("y")]).await.unwrap_err(), directory.path()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.load("p").await.unwrap(), [approval("x")]);
}

#[tokio::test]
async fn what_cannot_hold_a_file_says_so() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    fs::create_dir(directory.path().join("approvals.json")).unwrap();
    let below_a_file = FileApprovals::at(directory.path().join("file/approvals.json"));
    let is_a_directory = FileApprovals::at(directory.path().join("approvals.json"));
    let said = [
        message(&below_a_file.add(&[approval("x")]).await.unwrap_err(), directory.path()),
        message(&below_a_file.load("p").await.unwrap_err(), directory.path()),
        message(&is_a_directory.load("p").await.unwrap_err(), directory.path()),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[tokio::test]
async fn a_directory_that_is_read_only_still_gives_its_approvals() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileApprovals::at(directory.path().join("approvals.json"));
    store.add(&[approval("x")]).await.unwrap();
    fs::remove_file(directory.path().join("approvals.json.lock")).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let added = store.add(&[approval("y")]).await;
    let loaded = store.load("p").await.unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    match added {
        Err(error) => {
            assert_eq!(loaded, [approval("x")]);
            assert_eq!(
                message(&error, directory.path()),
                "could not lock DIR/approvals.json: Permission denied (os error 13)"
            );
        }
        // The superuser is refused nothing.
        Ok(()) => assert_eq!(loaded.len(), 2),
    }
}

#[tokio::test]
async fn a_file_has_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    let store = FileApprovals::at(&path);
    store.add(&[approval("x")]).await.unwrap();
    let huge = approval(&"y".repeat(usize::try_from(MAX_APPROVALS_BYTES).unwrap()));
    let error = store.add(&[huge]).await.unwrap_err();
    assert_eq!(
        message(&error, directory.path()),
        "DIR/approvals.json would exceed 8388608 bytes; remove approvals that you no longer need"
    );
    assert_eq!(store.load("p").await.unwrap(), [approval("x")]);
}

#[tokio::test]
async fn what_a_crash_left_behind_is_cleared_away() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileApprovals::at(directory.path().join("approvals.json"));
    store.add(&[approval("x")]).await.unwrap();
    fs::write(directory.path().join("approvals.json.new"), "{\"vers").unwrap();
    assert_eq!(store.load("p").await.unwrap(), [approval("x")]);
    store.add(&[approval("y")]).await.unwrap();
    assert_eq!(store.load("p").await.unwrap(), [approval("x"), approval("y")]);
    assert!(!directory.path().join("approvals.json.new").exists());
}

/// Starts this test binary as another process that adds approvals until it is done or killed, and
/// prints the number of each one that is kept.
fn adding_process(path: &Path, name: &str, count: usize) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stores::child_that_adds", "--ignored", "--nocapture"])
        .env("PROWESS_TEST_APPROVALS", path)
        .env("PROWESS_TEST_NAME", name)
        .env("PROWESS_TEST_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "run by the tests below, in a process of its own"]
async fn child_that_adds() {
    let Some(path) = std::env::var_os("PROWESS_TEST_APPROVALS") else { return };
    let name = std::env::var("PROWESS_TEST_NAME").unwrap();
    let count: usize = std::env::var("PROWESS_TEST_COUNT").unwrap().parse().unwrap();
    let store = FileApprovals::at(path);
    for number in 0..count {
        store.add(&[approval(&format!("{name}/{number}"))]).await.unwrap();
        println!("kept {number}");
    }
}

#[tokio::test]
async fn processes_that_add_at_the_same_time_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    let children: Vec<_> = (0..8).map(|number| adding_process(&path, &number.to_string(), 10)).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(FileApprovals::at(&path).load("p").await.unwrap().len(), 80);
}

#[tokio::test]
async fn a_process_killed_while_it_writes_leaves_what_it_had_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("approvals.json");
    for round in 0..5 {
        let name = format!("round-{round}");
        let mut child = adding_process(&path, &name, usize::MAX);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let kept = lines.map_while(Result::ok).filter(|line| line.contains("kept ")).take(7 + round).count();
        child.kill().unwrap();
        child.wait().unwrap();
        let approvals = FileApprovals::at(&path).load("p").await.unwrap();
        let found = approvals.iter().filter(|a| a.pattern.as_str().starts_with(&name)).count();
        assert!(found >= kept, "{found} of {kept}");
    }
}
