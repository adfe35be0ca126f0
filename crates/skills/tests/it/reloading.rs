//! Loading a loaded skill again: when its text is replaced, and what the model reads then.

use std::sync::Arc;

use insta::assert_snapshot;
use prowess_permission::{Broker, Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::options::UnloadedText;
use prowess_skills::{Dialect, SkillDelta, SkillError};
use serde_json::json;

use crate::library::{Library, loaded, prepared, prepared_call};

const CHANGED: &str = "---\nname: a\ndescription: Looks after a.\n---\nDo it twice.\n";
const ALREADY: &str = "Skill 'a' is already loaded. Its instructions are already active.";

#[tokio::test]
async fn a_changed_skill_is_loaded_again() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let before = session.load("a", None).await.unwrap().text;
    session.load("b", None).await.unwrap();
    library.write("a/SKILL.md", CHANGED);
    let answer = session.load("a", None).await.unwrap();
    let nonce = &session.state().get("a").unwrap().nonce.clone();
    assert_snapshot!(library.told(&answer.text).replace(nonce, "[NONCE]"), @r#"
    Skill 'a' has changed since it was loaded, so it was loaded again. These instructions replace the earlier ones, which no longer apply.

    <skill name="a" origin="Explicit" dir="/skills/a" nonce="[NONCE]">
    ---
    name: a
    description: Looks after a.
    ---
    Do it twice.
    </skill nonce="[NONCE]">
    "#);
    assert!(matches!(&answer.deltas[..], [SkillDelta::Reloaded { .. }]), "{:?}", answer.deltas);
    assert_eq!(loaded(&session), ["a", "b"]);
    assert!(session.view().stale().is_empty());
    assert_eq!(session.load("a", None).await.unwrap().text, ALREADY);

    // After compaction, only the new text comes back, and only if it is missing.
    let back = session.put_back([before.as_str()], None).await.text;
    assert_eq!((back.matches("Do it twice.").count(), back.matches("name: a\n").count()), (1, 1), "{back}");
    let kept = session.put_back([before.as_str(), answer.text.as_str()], None).await.text;
    assert!(!kept.contains("name: a\n"), "{kept}");
}

#[tokio::test]
async fn new_arguments_load_a_skill_again() {
    let library = Library::new().skill("a", "", "Fix $ARGUMENTS.");
    for dialect in Dialect::ALL {
        let session = library.session_in(dialect).await;
        session.load("a", Some("12")).await.unwrap();
        for same in [None, Some("12"), Some(" 12 "), Some("")] {
            let answer = session.load("a", same).await.unwrap();
            assert_eq!((answer.text.as_str(), answer.deltas.len()), (ALREADY, 0), "{dialect:?} {same:?}");
        }
        let answer = session.load("a", Some("13")).await.unwrap();
        assert!(
            answer.text.starts_with("Skill 'a' was loaded again with these arguments."),
            "{}",
            answer.text
        );
        let text = answer.text + &session.loaded_section().await.text;
        assert_eq!((text.matches("Fix 13.").count(), text.matches("Fix 12.").count()), (1, 0), "{text}");
        assert_eq!(session.state().get("a").unwrap().arguments.as_deref(), Some("13"));
    }
}

#[tokio::test]
async fn the_system_message_has_one_text() {
    let library = Library::of(&["a"]);
    let session = library.session_in(Dialect::Trpc).await;
    session.load("a", None).await.unwrap();
    library.write("a/SKILL.md", CHANGED);
    assert_snapshot!(session.load("a", None).await.unwrap().text, @"Skill 'a' has changed since it was loaded, so it was loaded again. The system message has its new instructions instead of the earlier ones.");
    let section = session.loaded_section().await.text;
    assert_eq!((section.matches("<skill ").count(), section.matches("Do it twice.").count()), (1, 1));
}

#[tokio::test]
async fn earlier_texts_become_one_line_if_the_session_is_set_to_do_so() {
    let library = Library::new().skill("a", "", "Fix $ARGUMENTS.");
    let session =
        library.session_with(Dialect::DeepAgents, |options| options.unloaded_text = UnloadedText::Stub).await;
    let first = session.load("a", Some("12")).await.unwrap().text;
    let second = session.load("a", Some("13")).await.unwrap().text;
    let view = session.view();
    assert_eq!(
        view.without_unloaded(&first).unwrap(),
        "[Text of skill 'a' was removed: it was unloaded or replaced.]"
    );
    assert_eq!(view.without_unloaded(&second), None);
}

/// What changed is a text that nobody has approved.
#[tokio::test]
async fn a_changed_skill_passes_the_gate_again() {
    let library = Library::of(&["a"]);
    let ask = Policy::new().rules(RuleSource::User, [Rule::new("skill", "*", Decision::Ask)]);
    let permissions = Permissions::new(Arc::clone(&Broker::in_memory()), "one", ask);
    permissions.set(RuleSource::Session, vec![Rule::new("skill", "a", Decision::Allow)]);
    let session = library.builder().permissions(permissions).build().await;
    session.load("a", None).await.unwrap();
    session.permissions().set(RuleSource::Session, Vec::new());
    assert_eq!(session.load("a", None).await.unwrap().text, ALREADY);
    library.write("a/SKILL.md", CHANGED);
    let error = session.load("a", None).await.unwrap_err();
    assert!(matches!(error, SkillError::Refused { .. }), "{error}");
    assert!(!error.for_model().contains("twice"));
    assert_eq!(loaded(&session), ["a"], "a refusal changes nothing");
}

#[tokio::test]
async fn a_skill_that_cannot_be_read_stays_loaded() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    library.remove("a/SKILL.md");
    assert_eq!(session.load("a", None).await.unwrap().text, ALREADY);
}

