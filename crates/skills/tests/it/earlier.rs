//! Approvals of runs and questions about runs that an earlier version stored.

use prowess_catalog::Digest;
use prowess_permission::question::Note;
use prowess_permission::{Kind, Permissions, Policy, Question, Replies, owned_subject};
use prowess_skills::{Outcome, SkillAnswer, SkillSession};
use prowess_workspace::RunRequest;
use prowess_workspace::stage::StageSource;
use serde_json::json;

use crate::runs::{library, runs, session};

async fn run(session: &SkillSession, request: &RunRequest, replies: &Replies) -> Outcome<SkillAnswer> {
    session.service().run(&session.view(), request.clone(), replies).await
}

async fn question(session: &SkillSession, request: &RunRequest) -> Question {
    match run(session, request, &Replies::default()).await {
        Outcome::Asks(question) => *question,
        other => panic!("it is asked about: {other:?}"),
    }
}

#[tokio::test]
async fn an_old_always_for_a_run_is_asked_once_more() {
    let library = library();
    let (runs, _scratch) = runs();
    let permissions = Permissions::unattended(Policy::new());
    let session = session(&library, permissions.clone(), runs).await;
    let request = RunRequest::new("kit", "echo hello");
    let old = Question::new(Kind::RUN, owned_subject("kit", "echo hello"))
        .binding(r#"{"kit": "sha256:00"} sha256:00 {"kit": Directory("/skills/kit")}"#);
    permissions.remember(&old).await;

    let asked = question(&session, &request).await;
    assert_eq!(asked.note, Some(Note::ApprovedByEarlierVersion));
    assert!(asked.wording().note.is_some(), "the person is told why");
    assert!(asked.binding.as_ref().unwrap().starts_with("run 2 "));
    let other = question(&session, &RunRequest::new("kit", "echo other")).await;
    assert_eq!(other.note, None, "nobody ever approved that");

    permissions.remember(&asked).await;
    let Outcome::Done(answer) = run(&session, &request, &Replies::default()).await else {
        panic!("once more is enough")
    };
    assert_eq!(answer.data.unwrap()["stdout"], "hello\n");
}

/// The question as the version before this one stored it, with its fingerprint and its binding of that time.
#[tokio::test]
async fn an_answer_to_an_old_question_is_one_to_the_new() {
    let library = library();
    let (runs, _scratch) = runs();
    let runner = runs.runner.clone();
    let session = session(&library, Permissions::unattended(Policy::new()), runs).await;
    let mut request = RunRequest::new("kit", "bash scripts/say.sh hello");
    request.env.insert("WHO".into(), "me".into());
    let source = StageSource::Directory(library.join("kit"));
    let digest = runner.stage("one", "kit", &source).await.unwrap().digest.clone();
    let details = serde_json::to_value(&request).unwrap();
    let all = Digest::of(details.to_string().as_bytes());
    let binding = |digest: &str| {
        let place = library.join("kit");
        format!("{{\"kit\": {digest:?}}} {all} {{\"kit\": Directory({place:?})}}")
    };
    let stored = |binding: String| -> Question {
        let request = json!({
            "kind": "run",
            "patterns": ["kit bash scripts/say.sh hello", "kit env WHO=me"],
            "always": ["kit bash scripts/say.sh hello", "kit env WHO=me"],
            "binding": binding,
            "title": "run in skill 'kit': bash scripts/say.sh hello",
            "details": details,
        });
        serde_json::from_value(json!({"title": "run in skill 'kit'", "request": request})).unwrap()
    };
    let was_asked = stored(binding(&digest));
    assert_eq!(was_asked.wording().title, "run in skill 'kit'");
    assert!(question(&session, &request).await.is_covered_by(was_asked.fingerprint()));
    let replies = Replies::once([was_asked.fingerprint()]);
    assert!(matches!(run(&session, &request, &replies).await, Outcome::Done(_)));

    // It was about these files and this command.
    let about_others = Replies::once([stored(binding("sha256:00")).fingerprint()]);
    assert!(matches!(run(&session, &request, &about_others).await, Outcome::Asks(_)));
    let other = RunRequest { stdin: Some("x".into()), ..request.clone() };
    assert!(matches!(run(&session, &other, &replies).await, Outcome::Asks(_)));
    library.write("kit/scripts/say.sh", "echo other\n");
    assert!(matches!(run(&session, &request, &replies).await, Outcome::Asks(_)));
}

/// In version 1, a command saw no file of the project, so nobody approved that it does.
#[tokio::test]
async fn an_answer_to_an_old_question_gives_no_files_of_the_project() {
    let library = library();
    let (mut runs, scratch) = runs();
    let site = prowess_permission::real_path::real_path(scratch.path()).join("site");
    std::fs::create_dir(&site).unwrap();
    runs.tree = runs.tree.project(&site);
    let runner = runs.runner.clone();
    let session = session(&library, Permissions::unattended(Policy::new()), runs).await;
    let source = StageSource::Directory(library.join("kit"));
    let digest = runner.stage("one", "kit", &source).await.unwrap().digest.clone();
    let request = RunRequest::new("kit", "wc -l < /project/plan.txt");
    let details = serde_json::to_value(&request).unwrap();
    let all = Digest::of(details.to_string().as_bytes());
    let subject = "kit wc -l < /project/plan.txt";
    let place = library.join("kit");
    let stored: Question = serde_json::from_value(json!({"title": "run in skill 'kit'", "request": {
        "kind": "run",
        "patterns": [subject],
        "always": [subject],
        "binding": format!("{{\"kit\": {digest:?}}} {all} {{\"kit\": Directory({place:?})}}"),
        "title": "run in skill 'kit': wc -l < /project/plan.txt",
        "details": details,
    }}))
    .unwrap();
    let old = stored.fingerprint();
    assert!(question(&session, &request).await.is_covered_by(old), "nothing is given");
    std::fs::write(site.join("plan.txt"), "one\n").unwrap();
    assert!(!question(&session, &request).await.is_covered_by(old));
    assert!(matches!(run(&session, &request, &Replies::once([old])).await, Outcome::Asks(_)));
}
