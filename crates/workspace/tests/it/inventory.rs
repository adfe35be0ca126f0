//! Inventories: the files of a thread follow it from machine to machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use proptest::prelude::*;
use prowess_workspace::Workspaces;
use prowess_workspace::artifact::S3Config;
use prowess_workspace::inventory::{
    Captured, ContentDigest, ContentStore, Contents, DiskContents, FamilyContents, InventoryError,
    LeftOutReason, LocalTree, MAX_FILE_BYTES, MAX_FILES, MemoryContents, ObjectContents,
};
use prowess_workspace::testing::{UnreliableContents, content_store_suite};

const THREAD: &str = "thread-1";

/// A machine with the directories of a thread.
struct Machine {
    place: tempfile::TempDir,
    workspaces: Workspaces,
}

impl Machine {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::open(place.path().join("workspaces")).unwrap();
        fs::create_dir(place.path().join("project")).unwrap();
        Self { place, workspaces }
    }

    /// As a new process sees the machine.
    fn tree(&self) -> LocalTree {
        LocalTree::new(self.place.path().join("notes/note.json"))
            .directory("work/history", self.place.path().join("history"))
            .directory("project", self.project())
            .workspace(self.workspaces.clone(), THREAD)
    }

    fn project(&self) -> PathBuf {
        self.place.path().join("project")
    }

    fn workspace(&self) -> PathBuf {
        self.workspaces.workspace(THREAD).unwrap().path().to_owned()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn all(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        list(&self.project(), "project", &mut found);
        list(&self.place.path().join("history"), "history", &mut found);
        for name in ["out", "work", "runs"] {
            list(&self.workspace().join(name), name, &mut found);
        }
        found
    }
}

/// Every entry below a directory, with its kind, whether it is a program, and its bytes.
fn list(directory: &Path, at: &str, found: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = format!("{at}/{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.insert(path.clone(), "directory".to_owned());
            list(&entry.path(), &path, found);
        } else if metadata.is_file() {
            let digest = ContentDigest::of(&fs::read(entry.path()).unwrap());
            found.insert(path, format!("{} {digest}", metadata.mode() & 0o111 != 0));
        } else {
            found.insert(path, "other".to_owned());
        }
    }
}

fn family() -> FamilyContents {
    Contents::new(Arc::new(MemoryContents::default())).family("ada", THREAD)
}

async fn capture(machine: &Machine, contents: &FamilyContents) -> Captured {
    machine.tree().capture(contents, THREAD).await.unwrap().expect("something changed")
}

async fn restore(machine: &Machine, contents: &FamilyContents, digest: ContentDigest) -> (usize, usize) {
    let restored = machine.tree().restore(contents, THREAD, digest, |all| all).await.unwrap();
    (restored.fetched, restored.removed)
}

fn reasons(captured: &Captured) -> Vec<(LeftOutReason, u64)> {
    captured.left_out.iter().map(|left_out| (left_out.reason, left_out.count)).collect()
}

#[tokio::test]
async fn every_store_keeps_its_promises() {
    let place = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryContents::default());
    content_store_suite(|| memory.clone()).await;
    content_store_suite(|| Arc::new(DiskContents::open(place.path()).unwrap())).await;
    let objects = Arc::new(InMemory::new());
    for prefix in ["", "a/b"] {
        content_store_suite(|| Arc::new(ObjectContents::new(objects.clone(), prefix))).await;
    }
    let unreliable = Arc::new(UnreliableContents::new(1));
    unreliable.calm(true);
    content_store_suite(|| unreliable.clone()).await;
}

