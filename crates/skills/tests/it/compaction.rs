//! Put-back: no loaded skill is lost when messages are summarised.

use prowess_skills::delta::{SelectMode, UnloadReason};
use prowess_skills::documents::DocumentChoice;
use prowess_skills::options::UnloadedText;
use prowess_skills::{Dialect, Lifetime, SkillDelta, SkillView};

use crate::library::{Library, loaded};

#[tokio::test]
async fn what_is_in_the_kept_messages_is_not_repeated() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let a = session.load("a", None).await.unwrap().text;
    let b = session.load("b", None).await.unwrap().text;
    let both = session.put_back([a.as_str(), b.as_str()], None).await;
    assert!(both.text.is_empty() && both.deltas.is_empty());
    let only_b = session.put_back([a.as_str(), "and a summary"], None).await;
    assert_eq!(only_b.skills, ["b"]);
    assert!(only_b.text.contains(&b) && !only_b.text.contains(&a));
    assert_eq!(session.put_back([], None).await.skills, ["a", "b"], "in the order of loading");
    assert_eq!(loaded(&session), ["a", "b"]);
}

/// A message that was cut short does not count as the skill's text.
#[tokio::test]
async fn text_that_was_cut_or_changed_is_put_back() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    let a = session.load("a", None).await.unwrap().text;
    let put_back = async |kept: &str| session.put_back([kept], None).await.skills;
    assert_eq!(put_back(&a[..a.len() - 1]).await, ["a"]);
    assert_eq!(put_back(&a.replace("Do it.", "Undo it.")).await, ["a"]);
    assert!(put_back(&format!("Earlier:\n{a}\nLater.")).await.is_empty());
}

#[tokio::test]
async fn a_budget_that_forces_one_out_says_which() {
    let library =
        Library::of(&["b"]).skill("a", "", &"word ".repeat(500)).skill("c", "", &"word ".repeat(100));
    let session = library.session().await;
    for name in ["a", "b", "c"] {
        session.load(name, None).await.unwrap();
    }
    let section = session.put_back([], Some(400)).await;
    assert_eq!(section.skills, ["b", "c"], "the first that was loaded is the first to go");
    assert_eq!(section.dropped, ["a"]);
    let last = section.text.lines().last().unwrap();
    assert!(
        last.starts_with("Skill 'a' was unloaded: its ")
            && last.contains(" tokens no longer fit. All loaded skills together may take 400 tokens here."),
        "{last}"
    );
    assert!(last.ends_with("Use `load_skill(\"a\")` if you need it again."), "{last}");
    let unloaded = SkillDelta::Unloaded { name: "a".into(), reason: UnloadReason::Budget };
    assert_eq!(section.deltas, [unloaded]);
    assert_eq!(loaded(&session), ["b", "c"]);
    session.load("a", None).await.unwrap();
}

#[tokio::test]
async fn documents_are_put_back_with_their_skill() {
    let library = Library::new().web_research();
    let session = library.session().await;
    let loaded = session.load("web-research", None).await.unwrap().text;
    let documents =
        session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap().text;
    assert!(session.put_back([&*loaded, &*documents], None).await.text.is_empty());
    let section = session.put_back([loaded.as_str()], None).await;
    assert!(section.text.contains("Use two.") && !section.text.contains("Search, then read."));
}

/// After a restart the text is read again.
#[tokio::test]
async fn a_restored_session_puts_everything_back() {
    let library = Library::new().web_research().skill("b", "", "Note $ARGUMENTS.");
    let session = library.session().await;
    session.load("web-research", None).await.unwrap();
    session.load("b", Some("tides")).await.unwrap();
    session.select_documents("web-research", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let before = session.put_back([], None).await;
    let restored = library.builder().saved_state(session.save()).build().await;
    let after = restored.put_back([], None).await;
    assert_eq!(after, before);
    assert!(after.text.contains("Note tides."));
    assert!(after.deltas.is_empty());
}

#[tokio::test]
async fn a_skill_that_is_gone_after_a_restart_is_named() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    session.load("b", None).await.unwrap();
    let saved = session.save();
    library.remove("a");
    let restored = library.builder().saved_state(saved).build().await;
    assert_eq!(restored.view().stale().len(), 1);
    let section = restored.put_back([], None).await;
    assert_eq!((section.skills, section.dropped), (vec!["b".to_owned()], vec!["a".to_owned()]));
    assert!(section.text.contains("Skill 'a' was unloaded: it is no longer available."));
    assert!(restored.view().stale().is_empty());
}

/// A deleted manifest does not unload the skill while the session lives.
#[tokio::test]
async fn a_skill_that_is_deleted_while_it_is_loaded_stays() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    library.remove("a");
    session.refresh(&library.catalog()).await;
    assert_eq!(session.view().stale().len(), 1);
    assert!(session.prompt().text.contains("The loaded skill 'a' is no longer available."));
    assert!(session.put_back([], None).await.text.contains("Do it."));
    session.unload("a").unwrap();
    assert!(session.view().stale().is_empty());
}