/// A person may mean: once more. Whether the conversation has the text is known to whoever has the conversation.
#[tokio::test]
async fn a_person_gets_the_text_again() {
    let library = Library::new().skill("a", "", "Fix $ARGUMENTS.").skill("b", "", "Fix nothing.");
    let session = library.session().await;
    let is_repeated = async |line: &str| {
        let prepared = prepared(&session, session.view().invoke(line)).await.unwrap();
        let is_repeated = prepared.is_repeated(&session.state());
        (is_repeated, session.invoke(line).await.unwrap().text)
    };
    let (repeated, first) = is_repeated("/a").await;
    assert!(!repeated && first.contains("Fix .") && !first.contains("$ARGUMENTS"), "{first}");
    assert_eq!(is_repeated("/a").await, (true, first));
    let (repeated, text) = is_repeated("/a 7").await;
    assert!(!repeated && text.starts_with("Skill 'a' was loaded again") && text.contains("Fix 7."), "{text}");
    library.write("a/SKILL.md", CHANGED);
    let (repeated, text) = is_repeated("/a 7").await;
    assert!(
        !repeated && text.starts_with("Skill 'a' has changed") && text.contains("Do it twice."),
        "{text}"
    );
    // The text without arguments is the same as with none.
    session.load("b", None).await.unwrap();
    assert!(is_repeated("/b").await.0);
}

/// Two calls of one response: whoever is second finds what the first one loaded.
#[tokio::test]
async fn loads_of_one_response_give_one_text() {
    let library = Library::new().skill("a", "", "Fix $ARGUMENTS.");
    for (second, expected) in [
        (json!({"skill_name": "a", "args": "12"}), ALREADY),
        (json!({"skill_name": "a"}), ALREADY),
        (json!({"skill_name": "a", "args": "13"}), "Skill 'a' was loaded again with these arguments."),
    ] {
        let session = library.session().await;
        let call = |arguments| prepared_call(&session, "load_skill", arguments);
        let (first, second) = (call(json!({"skill_name": "a", "args": "12"})).await, call(second).await);
        assert!(session.finish(first).text.contains("Fix 12."));
        let answer = session.finish(second).text;
        assert!(answer.starts_with(expected), "{answer}");
        assert_eq!(loaded(&session), ["a"]);
    }
}
