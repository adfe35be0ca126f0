//! Saving and restoring a session.

use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::saved::STATE_VERSION;
use prowess_skills::secret::Secret;
use prowess_skills::{Dialect, SavedState, SkillDelta, SkillState};
use serde_json::{Value, json};

use crate::library::{Library, loaded, sorted};

fn restored(value: &Value) -> Result<SavedState, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_document_is_what_it_always_was() {
    let library = Library::new().web_research();
    let session = library.session_in(Dialect::Trpc).await;
    session.load("web-research", None).await.unwrap();
    session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let mut value = serde_json::to_value(session.save()).unwrap();
    assert_eq!(value["version"], STATE_VERSION);
    // How long the directory's name is does not matter here.
    value["skill_details"]["web-research"]["tokens"] = json!("#");
    value["skill_docs"]["web-research"]["documents"][0]["tokens"] = json!("#");
    insta::assert_snapshot!(library.told(&serde_json::to_string_pretty(&sorted(&value)).unwrap()));
}

#[tokio::test]
async fn a_session_goes_on_where_it_was_saved() {
    let library = Library::new().web_research().skill("b", "", "B.");
    let session = library.session().await;
    session.load("b", None).await.unwrap();
    session.load("web-research", None).await.unwrap();
    session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let text = serde_json::to_string(&session.save()).unwrap();
    let saved: SavedState = serde_json::from_str(&text).unwrap();
    let restored = library.builder().saved_state(saved).build().await;
    assert_eq!(restored.state(), session.state());
    assert_eq!(restored.prompt(), session.prompt());
    assert_eq!(loaded(&restored), ["b", "web-research"]);
    restored.unload("b").unwrap();
}

/// Without a secret of its own a restored session goes on with the one that was saved.
#[tokio::test]
async fn frames_stay_the_same_across_a_restart() {
    let library = Library::of(&["a"]);
    let session = prowess_skills::SkillSession::builder(library.catalog()).build().await;
    let text = session.load("a", None).await.unwrap().text;
    let other = prowess_skills::SkillSession::builder(library.catalog()).build().await;
    assert_ne!(other.load("a", None).await.unwrap().text, text, "every session has its own secret");
    let restored =
        prowess_skills::SkillSession::builder(library.catalog()).saved_state(session.save()).build().await;
    assert!(restored.put_back([text.as_str()], None).await.text.is_empty());
}

#[tokio::test]
async fn what_another_implementation_saved_is_understood() {
    let library = Library::of(&["a", "b"]);
    let path = library.join("a/SKILL.md");
    let saved = restored(&json!({
        "skills_metadata": [{"name": "a", "description": "A.", "path": path, "allowed_tools": ["Bash"]}],
        "skills_loaded": ["a", "a", "not\na name"],
        "skill_resources": {"a": [], "zzz": [{"path": "/x", "type": "script", "skill_name": "zzz"}]},
        "skill_docs": {"zzz": {"all": true, "documents": []}},
        "more": "than we know",
    }))
    .unwrap();
    let session = library.builder().saved_state(saved).build().await;
    assert_eq!(loaded(&session), ["a"]);
    assert!(session.state().all_selections().is_empty());
    assert!(session.state().all_resources().keys().all(|name| name == "a"));
    assert!(session.put_back([], None).await.text.contains("Do it."));
}

/// The first version of other implementations only knew which skills there are.
#[tokio::test]
async fn a_state_with_only_metadata_has_nothing_loaded() {
    let library = Library::of(&["a", "b"]);
    let saved = restored(&json!({
        "messages": [],
        "skills_metadata": [{"name": "a", "description": "A.", "path": library.join("a/SKILL.md"), "license": null,
            "compatibility": null, "metadata": {"version": "1"}, "allowed_tools": ["Bash"]}],
    }))
    .unwrap();
    assert_eq!(saved.known()[0].name, "a");
    let session = library.builder().saved_state(saved).build().await;
    assert!(loaded(&session).is_empty());
    assert!(session.load("a", None).await.unwrap().text.contains("Do it."));
    assert_eq!(loaded(&session), ["a"]);
    assert!(restored(&json!({"skills_metadata": []})).is_ok());
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let newer = restored(&json!({"version": STATE_VERSION + 1, "skills_loaded": []})).unwrap_err();
    assert_eq!(
        newer,
        "the saved state has version 2, but this prowess reads up to version 1; update prowess"
    );
    let damaged = restored(&json!({"skills_loaded": [], "frame_secret": "zz"})).unwrap_err();
    assert!(damaged.contains("the saved state is damaged"), "{damaged}");
    for other in [json!({}), json!([]), json!({"name": "a-package", "version": 1}), json!({"version": "one"})]
    {
        assert!(restored(&other).is_err(), "{other}");
    }
}

/// Two sessions share only the catalog.
#[tokio::test]
async fn sessions_share_nothing_but_the_catalog() {
    let library = Library::of(&["a"]);
    let (parent, child) = (library.session().await, library.session().await);
    parent.load("a", None).await.unwrap();
    assert!(loaded(&child).is_empty());
    child.load("a", None).await.unwrap();
    child.unload("a").unwrap();
    assert_eq!(loaded(&parent), ["a"]);
}

/// A program that stores the deltas restores the same session.
#[tokio::test]
async fn a_log_of_changes_is_enough_to_go_on() {
    let library = Library::new().web_research().skill("b", "", "B.");
    let session = library.session().await;
    let mut log = Vec::new();
    log.extend(session.load("web-research", None).await.unwrap().deltas);
    log.extend(
        session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap().deltas,
    );
    log.extend(session.load("b", None).await.unwrap().deltas);
    log.extend(session.unload("b").unwrap().deltas);
    let text = serde_json::to_string(&log).unwrap();
    let log: Vec<SkillDelta> = serde_json::from_str(&text).unwrap();

    let mut state = SkillState::default();
    state.replay(&log).unwrap();
    let secret = Secret::from_bytes([7; 16]);
    let restored = prowess_skills::SkillSession::builder(library.catalog())
        .saved_state(SavedState::new(state, secret))
        .build()
        .await;
    assert_eq!(restored.state(), session.state());
    assert_eq!(restored.put_back([], None).await, session.put_back([], None).await);
}
