//! Each thread has artifacts of its own.

use std::sync::Arc;

use prowess_agent::{Agent, FunctionTool, NoWatcher, ThreadId, ToolAnswer};
use prowess_models::{Scripted, ScriptedTurn};
use prowess_store::SqliteStore;
use prowess_workspace::{ArtifactName, ArtifactStore as _, Artifacts};

use super::*;

const READ: &str = "cat $WORK_DIR/inputs/*";

/// A run that saves `text` as `out/r.txt`.
fn saves(text: &str) -> Answer {
    let command = format!("echo '{text}' > $OUTPUT_DIR/r.txt");
    Answer::call(
        "skill_run",
        json!({"skill": "tides", "command": command, "output_files": ["out/r.txt"], "save_as_artifacts": true,
            "omit_inline_content": true}),
    )
}

/// A run that reads an artifact.
fn reads(artifact: &str) -> Answer {
    let from = format!("artifact://{artifact}");
    Answer::call("skill_run", json!({"skill": "tides", "command": READ, "inputs": [{"from": from}]}))
}

fn done() -> Answer {
    Answer::text("Done.")
}

/// A turn in which every run is allowed, in this directory of the world.
fn chat(world: &World, directory: &str, args: &[&str]) {
    std::fs::create_dir_all(world.path(directory)).unwrap();
    let args = [&["chat", "--yes"], args].concat();
    let output = world.command(&args).current_dir(world.path(directory)).output().unwrap();
    assert!(output.status.success(), "{}", world.told(&output));
}

/// What the model heard last.
fn heard(model: &FakeModel) -> String {
    last(model.requests().last().unwrap())
}

/// The artifacts as the person sees them: name, versions, scope.
fn listed(world: &World, args: &[&str]) -> Vec<(String, u64, String)> {
    let listed = world.json(&[&["artifacts", "list", "--json"], args].concat());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = listed.as_array().unwrap().iter();
    each.map(|one| (text(&one["name"]), one["versions"].as_u64().unwrap(), text(&one["scope"]))).collect()
}

