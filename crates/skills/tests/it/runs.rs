//! Runs: the gates, the sandbox, and what the model reads.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use prowess_permission::broker::PermissionEvent;
use prowess_permission::{Broker, Decision, Permissions, Policy, Reply, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession, SkillToolAnswer, ToolSpec};
use prowess_workspace::{Artifacts, Level, LocalExecutor, LocalOptions, Network, Runner, Workspaces};
use serde_json::{Value, json};

use crate::library::Library;

pub(crate) fn library() -> Library {
    let library =
        Library::of(&["kit", "hushed"]).file("kit/scripts/say.sh", "echo \"said $1 by $SKILL_NAME\"\n");
    std::fs::set_permissions(library.path(), PermissionsExt::from_mode(0o755)).unwrap();
    library
}

/// Really runs commands. Dropping the second value removes the workspaces.
pub(crate) fn runs() -> (RunSetup, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: Some(Arc::new(Artifacts::in_memory())),
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    (RunSetup::new(runner, "one"), scratch)
}

pub(crate) async fn session(library: &Library, permissions: Permissions, runs: RunSetup) -> SkillSession {
    let options = SessionOptions::new(Dialect::Trpc);
    library.builder().options(options).permissions(permissions).runs(runs).build().await
}

pub(crate) fn allowing(rules: impl IntoIterator<Item = Rule>) -> Permissions {
    Permissions::unattended(Policy::new().rules(RuleSource::User, rules))
}

async fn run(session: &SkillSession, arguments: Value) -> SkillToolAnswer {
    session.call("skill_run", arguments).await
}

#[tokio::test]
async fn a_command_runs_and_its_files_come_back() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, allowing([Rule::new("run", "kit *", Decision::Allow)]), runs).await;
    assert!(session.tools().iter().any(|tool| tool.name == "skill_run"));
    let reply = run(
        &session,
        json!({"skill": "kit", "command": "bash scripts/say.sh hello | tee out/said.txt", "output_files": ["out/*.txt"]}),
    )
    .await;
    assert!(!reply.is_error, "{}", reply.text);
    let report: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!((&report["stdout"], &report["exit_code"]), (&json!("said hello by kit\n"), &json!(0)));
    assert_eq!(report["output_files"][0]["content"], "said hello by kit\n");
    assert_eq!(report["sandbox"]["level"], "bwrap");
    assert_eq!(reply.data.unwrap()["stdout"], report["stdout"]);
}

#[tokio::test]
async fn a_command_that_fails_is_an_answer() {
    let library = library();
    let (runs, _scratch) = runs();
    let session = session(&library, allowing([Rule::new("run", "*", Decision::Allow)]), runs).await;
    let reply = run(&session, json!({"skill": "kit", "command": "echo no >&2; exit 3"})).await;
    assert!(!reply.is_error);
    let report: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!((&report["stderr"], &report["exit_code"]), (&json!("no\n"), &json!(3)));
    let long =
        run(&session, json!({"skill": "kit", "command": "head -c 200000 /dev/zero | tr '\\0' x"})).await;
    assert!(long.text.len() < 20_000 && long.text.contains("bytes left out"));
}

#[tokio::test]
async fn nothing_runs_without_permission() {
    let library = library();
    let (runs, _scratch) = runs();
    let rules = [Rule::new("skill", "hushed", Decision::Deny), Rule::new("run", "kit true", Decision::Allow)];
    let session = session(&library, allowing(rules), runs).await;
    let said = async |arguments| run(&session, arguments).await.text;
    assert_eq!(
        said(json!({"skill": "kit", "command": "make"})).await,
        "Error: Cannot run a command of skill 'kit'. Permission for run 'kit make' is needed, and nobody can be asked. \
         To allow it, add at the end of [permission.run]: \"kit make\" = \"allow\""
    );
    assert_eq!(
        said(json!({"skill": "hushed", "command": "true"})).await,
        "Error: unknown skill 'hushed'. Available skills: kit"
    );
    assert!(!run(&session, json!({"skill": "kit", "command": "true"})).await.is_error);
}

