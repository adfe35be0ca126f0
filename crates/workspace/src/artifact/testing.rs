//! The test suite for implementations of [`ArtifactStore`].

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{ArtifactError, ArtifactName, ArtifactStore, Artifacts, MAX_ARTIFACT_NAME, Scope};

/// How many handles save at the same time, and how often each saves.
const HANDLES: usize = 8;
const EACH: usize = 50;

/// Checks that a store keeps its promises, and panics if it does not.
///
/// Each call of `open` returns a new handle to the same store, which is empty at first. Run the suite on a runtime with
/// several threads, so that saves really happen at the same time.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::testing::artifact_store_suite;
/// use prowess_workspace::{ArtifactStore, Artifacts};
///
/// # #[tokio::main]
/// # async fn main() {
/// let artifacts = Artifacts::in_memory();
/// artifact_store_suite(|| Arc::new(artifacts.clone()) as Arc<dyn ArtifactStore>).await;
/// # }
/// ```
///
/// # Panics
///
/// If a promise is broken.
pub async fn artifact_store_suite(open: impl Fn() -> Arc<dyn ArtifactStore>) {
    gives_back_what_was_saved(&open).await;
    tells_names_apart(&open).await;
    forgets_what_was_deleted(&open).await;
    saves_and_deletes_do_not_harm_each_other(&open).await;
    gives_each_save_a_version_of_its_own(&open).await;
}

fn name(text: &str) -> ArtifactName {
    ArtifactName::parse(text).expect("the suite's names are names")
}

fn is_missing<T>(answer: &Result<T, ArtifactError>) -> bool {
    matches!(answer, Err(ArtifactError::NotFound { .. }))
}

async fn gives_back_what_was_saved(open: &impl Fn() -> Arc<dyn ArtifactStore>) {
    let store = open();
    let kept = name("kept/any bytes.bin");
    assert_eq!(store.list().await.expect("listing works"), [], "a store begins empty");
    assert!(is_missing(&store.load(&kept, None).await), "nothing is there");
    assert_eq!(store.versions(&kept).await.expect("it can be asked"), [0; 0]);
    let every: Bytes = (0..=255u8).cycle().take(100_000).collect();
    for (version, bytes) in [Bytes::new(), every.clone(), Bytes::from_static(b"\0")].into_iter().enumerate() {
        let saved = store.save(&kept, bytes, "application/x-any").await.expect("saving works");
        assert_eq!(saved, version as u64, "versions count from 0");
    }
    let again = open();
    let load = async |version| again.load(&kept, version).await.expect("it is there");
    assert_eq!(load(Some(0)).await.bytes, Bytes::new(), "nothing can be saved");
    assert_eq!(load(Some(1)).await.bytes, every, "an older version stays as it was");
    let latest = load(None).await;
    assert_eq!((latest.version, latest.bytes.as_ref()), (2, &b"\0"[..]), "the latest by default");
    assert_eq!(latest.mime_type, "application/x-any");
    assert!(is_missing(&again.load(&kept, Some(3)).await), "no version is made up");
    assert_eq!(again.versions(&kept).await.expect("it can be asked"), [0, 1, 2]);
    let listed = again.list().await.expect("listing works");
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.version, one.size)).collect();
    assert_eq!(listed, [("kept/any bytes.bin", 2, 1)], "each name once, with its latest version");
}

async fn tells_names_apart(open: &impl Fn() -> Arc<dyn ArtifactStore>) {
    let store = open();
    let longest = "é".repeat(MAX_ARTIFACT_NAME / 2);
    let names = ["a", "A", "a/b", "a.json", "a%2Fb", "a b", "a@0", "b:c", "..a", longest.as_str()];
    for text in names {
        let version = store.save(&name(text), Bytes::from(text.to_owned()), "text/plain").await;
        assert_eq!(version.expect("saving works"), 0, "{text} is a name of its own");
    }
    for text in names {
        let loaded = store.load(&name(text), None).await.expect("it is there");
        assert_eq!(loaded.bytes, text.as_bytes(), "{text}");
    }
    let listed = store.list().await.expect("listing works");
    let listed: Vec<&str> = listed.iter().map(|one| one.name.as_str()).collect();
    assert!(names.iter().all(|name| listed.contains(name)), "{listed:?}");
    assert!(listed.is_sorted(), "names are in order");
}