#[test]
fn case_101_a_thread_neither_reads_nor_replaces_what_another_saved() {
    let model = FakeModel::start(vec![
        saves("of the first"),
        done(),
        // Another project, and then another thread of the same.
        reads("out/r.txt"),
        reads("out/r.txt@0"),
        saves("of the second"),
        done(),
        reads("out/r.txt"),
        saves("of the third"),
        reads("out/r.txt@0"),
        done(),
        // The first again.
        reads("out/r.txt"),
        done(),
    ]);
    let world = world(&model);
    chat(&world, "project", &["save it"]);
    let first = thread(&world);
    chat(&world, "other", &["read it"]);
    let second = thread(&world);
    chat(&world, "project", &["read it"]);
    let third = thread(&world);
    for (request, tried) in [(3, "the latest"), (4, "a version"), (7, "the latest")] {
        let told = last(&model.requests()[request]);
        assert!(
            told.contains("there is no artifact 'out/r.txt'") && !told.contains("of the first"),
            "another thread read {tried}: {told}"
        );
    }
    let third_read = last(&model.requests()[9]);
    assert!(third_read.contains("of the third"), "its own: {third_read}");
    chat(&world, "project", &["--resume", &first, "what is it?"]);
    assert!(heard(&model).contains("of the first"), "nobody replaced it: {}", heard(&model));
    // The person sees all of them, and is told how to tell them apart.
    let mut all = listed(&world, &[]);
    all.sort();
    let mut expected =
        [&first, &second, &third].map(|thread| ("out/r.txt".to_owned(), 1, format!("thread:{thread}")));
    expected.sort();
    assert_eq!(all, expected);
    let several = world.output(&["artifacts", "get", "out/r.txt"]);
    assert_eq!(several.status.code(), Some(2), "{}", world.told(&several));
    let told = String::from_utf8(several.stderr).unwrap();
    for (thread, text) in
        [(&first, "of the first\n"), (&second, "of the second\n"), (&third, "of the third\n")]
    {
        let line = format!("prowess artifacts get out/r.txt --thread {thread}");
        assert!(told.contains(&line), "{told}");
        let args: Vec<&str> = line.split(' ').skip(1).collect();
        assert_eq!(world.stdout(&args), text);
    }
    // The last one of this directory, which was resumed; one that is mistyped is no new scope.
    let last = ["artifacts", "get", "out/r.txt", "--thread", "last"];
    assert_eq!(world.stdout(&last), "of the first\n");
    for (args, code) in [
        (&["artifacts", "list", "--thread", "nobody"][..], 2),
        (&["run", "tides", "--thread", "nobody", "--save", "--", "echo x > out/x.txt"], 125),
    ] {
        let output = world.output(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", world.told(&output));
        assert!(world.told(&output).contains("there is no thread `nobody`"), "{}", world.told(&output));
    }
    assert_eq!(listed(&world, &[]).len(), 3);
    // An end of the name is enough, and what is removed is removed there alone.
    world.stdout(&["artifacts", "rm", "out/r.txt", "--thread", &second[second.len() - 6..]]);
    assert_eq!(listed(&world, &[]).len(), 2);
    assert_eq!(listed(&world, &["--thread", &second]), []);
    assert_eq!(world.stdout(&["artifacts", "get", "out/r.txt@0", "--thread", &first]), "of the first\n");
}

#[test]
fn case_101_sub_agents_share_and_a_copy_goes_its_own_way() {
    let asks = |body: &Value| all(body).contains("Save for me.") && !all(body).contains("hand it on");
    let model = FakeModel::start(vec![
        Answer::call("task", json!({"description": "Save for me."})),
        saves("of the sub-agent").when(asks),
        Answer::text("Saved.").when(asks),
        reads("out/r.txt"),
        done(),
        // The copy.
        reads("out/r.txt@0"),
        saves("of the copy"),
        reads("out/r.txt"),
        done(),
        // The origin.
        reads("out/r.txt"),
        done(),
    ]);
    let world = world(&model);
    chat(&world, "project", &["hand it on"]);
    let origin = thread(&world);
    assert!(last(&model.requests()[4]).contains("of the sub-agent"), "{}", last(&model.requests()[4]));
    chat(&world, "project", &["--resume", &origin, "/fork"]);
    let copy = thread(&world);
    assert_ne!(copy, origin);
    chat(&world, "project", &["--resume", &copy, "go on"]);
    assert!(last(&model.requests()[6]).contains("of the sub-agent"), "the copy has what its origin had");
    assert!(last(&model.requests()[7]).contains(r#"\"version\":1"#), "{}", last(&model.requests()[7]));
    assert!(last(&model.requests()[8]).contains("of the copy"));
    chat(&world, "project", &["--resume", &origin, "go on"]);
    assert!(heard(&model).contains("of the sub-agent"), "the copy replaced nothing: {}", heard(&model));
}

/// A thread as an earlier version left it, with a call that had saved these artifacts for all to see.
fn older_thread(world: &World, id: &str, saved: &[(&str, u64)]) {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let saved: Vec<Value> =
        saved.iter().map(|(name, version)| json!({"name": name, "version": version})).collect();
    let report = json!({"stdout": "", "exit_code": 0, "artifact_files": saved}).to_string();
    let run = FunctionTool::new("skill_run", "Runs.", move |_: Nothing| {
        let report = report.clone();
        async move { Ok(ToolAnswer::text(report)) }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let state = world.path("home/.local/state/prowess");
        std::fs::create_dir_all(&state).unwrap();
        let store = SqliteStore::open(state.join("threads.db")).await.unwrap();
        let model = Scripted::new([
            ScriptedTurn::new().call("skill_run", json!({})),
            ScriptedTurn::new().say("Saved."),
        ]);
        let agent = Agent::builder(Arc::new(model)).tool(Arc::new(run)).store(Arc::new(store.clone()));
        let agent = agent.build().unwrap();
        let mut thread = agent.open(id.parse::<ThreadId>().unwrap()).await.unwrap();
        thread.say("Save it.", &NoWatcher).await.unwrap();
        thread.close().await.unwrap();
        drop(agent);
        store.close().await.unwrap();
    });
}

/// Saves as earlier versions did, where everybody finds it.
fn saved_earlier(world: &World, name: &str, texts: &[&'static str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let artifacts = Artifacts::on_disk(world.path("home/.local/state/prowess/artifacts")).unwrap();
    for text in texts {
        let name = ArtifactName::parse(name).unwrap();
        runtime.block_on(artifacts.save(&name, (*text).into(), "text/plain")).unwrap();
    }
}

#[test]
fn case_101_what_was_saved_before_stays_and_its_thread_still_finds_it() {
    let model = FakeModel::start(vec![
        reads("out/r.txt@1"),
        reads("out/r.txt@0"),
        saves("of now"),
        done(),
        // A new thread.
        reads("out/r.txt"),
        saves("of another"),
        done(),
    ]);
    let world = world(&model);
    saved_earlier(&world, "out/r.txt", &["somebody's\n", "this thread's\n"]);
    older_thread(&world, "2026-01-02-abcdef", &[("out/r.txt", 1)]);
    chat(&world, "project", &["--resume", "2026-01-02-abcdef", "read it"]);
    let told = |request: usize| last(&model.requests()[request]);
    assert!(told(1).contains("this thread's"), "it made version 1: {}", told(1));
    assert!(!told(2).contains("somebody's"), "it did not make version 0: {}", told(2));
    assert!(told(3).contains(r#"\"version\":2"#), "{}", told(3));
    chat(&world, "project", &["read it"]);
    assert!(told(5).contains("there is no artifact 'out/r.txt'"), "{}", told(5));
    // The person has all that was there, as it was.
    let shared: Vec<_> = listed(&world, &["--scope", "shared"]);
    assert_eq!(shared, [("out/r.txt".to_owned(), 2, "shared".to_owned())]);
    let get = |name: &str| world.stdout(&["artifacts", "get", name, "--scope", "shared"]);
    assert_eq!((get("out/r.txt@0"), get("out/r.txt")), ("somebody's\n".into(), "this thread's\n".into()));
}
