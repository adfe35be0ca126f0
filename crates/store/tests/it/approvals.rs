//! Tests of stored approvals.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prowess_permission::approval::StoreError;
use prowess_permission::testing::approval_store_suite;
use prowess_permission::{Approval, ApprovalStore, Kind, Pattern};
use prowess_store::{PostgresStore, SqliteStore};
use rusqlite::Connection;

use crate::support::postgres_url;

async fn suite(stores: Vec<Arc<dyn ApprovalStore>>) {
    let next = AtomicUsize::new(0);
    let open = || Arc::clone(&stores[next.fetch_add(1, Ordering::Relaxed) % stores.len()]);
    approval_store_suite(open).await;
}

fn approval(pattern: &str) -> Approval {
    let pattern = Pattern::literal(pattern);
    Approval { project: "p".to_owned(), kind: Kind::RUN, pattern, binding: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    let mut stores: Vec<Arc<dyn ApprovalStore>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(SqliteStore::open(place.path().join("a.db")).await.unwrap()));
    }
    suite(stores).await;
    suite(vec![Arc::new(SqliteStore::in_memory().unwrap())]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes_the_suite() {
    let url = postgres_url().await;
    let mut stores: Vec<Arc<dyn ApprovalStore>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(PostgresStore::connect(&url).await.unwrap()));
    }
    suite(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_ones_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let long = Approval { project: "p/".repeat(3000), ..approval(&"x".repeat(50_000)) };
    let sqlite = SqliteStore::open(place.path().join("a.db")).await.unwrap();
    let postgres = PostgresStore::connect(&postgres_url().await).await.unwrap();
    for store in [&sqlite as &dyn ApprovalStore, &postgres] {
        store.add(std::slice::from_ref(&long)).await.unwrap();
        assert_eq!(store.load(&long.project).await.unwrap(), std::slice::from_ref(&long));
    }
}

#[tokio::test]
async fn a_changed_one_allows_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    store.add(&[approval("make"), approval("git status")]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    let changed = "UPDATE prowess_approvals SET body = CAST(replace(body, 'make', 'rm x') AS BLOB)";
    other.execute(changed, []).unwrap();
    let refused = store.load("p").await.unwrap_err().to_string();
    assert!(refused.contains("the digest of an approval is wrong"), "{refused}");
}

#[tokio::test]
async fn a_file_that_others_may_write_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let store = SqliteStore::open(&path).await.unwrap();
    store.add(&[approval("make")]).await.unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = store.load("p").await;
    assert!(matches!(refused, Err(StoreError::WritableByOthers { mode: 0o666, .. })), "{refused:?}");
}
