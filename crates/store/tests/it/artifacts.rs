//! The index of artifacts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prowess_store::{PostgresStore, SqliteStore};
use prowess_workspace::testing::artifact_store_suite;
use prowess_workspace::{ArtifactError, ArtifactIndex, ArtifactName, ArtifactStore, Artifacts, MemoryBlobs};
use rusqlite::Connection;

use crate::support::postgres_url;

async fn suite(stores: Vec<Arc<dyn ArtifactIndex>>) {
    let next = AtomicUsize::new(0);
    let blobs = Arc::new(MemoryBlobs::default());
    let open = || {
        let index = Arc::clone(&stores[next.fetch_add(1, Ordering::Relaxed) % stores.len()]);
        Arc::new(Artifacts::new(blobs.clone(), index)) as Arc<dyn ArtifactStore>
    };
    artifact_store_suite(open).await;
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
    let changed = "UPDATE prowess_artifacts SET body = CAST(replace(body, 'plain', 'p1ain') AS BLOB)";
    Connection::open(&path).unwrap().execute(changed, []).unwrap();
    let refused = artifacts.load(&name, None).await;
    assert!(matches!(refused, Err(ArtifactError::Damaged { version: 0, .. })), "{refused:?}");
}