#[tokio::test]
async fn local_inputs_need_permission() {
    let library = library();
    let (runs, scratch) = runs();
    let file = scratch.path().join("given.txt");
    std::fs::write(&file, "given\n").unwrap();
    let run_rule = Rule::new("run", "kit *", Decision::Allow);
    let arguments = json!({"skill": "kit", "command": "cat work/inputs/given.txt",
        "inputs": [{"from": format!("host://{}", file.display())}]});
    let closed = session(&library, allowing([run_rule.clone()]), runs.clone()).await;
    assert!(run(&closed, arguments.clone()).await.is_error);
    let read_rule = Rule::new("read", &format!("{}/*", scratch.path().display()), Decision::Allow);
    let open = session(&library, allowing([run_rule, read_rule]), runs).await;
    let reply = run(&open, arguments).await;
    assert!(reply.text.contains("given\\n"), "{}", reply.text);
}

/// "Always" covers this command, as long as the skill does not change.
#[tokio::test]
async fn always_covers_this_command_and_no_other() {
    let library = library();
    let (runs, _scratch) = runs();
    let broker = Broker::in_memory();
    let permissions = Permissions::new(Arc::clone(&broker), "one", Policy::new());
    let session = session(&library, permissions, runs).await;
    let command = |line: &str| json!({"skill": "kit", "command": line});
    {
        let mut front_end = broker.subscribe();
        let answering = async {
            while let Some(event) = front_end.next().await {
                if let PermissionEvent::Asked(asked) = event {
                    assert_eq!(asked.question.wording().title, "run in skill 'kit': echo *");
                    broker.reply(asked.id, Reply::Always).await.unwrap();
                    return;
                }
            }
        };
        let (reply, ()) = tokio::join!(run(&session, command("echo *")), answering);
        assert!(!reply.is_error, "{}", reply.text);
    }
    assert!(!run(&session, command("echo *")).await.is_error, "it is remembered");
    assert!(run(&session, command("echo x; rm y")).await.is_error, "a star is a star");
    for more in [
        json!({"env": {"A": "b"}}),
        json!({"cwd": "scripts"}),
        json!({"stdin": "x"}),
        json!({"output_files": ["work/**"]}),
    ] {
        let mut arguments = command("echo *");
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(run(&session, arguments.clone()).await.is_error, "in other surroundings: {arguments}");
    }
    library.write("kit/scripts/say.sh", "echo other\n");
    assert!(run(&session, command("echo *")).await.is_error, "with another script");
    library.write("kit/scripts/say.sh", "echo \"said $1 by $SKILL_NAME\"\n");
    assert!(!run(&session, command("echo *")).await.is_error, "as it was");
    library.write("kit/SKILL.md", "---\nname: kit\ndescription: Looks after kit.\n---\nAnother.\n");
    session.refresh(&library.catalog()).await;
    assert!(run(&session, command("echo *")).await.is_error, "a changed skill is asked about again");
}

/// A local directory becomes an input only if nothing in it is denied.
#[tokio::test]
async fn what_is_denied_does_not_come_in_with_its_directory() {
    let library = library();
    let (runs, scratch) = runs();
    let home = scratch.path().join("home");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/key"), "KEY\n").unwrap();
    std::fs::write(home.join("notes.txt"), "notes\n").unwrap();
    let at = home.display();
    let rules = [
        Rule::new("run", "kit *", Decision::Allow),
        Rule::new("read", &format!("{at}*"), Decision::Allow),
        Rule::new("read", &format!("{at}/.ssh/*"), Decision::Deny),
    ];
    let session = session(&library, allowing(rules), runs).await;
    let input = |path: &str| {
        json!({"skill": "kit", "command": "find work/inputs -type f",
        "inputs": [{"from": format!("host://{at}{path}")}]})
    };
    assert!(run(&session, input("")).await.is_error);
    assert!(run(&session, input("/.ssh")).await.is_error);
    let notes = run(&session, input("/notes.txt")).await;
    assert!(notes.text.contains("notes.txt") && !notes.text.contains("key"), "{}", notes.text);
}

/// A run of one skill cannot read another skill that needs permission.
#[tokio::test]
async fn other_skills_pass_their_own_gate() {
    let library = library();
    let (runs, _scratch) = runs();
    let rules = [Rule::new("run", "kit *", Decision::Allow), Rule::new("skill", "hushed", Decision::Ask)];
    let session = session(&library, allowing(rules), runs).await;
    for from in ["skill://hushed/SKILL.md", "workspace://skills/hushed/SKILL.md"] {
        let arguments =
            json!({"skill": "kit", "command": "cat work/inputs/SKILL.md", "inputs": [{"from": from}]});
        let reply = run(&session, arguments).await;
        assert!(reply.is_error && !reply.text.contains("Do it."), "{}", reply.text);
    }
    let reply = run(&session, json!({"skill": "hushed", "command": "cat SKILL.md"})).await;
    assert!(reply.is_error, "{}", reply.text);
}