/// Tests a compatible server with the bucket `prowess`, the key `test` and the secret `test`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: `make s3` starts one"]
async fn a_bucket_passes_the_suite() {
    let endpoint = std::env::var("PROWESS_TEST_S3").expect("PROWESS_TEST_S3 names the server: use `make s3`");
    let mut bucket = S3Config::new("prowess");
    bucket.endpoint = Some(endpoint);
    bucket.prefix = format!("/{}", crate::home::unique("contents")).parse().unwrap();
    bucket.access_key_id = Some("test".to_owned());
    bucket.secret_access_key = Some("test".into());
    let store = || bucket.clone().store(prowess_backend::object::S3Defaults::Instance).unwrap();
    content_store_suite(|| Arc::new(ObjectContents::new(store(), bucket.prefix.as_str()))).await;
    let contents = Contents::in_s3(bucket).unwrap().family("ada", THREAD);
    let (one, other) = (Machine::new(), Machine::new());
    for number in 0..40 {
        one.write(&format!("d{}/f{number}", number % 3), format!("text {number}"));
    }
    one.write("large", vec![1; 6 << 20]);
    let captured = capture(&one, &contents).await;
    assert_eq!(restore(&other, &contents, captured.digest).await, (41, 0));
    assert_eq!(one.all(), other.all());
    contents.fork(THREAD, "fork", &[captured.digest]).await.unwrap();
    contents.remove(THREAD).await.unwrap();
    assert!(contents.inventory("fork", captured.digest).await.is_ok());
    assert!(contents.file(&captured.inventory.files()[0]).await.is_ok());
    contents.remove("fork").await.unwrap();
}

#[tokio::test]
async fn files_follow_and_a_warm_machine_copies_nothing() {
    let store = Arc::new(UnreliableContents::new(1));
    store.calm(true);
    let contents = Contents::new(store.clone()).family("ada", THREAD);
    let (one, other) = (Machine::new(), Machine::new());
    one.write("plan.md", "- rest");
    one.write("bin/go", "#!/bin/sh");
    fs::set_permissions(one.project().join("bin/go"), fs::Permissions::from_mode(0o700)).unwrap();
    one.write("empty", "");
    fs::create_dir(one.project().join("later")).unwrap();
    fs::write(one.workspace().join("out/report.txt"), "high tide").unwrap();
    let first = capture(&one, &contents).await;
    assert_eq!(first.left_out, []);
    assert_eq!(restore(&other, &contents, first.digest).await, (4, 0));
    assert_eq!(one.all(), other.all());
    // Commands can change the copies.
    let (place, copy) = (other.workspace().join("out"), other.workspace().join("out/report.txt"));
    let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
    assert_eq!(owner(&place), owner(&copy));

    // A new process on a machine that has everything asks for nothing.
    for machine in [&one, &other] {
        let before = store.calls();
        assert_eq!(restore(machine, &contents, first.digest).await, (0, 0));
        assert_eq!(store.calls(), before);
        let tree = machine.tree();
        tree.restore(&contents, THREAD, first.digest, |all| all).await.unwrap();
        let before = store.calls();
        assert_eq!(tree.capture(&contents, THREAD).await.unwrap(), None);
        assert_eq!(store.calls(), before, "nothing changed, so nothing is asked");
    }

    // One more file costs one write and one look, for itself and for the inventory.
    let tree = other.tree();
    tree.restore(&contents, THREAD, first.digest, |all| all).await.unwrap();
    other.write("more", "more");
    let before = store.calls();
    let second = tree.capture(&contents, THREAD).await.unwrap().unwrap();
    assert_eq!(store.calls() - before, 4);
    assert_eq!(restore(&one, &contents, second.digest).await, (1, 0));
    assert_eq!(one.all(), other.all());
    // Back to the first, as for a fork at an earlier event.
    assert_eq!(restore(&one, &contents, first.digest).await, (0, 1));
}

