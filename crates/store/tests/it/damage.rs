//! Tests with damaged databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prowess_agent::thread::{StoredEvent, ThreadError};
use prowess_agent::{ThreadId, ThreadStore};
use prowess_permission::{Approval, ApprovalStore, Kind, Pattern};
use prowess_store::{DatabaseError, SqliteStore};
use prowess_workspace::artifact::MemoryBlobs;
use prowess_workspace::{ArtifactName, ArtifactStore as _, Artifacts};
use rusqlite::Connection;

use crate::support::{LONG, said, thread_of};

/// How many single bytes are changed, each in its own copy.
const FLIPS: u32 = 250;

type Contents = Vec<(ThreadId, Vec<StoredEvent>)>;

async fn contents(store: &SqliteStore) -> Result<Contents, ThreadError> {
    let mut contents = Vec::new();
    for info in store.list(usize::MAX).await? {
        let events = store.events(&info.id, 0, usize::MAX).await?;
        assert_eq!(info.events, events.len() as u64, "a wrong count is seen");
        contents.push((info.id, events));
    }
    contents.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(contents)
}

/// The bytes of a database with some threads, and the contents of these.
async fn database(place: &Path) -> (Vec<u8>, Contents) {
    let path = place.join("whole.db");
    let store = SqliteStore::open(&path).await.unwrap();
    // Enough that the empty pages of tables without rows are a small part.
    for number in 0..24 {
        let lease = store.lease(&ThreadId::new(), "one", LONG).await.unwrap();
        let events: Vec<_> = (0..20).map(|event| said(format!("{event} ").repeat(number * 10 + 1))).collect();
        store.append(&lease, 0, &events).await.unwrap();
        store.append(&lease, 20, &[said("long ".repeat(2000))]).await.unwrap();
    }
    let whole = contents(&store).await.unwrap();
    store.check().await.unwrap();
    drop(store);
    assert!(!place.join("whole.db-wal").exists(), "a store that is closed leaves one file");
    (std::fs::read(&path).unwrap(), whole)
}

