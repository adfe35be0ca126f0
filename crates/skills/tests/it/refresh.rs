//! A session over a catalog that changes.

use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::{SkillEvent, Stale, Staleness};

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
    let overview = session.overview().text;
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
    assert!(session.stale().is_empty());
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
    assert_eq!(replayed, session.state());
}
