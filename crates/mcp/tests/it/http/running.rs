//! Commands of skills that clients over HTTP run.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prowess_mcp::{AddressedArtifacts, HttpLimits, LiveSkills, SkillServer, session_options};
use prowess_permission::Decision::Allow;
use prowess_permission::{Permissions, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SkillSession};
use prowess_workspace::{Artifacts, LocalExecutor, LocalOptions, Runner, Scope, Workspaces};
use serde_json::{Value, json};

use super::served::Served;
use crate::client::{NEWEST, OLDER, PATIENCE};
use crate::library::{Library, permissions};

/// A server whose clients each run commands in a workspace of their own, and where these are.
async fn served(library: &Library) -> (Served, tempfile::TempDir) {
    served_with(library, permissions(&[("run", "kit *", Allow)]), HttpLimits::default()).await
}

async fn served_with(
    library: &Library,
    permissions: Permissions,
    limits: HttpLimits,
) -> (Served, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let artifacts = Artifacts::in_memory();
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    let live = LiveSkills::new(library.catalog(&Default::default()));
    let made = Arc::clone(&live);
    let next = AtomicUsize::new(0);
    let make = move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let artifacts = artifacts.in_scope(Scope::new_session().unwrap());
        let mut runner = runner.clone();
        runner.artifacts = Some(Arc::new(AddressedArtifacts::new(artifacts.clone())));
        let session = SkillSession::builder(made.catalog())
            .options(session_options(Dialect::Trpc))
            .permissions(permissions.clone())
            .runs(RunSetup::new(runner, format!("client {number}")));
        let live = Arc::clone(&made);
        async move { SkillServer::new(live, session.build().await).artifacts(artifacts) }
    };
    (Served::serve(live, limits, make).await, scratch)
}

fn links(result: &Value) -> Vec<String> {
    let blocks = result["content"].as_array().unwrap().iter();
    blocks.filter_map(|block| block["uri"].as_str()).map(ToOwned::to_owned).collect()
}

const RUN: &str = "echo said > out/a.txt";

#[tokio::test]
async fn outputs_can_be_read_later_and_by_nobody_else() {
    let library = Library::usual();
    let (served, _scratch) = served(&library).await;
    let run = json!({"skill": "kit", "command": RUN, "outputs": {"globs": ["out/**"], "inline": true, "save": true}});
    for revision in [OLDER[1], NEWEST] {
        let (client, other) = (served.client(revision).await, served.client(revision).await);
        let links = links(&client.call("skill_run", run.clone()).await);
        assert_eq!(links.len(), 2, "{links:?}");
        for link in &links {
            let read = client.request("resources/read", json!({"uri": link})).await.unwrap();
            assert_eq!(read["contents"][0]["text"], "said\n");
        }
        if revision == NEWEST {
            // Only who was given the name has it.
            assert!(links.iter().all(|link| !link.contains("://1/") && link.len() > 40), "{links:?}");
            for guess in ["run://1/out/a.txt", "artifact://out/a.txt@1", "artifact://a.txt@1"] {
                other.request("resources/read", json!({"uri": guess})).await.unwrap_err();
            }
        } else {
            for link in &links {
                other.request("resources/read", json!({"uri": link})).await.unwrap_err();
            }
        }
        let listed = other.request("resources/list", json!({})).await.unwrap();
        assert!(!listed.to_string().contains("a.txt"), "{listed}");
        // And nobody finds another's files.
        let look = other.call("skill_run", json!({"skill": "kit", "command": "ls out"})).await;
        assert_eq!(look["structuredContent"]["stdout"], "", "{look}");
    }
}

/// A run that reads an artifact.
fn reads(artifact: &str) -> Value {
    let from = if artifact.contains("://") { artifact.to_owned() } else { format!("artifact://{artifact}") };
    json!({"skill": "kit", "command": "cat inputs/*", "inputs": [{"from": from}]})
}

