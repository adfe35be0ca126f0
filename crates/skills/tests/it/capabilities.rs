//! Every capability in every dialect, through the tools of that dialect.

use std::sync::Arc;

use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{
    Capabilities, Dialect, RunSetup, SessionOptions, SkillSession, SkillToolAnswer, SkillToolKind,
};
use prowess_workspace::testing::FakeExecutor;
use prowess_workspace::{Executor, Limits, LocalExecutor, LocalOptions, Runner, Workspaces};
use serde_json::{Value, json};

use crate::library::Library;

fn library() -> Library {
    Library::new()
        .skill("deploy", "argument-hint: \"[env]\"\n", "Ship to $0.")
        .file("deploy/CHECKLIST.md", "- Tell the team\n")
}

async fn session(
    library: &Library,
    options: SessionOptions,
    executor: Arc<dyn Executor>,
) -> (SkillSession, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    std::fs::set_permissions(library.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let workspaces = Workspaces::open(scratch.path().join("workspaces")).unwrap();
    let runner = Runner { workspaces, artifacts: None, executor: Some(executor) };
    let rules = [Rule::new("run", "*", Decision::Allow)];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let builder = library.builder().options(options).permissions(permissions);
    (builder.runs(RunSetup::new(runner, "one")).build().await, scratch)
}

fn options(dialect: Dialect, capabilities: Capabilities) -> SessionOptions {
    let mut options = SessionOptions::new(dialect);
    options.capabilities = capabilities;
    options
}

/// Calls the tool that does `kind` and takes `needs`, with the skill named as the tool wants it.
async fn call_kind(
    session: &SkillSession,
    kind: SkillToolKind,
    needs: &[&str],
    mut arguments: Value,
) -> SkillToolAnswer {
    let takes = |parameters: &Value, name: &str| parameters["properties"].get(name).is_some();
    let tools = session.tools();
    let tool = tools.iter().filter(|tool| tool.kind == kind);
    let tool = tool.into_iter().find(|tool| needs.iter().all(|name| takes(&tool.parameters, name))).unwrap();
    if let Some(skill) = tool.skill_argument {
        arguments[skill] = json!("deploy");
        assert_eq!(tool.skill_in(&arguments), Some("deploy"));
    }
    assert_eq!(session.engine().tool_kind(tool.name), Some(kind));
    session.call(tool.name, arguments).await
}

fn done(answer: SkillToolAnswer) -> SkillToolAnswer {
    assert!(!answer.is_error, "{}", answer.text);
    answer
}

#[tokio::test]
async fn every_dialect_loads_with_arguments_and_unloads() {
    let library = library();
    for dialect in Dialect::ALL {
        let (session, _scratch) =
            session(&library, options(dialect, Capabilities::all()), Arc::new(FakeExecutor)).await;
        let answer =
            done(call_kind(&session, SkillToolKind::Load, &["args"], json!({"args": "staging"})).await);
        assert_eq!(session.state().loaded()[0].arguments.as_deref(), Some("staging"), "{dialect:?}");
        // Where its text goes is the dialect's business; that the arguments are in it is not.
        let text = answer.text + &session.loaded_section().await.text;
        assert!(text.contains("Ship to staging."), "{dialect:?}: {text}");
        let answer = done(call_kind(&session, SkillToolKind::Unload, &[], json!({})).await);
        assert!(answer.text.contains("has been unloaded") && session.state().loaded().is_empty());
    }
}

#[tokio::test]
async fn every_dialect_searches() {
    let library = library();
    for dialect in Dialect::ALL {
        let (session, _scratch) =
            session(&library, options(dialect, Capabilities::all()), Arc::new(FakeExecutor)).await;
        let found = session.call("search_skills", json!({"query": "deploy", "limit": 1})).await;
        assert!(found.text.starts_with("- **deploy**: ") && !found.is_error, "{dialect:?} {}", found.text);
        // The answer says how to load it, in the words of this dialect.
        assert!(found.text.contains(dialect.load_tools().load), "{dialect:?} {}", found.text);
        assert_eq!(found.data, Some(json!({"skills": ["deploy"], "found": 1})), "{dialect:?}");
        let none = session.call("search_skills", json!({"query": "<b>zither"})).await;
        assert!(none.text.contains("matches \"&lt;b&gt;zither\""), "{dialect:?} {}", none.text);
        let refused = session.call("search_skills", json!({"words": "a"})).await;
        assert!(refused.is_error, "{dialect:?} {}", refused.text);
    }
}

#[tokio::test]
async fn every_dialect_lists_and_selects_documents() {
    let library = library();
    for dialect in Dialect::ALL {
        let (session, _scratch) =
            session(&library, options(dialect, Capabilities::all()), Arc::new(FakeExecutor)).await;
        done(call_kind(&session, SkillToolKind::Load, &[], json!({})).await);
        let listed = done(call_kind(&session, SkillToolKind::ListDocuments, &[], json!({})).await);
        assert_eq!(listed.text, "[\"CHECKLIST.md\"]", "{dialect:?}");
        done(
            call_kind(
                &session,
                SkillToolKind::SelectDocuments,
                &["mode"],
                json!({"docs": ["CHECKLIST.md"], "mode": "add"}),
            )
            .await,
        );
        assert_eq!(session.state().documents("deploy")[0].path, "CHECKLIST.md", "{dialect:?}");
        done(call_kind(&session, SkillToolKind::SelectDocuments, &["mode"], json!({"mode": "clear"})).await);
        assert!(session.state().documents("deploy").is_empty());
    }
}

#[tokio::test]
async fn every_dialect_runs_commands() {
    let library = library();
    for dialect in Dialect::ALL {
        let (session, _scratch) =
            session(&library, options(dialect, Capabilities::all()), Arc::new(FakeExecutor)).await;
        let arguments =
            json!({"command": "echo hello > out/a.txt; cat out/a.txt", "output_files": ["out/*"]});
        let answer = done(call_kind(&session, SkillToolKind::Run, &["command"], arguments).await);
        let report = answer.data.unwrap();
        assert_eq!(
            (&report["stdout"], &report["truncated"]),
            (&json!("hello\n"), &json!(false)),
            "{dialect:?}"
        );
        assert_eq!(report["output_files"][0]["content"], "hello\n");
        let wrong =
            call_kind(&session, SkillToolKind::Run, &[], json!({"command": "true", "timeout_secs": 3})).await;
        assert!(
            wrong.text.ends_with("there is no argument 'timeout_secs': did you mean 'timeout'?"),
            "{}",
            wrong.text
        );
    }
}

/// The executor without processes cannot be typed into: these run for real.
#[tokio::test]
async fn every_dialect_talks_with_commands() {
    let library = library();
    for dialect in Dialect::ALL {
        let real = Arc::new(LocalExecutor::new(LocalOptions::default()));
        let (session, _scratch) = session(&library, options(dialect, Capabilities::all()), real).await;
        let arguments = json!({"command": "read -r name; echo \"hello $name\"; sleep 600", "yield_ms": 10});
        let started: Value = serde_json::from_str(
            &done(call_kind(&session, SkillToolKind::Start, &["tty"], arguments).await).text,
        )
        .unwrap();
        let id = json!({"session_id": started["session_id"]});
        let with = |more: Value| {
            let mut all = id.clone();
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let mut output = String::new();
        let answer = done(
            call_kind(&session, SkillToolKind::Write, &[], with(json!({"chars": "crab", "yield_ms": 500})))
                .await,
        );
        output.push_str(answer.data.unwrap()["output"].as_str().unwrap());
        for _ in 0..40 {
            if output.contains("hello crab") {
                break;
            }
            let answer =
                done(call_kind(&session, SkillToolKind::Poll, &[], with(json!({"yield_ms": 500}))).await);
            output.push_str(answer.data.unwrap()["output"].as_str().unwrap());
        }
        assert!(output.contains("hello crab"), "{dialect:?}: {output}");
        let ended = done(call_kind(&session, SkillToolKind::End, &[], id.clone()).await);
        assert_eq!(ended.data.unwrap()["status"], "ended", "{dialect:?}");
    }
}

/// The tools of a session, by what they do and whether arguments for the skill are among what they take.
fn has(session: &SkillSession) -> Vec<SkillToolKind> {
    session.tools().iter().map(|tool| tool.kind).collect()
}

#[tokio::test]
async fn each_capability_is_there_without_the_others() {
    let library = library();
    let only = |change: fn(&mut Capabilities)| {
        let mut capabilities = Capabilities::none();
        change(&mut capabilities);
        capabilities
    };
    for dialect in Dialect::ALL {
        let kinds = async |capabilities| {
            let (session, _scratch) =
                session(&library, options(dialect, capabilities), Arc::new(FakeExecutor)).await;
            // What is not there is not told of, and cannot be called.
            for name in
                dialect.tool_names().filter(|name| !session.tools().iter().any(|tool| tool.name == *name))
            {
                let answer = session.call(name, json!({})).await;
                assert!(answer.text.contains("There is no tool"), "{dialect:?} {name}: {}", answer.text);
                assert!(!session.prompt().text.contains(name), "{dialect:?} {name}");
                assert!(
                    !session.tools().iter().any(|tool| tool.description.contains(name)),
                    "{dialect:?} {name}"
                );
            }
            let takes_arguments =
                session.tools().iter().any(|tool| tool.parameters["properties"].get("args").is_some());
            let mut kinds = has(&session);
            kinds.dedup();
            (kinds, takes_arguments)
        };
        use SkillToolKind::{
            End, ListDocuments, Load, Poll, Run, Search, SelectDocuments, Start, Unload, Write,
        };
        assert_eq!(kinds(Capabilities::none()).await, (vec![Load], false), "{dialect:?}");
        assert_eq!(kinds(only(|can| can.arguments = true)).await, (vec![Load], true), "{dialect:?}");
        assert_eq!(kinds(only(|can| can.unload = true)).await, (vec![Load, Unload], false), "{dialect:?}");
        assert_eq!(kinds(only(|can| can.search = true)).await, (vec![Load, Search], false), "{dialect:?}");
        let documents = vec![Load, SelectDocuments, ListDocuments];
        assert_eq!(kinds(only(|can| can.documents = true)).await, (documents, false), "{dialect:?}");
        assert_eq!(kinds(only(|can| can.run = true)).await, (vec![Load, Run], false), "{dialect:?}");
        let interactive = vec![Load, Start, Write, Poll, End];
        assert_eq!(kinds(only(|can| can.interactive = true)).await, (interactive, false), "{dialect:?}");
    }
}

#[tokio::test]
async fn the_overview_says_how_a_skill_gets_arguments() {
    for (dialect, says) in [
        (Dialect::DeepAgents, "load_skill(\"deploy\", args=\"[env]\")"),
        (Dialect::Trpc, "skill_load_with_args(\"deploy\", args=\"[env]\")"),
    ] {
        let session = library().session_with(dialect, |options| options.capabilities.arguments = true).await;
        assert!(session.view().overview().text.contains(says), "{}", session.view().overview().text);
        let session = library().session_with(dialect, |options| options.capabilities.arguments = false).await;
        assert!(!session.view().overview().text.contains("args="), "{}", session.view().overview().text);
    }
    // This one has no overview: its tools say what there is.
    let session =
        library().session_with(Dialect::OpenCode, |options| options.capabilities.arguments = true).await;
    assert!(session.tools().iter().any(|tool| tool.description.ends_with("\n- deploy: [env]")));
}

#[tokio::test]
async fn what_a_tool_says_of_time_is_what_the_session_allows() {
    let library = library();
    let scratch = tempfile::tempdir().unwrap();
    let runner = Runner {
        workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(FakeExecutor)),
    };
    let mut runs = RunSetup::new(runner, "one");
    let timeout = async |runs: RunSetup| {
        let options = SessionOptions::new(Dialect::Trpc);
        let session = library.builder().options(options).runs(runs).build().await;
        let tools = session.tools();
        let run = tools.iter().find(|tool| tool.kind == SkillToolKind::Run).unwrap();
        run.parameters["properties"]["timeout"]["default"].as_u64().unwrap()
    };
    assert_eq!(timeout(runs.clone()).await, Limits::default().timeout.as_secs());
    runs.limits.timeout = std::time::Duration::from_secs(7);
    assert_eq!(timeout(runs).await, 7);
}

#[test]
fn a_name_means_one_thing_in_all_dialects() {
    for dialect in Dialect::ALL {
        let names: Vec<&str> = dialect.tool_names().collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{dialect:?}");
        assert!(names.iter().all(|name| Dialect::tool_kind(name).is_some()));
    }
    for kind in SkillToolKind::ALL {
        assert!(!kind.is_idempotent() || !kind.runs() || kind == SkillToolKind::End, "{kind:?}");
        assert!(!(kind.changes_loaded() && kind.reports()), "{kind:?}");
    }
    for (name, kind) in [
        ("load_skill", SkillToolKind::Load),
        ("skill_load", SkillToolKind::Load),
        ("skill", SkillToolKind::Load),
        ("unload_skill", SkillToolKind::Unload),
        ("skill_unload", SkillToolKind::Unload),
        ("skill_run", SkillToolKind::Run),
        ("skill_kill_session", SkillToolKind::End),
    ] {
        assert_eq!(Dialect::tool_kind(name), Some(kind));
    }
}

/// Only `dialect/` tells dialects apart: nothing else of the crate branches on one.
#[test]
fn no_code_outside_branches_on_a_dialect() {
    fn look(directory: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("src/dialect") {
                    look(&path, found);
                }
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code.filter(|line| line.contains("Dialect::")) {
                // The default of options is the only one that may be named.
                if !line.contains("Self::new(Dialect::DeepAgents)") {
                    found.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    let mut found = Vec::new();
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}
