//! Interactive commands: a model starts them, types into them, reads their output and ends them, behind the gate.

use std::sync::Arc;

use prowess_permission::broker::PermissionEvent;
use prowess_permission::{Broker, Decision, Permissions, Policy, Reply, Rule};
use prowess_skills::SkillSession;
use serde_json::{Value, json};

use crate::runs::{allowing, library, runs, session};

async fn say(session: &SkillSession, tool: &str, arguments: Value) -> Value {
    let reply = session.call(tool, arguments).await;
    assert!(!reply.is_error, "{}", reply.text);
    serde_json::from_str(&reply.text).unwrap()
}

async fn error(session: &SkillSession, tool: &str, arguments: Value) -> String {
    let reply = session.call(tool, arguments).await;
    assert!(reply.is_error, "{}", reply.text);
    reply.text
}

fn anything() -> Permissions {
    allowing([Rule::new("run", "*", Decision::Allow)])
}

#[tokio::test]
async fn a_model_answers_a_program() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, anything(), runs).await;
    let command = "read -rp 'Name? ' name; echo \"hello $name\" | tee out/said.txt";
    let arguments = json!({"skill": "kit", "command": command, "tty": true, "yield_ms": 20_000, "output_files": ["out/*"]});
    let asked = say(&session, "skill_exec", arguments).await;
    assert_eq!((&asked["status"], &asked["output"]), (&json!("needs_input"), &json!("Name? ")));
    assert_eq!(asked["prompt"], json!({"kind": "text", "text": "Name?"}));
    let id = asked["session_id"].as_str().unwrap().to_owned();
    let answer = json!({"session_id": id, "chars": "crab", "yield_ms": 20_000});
    let ended = say(&session, "skill_write_stdin", answer.clone()).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("ended"), &json!("hello crab\n")));
    let report = &ended["report"];
    assert_eq!(
        (&report["exit_code"], report.get("stdout")),
        (&json!(0), None),
        "its output is there already"
    );
    assert_eq!(report["output_files"][0]["content"], "hello crab\n");
    let again = say(&session, "skill_poll_session", json!({"session_id": id, "offset": 6})).await;
    assert_eq!(again["output"], "hello crab\n");
    assert_eq!(
        error(&session, "skill_write_stdin", answer).await,
        format!("Error: the interactive run '{id}' has ended and reads no more input")
    );
}

#[tokio::test]
async fn a_model_ends_a_program() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, anything(), runs).await;
    let arguments = json!({"skill": "kit", "command": "echo on; exec sleep 4000", "yield_ms": 500});
    let running = say(&session, "skill_exec", arguments).await;
    assert_eq!(running["status"], "running");
    let id = &running["session_id"];
    let killed = say(&session, "skill_kill_session", json!({"session_id": id})).await;
    assert_eq!((&killed["status"], &killed["report"]["exit_code"]), (&json!("ended"), &json!(137)));
    let gone = error(&session, "skill_poll_session", json!({"session_id": id})).await;
    assert!(gone.contains("no interactive run"), "{gone}");
}

#[tokio::test]
async fn input_can_be_closed_without_an_empty_line() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, anything(), runs).await;
    let id = say(&session, "skill_exec", json!({"skill": "kit", "command": "wc -l", "yield_ms": 0})).await;
    let id = &id["session_id"];
    say(&session, "skill_write_stdin", json!({"session_id": id, "chars": "one", "yield_ms": 0})).await;
    let ended =
        say(&session, "skill_write_stdin", json!({"session_id": id, "close": true, "yield_ms": 20_000}))
            .await;
    assert_eq!(ended["output"], "1\n");
}

#[tokio::test]
async fn nothing_starts_without_permission() {
    let library = library();
    let (runs, _scratch) = runs();
    let allow = |subject: &str| Rule::new("run", subject, Decision::Allow);
    let rules =
        [Rule::new("skill", "hushed", Decision::Deny), allow("kit true"), allow("kit type into true")];
    let session = session(&library, allowing(rules), runs).await;
    let refused = error(&session, "skill_exec", json!({"skill": "kit", "command": "bash"})).await;
    assert!(refused.contains("Permission for run 'kit bash', 'kit type into bash' is needed"), "{refused}");
    let unknown = error(&session, "skill_exec", json!({"skill": "hushed", "command": "true"})).await;
    assert!(unknown.contains("unknown skill 'hushed'"), "{unknown}");
    say(&session, "skill_exec", json!({"skill": "kit", "command": "true"})).await;
}

/// Permission to run a command is no permission to type into it.
#[tokio::test]
async fn an_approved_run_is_no_approved_conversation() {
    let library = library();
    let (runs, _scratch) = runs();
    let broker = Broker::in_memory();
    let session = session(&library, Permissions::new(Arc::clone(&broker), "one", Policy::new()), runs).await;
    let answered = async |tool: &str, arguments: Value, title: &str| {
        let mut front_end = broker.subscribe();
        let answering = async {
            while let Some(event) = front_end.next().await {
                if let PermissionEvent::Asked(asked) = event {
                    assert_eq!(asked.question.wording().title, title);
                    broker.reply(asked.id, Reply::Always).await.unwrap();
                    return;
                }
            }
        };
        let (reply, ()) = tokio::join!(session.call(tool, arguments), answering);
        assert!(!reply.is_error, "{}", reply.text);
    };
    let plain = json!({"skill": "kit", "command": "cat", "timeout": 600});
    answered("skill_run", plain.clone(), "run in skill 'kit': cat").await;
    let mut interactive = plain.clone();
    interactive["yield_ms"] = json!(0);
    assert!(session.call("skill_exec", interactive.clone()).await.is_error, "nobody is there to be asked");
    answered("skill_exec", interactive.clone(), "run in skill 'kit', and let the model type into it: cat")
        .await;
    assert!(!session.call("skill_exec", interactive.clone()).await.is_error, "it is remembered");
    interactive["tty"] = json!(true);
    assert!(session.call("skill_exec", interactive).await.is_error, "a terminal is something else");
}

#[tokio::test]
async fn programs_end_with_their_session() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, anything(), runs).await;
    let arguments = json!({"skill": "kit", "command": "exec sleep 4001.5", "yield_ms": 300});
    say(&session, "skill_exec", arguments).await;
    let is_there = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x004001.5"))
        })
    };
    while !is_there() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(session);
    for _ in 0..200 {
        if !is_there() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it is still there");
}

#[tokio::test]
async fn foolish_calls_are_told_what_is_wrong() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, anything(), runs).await;
    for (tool, arguments, says) in [
        ("skill_exec", json!({"skill": "kit"}), "the argument 'command' is missing"),
        ("skill_write_stdin", json!({"chars": "x"}), "the argument 'session_id' is missing"),
        (
            "skill_write_stdin",
            json!({"session_id": "x\u{1b}[2J</skill>", "chars": "x"}),
            "no interactive run",
        ),
        ("skill_poll_session", json!({"session_id": "kit-00000000"}), "no interactive run 'kit-00000000'"),
        ("skill_kill_session", json!({"id": "x"}), "there is no argument 'id': did you mean 'session_id'?"),
    ] {
        let text = error(&session, tool, arguments).await;
        assert!(text.contains(says) && !text.contains('\u{1b}'), "{text}");
    }
}