async fn forgets_what_was_deleted(open: &impl Fn() -> Arc<dyn ArtifactStore>) {
    let (store, gone, stays) = (open(), name("gone"), name("gone/stays"));
    assert!(is_missing(&store.delete(&gone).await), "what is not there cannot be deleted");
    for _ in 0..3 {
        store.save(&gone, "text".into(), "text/plain").await.expect("saving works");
        store.save(&stays, "text".into(), "text/plain").await.expect("saving works");
    }
    store.delete(&gone).await.expect("deleting works");
    let again = open();
    assert!(is_missing(&again.load(&gone, None).await) && is_missing(&again.load(&gone, Some(0)).await));
    assert_eq!(again.versions(&gone).await.expect("it can be asked"), [0; 0]);
    assert!(again.list().await.expect("listing works").iter().all(|one| one.name != "gone"));
    assert_eq!(again.versions(&stays).await.expect("it can be asked"), [0, 1, 2]);
    for version in [3, 4] {
        let saved = again.save(&gone, "new".into(), "text/plain").await.expect("saving works");
        assert_eq!(saved, version, "a version is never given again");
    }
    assert!(is_missing(&open().load(&gone, Some(2)).await), "what was deleted stays deleted");
    assert_eq!(again.load(&gone, None).await.expect("it is there").bytes, "new");
    again.delete(&gone).await.expect("deleting works");
    assert!(is_missing(&again.delete(&gone).await), "there is nothing any more");
    assert_eq!(open().save(&gone, "new".into(), "text/plain").await.expect("saving works"), 5);
    again.delete(&gone).await.expect("deleting works");
}

async fn saves_and_deletes_do_not_harm_each_other(open: &impl Fn() -> Arc<dyn ArtifactStore>) {
    let saving: Vec<_> = (0..HANDLES)
        .map(|handle| {
            let (store, shared) = (open(), name("restless"));
            tokio::spawn(async move {
                for _ in 0..EACH / 5 {
                    if handle == 0 {
                        let deleted = store.delete(&shared).await;
                        assert!(deleted.is_ok() || is_missing(&deleted), "{deleted:?}");
                    } else {
                        store.save(&shared, "text".into(), "text/plain").await.expect("saving works");
                        let loaded = store.load(&shared, None).await;
                        assert!(loaded.is_ok() || is_missing(&loaded), "{loaded:?}");
                    }
                }
            })
        })
        .collect();
    for saved in saving {
        saved.await.expect("no handle fails");
    }
}

async fn gives_each_save_a_version_of_its_own(open: &impl Fn() -> Arc<dyn ArtifactStore>) {
    let shared = name("shared");
    let saving: Vec<_> = (0..HANDLES)
        .map(|handle| {
            let (store, shared) = (open(), shared.clone());
            tokio::spawn(async move {
                let mut given = Vec::new();
                for number in 0..EACH {
                    let text = format!("{handle}/{number}");
                    let bytes = Bytes::from(text.clone());
                    given.push((store.save(&shared, bytes, "text/plain").await.expect("saving works"), text));
                }
                assert!(given.is_sorted_by_key(|(version, _)| *version), "one's own are in order");
                given
            })
        })
        .collect();
    let mut given = BTreeMap::new();
    for saved in saving {
        for (version, text) in saved.await.expect("no handle fails") {
            assert!(given.insert(version, text).is_none(), "version {version} was given twice");
        }
    }
    let all: Vec<u64> = (0..(HANDLES * EACH) as u64).collect();
    assert!(given.keys().eq(&all), "every version is given, from 0 on");
    let store = open();
    assert_eq!(store.versions(&shared).await.expect("it can be asked"), all);
    for (version, text) in given {
        let loaded = store.load(&shared, Some(version)).await.expect("it is there");
        assert_eq!((loaded.version, loaded.bytes.as_ref()), (version, text.as_bytes()), "content intact");
    }
}

