//! A session over a catalog that changes.

use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::event::{Stale, Staleness};
use prowess_skills::{Guidance, SkillEvent};

use crate::library::{Library, loaded};

#[tokio::test]
async fn new_changed_and_deleted_skills_are_seen_on_the_next_call() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let mut events = session.events();
    library.write("c/SKILL.md", "---\nname: c\ndescription: New.\n---\n");
    library.write("b/SKILL.md", "---\nname: b\ndescription: Changed.\n---\n");
    library.remove("a");
    let refreshed = session.refresh(&library.catalog()).await;
    assert_eq!(refreshed.diff.added, ["c"]);
    assert_eq!(refreshed.diff.removed, ["a"]);
    let overview = session.view().overview().text;
    assert!(
        overview.contains("**c**: New.")
            && overview.contains("**b**: Changed.")
            && !overview.contains("**a**")
    );
    assert!(matches!(events.try_recv().unwrap(), SkillEvent::Refreshed { .. }));
}

#[tokio::test]
async fn a_skill_that_takes_over_a_name_is_reported() {
    let library = Library::of(&["a"]);
    let other = Library::new().skill("a", "", "Mine now.");
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    let roots = [library.path(), other.path()].map(Root::explicit);
    let refreshed = session.refresh(&Catalog::discover(&roots, &ScanOptions::default())).await;
    assert_eq!(refreshed.stale, [Stale { name: "a".into(), why: Staleness::Replaced }]);
    assert!(session.prompt().text.contains("Another skill is called 'a' now."));
    assert_eq!(loaded(&session), ["a"]);
    session.unload("a").unwrap();
    assert!(session.load("a", None).await.unwrap().text.contains("Mine now."));
    assert!(session.view().stale().is_empty());
}

#[tokio::test]
async fn events_tell_every_change_in_order() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let mut events = session.events();
    session.load("a", None).await.unwrap();
    session.load("x", None).await.unwrap_err();
    session.load("b", None).await.unwrap();
    session.unload("a").unwrap();
    let mut replayed = prowess_skills::SkillState::default();
    let mut numbers = Vec::new();
    while let Ok(SkillEvent::Changed { sequence, delta }) = events.try_recv() {
        numbers.push(sequence);
        replayed.replay([&delta]).unwrap();
    }
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(replayed, *session.state());
}

#[tokio::test]
async fn a_loaded_skill_that_changed_is_reported_until_it_is_read_again() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    library.write("a/SKILL.md", "---\nname: a\ndescription: New.\n---\nDo it better.\n");
    library.write("b/SKILL.md", "---\nname: b\ndescription: New.\n---\n");
    let changed = [Stale { name: "a".into(), why: Staleness::Changed }];
    assert_eq!(session.refresh(&library.catalog()).await.stale, changed);
    assert_eq!(session.view().stale(), changed);
    assert!(session.prompt().text.contains("The loaded skill 'a' has changed since it was loaded."));
    session.unload("a").unwrap();
    assert!(session.view().stale().is_empty());
    assert!(session.load("a", None).await.unwrap().text.contains("Do it better."));
    assert!(session.view().stale().is_empty());
}

/// A skill that was away comes back with what it says now.
#[tokio::test]
async fn a_skill_that_comes_back_is_read_again() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    library.remove("a");
    session.refresh(&library.catalog()).await;
    library.write("a/SKILL.md", "---\nname: a\ndescription: Looks after a.\n---\nSomething else.\n");
    session.refresh(&library.catalog()).await;
    assert!(session.put_back([], None).await.text.contains("Something else."));
}

/// What one model call is given belongs together.
#[tokio::test]
async fn one_view_has_all_that_a_model_call_needs() {
    let library = Library::of(&["a", "b"]);
    let session = library.session_in(prowess_skills::Dialect::Trpc).await;
    session.load("a", None).await.unwrap();
    let view = session.model_view().await;
    assert_eq!(view.prompt, session.prompt());
    assert_eq!(view.tools, session.tools());
    assert_eq!(view.loaded, session.loaded_section().await);
}

/// Hosts without tools for skills tell the model to read the files.
#[tokio::test]
async fn a_model_can_be_told_to_read_files() {
    let library = Library::of(&["a"]);
    let session = library
        .session_with(prowess_skills::Dialect::DeepAgents, |options| options.guidance = Guidance::ReadFile)
        .await;
    let prompt = library.told(&session.prompt().text);
    assert!(prompt.contains("  -> Read `/skills/a/SKILL.md` for full instructions"), "{prompt}");
    assert!(!prompt.contains("load_skill"), "{prompt}");
}