#[tokio::test]
async fn what_a_dead_run_left_is_not_restored() {
    let contents = family();
    let machine = Machine::new();
    machine.write("kept", "kept");
    machine.write("becomes/a/directory", "text");
    let captured = capture(&machine, &contents).await;
    let before = machine.all();
    // A command was under way: it wrote, replaced, removed and took access away.
    machine.write("half", "half");
    machine.write("kept", "kepT");
    fs::remove_dir_all(machine.project().join("becomes")).unwrap();
    machine.write("becomes", "a file");
    symlink("/etc", machine.project().join("link")).unwrap();
    machine.write("deep/er/file", "x");
    fs::set_permissions(machine.project().join("deep"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(machine.workspace().join("out/half"), "half").unwrap();
    assert_eq!(restore(&machine, &contents, captured.digest).await, (2, 5));
    assert_eq!(machine.all(), before);
    // Same size, same time of change that programs can set.
    let path = machine.project().join("kept");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "KEPT").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(restore(&machine, &contents, captured.digest).await, (1, 0));
    assert_eq!(machine.all(), before);
}

#[tokio::test]
async fn a_hostile_tree_leads_nowhere() {
    let contents = family();
    let (one, other) = (Machine::new(), Machine::new());
    let secret = one.place.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, one.project().join("link")).unwrap();
    symlink(one.place.path(), one.project().join("up")).unwrap();
    symlink("loop", one.project().join("loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        one.project().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(one.project().join("socket")).unwrap();
    fs::File::create(one.project().join("huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(one.project().join(OsStr::from_bytes(b"not\xffutf8")), "x").unwrap();
    let names = ["new\nline", "Case", "case", "tab\t", "-rf", "~", "\u{202e}gnp", " ", "\\", "a:b"];
    for name in names {
        one.write(name, name);
    }
    let program = one.workspace().join("out/program");
    fs::write(&program, "x").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
    let captured = capture(&one, &contents).await;
    use LeftOutReason::{Link, Name, Special, TooLarge};
    assert_eq!(reasons(&captured), [(Link, 3), (Special, 2), (Name, 1), (TooLarge, 1)]);
    let told: Vec<String> = captured.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(told[2], "/project/not\\xffutf8 (paths that are not UTF-8, or longer than 1024 bytes)");
    assert_eq!(captured.inventory.files().len(), names.len() + 1);

    restore(&other, &contents, captured.digest).await;
    for name in names {
        assert_eq!(fs::read_to_string(other.project().join(name)).unwrap(), name);
    }
    let mode = fs::metadata(other.workspace().join("out/program")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755, "no bit that makes it run as its owner");
    // What is left out is told once, as long as it stays the same.
    let tree = one.tree();
    tree.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap();
    assert!(one.project().join("link").is_symlink(), "the machine that has it keeps it");
    one.write("more", "more");
    assert_eq!(tree.capture(&contents, THREAD).await.unwrap().unwrap().left_out, []);

    // Links in the way of files are replaced, not followed.
    for (name, target) in [("Case", &secret), ("d", &one.place.path().to_owned())] {
        let _ = fs::remove_file(other.project().join(name));
        symlink(target, other.project().join(name)).unwrap();
    }
    one.write("d/secret", "not the secret");
    let captured = tree.capture(&contents, THREAD).await.unwrap().unwrap();
    restore(&other, &contents, captured.digest).await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_to_string(other.project().join("d/secret")).unwrap(), "not the secret");
}

#[tokio::test]
async fn too_many_files_are_left_out_and_reported() {
    let contents = family();
    let machine = Machine::new();
    for directory in 0..100 {
        let directory = machine.project().join(format!("d{directory:02}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..1000 {
            // Without content there is nothing to store.
            fs::File::create(directory.join(format!("f{file}"))).unwrap();
        }
    }
    fs::create_dir(machine.place.path().join("history")).unwrap();
    fs::write(machine.place.path().join("history/h.md"), "what was said").unwrap();
    let deep = machine.project().join(["d00"].iter().chain([&"x"; 70]).collect::<PathBuf>());
    fs::create_dir_all(deep).unwrap();
    let captured = capture(&machine, &contents).await;
    assert_eq!(captured.inventory.files().len(), MAX_FILES);
    assert!(captured.inventory.file("work/history/h.md").is_some(), "the thread's own files come first");
    let lost = 100_001 - MAX_FILES as u64;
    assert_eq!(reasons(&captured), [(LeftOutReason::TooDeep, 1), (LeftOutReason::TooMany, lost)]);
    assert!(captured.left_out[1].to_string().contains(&format!("and {} more", lost - 5)));
}

#[tokio::test]
async fn too_many_bytes_are_left_out_and_reported() {
    let contents = family();
    let machine = Machine::new();
    for number in 0..10 {
        let file = fs::File::create(machine.project().join(format!("f{number}"))).unwrap();
        // All the same, so there is one content to store.
        file.set_len(MAX_FILE_BYTES).unwrap();
    }
    let captured = capture(&machine, &contents).await;
    assert_eq!(captured.inventory.files().len(), 8);
    assert_eq!(reasons(&captured), [(LeftOutReason::NoRoom, 2)]);
}

#[tokio::test]
async fn a_lost_or_damaged_content_is_named() {
    let store = Arc::new(MemoryContents::default());
    let contents = Contents::new(store.clone()).family("ada", THREAD);
    let (one, other) = (Machine::new(), Machine::new());
    one.write("plan.md", "- rest");
    let captured = capture(&one, &contents).await;
    let name =
        store.list("threads").await.unwrap().into_iter().find(|found| found.name.contains("/content/"));
    let name = name.unwrap().name;
    let failed =
        async || other.tree().restore(&contents, THREAD, captured.digest, |all| all).await.unwrap_err();
    store.put(&name, "- rust".into()).await.unwrap();
    let error = failed().await;
    assert!(matches!(error, InventoryError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("`/project/plan.md`"), "{error}");
    store.remove(&name).await.unwrap();
    let error = failed().await;
    assert!(matches!(error, InventoryError::Gone { .. }), "{error}");
    assert!(error.to_string().contains("`/project/plan.md`"), "{error}");
    // Whoever still has the file repairs the store when it next stores it.
    let again = Contents::new(store.clone()).family("ada", THREAD);
    capture(&one, &again).await;
    assert_eq!(restore(&other, &contents, captured.digest).await, (1, 0));
}

#[tokio::test]
async fn directories_that_nobody_uses_can_go() {
    let contents = family();
    let machine = Machine::new();
    machine.write("plan.md", "- rest");
    fs::write(machine.workspace().join("out/report.txt"), "high tide").unwrap();
    let captured = capture(&machine, &contents).await;
    let forget = async |unused_for| machine.tree().forget_unused(unused_for).await.unwrap();
    assert!(!forget(Duration::ZERO).await, "nobody began to follow the thread here");
    let tree = machine.tree();
    tree.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap();
    assert!(!forget(Duration::ZERO).await, "it is in use");
    drop(tree);
    assert!(!forget(Duration::from_secs(3600)).await, "it was used just now");
    assert!(forget(Duration::ZERO).await);
    assert!(!machine.project().exists() && !machine.workspaces.path_of(THREAD).exists());
    assert_eq!(fs::read_dir(machine.place.path().join("notes")).unwrap().count(), 0);
    assert!(!forget(Duration::ZERO).await);
    assert_eq!(restore(&machine, &contents, captured.digest).await, (2, 0));
}

#[tokio::test]
async fn a_thread_that_begins_anew_has_nothing_that_a_dead_process_left() {
    let contents = family();
    let machine = Machine::new();
    machine.tree().begin().await.unwrap();
    machine.write("half", "half");
    assert_eq!(capture(&machine, &contents).await.inventory.files().len(), 1);
    // The log never named it, so the next process begins again.
    machine.tree().begin().await.unwrap();
    assert_eq!(machine.tree().capture(&contents, THREAD).await.unwrap(), None);
    assert_eq!(fs::read_dir(machine.project()).unwrap().count(), 0);
}

#[tokio::test]
async fn files_from_before_stay_until_the_log_has_them() {
    let contents = family();
    let machine = Machine::new();
    let has_them = async || machine.tree().has_files_from_before().await.unwrap();
    assert!(!has_them().await);
    machine.write("before", "from before it was followed");
    // The log names no inventory, whatever was captured.
    for _ in 0..3 {
        assert!(has_them().await);
        machine.tree().begin().await.unwrap();
        assert!(machine.project().join("before").exists());
        assert!(!machine.tree().forget_unused(Duration::ZERO).await.unwrap(), "the store may lack them");
    }
    let captured = capture(&machine, &contents).await;
    machine.tree().begin().await.unwrap();
    assert!(machine.project().join("before").exists());
    let captured_again = capture(&machine, &contents).await;
    assert_eq!(captured_again.digest, captured.digest);
    // Now it names one that has them: what came later is of a dead process.
    machine.write("half", "half");
    assert_eq!(restore(&machine, &contents, captured.digest).await, (0, 1));
    assert!(machine.project().join("before").exists());
    assert!(!has_them().await);
    assert!(machine.tree().forget_unused(Duration::ZERO).await.unwrap());
}

#[tokio::test]
async fn files_from_before_stay_beside_those_of_another_machine() {
    for begins in [false, true] {
        let contents = family();
        let (old, other) = (Machine::new(), Machine::new());
        for (path, text) in [
            ("only-here", "old"),
            ("both", "old"),
            ("same", "same"),
            ("file/below", "old"),
            ("directory", "old"),
        ] {
            old.write(path, text);
        }
        fs::write(old.workspace().join("out/report.txt"), "old").unwrap();
        symlink("only-here", old.project().join("link")).unwrap();
        if begins {
            // The store failed before the log named anything.
            old.tree().begin().await.unwrap();
        }
        // Another machine takes the thread first.
        for (path, text) in [("both", "new"), ("same", "same"), ("file", "new"), ("directory/below", "new")] {
            other.write(path, text);
        }
        let first = capture(&other, &contents).await;
        let tree = old.tree();
        let restored = tree.restore(&contents, THREAD, first.digest, |all| all).await.unwrap();
        assert_eq!((restored.fetched, restored.removed, restored.kept), (3, 0, 5));
        let all = old.all();
        for path in ["only-here", "both", "both.from-before", "same", "file", "file.from-before/below"] {
            assert!(all.contains_key(&format!("project/{path}")), "{path}: {all:?}");
        }
        assert_eq!(fs::read_to_string(old.project().join("both")).unwrap(), "new");
        assert_eq!(fs::read_to_string(old.project().join("both.from-before")).unwrap(), "old");
        assert_eq!(fs::read_to_string(old.project().join("directory/below")).unwrap(), "new");
        assert_eq!(fs::read_to_string(old.project().join("directory.from-before")).unwrap(), "old");
        assert!(old.project().join("link").is_symlink());
        assert!(old.workspace().join("out/report.txt").exists());
        drop(tree);
        // They stay when the process dies before the log has them, and go to the store with the next capture.
        let tree = old.tree();
        tree.restore(&contents, THREAD, first.digest, |all| all).await.unwrap();
        assert_eq!(old.all(), all);
        let second = tree.capture(&contents, THREAD).await.unwrap().unwrap();
        drop(tree);
        restore(&old, &contents, second.digest).await;
        restore(&other, &contents, second.digest).await;
        let mut all = all;
        all.remove("project/link");
        assert_eq!(other.all(), all);
        // From now on the directories are those of the log.
        restore(&old, &contents, first.digest).await;
        assert!(!old.project().join("only-here").exists());
    }
}

#[tokio::test]
async fn what_is_restored_in_part_is_not_captured() {
    let store = Arc::new(MemoryContents::default());
    let contents = Contents::new(store.clone()).family("ada", THREAD);
    let (one, other) = (Machine::new(), Machine::new());
    one.write("plan.md", "- rest");
    one.write("tide", "high");
    let captured = capture(&one, &contents).await;
    let name =
        store.list("threads").await.unwrap().into_iter().find(|found| found.name.contains("/content/"));
    let name = name.unwrap().name;
    let bytes = store.get(&name, 100).await.unwrap().unwrap();
    store.remove(&name).await.unwrap();
    other.tree().begin().await.unwrap();
    let tree = other.tree();
    let error = tree.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap_err();
    assert!(matches!(error, InventoryError::Gone { .. }) && !error.passes(), "{error}");
    let error = tree.capture(&contents, THREAD).await.unwrap_err();
    assert!(matches!(error, InventoryError::HalfRestored), "{error}");
    store.put(&name, bytes).await.unwrap();
    tree.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap();
    assert_eq!(tree.capture(&contents, THREAD).await.unwrap(), None);
    assert_eq!(one.all(), other.all());
}

#[tokio::test]
async fn one_process_at_a_time_has_the_directories() {
    let contents = family();
    let machine = Machine::new();
    machine.write("plan.md", "- rest");
    let captured = capture(&machine, &contents).await;
    // It lost the thread, and a command of it still runs.
    let first = machine.tree();
    first.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap();
    machine.write("of-the-command", "text");
    let second = machine.tree();
    let error = second.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap_err();
    assert!(matches!(error, InventoryError::InUse) && error.passes(), "{error}");
    let error = second.begin().await.unwrap_err();
    assert!(matches!(error, InventoryError::InUse), "{error}");
    assert!(machine.project().join("of-the-command").exists(), "its directories are left alone");
    drop(first);
    second.restore(&contents, THREAD, captured.digest, |all| all).await.unwrap();
    assert!(!machine.project().join("of-the-command").exists());
}

#[tokio::test]
async fn paths_that_are_too_long_together_are_left_out_and_reported() {
    let contents = family();
    let machine = Machine::new();
    // Each of these takes six bytes in an inventory.
    let name = "\u{1}".repeat(240);
    let directory = machine.project().join([name.as_str(); 4].iter().collect::<PathBuf>());
    fs::create_dir_all(&directory).unwrap();
    for number in 0..6500 {
        fs::File::create(directory.join(number.to_string())).unwrap();
    }
    let captured = capture(&machine, &contents).await;
    let [(LeftOutReason::LongPaths, lost)] = reasons(&captured)[..] else {
        panic!("{:?}", captured.left_out)
    };
    assert_eq!(captured.inventory.files().len() as u64 + lost, 6500);
    assert_eq!(contents.inventory(THREAD, captured.digest).await.unwrap(), *captured.inventory);
}

#[tokio::test]
async fn families_share_nothing() {
    let store = Contents::new(Arc::new(MemoryContents::default()));
    let contents = store.family("ada", THREAD);
    let digest = contents.put("secret".into(), "a file").await.unwrap();
    let machine = Machine::new();
    machine.write("plan.md", "- rest");
    let inventory = capture(&machine, &contents).await.digest;
    for (owner, family) in [("bob", THREAD), ("ada", "thread-2")] {
        let other = store.family(owner, family);
        let probed = other.get(digest, 6, "a file").await;
        assert!(matches!(probed, Err(InventoryError::Gone { .. })), "{owner} {family}");
        other.inventory(THREAD, inventory).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_fork_outlives_its_thread_and_nothing_outlives_both() {
    let store = Arc::new(MemoryContents::default());
    let all = Contents::new(store.clone());
    let contents = all.family("ada", THREAD);
    let machine = Machine::new();
    machine.write("shared", "shared");
    let first = capture(&machine, &contents).await;
    let upload = contents.put_upload(THREAD, "uploaded".into(), "a file").await.unwrap();
    machine.write("later", "later");
    let later = capture(&machine, &contents).await;
    contents.fork(THREAD, "fork", &[first.digest, upload]).await.unwrap();
    contents.inventory("fork", later.digest).await.unwrap_err();
    let fork = all.family_of("ada", "fork", "own").await.unwrap();
    assert_eq!(fork.first(), THREAD);
    assert_eq!(all.family_of("bob", "fork", "own").await.unwrap().first(), "own", "of another user");
    contents.remove(THREAD).await.unwrap();
    contents.remove(THREAD).await.unwrap();
    contents.inventory(THREAD, first.digest).await.unwrap_err();
    assert_eq!(fork.inventory("fork", first.digest).await.unwrap(), *first.inventory);
    fork.file(&first.inventory.files()[0]).await.unwrap();
    fork.get(upload, 8, "a file").await.unwrap();
    // A thread that is gone cannot be forked.
    contents.fork(THREAD, "late", &[first.digest]).await.unwrap_err();
    contents.remove("late").await.unwrap();
    fork.remove("fork").await.unwrap();
    let rest: Vec<String> =
        store.list("threads").await.unwrap().into_iter().map(|found| found.name).collect();
    assert!(rest.is_empty(), "{rest:?}");
    assert!(store.list("families").await.unwrap().is_empty());
}

/// Case 146 of the security plan: the store loses, repeats, delays and reorders writes, and fails a tenth of its calls.
#[tokio::test]
async fn case_146_whatever_the_store_does_a_log_names_only_files_that_are_there() {
    let (mut captures, mut failures) = (0, 0);
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..6 {
        let store = Arc::new(UnreliableContents::new(seed));
        let one = Machine::new();
        let mut log = Vec::new();
        for step in 0..8 {
            one.write(&format!("f{}", step % 3), format!("{seed} {step}"));
            if step == 5 {
                fs::remove_file(one.project().join("f0")).unwrap();
            }
            // A new process each time: it remembers nothing.
            let contents = Contents::new(store.clone()).family("ada", THREAD);
            match one.tree().capture(&contents, THREAD).await {
                Ok(captured) => log.push((captured.unwrap().digest, one.all())),
                Err(InventoryError::Store { .. }) => failures += 1,
                Err(error) => panic!("{error}"),
            }
        }
        captures += log.len();
        // Whatever was logged can be restored on an empty machine, also while the store is as it is.
        for (digest, files) in &log {
            let other = Machine::new();
            let contents = Contents::new(store.clone()).family("ada", THREAD);
            let restored = other.tree().restore(&contents, THREAD, *digest, |all| all).await;
            if let Err(InventoryError::Store { .. }) = restored {
                store.calm(true);
                other.tree().restore(&contents, THREAD, *digest, |all| all).await.unwrap();
                store.calm(false);
            } else {
                restored.unwrap();
            }
            assert_eq!(other.all(), *files, "seed {seed}");
        }
        for kind in ["fails", "lost", "late", "again"] {
            *made.entry(kind).or_default() += store.troubles(kind);
        }
    }
    assert!(captures > 40, "{captures} captures and {failures} failures");
    assert!(made.values().all(|count| *count > 10), "the store made all kinds of trouble: {made:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>, bool),
    Remove(usize),
    MakeDirectory(usize),
    Capture,
    Move,
}

const PATHS: [&str; 8] = ["a", "a/b", "a/b/c", "d", "d/e f", "d\n", "é/ü", "out"];

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    prop_oneof![
        5 => (path.clone(), proptest::collection::vec(any::<u8>(), 0..4), any::<bool>())
            .prop_map(|(path, bytes, program)| Step::Write(path, bytes, program)),
        2 => path.clone().prop_map(Step::Remove),
        1 => path.prop_map(Step::MakeDirectory),
        3 => Just(Step::Capture),
        2 => Just(Step::Move),
    ]
}

/// Removes whatever is at a path, and files in the place of its parents.
fn clear(root: &Path, path: &str) {
    for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
        let place = root.join(&path[..at]);
        if at == path.len() && place.is_dir() {
            fs::remove_dir_all(&place).unwrap();
        } else if place.is_file() {
            fs::remove_file(&place).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// After any edits, captures and moves between machines, a machine has what was captured last.
    #[test]
    fn any_edits_follow(steps in proptest::collection::vec(step(), 0..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let contents = family();
            let machines = [Machine::new(), Machine::new()];
            let (mut at, mut last) = (0, None);
            let mut tree = machines[0].tree();
            for step in steps {
                let machine = &machines[at];
                for root in [machine.project(), machine.workspace().join("work")] {
                    match &step {
                        Step::Write(path, bytes, program) => {
                            clear(&root, PATHS[*path]);
                            let path = root.join(PATHS[*path]);
                            fs::create_dir_all(path.parent().unwrap()).unwrap();
                            fs::write(&path, bytes).unwrap();
                            let mode = if *program { 0o755 } else { 0o644 };
                            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                        }
                        Step::Remove(path) => clear(&root, PATHS[*path]),
                        Step::MakeDirectory(path) => {
                            clear(&root, PATHS[*path]);
                            fs::create_dir_all(root.join(PATHS[*path])).unwrap();
                        }
                        Step::Capture | Step::Move => {}
                    }
                }
                match step {
                    Step::Capture => {
                        let captured = tree.capture(&contents, THREAD).await.unwrap();
                        last = captured.map(|captured| (captured.digest, machine.all())).or(last);
                    }
                    Step::Move => if let Some((digest, files)) = &last {
                        at = 1 - at;
                        tree = machines[at].tree();
                        tree.restore(&contents, THREAD, *digest, |all| all).await.unwrap();
                        assert_eq!(machines[at].all(), *files);
                    },
                    _ => {}
                }
            }
        });
    }
}