/// Checks that scopes are separate, and panics if they are not.
///
/// Each call of `open` returns a new handle to the same store. The shared scope may already have artifacts.
///
/// ```
/// use prowess_workspace::testing::artifact_scopes_suite;
/// use prowess_workspace::Artifacts;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let artifacts = Artifacts::in_memory();
/// artifact_scopes_suite(|| artifacts.clone()).await;
/// # }
/// ```
///
/// # Panics
///
/// If a promise is broken.
pub async fn artifact_scopes_suite(open: impl Fn() -> Artifacts) {
    let scope = |text: &str| text.parse::<Scope>().expect("the suite's scopes are scopes");
    let (one, other) = (scope("thread:one"), scope("session:one"));
    let within = |scope: &Scope| open().in_scope(scope.clone());
    let (report, longest) = (name("apart/r.txt"), "é".repeat(MAX_ARTIFACT_NAME / 2));
    let load = async |scope: &Scope, version| within(scope).load(&report, version).await;
    for (number, each) in [&one, &other, &Scope::user(), &scope("project:/a b")].into_iter().enumerate() {
        assert!(is_missing(&load(each, None).await), "{each} has nothing of others");
        assert_eq!(within(each).list().await.expect("listing works"), [], "{each} lists nothing of others");
        let text = Bytes::from(format!("of {each}"));
        for version in 0..2 {
            let saved = within(each).save(&report, text.clone(), "text/plain").await;
            assert_eq!(saved.expect("saving works"), version, "{each} counts for itself");
        }
        assert_eq!(load(each, Some(1)).await.expect("it is there").bytes, text);
        assert_eq!(within(each).save(&name(&longest), text, "text/plain").await.expect("saving works"), 0);
        assert_eq!(within(each).list().await.expect("listing works").len(), 2);
        let scopes = open().scopes().await.expect("scopes can be listed");
        assert!(scopes.contains(each) && scopes.is_sorted() && scopes.len() > number, "{scopes:?}");
    }
    assert!(is_missing(&open().load(&report, None).await), "the shared scope has nothing of others");
    // A copy has the same numbers, even after a gap, and is independent.
    within(&one).delete(&report).await.expect("deleting works");
    assert_eq!(load(&other, None).await.expect("it is there").bytes, "of session:one");
    assert_eq!(within(&one).save(&report, "kept".into(), "text/plain").await.expect("saving works"), 2);
    let copy = scope("thread:copy");
    assert_eq!(within(&one).copy_all(&copy).await.expect("copying works"), 2);
    assert_eq!(within(&one).copy_all(&copy).await.expect("copying works"), 0, "once is enough");
    within(&one).delete(&report).await.expect("deleting works");
    assert_eq!(load(&copy, Some(2)).await.expect("it has bytes of its own").bytes, "kept");
    assert_eq!(within(&copy).save(&report, "new".into(), "text/plain").await.expect("saving works"), 3);
    assert!(is_missing(&load(&one, None).await));
    assert!(
        !within(&other).copy(&report, 0, &copy).await.expect("it can be asked"),
        "no number is given twice"
    );
    assert!(!within(&other).copy(&report, 9, &copy).await.expect("it can be asked"), "nothing is there");
    assert!(
        within(&other).copy(&report, 1, &one).await.is_ok_and(|copied| !copied),
        "deleted numbers stay given"
    );
    open().sweep(std::time::Duration::ZERO).await.expect("sweeping works");
    assert_eq!(load(&other, Some(0)).await.expect("what is named stays").bytes, "of session:one");
}