/// A skill that was staged while it was allowed cannot be read after a rule denies it.
#[tokio::test]
async fn a_denied_skill_that_lies_in_the_workspace_cannot_be_read() {
    let library = library();
    let (runs, _scratch) = runs();
    let before = session(&library, allowing([Rule::new("run", "*", Decision::Allow)]), runs.clone()).await;
    let reply = run(&before, json!({"skill": "hushed", "command": "cat SKILL.md"})).await;
    assert!(reply.text.contains("Do it."), "{}", reply.text);
    let both = json!({"skill": "kit", "command": "cat $SKILLS_DIR/hushed/SKILL.md; cat work/inputs/SKILL.md",
        "inputs": [{"from": "skill://hushed/SKILL.md", "mode": "link"}]});
    let reply = run(&before, both).await;
    assert_eq!(reply.text.matches("Do it.").count(), 2, "what an input names is there: {}", reply.text);

    let rules = [Rule::new("run", "kit *", Decision::Allow), Rule::new("skill", "hushed", Decision::Deny)];
    let after = session(&library, allowing(rules), runs.clone()).await;
    let workspace = runs.runner.workspaces.workspace("one").unwrap();
    assert!(workspace.path().join("skills/hushed/SKILL.md").exists(), "it still lies there");
    for from in [
        "skill://hushed/SKILL.md",
        "workspace://skills/hushed/SKILL.md",
        "workspace://$SKILLS_DIR/hushed/SKILL.md",
        "workspace://${SKILLS_DIR}/hushed/SKILL.md",
        "workspace://$WORKSPACE_DIR/skills/hushed/SKILL.md",
        "workspace://$SKILLS_DIR",
    ] {
        let arguments = json!({"skill": "kit", "command": "cat work/inputs/other",
            "inputs": [{"from": from, "to": "work/inputs/other"}]});
        let reply = run(&after, arguments).await;
        assert!(reply.is_error && !reply.text.contains("Do it."), "{from}: {}", reply.text);
    }
    for cwd in ["$SKILLS_DIR/hushed", "${SKILLS_DIR}/hushed", "$WORKSPACE_DIR/skills/hushed"] {
        let reply = run(&after, json!({"skill": "kit", "command": "cat SKILL.md", "cwd": cwd})).await;
        assert!(reply.is_error && reply.text.contains("does not use"), "{cwd}: {}", reply.text);
    }
    let reply = run(
        &after,
        json!({"skill": "kit", "command": "cat $SKILLS_DIR/hushed/SKILL.md ../hushed/SKILL.md work/inputs/SKILL.md; ls ..",
            "output_files": ["skills/**", "$SKILLS_DIR/hushed/*", "work/inputs/*"],
            "outputs": {"globs": ["**/SKILL.md"], "inline": true}}),
    )
    .await;
    let report: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!(report["stdout"], "kit\n", "{report}");
    let files = report["output_files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["name"] == "skills/kit/SKILL.md"), "its own can be: {report}");
    assert!(files.iter().all(|file| file["name"].as_str().unwrap().starts_with("skills/kit/")), "{report}");
}

/// A server on this machine that answers one line, and a command that asks it.
fn outside() -> (String, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = std::io::Read::read(&mut client, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut client, b"HTTP/1.0 200 OK\r\n\r\nhello from outside\n");
        }
    });
    let line = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3; cat <&3"
    );
    (host, line)
}

fn tool(session: &SkillSession, name: &str) -> ToolSpec {
    session.tools().iter().find(|tool| tool.name == name).unwrap().clone()
}

fn may_reach(runs: RunSetup, hosts: &[&str]) -> RunSetup {
    let mut runs = runs;
    runs.network = Network::Hosts(hosts.iter().map(|host| host.parse().unwrap()).collect());
    runs
}

fn running(rest: impl IntoIterator<Item = Rule>) -> Permissions {
    allowing(std::iter::once(Rule::new("run", "kit *", Decision::Allow)).chain(rest))
}