#[tokio::test]
async fn a_changed_document_is_put_back_as_it_is_now() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    let before = session.load("a", None).await.unwrap().text;
    library.write("a/SKILL.md", "---\nname: a\ndescription: Looks after a.\n---\nDo it better.\n");
    session.refresh(&library.catalog()).await;
    let section = session.put_back([before.as_str()], None).await;
    assert!(section.text.contains("Do it better."), "{}", section.text);
    assert!(matches!(&section.deltas[..], [SkillDelta::Reloaded { .. }]));
    assert!(session.put_back([section.text.as_str()], None).await.text.is_empty());
}

#[tokio::test]
async fn unloaded_text_leaves_a_stub_when_told() {
    let library = Library::of(&["a", "b"]);
    let keeps = library.session().await;
    let text = keeps.load("a", None).await.unwrap().text;
    keeps.unload("a").unwrap();
    assert_eq!(keeps.view().without_unloaded(&text), None);

    let session =
        library.session_with(Dialect::DeepAgents, |options| options.unloaded_text = UnloadedText::Stub).await;
    let a = session.load("a", None).await.unwrap().text;
    let b = session.load("b", None).await.unwrap().text;
    let history = format!("before\n{a}\nbetween\n{b}\nafter");
    assert_eq!(session.view().without_unloaded(&history), None);
    session.unload("a").unwrap();
    assert_eq!(
        session.view().without_unloaded(&history).unwrap(),
        format!("before\n[Text of skill 'a' was removed: it was unloaded or replaced.]\nbetween\n{b}\nafter")
    );
}

#[tokio::test]
async fn lifetimes_end() {
    let library = Library::of(&["a"]);
    for (lifetime, calls, turns) in
        [(Lifetime::Once, 0, 0), (Lifetime::Turn, 1, 0), (Lifetime::Session, 1, 1)]
    {
        let session = library.session_with(Dialect::DeepAgents, |options| options.lifetime = lifetime).await;
        session.load("a", None).await.unwrap();
        session.change(SkillView::after_model_call);
        assert_eq!(loaded(&session).len(), calls, "{lifetime:?}");
        session.change(SkillView::end_turn);
        assert_eq!(loaded(&session).len(), turns, "{lifetime:?}");
    }
}

/// The system message has the text in every call, even after a summary.
#[tokio::test]
async fn the_system_message_needs_no_putting_back() {
    let library = Library::of(&["a"]);
    let session = library.session_in(Dialect::Trpc).await;
    session.load("a", None).await.unwrap();
    let section = session.loaded_section().await;
    assert!(section.text.starts_with("## Loaded Skills\n\n<skill name=\"a\""));
    assert_eq!(session.loaded_section().await, section);
    assert!(session.put_back([], None).await.text.is_empty());
    session.change(SkillView::end_turn);
    assert!(session.loaded_section().await.text.is_empty());
}

/// Two skills with the same text are both put back.
#[tokio::test]
async fn skills_with_the_same_words_are_not_taken_for_each_other() {
    let library = Library::of(&["a", "b"]).file("a/same.md", "Same.\n").file("b/same.md", "Same.\n");
    let session = library.session_in(Dialect::OpenCode).await;
    let choose = async |name| {
        let text = session.load(name, None).await.unwrap().text;
        text + &session.select_documents(name, SelectMode::Add, DocumentChoice::All).await.unwrap().text
    };
    let (a, b) = (choose("a").await, choose("b").await);
    let section = session.put_back([a.as_str()], None).await;
    assert_eq!(section.skills, ["b"]);
    assert_eq!(section.text.matches("<skill name=\"b\"").count(), 2, "{}", section.text);
    assert!(session.put_back([a.as_str(), b.as_str()], None).await.text.is_empty());
}