/// Opens, reads and checks a file, and returns the first error, if any.
async fn fate(path: &Path, whole: &Contents) -> Option<String> {
    let before = std::fs::read(path).unwrap();
    let store = match SqliteStore::open(path).await {
        Ok(store) => store,
        Err(error) => {
            assert_eq!(std::fs::read(path).unwrap(), before, "it is left as it is: {error}");
            return Some(error.to_string());
        }
    };
    let read = contents(&store).await;
    let checked = store.check().await;
    if let Err(error) = &checked {
        assert!(matches!(error, DatabaseError::Damaged { .. }), "{error:?}");
    }
    match read {
        Err(error) => {
            let is_damage = matches!(error, ThreadError::Damaged { .. })
                || matches!(DatabaseError::of(&error), Some(DatabaseError::Damaged { .. }));
            assert!(is_damage, "{error:?}");
            Some(error.to_string())
        }
        Ok(read) => {
            // Threads that can be read must be unchanged, even if others are missing.
            for (thread, events) in &read {
                if let Some((_, written)) = whole.iter().find(|(id, _)| id == thread) {
                    assert_eq!(events, written);
                }
            }
            let problem = checked.err().map(|error| error.to_string());
            assert!(problem.is_some() || read == *whole, "less is there, and nobody says so");
            problem
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_damaged_database() {
    let place = tempfile::tempdir().unwrap();
    let (bytes, whole) = database(place.path()).await;
    let path = |name: String| -> PathBuf { place.path().join(name) };

    // Not a database, truncated, or empty: opening fails.
    let cut = |to: usize| bytes[..to].to_vec();
    let text = b"# Not a database\n".repeat(500);
    let short = [
        ("text", text),
        ("empty", vec![]),
        ("head", cut(50)),
        ("page", cut(4096)),
        ("half", cut(bytes.len() / 2)),
    ];
    for (name, bytes) in short {
        let path = path(format!("{name}.db"));
        std::fs::write(&path, &bytes).unwrap();
        let refused = SqliteStore::open(&path).await.unwrap_err();
        assert!(matches!(refused, DatabaseError::Damaged { .. }), "{name}: {refused:?}");
        assert!(refused.to_string().contains("move it away"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name} is left as it is");
    }

    // Pages of zeros or noise, except the first page.
    let mut seen = 0;
    for page in 1..bytes.len() / 4096 {
        let mut bytes = bytes.clone();
        let noise = if page % 2 == 0 { 0 } else { 0xa5 };
        bytes[page * 4096..(page + 1) * 4096].fill(noise);
        let path = path(format!("page-{page}.db"));
        std::fs::write(&path, &bytes).unwrap();
        seen += usize::from(fate(&path, &whole).await.is_some());
    }
    assert_eq!(seen, bytes.len() / 4096 - 1, "every page is in use, and missed");

    // Single bytes anywhere.
    let mut seen = 0;
    for number in 0..FLIPS {
        let at = getrandom::u32().unwrap() as usize % bytes.len();
        let by = u8::try_from(getrandom::u32().unwrap() % 255 + 1).unwrap();
        println!("byte {at} changed by {by:#x}");
        let mut bytes = bytes.clone();
        bytes[at] ^= by;
        let path = path(format!("flip-{number}.db"));
        std::fs::write(&path, &bytes).unwrap();
        seen += u32::from(fate(&path, &whole).await.is_some());
        std::fs::remove_file(&path).unwrap();
    }
    assert!(seen > FLIPS / 2, "{seen} of {FLIPS} are seen; the others are where nothing is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_wrong_count_is_seen() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let lease = thread_of(&store, 3).await;
    let other = Connection::open(&path).unwrap();
    for count in [2, 4, 0] {
        other.execute("UPDATE prowess_threads SET events = ?1", [count]).unwrap();
        let error = store.events(&lease.thread, 0, 99).await.unwrap_err();
        assert!(matches!(error, ThreadError::Damaged { .. }), "{count}: {error}");
        let error = store.check().await.unwrap_err().to_string();
        assert!(error.contains("has more or fewer events than it should"), "{count}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_check_looks_at_everything() {
    let place = tempfile::tempdir().unwrap();
    for (name, spoil) in [
        ("an approval", "UPDATE prowess_approvals SET body = CAST(replace(body, 'make', 'rm x') AS BLOB)"),
        (
            "`a.txt`",
            "UPDATE prowess_scoped_artifacts SET body = CAST(replace(body, 'plain', 'p1ain') AS BLOB)",
        ),
        ("`a.txt`", "UPDATE prowess_scoped_names SET given = 0"),
    ] {
        let path = tempfile::tempdir_in(place.path()).unwrap().keep().join("a.db");
        let store = Arc::new(SqliteStore::open(&path).await.unwrap());
        let (project, pattern) = ("p".to_owned(), Pattern::literal("make"));
        let approval = Approval { project, kind: Kind::RUN, pattern, binding: None };
        ApprovalStore::add(&*store, &[approval]).await.unwrap();
        let artifacts = Artifacts::new(Arc::new(MemoryBlobs::default()), store.clone());
        let artifact = ArtifactName::parse("a.txt").unwrap();
        artifacts.save(&artifact, "text".into(), "text/plain").await.unwrap();
        store.check().await.unwrap();
        assert_eq!(Connection::open(&path).unwrap().execute(spoil, []).unwrap(), 1);
        let error = store.check().await.unwrap_err().to_string();
        assert!(error.contains(name), "{spoil}: {error}");
    }
}

/// A file and a log as a kill leaves them. The file is `changed`, and opening it may change neither.
async fn left_by_a_kill(place: &Path, in_log: &str, changed: impl FnOnce(&mut Vec<u8>)) -> DatabaseError {
    let (bytes, _) = database(place).await;
    let store = SqliteStore::open(place.join("whole.db")).await.unwrap();
    Connection::open(place.join("whole.db")).unwrap().execute_batch(in_log).unwrap();
    let log = std::fs::read(place.join("whole.db-wal")).unwrap();
    assert!(!log.is_empty());
    let mut bytes = bytes;
    changed(&mut bytes);
    let path = place.join("left.db");
    std::fs::write(&path, &bytes).unwrap();
    std::fs::write(place.join("left.db-wal"), &log).unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed: {refused}");
    assert!(std::fs::read(place.join("left.db-wal")).unwrap() == log, "the log was changed: {refused}");
    drop(store);
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_what_is_refused_keeps_its_log() {
    let place = tempfile::tempdir().unwrap();
    let refused = left_by_a_kill(place.path(), "PRAGMA user_version = 99", |_| ()).await;
    assert!(matches!(refused, DatabaseError::Newer { found: 99, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_what_was_cut_short_beside_its_log_is_seen() {
    let place = tempfile::tempdir().unwrap();
    let in_log = "INSERT INTO prowess_threads VALUES ('new', 0, 0, 0, 0, NULL, 0, 0, 0)";
    let refused = left_by_a_kill(place.path(), in_log, |bytes| bytes.truncate(bytes.len() / 2)).await;
    assert!(refused.to_string().contains("it is truncated"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_damaged_database_is_set_aside_when_asked() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    for number in 1..=2 {
        std::fs::write(&path, "damaged").unwrap();
        std::fs::write(place.path().join("a.db-wal"), "its log").unwrap();
        assert!(SqliteStore::open(&path).await.is_err());
        let aside = SqliteStore::set_aside(&path).await.unwrap();
        assert_eq!(aside.to, place.path().join(format!("a.db.damaged-{number}")));
        assert!(aside.to_string().contains("is now") && aside.to_string().contains("unchanged"), "{aside}");
        assert_eq!(std::fs::read(&aside.to).unwrap(), b"damaged");
        assert!(std::fs::exists(place.path().join(format!("a.db.damaged-{number}-wal"))).unwrap());
        assert!(!path.exists());
    }
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.list(9).await.unwrap(), []);
    thread_of(&store, 3).await;

    // An open database cannot be moved away.
    let refused = SqliteStore::set_aside(&path).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::InUse { .. }), "{refused}");
    assert_eq!(store.list(9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_log_without_its_database_is_not_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let (path, copy) = (place.path().join("a.db"), place.path().join("b.db"));
    let store = SqliteStore::open(&path).await.unwrap();
    thread_of(&store, 3).await;
    std::fs::copy(place.path().join("a.db-wal"), place.path().join("b.db-wal")).unwrap();
    let refused = SqliteStore::open(&copy).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Damaged { .. }), "{refused}");
    assert!(refused.to_string().contains("its file is missing, but its log exists"), "{refused}");
    SqliteStore::set_aside(&copy).await.unwrap();
    assert_eq!(SqliteStore::open(&copy).await.unwrap().list(9).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_damaged_log_is_not_read_over() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let lease = thread_of(&store, 1).await;
    for number in 1..=12 {
        store.append(&lease, number, &[said("text ".repeat(300))]).await.unwrap();
    }
    // The state after a kill.
    let bytes = std::fs::read(&path).unwrap();
    let log = std::fs::read(place.path().join("a.db-wal")).unwrap();
    let left = |name: &str, log: &[u8]| -> PathBuf {
        let path = place.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(place.path().join(format!("{name}-wal")), log).unwrap();
        path
    };
    let events = async |path: PathBuf| -> usize {
        let store = SqliteStore::open(path).await.unwrap();
        store.events(&lease.thread, 0, 99).await.unwrap().len()
    };
    assert_eq!(events(left("whole.db", &log)).await, 13);

    for number in 0..60 {
        let at = getrandom::u32().unwrap() as usize % (log.len() / 2);
        println!("byte {at} of {} changed", log.len());
        let mut log = log.clone();
        log[at] ^= 0x10;
        let path = left(&format!("flip-{number}.db"), &log);
        let refused = SqliteStore::open(&path).await.unwrap_err();
        assert!(matches!(refused, DatabaseError::Damaged { .. }), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(std::fs::read(place.path().join(format!("flip-{number}.db-wal"))).unwrap(), log);
    }
    // The end of the log is an unfinished transaction.
    assert_eq!(events(left("cut.db", &log[..log.len() - 100])).await, 12);
}