#[tokio::test]
async fn a_host_that_is_allowed_is_reached() {
    let library = library();
    let (runs, _scratch) = runs();
    let (host, line) = outside();
    let rules = [Rule::new("network", "127.0.0.1:*", Decision::Allow)];
    let session = session(&library, running(rules), may_reach(runs, &[&host])).await;
    let tool = tool(&session, "skill_run");
    assert!(
        tool.description.contains(&format!("which reaches only the hosts in `network`, of {host}. ")),
        "{}",
        tool.description
    );
    assert_eq!(tool.parameters["properties"]["network"]["items"]["type"], "string");
    let reply = run(&session, json!({"skill": "kit", "command": line, "network": [host]})).await;
    assert!(reply.text.contains("hello from outside"), "{}", reply.text);
    // Also by a command that goes on.
    let reply = session
        .call("skill_exec", json!({"skill": "kit", "command": line, "network": [host], "yield_ms": 20_000}))
        .await;
    assert!(reply.text.contains("hello from outside"), "{}", reply.text);
    // Never more than was asked for.
    let reply = run(&session, json!({"skill": "kit", "command": line})).await;
    assert!(!reply.text.contains("hello from outside"), "{}", reply.text);
}

#[tokio::test]
async fn no_host_is_reached_without_permission() {
    let library = library();
    let (runs, _scratch) = runs();
    let most = may_reach(runs.clone(), &["*.example.com", "example.org"]);
    let rules = [Rule::new("network", "example.org", Decision::Deny)];
    let attended = session(&library, running(rules), most).await;
    let said = async |hosts: Value| {
        let arguments = json!({"skill": "kit", "command": "true", "network": hosts});
        let reply = run(&attended, arguments.clone()).await;
        assert!(reply.is_error, "{}", reply.text);
        assert!(attended.call("skill_exec", arguments).await.is_error);
        reply.text
    };
    assert_eq!(
        said(json!(["api.example.com"])).await,
        "Error: Cannot run a command of skill 'kit'. Permission for network 'api.example.com' is needed, and nobody can \
         be asked. To allow it, add at the end of [permission.network]: \"api.example.com\" = \"allow\""
    );
    assert!(said(json!(["example.org"])).await.contains("denied"));
    assert_eq!(
        said(json!(["evil.org"])).await,
        "Error: Cannot run a command of skill 'kit': the host evil.org is not allowed; allowed hosts: \
         *.example.com, example.org"
    );
    assert!(said(json!(["http://example.org/"])).await.contains("is not a host rule"));
    // By default there is none to ask for.
    let closed = session(&library, running([Rule::new("network", "*", Decision::Allow)]), runs).await;
    for name in ["skill_run", "skill_exec"] {
        assert!(tool(&closed, name).parameters["properties"].get("network").is_none(), "{name}");
    }
    let reply = run(&closed, json!({"skill": "kit", "command": "true", "network": ["example.com"]})).await;
    assert!(
        reply.text.ends_with("the host example.com is not allowed: the configuration allows no network"),
        "{}",
        reply.text
    );
}

/// "Always" covers this host for this command, as long as the skill does not change.
#[tokio::test]
async fn always_covers_this_host_for_this_command() {
    let library = library();
    let (runs, _scratch) = runs();
    let runs = may_reach(runs, &["*.example.com"]);
    let broker = Broker::in_memory();
    let policy = Policy::new().rules(RuleSource::User, [Rule::new("run", "kit *", Decision::Allow)]);
    let session = session(&library, Permissions::new(Arc::clone(&broker), "one", policy), runs).await;
    let asking = |line: &str, host: &str| json!({"skill": "kit", "command": line, "network": [host]});
    let answered = async |arguments: Value, title: &str, always: usize| {
        let mut front_end = broker.subscribe();
        let answering = async {
            while let Some(event) = front_end.next().await {
                if let PermissionEvent::Asked(asked) = event {
                    assert_eq!(
                        (asked.question.wording().title.as_str(), asked.question.always.len()),
                        (title, always)
                    );
                    broker
                        .reply(asked.id, if always > 0 { Reply::Always } else { Reply::Once })
                        .await
                        .unwrap();
                    return;
                }
            }
        };
        let (reply, ()) = tokio::join!(run(&session, arguments), answering);
        assert!(!reply.is_error, "{}", reply.text);
    };
    answered(asking("true", "api.example.com"), "let skill 'kit' reach api.example.com: true", 1).await;
    assert!(!run(&session, asking("true", "api.example.com")).await.is_error, "it is remembered");
    assert!(run(&session, asking("true", "www.example.com")).await.is_error, "another host");
    assert!(run(&session, asking("true", "api.example.com:443")).await.is_error, "another rule");
    assert!(run(&session, asking("true x", "api.example.com")).await.is_error, "another command");
    answered(asking("true", "*.a.example.com"), "let skill 'kit' reach *.a.example.com: true", 0).await;
    assert!(
        run(&session, asking("true", "*.a.example.com")).await.is_error,
        "a domain is asked about each time"
    );
    library.write("kit/scripts/say.sh", "curl evil\n");
    assert!(run(&session, asking("true", "api.example.com")).await.is_error, "another script");
}

