//! Documents of a skill: listing and choosing.

use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::{Budgets, Dialect, SkillError};
use serde_json::json;

use crate::library::{Library, prepared};

fn library() -> Library {
    Library::new()
        .web_research()
        .file("web-research/USAGE.md", "Use it well.\n")
        .file("web-research/notes.txt", "Note.\n")
}

fn named(paths: &[&str]) -> DocumentChoice {
    DocumentChoice::Named(paths.iter().map(|&path| path.to_owned()).collect())
}

fn chosen(session: &prowess_skills::SkillSession) -> Vec<String> {
    let state = session.state();
    let selection = state.selection("web-research");
    selection
        .map(|found| found.documents.iter().map(|document| document.path.clone()).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn documents_are_listed_by_their_paths() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    let answer = session.list_documents("web-research").await.unwrap();
    assert_eq!(answer.text, r#"["USAGE.md","notes.txt","references/sources.md"]"#);
    assert!(matches!(session.list_documents("x").await, Err(SkillError::NotFound { .. })));
}

#[tokio::test]
async fn choices_add_replace_and_clear() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    session.load("web-research", None).await.unwrap();
    let select = async |mode, choice| session.select_documents("web-research", mode, choice).await.unwrap();
    select(SelectMode::Add, named(&["notes.txt"])).await;
    select(SelectMode::Add, named(&["USAGE.md", "notes.txt", "USAGE.md"])).await;
    assert_eq!(chosen(&session), ["notes.txt", "USAGE.md"]);
    assert_eq!(session.state().keys()["temp:skill:docs:web-research"], r#"["notes.txt","USAGE.md"]"#);
    select(SelectMode::Replace, named(&["references/sources.md"])).await;
    assert_eq!(chosen(&session), ["references/sources.md"]);
    select(SelectMode::Add, DocumentChoice::All).await;
    assert_eq!(chosen(&session).len(), 3);
    assert_eq!(session.state().keys()["temp:skill:docs:web-research"], "*");
    select(SelectMode::Clear, DocumentChoice::All).await;
    assert_eq!(chosen(&session), Vec::<String>::new());
    assert_eq!(session.state().keys().keys().collect::<Vec<_>>(), ["temp:skill:loaded:web-research"]);
}

#[tokio::test]
async fn documents_stand_beside_the_instructions() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    let docs = json!({"skill": "web-research", "docs": ["USAGE.md"]});
    assert!(!session.call("skill_load", docs).await.is_error);
    let section = session.loaded_section().await;
    assert!(section.text.contains("Search, then read."));
    assert!(section.text.contains("document=\"USAGE.md\"") && section.text.contains("Use it well."));
    assert_eq!(section.skills, ["web-research"]);
}

/// In this dialect a skill is loaded again to get other documents.
#[tokio::test]
async fn loading_again_changes_the_documents_in_trpc() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    let load = async |arguments| session.call("skill_load", arguments).await;
    load(json!({"skill": "web-research", "docs": ["USAGE.md"]})).await;
    load(json!({"skill": "web-research", "docs": ["notes.txt"]})).await;
    assert_eq!(chosen(&session), ["notes.txt"]);
    let reply = load(json!({"skill": "web-research"})).await;
    assert_eq!(reply.text, "Skill 'web-research' is already loaded. Its instructions are already active.");
    assert_eq!(chosen(&session), ["notes.txt"]);
    let reply = load(json!({"skill": "web-research", "include_all_docs": true})).await;
    assert_eq!(reply.deltas.len(), 1);
    assert_eq!(chosen(&session).len(), 3);
}

#[tokio::test]
async fn a_load_with_a_document_that_is_not_there_changes_nothing() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    let reply = session.call("skill_load", json!({"skill": "web-research", "docs": ["nope.md"]})).await;
    assert!(reply.is_error && reply.deltas.is_empty());
    assert_eq!(
        reply.text,
        "Error: Skill 'web-research' has no document 'nope.md'. \
         Its documents: USAGE.md, notes.txt, references/sources.md."
    );
    assert!(session.state().loaded().is_empty());
}

#[tokio::test]
async fn only_a_loaded_skill_has_documents_in_context() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    let choose =
        async |name| session.select_documents(name, SelectMode::Add, DocumentChoice::All).await.unwrap_err();
    assert!(matches!(choose("web-research").await, SkillError::NotLoaded { .. }));
    assert!(matches!(choose("x").await, SkillError::NotFound { .. }));
    session.load("web-research", None).await.unwrap();
    session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap();
    session.unload("web-research").unwrap();
    assert!(session.state().all_selections().is_empty());
}

#[tokio::test]
async fn documents_count_against_the_budget() {
    let library = library().file("web-research/long.md", "word ".repeat(4000));
    let session =
        library.session_with(Dialect::Trpc, |options| options.budgets = Budgets::new(10, Some(1000))).await;
    session.load("web-research", None).await.unwrap();
    let choose = async |path| session.select_documents("web-research", SelectMode::Add, named(&[path])).await;
    choose("notes.txt").await.unwrap();
    let before = session.state();
    assert!(matches!(choose("long.md").await.unwrap_err(), SkillError::OverBudget { .. }));
    assert_eq!(session.state(), before);
    choose("USAGE.md").await.unwrap();
}

/// In a dialect whose answers carry the text, chosen documents come with the answer.
#[tokio::test]
async fn documents_come_with_the_answer_where_that_is_their_place() {
    let library = library();
    let session = library.session().await;
    let prepared = prepared(&session, session.view().load("web-research", None, Some(named(&["USAGE.md"]))))
        .await
        .unwrap();
    let answer = session.hold(|state| prepared.finish(state)).unwrap();
    assert!(answer.text.contains("Use it well."));
    assert_eq!(answer.deltas.len(), 2);
    let answer =
        session.select_documents("web-research", SelectMode::Add, named(&["notes.txt"])).await.unwrap();
    assert!(answer.text.contains("Note.\n") && !answer.text.contains("Use it well."));
}
