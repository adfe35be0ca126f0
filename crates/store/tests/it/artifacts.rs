//! Tests of the index of artifacts.

use std::path::Path;
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
const FIRST: &str = include_str!("../../src/migrations/1.sql");

/// Makes a database of the first version from a newer one. Only its artifacts stay.
fn downgrade(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let kept = "PRAGMA foreign_keys = OFF;
        CREATE TEMP TABLE names AS SELECT name, given FROM prowess_scoped_names;
        CREATE TEMP TABLE versions AS SELECT name, version, checksum, body FROM prowess_scoped_artifacts";
    connection.execute_batch(kept).unwrap();
    let made = "SELECT format('DROP %s IF EXISTS %s', type, name) FROM main.sqlite_master
        WHERE name LIKE 'prowess_%' AND type IN ('table', 'trigger')";
    let drops: Result<Vec<String>, _> =
        connection.prepare(made).unwrap().query_map([], |row| row.get(0)).unwrap().collect();
    for drop in drops.unwrap() {
        connection.execute_batch(&drop).unwrap();
    }
    connection.execute_batch(&FIRST.replace("-- sqlite:", "")).unwrap();
    let put_back = "INSERT INTO prowess_artifact_names SELECT * FROM names;
        INSERT INTO prowess_artifacts SELECT * FROM versions;
        PRAGMA user_version = 1";
    connection.execute_batch(put_back).unwrap();
}

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
    downgrade(&path);
    let store = SqliteStore::open(&path).await.unwrap();
    let artifacts = Artifacts::new(blobs, Arc::new(store.clone()));
    assert_eq!(artifacts.scopes().await.unwrap(), [Scope::shared()]);
    assert_eq!(artifacts.load(&name, Some(0)).await.unwrap().bytes, "one");
    assert_eq!(artifacts.save(&name, "three".into(), "text/plain").await.unwrap(), 2);
    let other = ArtifactKey::new(Scope::user(), name);
    assert_eq!(store.latest(&other).await.unwrap(), None);
    store.check().await.unwrap();
}
