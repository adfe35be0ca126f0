//! Artifacts: every store passes the suite.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;
use prowess_workspace::artifact::{DiskBlobs, ObjectBlobs, S3Config};
use prowess_workspace::testing::{artifact_scopes_suite, artifact_store_suite};
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore, Artifacts, BlobStore};

use crate::place::{block_on, tree};

fn name(text: &str) -> ArtifactName {
    ArtifactName::parse(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn memory_passes_the_suite() {
    let artifacts = Artifacts::in_memory();
    artifact_store_suite(|| Arc::new(artifacts.clone())).await;
    artifact_scopes_suite(|| artifacts.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn the_disk_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    artifact_store_suite(|| Arc::new(Artifacts::on_disk(place.path()).unwrap())).await;
    artifact_scopes_suite(|| Artifacts::on_disk(place.path()).unwrap()).await;
    let left = tree(place.path());
    assert!(!left.iter().any(|path| path.contains(".prowess-")), "no temporary file is left: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn an_object_store_passes_the_suite() {
    let store = Arc::new(InMemory::new());
    artifact_store_suite(|| Arc::new(Artifacts::in_object_store(store.clone(), "a/prefix"))).await;
    artifact_scopes_suite(|| Artifacts::in_object_store(store.clone(), "a/prefix")).await;
    let beside = Artifacts::in_object_store(store, "another");
    assert_eq!(beside.list().await.unwrap(), []);
}

/// Set in the child process of a test, with its task.
const CHILD: &str = "PROWESS_TEST_SAVES_AT";

#[test]
fn processes_never_share_a_version() {
    const PROCESSES: usize = 4;
    const EACH: usize = 25;
    let save = |at: &std::path::Path| {
        let artifacts = Artifacts::on_disk(at).unwrap();
        let own = std::process::id().to_string();
        for _ in 0..EACH {
            block_on(artifacts.save(&name("shared"), own.clone().into(), "text/plain")).unwrap();
        }
    };
    if let Some(at) = std::env::var_os(CHILD) {
        return save(at.as_ref());
    }
    let place = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "artifacts::processes_never_share_a_version"])
                .env(CHILD, place.path())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let artifacts = Artifacts::on_disk(place.path()).unwrap();
    let versions = block_on(artifacts.versions(&name("shared"))).unwrap();
    assert_eq!(versions, (0..(PROCESSES * EACH) as u64).collect::<Vec<_>>());
    let mut counts = BTreeMap::new();
    for version in versions {
        let loaded = block_on(artifacts.load(&name("shared"), Some(version))).unwrap();
        *counts.entry(loaded.bytes).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [EACH; PROCESSES]);
}

#[tokio::test]
async fn what_is_damaged_is_not_given_out() {
    let place = tempfile::tempdir().unwrap();
    let artifacts = Artifacts::on_disk(place.path()).unwrap();
    artifacts.save(&name("a"), "whole".into(), "text/plain").await.unwrap();
    let blobs = place.path().join("blobs");
    let blob = tree(&blobs).into_iter().map(|path| blobs.join(path)).find(|path| path.is_file()).unwrap();
    for (content, problem) in
        [(Some("whol"), "have changed"), (Some("evil!"), "have changed"), (None, "missing")]
    {
        match content {
            Some(content) => std::fs::write(&blob, content).unwrap(),
            None => std::fs::remove_file(&blob).unwrap(),
        }
        let refused = artifacts.load(&name("a"), None).await.unwrap_err();
        assert!(matches!(refused, ArtifactError::Damaged { version: 0, .. }), "{refused}");
        assert!(refused.to_string().contains(problem), "{refused}");
    }
}

#[tokio::test]
async fn what_a_crash_left_is_no_version() {
    let place = tempfile::tempdir().unwrap();
    let artifacts = Artifacts::on_disk(place.path()).unwrap();
    artifacts.save(&name("a"), "one".into(), "text/plain").await.unwrap();
    let index = place.path().join("index");
    let directory = std::fs::read_dir(&index).unwrap().next().unwrap().unwrap().path();
    std::fs::write(directory.join(".prowess-1-1"), "{\"na").unwrap();
    std::fs::create_dir(index.join(".prowess-1-2")).unwrap();
    std::fs::create_dir(index.join("0".repeat(64))).unwrap();
    assert_eq!(artifacts.versions(&name("a")).await.unwrap(), [0]);
    assert_eq!(artifacts.list().await.unwrap().len(), 1);
    assert_eq!(artifacts.save(&name("a"), "two".into(), "text/plain").await.unwrap(), 1);
}

#[test]
fn the_debug_output_of_a_store_names_it_and_no_more() {
    let artifacts = Artifacts::in_object_store(Arc::new(InMemory::new()), "prefix");
    assert!(format!("{artifacts:?}").contains("InMemory"));
}

/// A sweep removes old bytes without a record. Bytes of a version stay.
#[tokio::test]
async fn bytes_that_nobody_names_are_swept() {
    let place = tempfile::tempdir().unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let store = Arc::new(InMemory::new());
    let stores: [(Artifacts, Arc<dyn BlobStore>); 2] = [
        (
            Artifacts::on_disk(place.path()).unwrap(),
            Arc::new(DiskBlobs::open(place.path().join("blobs")).unwrap()),
        ),
        (
            Artifacts::in_object_store(store.clone(), "a/prefix"),
            Arc::new(ObjectBlobs::new(store, "a/prefix")),
        ),
    ];
    for (artifacts, blobs) in stores {
        for text in ["one", "two"] {
            artifacts.save(&name("kept"), text.into(), "text/plain").await.unwrap();
        }
        let orphan = blobs.put("orphan".into()).await.unwrap();
        assert_eq!(artifacts.sweep(hour).await.unwrap(), 0, "a save may be under way");
        assert_eq!(blobs.get(&orphan, 6).await.unwrap().unwrap(), "orphan");
        assert_eq!(artifacts.sweep(std::time::Duration::ZERO).await.unwrap(), 1);
        assert!(blobs.get(&orphan, 6).await.unwrap().is_none());
        for (version, text) in [(0, "one"), (1, "two")] {
            assert_eq!(artifacts.load(&name("kept"), Some(version)).await.unwrap().bytes, text);
        }
        assert_eq!(artifacts.sweep(std::time::Duration::ZERO).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_check_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let stores = [
        Artifacts::in_memory(),
        Artifacts::on_disk(place.path()).unwrap(),
        Artifacts::in_object_store(Arc::new(InMemory::new()), "team"),
    ];
    for artifacts in stores {
        artifacts.check().await.unwrap();
        assert_eq!(artifacts.list().await.unwrap(), []);
        assert_eq!(artifacts.sweep(std::time::Duration::ZERO).await.unwrap(), 0);
    }
    // A file in the place of the bytes.
    let artifacts = Artifacts::on_disk(place.path()).unwrap();
    std::fs::remove_dir_all(place.path().join("blobs")).unwrap();
    std::fs::write(place.path().join("blobs"), "").unwrap();
    assert!(matches!(artifacts.check().await, Err(ArtifactError::Store { .. })));
}

/// Tests a compatible server with the bucket `prowess`, the key `test` and the secret `test`.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
#[ignore = "needs a server: `make s3` starts one"]
async fn a_bucket_passes_the_suite() {
    let endpoint = std::env::var("PROWESS_TEST_S3").expect("PROWESS_TEST_S3 names the server: use `make s3`");
    let mut bucket = S3Config::new("prowess");
    bucket.endpoint = Some(endpoint);
    bucket.prefix = format!("/{}", crate::home::unique("suite")).parse().unwrap();
    bucket.access_key_id = Some("test".to_owned());
    bucket.secret_access_key = Some("test".into());
    Artifacts::in_s3(bucket.clone()).unwrap().check().await.unwrap();
    artifact_store_suite(|| Arc::new(Artifacts::in_s3(bucket.clone()).unwrap())).await;
    artifact_scopes_suite(|| Artifacts::in_s3(bucket.clone()).unwrap()).await;
}

#[derive(Clone, Debug)]
enum Step {
    Save(usize, Vec<u8>),
    Load(usize, Option<u32>),
    Delete(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(name, bytes)| Step::Save(name, bytes)),
        3 => (0..3usize, proptest::option::of(0..6u32)).prop_map(|(name, version)| Step::Load(name, version)),
        1 => (0..3usize).prop_map(Step::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Every store behaves like a map of lists, for any sequence of operations.
    #[test]
    fn versions_are_those_of_a_list(steps in proptest::collection::vec(step(), 0..20)) {
        let place = tempfile::tempdir().unwrap();
        let stores = [
            Artifacts::in_memory(),
            Artifacts::on_disk(place.path()).unwrap(),
            Artifacts::in_object_store(Arc::new(InMemory::new()), ""),
        ];
        let names = ["a", "a/b", "b"].map(name);
        for store in stores {
            // The first existing version, and everything saved since.
            let mut model: BTreeMap<usize, (usize, Vec<Vec<u8>>)> = BTreeMap::new();
            for step in &steps {
                match step {
                    Step::Save(at, bytes) => {
                        let kept = model.entry(*at).or_default();
                        let version = block_on(store.save(&names[*at], bytes.clone().into(), "x/y")).unwrap();
                        prop_assert_eq!(version, (kept.0 + kept.1.len()) as u64);
                        kept.1.push(bytes.clone());
                    }
                    Step::Load(at, version) => {
                        let (first, kept) = model.get(at).map_or((0, &[][..]), |(first, kept)| (*first, kept));
                        let expected = match version {
                            Some(version) => {
                                usize::try_from(*version).unwrap().checked_sub(first).and_then(|at| kept.get(at))
                            }
                            None => kept.last(),
                        };
                        let loaded = block_on(store.load(&names[*at], version.map(u64::from))).ok();
                        prop_assert_eq!(loaded.map(|loaded| loaded.bytes.to_vec()), expected.cloned());
                    }
                    Step::Delete(at) => {
                        let deleted = block_on(store.delete(&names[*at])).is_ok();
                        let (first, kept) = model.entry(*at).or_default();
                        prop_assert_eq!(deleted, !kept.is_empty());
                        *first += kept.len();
                        kept.clear();
                    }
                }
            }
            let listed = block_on(store.list()).unwrap();
            let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.version)).collect();
            let there = model.iter().filter(|(_, (_, kept))| !kept.is_empty());
            let expected: Vec<_> = there
                .map(|(at, (first, kept))| (names[*at].as_str(), (first + kept.len()) as u64 - 1))
                .collect();
            prop_assert_eq!(listed, expected);
        }
    }
}