/// One line replaces a text together with its heading and its list of resources.
#[tokio::test]
async fn a_stub_takes_the_place_of_the_whole_answer() {
    for dialect in [Dialect::DeepAgents, Dialect::OpenCode] {
        let library = Library::new().web_research();
        let session =
            library.session_with(dialect, |options| options.unloaded_text = UnloadedText::Stub).await;
        let answer = session.load("web-research", None).await.unwrap().text;
        assert!(answer.contains("**Skill Resources:**"));
        session.unload("web-research").unwrap();
        let stub = "[Text of skill 'web-research' was removed: it was unloaded or replaced.]";
        assert_eq!(session.view().without_unloaded(&answer).unwrap(), stub, "{dialect:?}");
        let history = format!("Before.\n{answer}\nAfter.\n- [script] `mine`");
        let expected = format!("Before.\n{stub}\nAfter.\n- [script] `mine`");
        assert_eq!(session.view().without_unloaded(&history).unwrap(), expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_stub_says_what_it_stands_for() {
    let library = Library::new().web_research();
    let session =
        library.session_with(Dialect::DeepAgents, |options| options.unloaded_text = UnloadedText::Stub).await;
    let first = session.invoke("/web-research tides").await.unwrap().text;
    let second = session.invoke("/web-research winds").await.unwrap().text;
    assert_eq!(
        session.view().without_unloaded(&first).unwrap(),
        "[Text of skill 'web-research' was removed: it was unloaded or replaced.]"
    );
    assert_eq!(session.view().without_unloaded(&second), None);
    let select =
        async |mode| session.select_documents("web-research", mode, DocumentChoice::All).await.unwrap().text;
    let documents = select(SelectMode::Add).await;
    assert_eq!(session.view().without_unloaded(&documents), None);
    select(SelectMode::Clear).await;
    let stub = session.view().without_unloaded(&documents).unwrap();
    assert!(
        stub.ends_with("[Document 'references/sources.md' of skill 'web-research' was removed.]"),
        "{stub}"
    );
}

/// A document without room is dropped alone; the skill stays.
#[tokio::test]
async fn a_large_document_does_not_take_its_skill_along() {
    let library = Library::of(&["kit"]).file("kit/long.md", "word ".repeat(2_000));
    let session = library.session().await;
    let answer = session.load("kit", None).await.unwrap().text;
    session.select_documents("kit", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let section = session.put_back([answer.as_str()], Some(200)).await;
    assert_eq!(loaded(&session), ["kit"]);
    assert!(section.dropped.is_empty());
    assert!(
        section.text.starts_with("Document 'long.md' of skill 'kit' is no longer in context: its "),
        "{}",
        section.text
    );
    assert!(session.state().selection("kit").is_none());
}

/// A disk error does not unload a skill whose text is in the messages.
#[tokio::test]
async fn a_text_that_is_in_the_messages_needs_no_disk() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    let answer = session.load("a", None).await.unwrap().text;
    let restored = library.builder().saved_state(session.save()).build().await;
    library.remove("a/SKILL.md");
    assert!(restored.put_back([answer.as_str()], None).await.text.is_empty());
    assert_eq!(loaded(&restored), ["a"]);

    library.write("a/SKILL.md", "---\nname: a\ndescription: Changed.\n---\n");
    restored.refresh(&library.catalog()).await;
    library.remove("a/SKILL.md");
    assert!(restored.put_back([answer.as_str()], None).await.text.is_empty());
    assert_eq!(loaded(&restored), ["a"]);
}

/// A document that exceeds the budget is dropped, and one line says so.
#[tokio::test]
async fn a_document_that_outgrew_the_budget_is_named() {
    let library = Library::of(&["kit"]).file("kit/notes.md", "Short.\n").file("kit/other.md", "Other.\n");
    let session = library
        .session_with(Dialect::Trpc, |options| options.budgets = prowess_skills::Budgets::new(10, Some(400)))
        .await;
    session.load("kit", None).await.unwrap();
    session.select_documents("kit", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let restored =
        library.builder().options(session.options().clone()).saved_state(session.save()).build().await;
    library.write("kit/notes.md", "word ".repeat(2_000));
    let section = restored.loaded_section().await;
    assert!(
        section.text.contains("Document 'notes.md' of skill 'kit' is no longer in context"),
        "{}",
        section.text
    );
    assert!(section.text.contains("Other.") && !section.text.contains("word word"));
    assert!(restored.state().tokens() <= 400);
    assert_eq!(restored.loaded_section().await.text.matches("no longer in context").count(), 0, "said once");
}

/// A skill that has moved has the documents of its new directory.
#[tokio::test]
async fn a_replaced_skill_is_put_back_with_its_own_resources() {
    let library = Library::of(&["a"]).file("a/scripts/old.py", "");
    let other = Library::new().skill("a", "", "Mine now.").file("a/scripts/new.py", "");
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    let roots = [library.path(), other.path()].map(prowess_catalog::Root::explicit);
    let scan = prowess_catalog::ScanOptions::default();
    session.refresh(&prowess_catalog::Catalog::discover(&roots, &scan)).await;
    let section = session.put_back([], None).await;
    assert!(section.text.contains("Mine now.") && section.text.contains("new.py"), "{}", section.text);
    assert!(!section.text.contains("old.py"));
    assert!(session.state().resources("a")[0].path.ends_with("new.py"));
}

/// A changed document without room is no longer selected.
#[tokio::test]
async fn a_changed_document_without_room_is_no_longer_selected() {
    let library = Library::of(&["kit"]).file("kit/notes.md", "Short.\n");
    let session = library.session().await;
    let answer = session.load("kit", None).await.unwrap().text;
    session.select_documents("kit", SelectMode::Add, DocumentChoice::All).await.unwrap();
    let restored = library.builder().saved_state(session.save()).build().await;
    library.write("kit/notes.md", "word ".repeat(2_000));
    let section = restored.put_back([answer.as_str()], Some(200)).await;
    assert!(
        section.text.contains("Document 'notes.md' of skill 'kit' is no longer in context"),
        "{}",
        section.text
    );
    assert!(restored.state().selection("kit").is_none());
    let mut replayed = prowess_skills::SkillState::clone(&session.state());
    replayed.replay(&section.deltas).unwrap();
    assert_eq!(replayed, *restored.state());
}
