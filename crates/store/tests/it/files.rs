//! Tests of the SQLite file.

use std::os::unix::fs::PermissionsExt as _;

use prowess_agent::ThreadStore;
use prowess_store::{Database, DatabaseError, SqliteStore};
use rusqlite::Connection;

use crate::support::thread_of;

#[tokio::test]
async fn it_is_for_the_user_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("deep/er/a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    thread_of(&store, 1).await;
    for (name, mode) in [("", 0o700), ("a.db", 0o600), ("a.db-wal", 0o600), ("a.db-shm", 0o600)] {
        let found = std::fs::metadata(path.with_file_name(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}");
    }
    let mut names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a.db", "a.db-shm", "a.db-wal", "a.db.lock"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_open_it_at_once() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let opening: Vec<_> = (0..16)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let store = SqliteStore::open(&path).await.unwrap();
                thread_of(&store, 2).await;
            })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap();
    }
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.list(99).await.unwrap().len(), 16);
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_newer_one_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    drop(SqliteStore::open(&path).await.unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Newer { found: 99, known: 14, .. }), "{refused:?}");
    let words = refused.to_string().replace(place.path().to_str().unwrap(), "…");
    insta::assert_snapshot!(words, @"the database …/a.db has version 99, but this prowess supports versions up to 14: use a newer prowess. Nothing was changed");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn another_programs_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE browser_history (url TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Foreign { .. }), "{refused:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let refused = SqliteStore::open(place.path()).await.unwrap_err().to_string();
    assert!(refused.contains("it is not a regular file"), "{refused}");
}

#[tokio::test]
async fn one_that_is_removed_while_it_is_open_is_not_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    thread_of(&store, 1).await;
    for name in ["a.db", "a.db-wal", "a.db-shm"] {
        std::fs::remove_file(path.with_file_name(name)).unwrap();
    }
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::InUse { .. }), "{refused}");
    assert!(!path.exists(), "only who is alone makes one");
    store.close().await.unwrap();
    assert_eq!(SqliteStore::open(&path).await.unwrap().list(9).await.unwrap(), []);
}

#[tokio::test]
async fn a_name_tells_which_database_it_is() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let database = Database::open(path.to_str().unwrap()).await.unwrap();
    assert!(matches!(database, Database::Sqlite(_)));
    thread_of(&*database.threads(), 1).await;
    database.close().await.unwrap();
    assert!(!place.path().join("a.db-wal").exists(), "one that is closed leaves one file");
    let nowhere = Database::open("postgres://me:secret@127.0.0.1:1/x").await.unwrap_err();
    assert!(matches!(nowhere, DatabaseError::Unreachable { .. }), "{nowhere:?}");
    assert!(!format!("{nowhere} {nowhere:?}").contains("secret"), "{nowhere}");
    let same = Database::open("Postgres://me:secret@127.0.0.1:1/x").await.unwrap_err();
    assert!(matches!(same, DatabaseError::Unreachable { .. }), "{same:?}");
}
