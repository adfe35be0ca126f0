//! Artifacts: every store passes the suite.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;
use prowess_workspace::testing::artifact_store_suite;
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore, Artifacts};

use crate::place::{block_on, tree};

fn name(text: &str) -> ArtifactName {
    ArtifactName::parse(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn memory_passes_the_suite() {
    let artifacts = Artifacts::in_memory();
    artifact_store_suite(|| Arc::new(artifacts.clone())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn the_disk_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    artifact_store_suite(|| Arc::new(Artifacts::on_disk(place.path()).unwrap())).await;
    let left = tree(place.path());
    assert!(!left.iter().any(|path| path.contains(".prowess-")), "no temporary file is left: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn an_object_store_passes_the_suite() {
    let store = Arc::new(InMemory::new());
    artifact_store_suite(|| Arc::new(Artifacts::in_object_store(store.clone(), "a/prefix"))).await;
    let beside = Artifacts::in_object_store(store, "another");
    assert_eq!(beside.list().await.unwrap(), []);
}

/// Where a test finds itself in a process of its own, and what it is to do there.
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
    for (content, problem) in [(Some("whol"), "not those"), (Some("evil!"), "not those"), (None, "missing")] {
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

    /// Whatever is done in whatever order, every store does what a map of lists does.
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
            let mut model: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
            for step in &steps {
                match step {
                    Step::Save(at, bytes) => {
                        let kept = model.entry(*at).or_default();
                        let version = block_on(store.save(&names[*at], bytes.clone().into(), "x/y")).unwrap();
                        prop_assert_eq!(version, kept.len() as u64);
                        kept.push(bytes.clone());
                    }
                    Step::Load(at, version) => {
                        let kept = model.get(at).map_or(&[][..], Vec::as_slice);
                        let expected = match version {
                            Some(version) => kept.get(usize::try_from(*version).unwrap()),
                            None => kept.last(),
                        };
                        let loaded = block_on(store.load(&names[*at], version.map(u64::from))).ok();
                        prop_assert_eq!(loaded.map(|loaded| loaded.bytes.to_vec()), expected.cloned());
                    }
                    Step::Delete(at) => {
                        let deleted = block_on(store.delete(&names[*at])).is_ok();
                        prop_assert_eq!(deleted, model.remove(at).is_some());
                    }
                }
            }
            let listed = block_on(store.list()).unwrap();
            let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.version)).collect();
            let expected: Vec<_> =
                model.iter().map(|(at, kept)| (names[*at].as_str(), kept.len() as u64 - 1)).collect();
            prop_assert_eq!(listed, expected);
        }
    }
}
