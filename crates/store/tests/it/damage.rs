//! Databases that are not what was written.

use std::path::{Path, PathBuf};

use prowess_agent::{StoredEvent, ThreadError, ThreadId, ThreadStore};
use prowess_store::{DatabaseError, SqliteStore};

use crate::support::{LONG, said, thread_of};

/// How many single bytes are changed, each in a copy of its own.
const FLIPS: u32 = 250;

type Contents = Vec<(ThreadId, Vec<StoredEvent>)>;

async fn contents(store: &SqliteStore) -> Result<Contents, ThreadError> {
    let mut contents = Vec::new();
    for info in store.list(usize::MAX).await? {
        contents.push((info.id.clone(), store.events(&info.id, 0, usize::MAX).await?));
    }
    contents.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(contents)
}

/// The bytes of a database with some threads in it, and what they are.
async fn database(place: &Path) -> (Vec<u8>, Contents) {
    let path = place.join("whole.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 0..12 {
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

/// What happens with a file of these bytes: what went wrong first, if anything, when all is read and checked.
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
            // What is read is what was written, if it is not all of it.
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

    // Not a database at all, cut short, or emptied: seen when it is opened.
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
        assert!(refused.to_string().contains("set it aside"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name} is left as it is");
    }

    // Whole pages of zeros or of noise, but the first.
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
async fn case_83_a_damaged_database_is_set_aside_when_asked() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    for number in 1..=2 {
        std::fs::write(&path, "damaged").unwrap();
        std::fs::write(place.path().join("a.db-wal"), "its log").unwrap();
        assert!(SqliteStore::open(&path).await.is_err());
        let aside = SqliteStore::set_aside(&path).await.unwrap();
        assert_eq!(aside.to, place.path().join(format!("a.db.damaged-{number}")));
        assert!(aside.to_string().contains("is now") && aside.to_string().contains("as it was"), "{aside}");
        assert_eq!(std::fs::read(&aside.to).unwrap(), b"damaged");
        assert!(std::fs::exists(place.path().join(format!("a.db.damaged-{number}-wal"))).unwrap());
        assert!(!path.exists());
    }
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.list(9).await.unwrap(), []);
    thread_of(&store, 3).await;

    // Not from under somebody's feet.
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
    assert!(refused.to_string().contains("its file is missing, and its log is there"), "{refused}");
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
    // As a kill would leave them.
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
    // The end of the log is a transaction that was not finished.
    assert_eq!(events(left("cut.db", &log[..log.len() - 100])).await, 12);
}
