//! Commands of skills, run for real: their answers, their outputs, their progress and their end.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use prowess_mcp::{LiveSkills, SkillServer, session_options};
use prowess_permission::Decision::{self, Allow, Ask};
use prowess_permission::{Permissions, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SkillSession};
use prowess_workspace::{Artifacts, LocalExecutor, LocalOptions, Runner, Scope, Workspaces};
use serde_json::{Value, json};

use crate::client::{Client, NEWEST, OLDER, PATIENCE, decided};
use crate::library::{Library, permissions};

/// A server whose tools run commands, in workspaces that are gone with the second value.
async fn server(
    library: &Library,
    rules: &[(&'static str, &'static str, Decision)],
) -> (SkillServer, Artifacts, tempfile::TempDir) {
    server_with(library, permissions(rules)).await
}

async fn server_with(
    library: &Library,
    permissions: Permissions,
) -> (SkillServer, Artifacts, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let artifacts = Artifacts::in_memory().in_scope(Scope::new_session().unwrap());
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: Some(Arc::new(artifacts.clone())),
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    let catalog = library.catalog(&Default::default());
    let session = SkillSession::builder(catalog.clone())
        .options(session_options(Dialect::Trpc))
        .permissions(permissions)
        .runs(RunSetup::new(runner, "one"));
    let server = SkillServer::new(LiveSkills::new(catalog), session.build().await);
    (server, artifacts, scratch)
}

#[tokio::test]
async fn a_command_s_outputs_are_structured_and_can_be_read() {
    let library = Library::usual();
    for revision in [OLDER[0], NEWEST] {
        let (server, artifacts, _scratch) = server(&library, &[("run", "kit *", Allow)]).await;
        let client = Client::connect(server.artifacts(artifacts), revision, json!({})).await;
        let ran = client
            .call(
                "skill_run",
                json!({"skill": "kit", "command": "bash scripts/say.sh | tee 'out/a b.txt'; printf '\\377' > out/raw",
                    "outputs": {"globs": ["out/**"], "inline": true, "save": true}}),
            )
            .await;
        assert_ne!(ran["isError"], true, "{ran}");
        assert_eq!(ran["structuredContent"]["stdout"], "said\n");
        assert_eq!(ran["structuredContent"]["exit_code"], 0);
        let links: Vec<&str> =
            ran["content"].as_array().unwrap().iter().filter_map(|block| block["uri"].as_str()).collect();
        assert!(links.contains(&"run://1/out/a%20b.txt"), "{links:?}");
        // For models, whose clients show them no links.
        let told: Value = serde_json::from_str(ran["content"][0]["text"].as_str().unwrap()).unwrap();
        for report in [&ran["structuredContent"], &told] {
            let files = ["output_files", "artifact_files"].map(|list| report[list].as_array().unwrap());
            let told: Vec<&str> =
                files.into_iter().flatten().filter_map(|file| file["uri"].as_str()).collect();
            assert_eq!(told, links);
        }
        assert_eq!(client.read("run://1/out/a%20b.txt").await.unwrap()["text"], "said\n");
        let raw = links.iter().find(|uri| uri.starts_with("artifact://") && uri.contains("raw")).unwrap();
        assert_eq!(client.read(raw).await.unwrap()["blob"], "/w==");
        let listed = client.request("resources/list", json!({})).await.unwrap();
        assert!(listed["resources"].as_array().unwrap().iter().any(|found| found["uri"] == links[0]));
        // Of artifacts, only those that this client had saved.
        assert_eq!(client.read("artifact://other@0").await.unwrap_err().0, -32602);
        if revision != NEWEST {
            client.heard("notifications/resources/list_changed").await;
        }
    }
}

#[tokio::test]
async fn warnings_are_words_over_the_wire() {
    let library = Library::usual();
    let (server, _artifacts, _scratch) = server(&library, &[("run", "kit *", Allow)]).await;
    let client = Client::newest(server).await;
    let run = json!({"skill": "kit", "command": "true", "output_files": ["out/**"], "timeout": 100_000});
    let ran = client.call("skill_run", run).await;
    let told: Value = serde_json::from_str(ran["content"][0]["text"].as_str().unwrap()).unwrap();
    for report in [&ran["structuredContent"], &told] {
        let expected = ["the timeout was lowered to 600 seconds, the maximum", "`out/**` matched no file"];
        assert_eq!(report["warnings"], json!(expected), "{report}");
        assert_eq!(report["sandbox"]["level"], "bwrap");
    }
}

#[tokio::test]
async fn x_11_what_fails_is_an_internal_error() {
    let library = Library::usual();
    let (server, _artifacts, _scratch) = server(&library, &[("run", "kit *", Allow)]).await;
    // Its runs save artifacts, and it was not told where.
    let client = Client::newest(server).await;
    let run =
        json!({"skill": "kit", "command": "echo > out/x", "outputs": {"globs": ["out/*"], "save": true}});
    let ran = client.call("skill_run", run).await;
    let link = ran["content"].as_array().unwrap().iter().find_map(|block| block["uri"].as_str()).unwrap();
    assert_eq!(client.read(link).await.unwrap_err().0, -32603, "{link}");
}