#[tokio::test]
async fn a_network_that_cannot_be_had_is_a_clear_error() {
    let library = library();
    let (mut runs, _scratch) = runs();
    let mut options = LocalOptions::default();
    (options.strongest, options.least) = (Level::None, Level::None);
    runs.runner.executor = Some(Arc::new(LocalExecutor::new(options)));
    let rules = [Rule::new("network", "example.com", Decision::Allow)];
    let session = session(&library, running(rules), may_reach(runs, &["example.com"])).await;
    let reply = run(&session, json!({"skill": "kit", "command": "true", "network": ["example.com"]})).await;
    assert!(
        reply.is_error && reply.text.contains("need the sandbox level 'bwrap' or 'bwrap-noproc'"),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn without_an_executor_nothing_can_be_run() {
    let library = library();
    let session = library.session_in(Dialect::Trpc).await;
    assert!(session.tools().iter().all(|tool| tool.name != "skill_run"));
    let reply = run(&session, json!({"skill": "kit", "command": "true"})).await;
    assert!(reply.text.contains("executor is not configured"), "{}", reply.text);
}

/// A rule for a command does not cover the same command with variables or another directory; a rule for the skill does.
#[tokio::test]
async fn a_rule_for_a_command_is_none_for_what_changes_its_meaning() {
    let library = library();
    let (runs, _scratch) = runs();
    let narrow = allowing([Rule::new("run", "kit bash scripts/say.sh", Decision::Allow)]);
    let session = session(&library, narrow, runs.clone()).await;
    let command = json!({"skill": "kit", "command": "bash scripts/say.sh"});
    assert!(!run(&session, command.clone()).await.is_error);
    let more = [json!({"env": {"PATH": "/ws/work/inputs:/usr/bin"}}), json!({"cwd": "$WORK_DIR/inputs"})];
    for more in &more {
        let mut arguments = command.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = run(&session, arguments).await;
        assert!(reply.is_error && reply.text.contains("is needed"), "{}", reply.text);
    }
    assert!(session.call("skill_exec", command.clone()).await.is_error, "nor typing into it");
    let broad = allowing([Rule::new("run", "kit *", Decision::Allow)]);
    let broad = crate::runs::session(&library, broad, runs).await;
    let mut arguments = command.clone();
    arguments["env"] = json!({"A": "b"});
    assert!(!run(&broad, arguments).await.is_error);
    assert!(!broad.call("skill_exec", command).await.is_error);
}

/// The approved files are the files that run, even if they belong to another skill.
#[tokio::test]
async fn an_approval_is_bound_to_the_files_of_every_skill_it_uses() {
    let library = Library::of(&["kit", "other"]).file("other/x.sh", "echo first\n");
    std::fs::set_permissions(library.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (runs, _scratch) = runs();
    let broker = Broker::in_memory();
    let session = session(&library, Permissions::new(Arc::clone(&broker), "one", Policy::new()), runs).await;
    let arguments = json!({"skill": "kit", "command": "bash work/inputs/x.sh",
        "inputs": [{"from": "skill://other/x.sh"}]});
    let answered = async |change: bool, reply: Reply| {
        let mut front_end = broker.subscribe();
        let answering = async {
            while let Some(event) = front_end.next().await {
                if let PermissionEvent::Asked(asked) = event {
                    if change {
                        library.write("other/x.sh", "echo swapped\n");
                    }
                    broker.reply(asked.id, reply).await.unwrap();
                    return;
                }
            }
        };
        tokio::join!(run(&session, arguments.clone()), answering).0
    };
    let swapped = answered(true, Reply::Once).await;
    assert!(swapped.is_error && swapped.text.contains("changed after it was approved"), "{}", swapped.text);
    library.write("other/x.sh", "echo first\n");
    assert!(!answered(false, Reply::Always).await.is_error);
    assert!(!run(&session, arguments.clone()).await.is_error, "it is remembered");
    library.write("other/x.sh", "echo second\n");
    assert!(run(&session, arguments.clone()).await.is_error, "another file of the other skill");
}