#[tokio::test]
async fn case_101_clients_share_no_artifact_but_by_a_name_that_nobody_guesses() {
    let library = Library::usual();
    let (served, _scratch) = served(&library).await;
    let run = json!({"skill": "kit", "command": RUN, "outputs": {"globs": ["out/**"], "save": true}});
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let (client, other) = (served.client(revision).await, served.client(revision).await);
        for (number, each) in [&client, &other].into_iter().enumerate() {
            let refused = each.call("skill_run", reads("out/a.txt")).await;
            assert!(refused.to_string().contains("there is no artifact 'out/a.txt'"), "{number}: {refused}");
            let ran = each.call("skill_run", run.clone()).await;
            assert_eq!(ran["structuredContent"]["artifact_files"][0]["version"], 0, "{ran}");
            let link = links(&ran).pop().unwrap();
            let again = each.call("skill_run", reads(&link)).await;
            assert_eq!(again["structuredContent"]["stdout"], "said\n", "{revision}, {link}: {again}");
        }
        if revision == NEWEST {
            let link = links(&client.call("skill_run", run.clone()).await).pop().unwrap();
            let told = other.call("skill_run", reads(&link)).await;
            assert_eq!(told["structuredContent"]["stdout"], "said\n", "who was told the name: {told}");
            let guessed = link.replace(['0', '1', '2', '3'], "f");
            let guessed = other.call("skill_run", reads(&guessed)).await;
            assert!(guessed.to_string().contains("there is no artifact"), "{guessed}");
        }
    }
}

#[tokio::test]
async fn what_needs_an_earlier_call_is_not_offered_without_a_session() {
    let library = Library::usual();
    let (served, _scratch) = served(&library).await;
    let names = async |revision| {
        let listed = served.client(revision).await.request("tools/list", json!({})).await.unwrap();
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(NEWEST).await, ["skill_load", "skill_list_docs", "skill_run"]);
    assert_eq!(names(OLDER[0]).await.len(), 9);
}

/// Whether a process with these arguments runs.
fn is_running(seconds: &str) -> bool {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line == format!("sleep\0{seconds}\0").as_bytes())
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_runs_ends_with_its_session_its_request_and_the_server() {
    let library = Library::usual();
    let (served, _scratch) = served(&library).await;
    let run = |seconds: &str| json!({"name": "skill_run", "arguments": {"skill": "kit", "command": format!("exec sleep {seconds}")}});
    // A session that its client ends.
    let client = served.client(OLDER[1]).await;
    let _wire = client.open("tools/call", run("87651")).await;
    until("it does not run", || is_running("87651")).await;
    let ended = served.request("DELETE", &client.headers("", &json!({}))) + "\r\n";
    assert_eq!(served.raw(ended).await.status, 204);
    until("it runs on", || !is_running("87651")).await;
    // A request without a session, whose client goes.
    let newest = served.client(NEWEST).await;
    let wire = newest.open("tools/call", run("87652")).await;
    until("it does not run", || is_running("87652")).await;
    drop(wire);
    until("it runs on", || !is_running("87652")).await;
    // The server.
    let client = served.client(OLDER[0]).await;
    let _session = client.open("tools/call", run("87653")).await;
    let _request = newest.open("tools/call", run("87654")).await;
    until("they do not run", || is_running("87653") && is_running("87654")).await;
    served.end().await;
    until("they run on", || !is_running("87653") && !is_running("87654")).await;
}

#[tokio::test]
async fn nothing_is_run_for_a_client_that_went_while_it_was_asked() {
    let library = Library::usual();
    let permissions = permissions(&[]);
    let mut limits = HttpLimits::default();
    limits.reconnect_time = std::time::Duration::from_millis(50);
    let (served, _scratch) = served_with(&library, permissions.clone(), limits).await;
    let client = served.client(OLDER[1]).await;
    let run = json!({"name": "skill_run", "arguments": {"skill": "kit", "command": "exec sleep 87655"}});
    let mut wire = client.open("tools/call", run.clone()).await;
    wire.head().await.unwrap();
    let form = wire.message().await.unwrap();
    assert_eq!(form["method"], "elicitation/create");
    // It would be let pass by now.
    permissions.set(RuleSource::User, vec![Rule::new("run", "kit *", Allow)]);
    drop(wire);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!is_running("87655"));
    // The session goes on, and nobody is asked in it any more.
    let _wire = client.open("tools/call", run).await;
    until("it does not run", || is_running("87655")).await;
    served.end().await;
    until("it runs on", || !is_running("87655")).await;
}