#[tokio::test]
async fn a_run_is_asked_about_whole() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let (server, _artifacts, _scratch) = server(&library, &[]).await;
        let client = Client::connect(server, revision, json!({"elicitation": {"form": {}}})).await;
        client.will_reply([json!({"action": "decline"}), decided("once")]);
        let command = json!({"skill": "kit", "command": "echo\n\nhi $A", "env": {"A": "b"}});
        assert_eq!(client.call("skill_run", command.clone()).await["isError"], true);
        let ran = client.call("skill_run", command).await;
        assert_eq!(ran["structuredContent"]["stdout"], "\n", "{ran}");
        let forms = client.forms.lock().unwrap().clone();
        let message = forms[0]["message"].as_str().unwrap();
        assert!(
            message.contains("command: \"echo\\n\\nhi $A\"") && message.contains("env: \"A=b\""),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_call_asks_as_often_as_it_has_to() {
    let library = Library::usual();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("note.txt");
    std::fs::write(&path, "from outside").unwrap();
    for revision in [OLDER[0], NEWEST] {
        let (server, _artifacts, _scratch) = server(&library, &[("skill", "kit", Ask)]).await;
        let client = Client::connect(server, revision, json!({"elicitation": {}})).await;
        let run = json!({"skill": "kit", "command": "cat inputs/*", "inputs": [{"from": format!("host://{}", path.display())}]});
        client.will_reply([decided("once"), decided("once"), decided("once")]);
        let ran = client.call("skill_run", run).await;
        assert_eq!(ran["structuredContent"]["stdout"], "from outside", "{ran}");
        let asked: Vec<String> = client
            .forms
            .lock()
            .unwrap()
            .iter()
            .map(|form| form["message"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(asked.len(), 3);
        assert!(
            asked[0].contains("load the skill")
                && asked[1].contains("run in skill")
                && asked[2].contains("read the file"),
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn a_call_asks_thirty_two_questions_and_no_more() {
    let library = Library::usual();
    let outside = tempfile::tempdir().unwrap();
    let run = |inputs: usize| {
        let from = |number| {
            let path = outside.path().join(format!("{number}.txt"));
            std::fs::write(&path, "").unwrap();
            json!({"from": format!("host://{}", path.display())})
        };
        let inputs: Vec<Value> = (0..inputs).map(from).collect();
        json!({"skill": "kit", "command": "ls inputs | wc -l", "inputs": inputs})
    };
    for revision in [OLDER[1], NEWEST] {
        let (server, _artifacts, _scratch) = server(&library, &[]).await;
        let client = Client::connect(server, revision, json!({"elicitation": {}})).await;
        client.will_reply(vec![decided("once"); 100]);
        // It is asked about the command, and about each file.
        let ran = client.call("skill_run", run(31)).await;
        assert_eq!(ran["structuredContent"]["stdout"].as_str().map(str::trim), Some("31"), "{ran}");
        assert_eq!(client.forms.lock().unwrap().len(), 32);
        let ran = client.call("skill_run", run(32)).await;
        assert_eq!(ran["isError"], true, "{ran}");
        assert_eq!(client.forms.lock().unwrap().len(), 64);
    }
}

#[tokio::test]
async fn nothing_is_run_for_a_client_that_went_while_it_was_asked() {
    let library = Library::usual();
    for revision in OLDER {
        let permissions = permissions(&[]);
        let (server, _artifacts, scratch) = server_with(&library, permissions.clone()).await;
        let client = Client::connect(server, revision, json!({"elicitation": {}})).await;
        let run = json!({"skill": "kit", "command": "echo > $WORK_DIR/ran"});
        let call = json!({"name": "skill_run", "arguments": run});
        let (_, _unanswered) = client.begin("tools/call", call).await;
        client.shown("run in skill 'kit'").await;
        // It would be let pass by now.
        permissions.set(RuleSource::User, vec![Rule::new("run", "kit *", Allow)]);
        client.leave().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(!has_file(scratch.path(), "ran"));
    }
}

#[tokio::test]
async fn a_call_that_goes_on_is_told_about_and_can_be_cancelled() {
    let library = Library::usual();
    for revision in [OLDER[1], NEWEST] {
        let (server, _artifacts, scratch) = server(&library, &[("run", "kit *", Allow)]).await;
        let client = Client::connect(server, revision, json!({})).await;
        let command = "echo begun > $WORK_DIR/begun; exec sleep 987";
        let call = json!({"name": "skill_run", "arguments": {"skill": "kit", "command": command}, "_meta": {"progressToken": "p"}});
        let (id, _unanswered) = client.begin("tools/call", call).await;
        let told = client.heard("notifications/progress").await;
        assert_eq!(told["params"]["progressToken"], "p");
        until(|| has_file(scratch.path(), "begun")).await;
        client.notify("notifications/cancelled", json!({"requestId": id})).await;
        until(|| !is_running("987")).await;
        // The session goes on.
        assert_ne!(client.call("skill_load", json!({"skill": "kit"})).await["isError"], true);
    }
}

/// Whether a file of this name is anywhere below `path`.
fn has_file(path: &std::path::Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    entries
        .flatten()
        .any(|entry| entry.file_name() == name || (entry.path().is_dir() && has_file(&entry.path(), name)))
}

/// Whether a process `sleep` has this argument.
fn is_running(argument: &str) -> bool {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    lines
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line == format!("sleep\0{argument}\0").as_bytes())
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}
