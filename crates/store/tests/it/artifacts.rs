//! Tests of the index of artifacts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prowess_store::{PostgresStore, SqliteStore};
use prowess_workspace::artifact::MemoryBlobs;
use prowess_workspace::testing::{artifact_scopes_suite, artifact_store_suite};
use prowess_workspace::{
    ArtifactError, ArtifactIndex, ArtifactKey, ArtifactName, ArtifactStore, Artifacts, Scope,
};
use rusqlite::Connection;

use crate::support::postgres_url;

async fn suite(stores: Vec<Arc<dyn ArtifactIndex>>) {
    let next = AtomicUsize::new(0);
    let blobs = Arc::new(MemoryBlobs::default());
    let open = || {
        let index = Arc::clone(&stores[next.fetch_add(1, Ordering::Relaxed) % stores.len()]);
        Artifacts::new(blobs.clone(), index)
    };
    artifact_store_suite(|| Arc::new(open()) as Arc<dyn ArtifactStore>).await;
    artifact_scopes_suite(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    let mut stores: Vec<Arc<dyn ArtifactIndex>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(SqliteStore::open(place.path().join("a.db")).await.unwrap()));
    }
    suite(stores).await;
    suite(vec![Arc::new(SqliteStore::in_memory().unwrap())]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes_the_suite() {
    let url = postgres_url().await;
    let mut stores: Vec<Arc<dyn ArtifactIndex>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(PostgresStore::connect(&url).await.unwrap()));
    }
    suite(stores).await;
}

#[tokio::test]
async fn a_changed_record_is_seen() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let artifacts = Artifacts::new(Arc::new(MemoryBlobs::default()), Arc::new(store));
    let name = ArtifactName::parse("a.txt").unwrap();
    artifacts.save(&name, "text".into(), "text/plain").await.unwrap();
    let changed = "UPDATE prowess_scoped_artifacts SET body = CAST(replace(body, 'plain', 'p1ain') AS BLOB)";
    Connection::open(&path).unwrap().execute(changed, []).unwrap();
    let refused = artifacts.load(&name, None).await;
    assert!(matches!(refused, Err(ArtifactError::Damaged { version: 0, .. })), "{refused:?}");
}

/// The first version of the tables.
const FIRST: &str = "
    CREATE TABLE prowess_artifact_names (name TEXT NOT NULL PRIMARY KEY, given BIGINT NOT NULL);
    CREATE TABLE prowess_artifacts (name TEXT NOT NULL, version BIGINT NOT NULL, checksum BIGINT NOT NULL,
        body BYTEA NOT NULL, PRIMARY KEY (name, version));
    INSERT INTO prowess_artifact_names SELECT name, given FROM prowess_scoped_names;
    INSERT INTO prowess_artifacts SELECT name, version, checksum, body FROM prowess_scoped_artifacts;
    DROP TABLE prowess_scoped_names;
    DROP TABLE prowess_scoped_artifacts;
    DROP TRIGGER prowess_forget_owner;
    DROP TABLE prowess_tokens;
    DROP TABLE prowess_usage;
    DROP TABLE prowess_owned_threads;
    DROP TABLE prowess_users;
    DROP TABLE prowess_audit;
    DROP TRIGGER prowess_forget_posts;
    DROP TABLE prowess_queue;
    DROP TABLE prowess_inbox;
    PRAGMA user_version = 1";

#[tokio::test]
async fn artifacts_of_an_older_database_are_in_the_shared_scope() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let blobs = Arc::new(MemoryBlobs::default());
    let name = ArtifactName::parse("a.txt").unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let artifacts = Artifacts::new(blobs.clone(), Arc::new(store.clone()));
    for text in ["one", "two"] {
        artifacts.save(&name, text.into(), "text/plain").await.unwrap();
    }
    drop(artifacts);
    store.close().await.unwrap();
    Connection::open(&path).unwrap().execute_batch(FIRST).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let artifacts = Artifacts::new(blobs, Arc::new(store.clone()));
    assert_eq!(artifacts.scopes().await.unwrap(), [Scope::shared()]);
    assert_eq!(artifacts.load(&name, Some(0)).await.unwrap().bytes, "one");
    assert_eq!(artifacts.save(&name, "three".into(), "text/plain").await.unwrap(), 2);
    let other = ArtifactKey::new(Scope::user(), name);
    assert_eq!(store.latest(&other).await.unwrap(), None);
    store.check().await.unwrap();
}
