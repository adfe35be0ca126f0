//! Skills that people start, and skills that are listed because of `paths`.

use prowess_catalog::overview::ManualSkills;
use prowess_skills::{Dialect, SkillDelta, SkillError};

use crate::library::{Library, loaded};

fn library() -> Library {
    Library::of(&["plain"])
        .skill(
            "deploy",
            "disable-model-invocation: true\nargument-hint: \"[env] [tag]\"\n",
            "Ship $1 to $0 from ${SKILL_DIR}.",
        )
        .skill("style", "user-invocable: false\n", "Be brief.")
        .skill("review", "arguments: [issue, branch]\n", "Fix $issue on $branch. All: $ARGUMENTS")
}

#[tokio::test]
async fn a_person_starts_a_skill_with_arguments() {
    let library = library();
    let session = library.session().await;
    let answer = session.invoke("/deploy 'prod eu' v2").await.unwrap();
    assert!(
        library.told(&answer.text).contains("Ship v2 to prod eu from /skills/deploy."),
        "{}",
        answer.text
    );
    assert_eq!(session.state().get("deploy").unwrap().arguments.as_deref(), Some("'prod eu' v2"));
    let answer = session.invoke("  /review 12 main  ").await.unwrap();
    assert!(answer.text.contains("Fix 12 on main. All: 12 main"));
    let answer = session.invoke("/plain with care").await.unwrap();
    assert!(answer.text.contains("Do it.\n\nARGUMENTS: with care\n"));
    assert_eq!(loaded(&session), ["deploy", "review", "plain"]);
}

#[tokio::test]
async fn starting_it_again_gives_it_new_arguments() {
    let library = library();
    let session = library.session().await;
    session.invoke("/review 12 main").await.unwrap();
    session.invoke("/plain").await.unwrap();
    let answer = session.invoke("/review 13 dev").await.unwrap();
    assert!(answer.text.contains("Fix 13 on dev."));
    assert!(matches!(&answer.deltas[..], [SkillDelta::Reloaded { .. }]));
    assert_eq!(loaded(&session), ["review", "plain"]);
    assert_eq!(session.state().get("review").unwrap().arguments.as_deref(), Some("13 dev"));
}

#[tokio::test]
async fn what_is_not_for_people_is_refused() {
    let library = library();
    let session = library.session().await;
    let said = async |line| session.invoke(line).await.unwrap_err().to_string();
    assert_eq!(
        said("/style").await,
        "Skill 'style' cannot be started by hand: its manifest says `user-invocable: false`."
    );
    assert_eq!(said("/nope").await, "Skill 'nope' not found. Available skills: deploy, plain, review");
    assert_eq!(
        said("deploy").await,
        "'deploy' is not a command. Type a slash and the name of a skill: `/skill-name arguments`."
    );
    assert_eq!(
        said("/").await,
        "'/' is not a command. Type a slash and the name of a skill: `/skill-name arguments`."
    );
    assert!(loaded(&session).is_empty());
}

#[tokio::test]
async fn what_only_people_start_is_hidden_from_the_model() {
    let library = library();
    let session = library.session().await;
    assert!(!session.prompt().text.contains("deploy"));
    assert!(!session.tools()[0].parameters.to_string().contains("deploy"));
    let error = session.load("deploy", None).await.unwrap_err();
    assert_eq!(error.for_model(), "Error: Skill 'deploy' not found. Available skills: plain, review, style");

    let marked =
        library.session_with(Dialect::DeepAgents, |options| options.manual = ManualSkills::Marked).await;
    assert!(marked.view().overview().text.contains("- **deploy**: Looks after deploy. (Manual only)"));
    let error = marked.load("deploy", None).await.unwrap_err();
    assert_eq!(
        error.for_model(),
        "Error: Skill 'deploy' can only be started by the user. Ask the user to type `/deploy`."
    );
    assert!(matches!(error, SkillError::ManualOnly { .. }));
}

/// Once a person has started it, the model has its text and may say that it is done with it.
#[tokio::test]
async fn the_model_may_unload_what_a_person_started() {
    let library = library();
    let session = library.session().await;
    session.invoke("/deploy prod v1").await.unwrap();
    assert!(session.load("deploy", None).await.unwrap().text.contains("already loaded"));
    session.unload("deploy").unwrap();
    assert!(session.load("deploy", None).await.is_err());
}

#[tokio::test]
async fn people_see_what_they_can_start() {
    let library = library();
    let session = library.session().await;
    session.invoke("/plain").await.unwrap();
    let commands: Vec<(String, Option<String>, bool)> = session
        .view()
        .commands()
        .into_iter()
        .map(|command| (command.name, command.hint, command.is_loaded))
        .collect();
    let expected = [
        ("deploy", Some("[env] [tag]"), false),
        ("plain", None, true),
        ("review", Some("[issue] [branch]"), false),
    ];
    let expected = expected.map(|(name, hint, loaded)| (name.to_owned(), hint.map(str::to_owned), loaded));
    assert_eq!(commands, expected);
}

#[tokio::test]
async fn the_overview_shows_what_arguments_a_skill_takes() {
    let library = Library::new().skill("deploy", "argument-hint: \"[env]\"\n", "Ship.");
    let session = library.session().await;
    assert!(session.view().overview().text.contains("load_skill(\"deploy\", args=\"[env]\")"));
}

#[tokio::test]
async fn skills_with_paths_are_offered_when_such_files_are_in_play() {
    let library = Library::of(&["plain"])
        .skill("react", "paths: [\"src/**/*.tsx\", \"*.jsx\"]\n", "Use hooks.")
        .skill("broken", "paths: \"a[\"\n", "Never.");
    let session = library.session().await;
    assert!(!session.prompt().text.contains("react"));
    assert!(session.change(|view| view.note_files(["src/app.rs", "tsx"])).is_empty());
    assert!(session.change(|view| view.note_files(["lib/app.tsx"])).is_empty());
    let deltas = session.change(|view| view.note_files(["./src/ui/app.tsx", "README.md"]));
    assert_eq!(deltas, [SkillDelta::Offered { name: "react".into() }]);
    assert!(session.prompt().text.contains("- **react**"));
    assert!(session.change(|view| view.note_files(["deep/in/there.jsx"])).is_empty(), "once is enough");

    let restored = library.builder().saved_state(session.save()).build().await;
    assert!(restored.prompt().text.contains("- **react**"));
}

/// A name that somebody gave to the model works before any file does.
#[tokio::test]
async fn skills_with_paths_can_be_loaded_by_name() {
    let library = Library::new().skill("react", "paths: \"*.jsx\"\n", "Use hooks.");
    let session = library.session().await;
    session.load("react", None).await.unwrap();
    assert!(session.view().overview().text.contains("- **react** [Loaded]"));
}

/// A person has started it: it is loaded for the model, however it is listed.
#[tokio::test]
async fn what_a_person_started_is_loaded_for_the_model() {
    let library = library().file("deploy/checklist.md", "Check.\n");
    for manual in [ManualSkills::Hidden, ManualSkills::Marked] {
        let session = library.session_with(Dialect::DeepAgents, |options| options.manual = manual).await;
        session.invoke("/deploy prod v1").await.unwrap();
        assert!(
            session.view().overview().text.contains("- **deploy** [Loaded]: Looks after deploy."),
            "{manual:?}"
        );
        assert!(session.load("deploy", None).await.unwrap().text.contains("already loaded"));
        assert_eq!(session.list_documents("deploy").await.unwrap().text, r#"["checklist.md"]"#);
    }
}
