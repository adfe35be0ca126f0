//! Tests of runs, from the request to the report.

use std::collections::BTreeSet;
use std::sync::Mutex;

use prowess_workspace::command::Sandbox;
use prowess_workspace::executor::OutputSink;
use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::testing::FakeExecutor;
use prowess_workspace::{
    Command, ExecuteError, Executor, Finished, InputMode, RunContext, RunError, RunInput, RunOutputs,
    RunReport, RunRequest, RunWarning, Runner,
};
use serde_json::json;

use crate::place::{Place, names, said, tree};

fn with_demo() -> Place {
    let place = Place::new();
    place.skill("demo", &[("scripts/a.txt", "of the skill")]);
    place
}

fn request(command: &str) -> RunRequest {
    RunRequest::new("demo", command)
}

fn outputs(globs: &[&str]) -> RunOutputs {
    RunOutputs { globs: globs.iter().map(|glob| (*glob).to_owned()).collect(), ..RunOutputs::default() }
}

fn contents(report: &RunReport) -> Vec<(&str, Option<&str>)> {
    report.output_files.iter().map(|file| (file.name.as_str(), file.content.as_deref())).collect()
}

#[tokio::test]
async fn a_command_runs_in_its_skill_and_its_files_come_back() {
    let place = with_demo();
    let mut asked = request("cat scripts/a.txt > out/copy.txt && echo $SKILL_NAME $WHO && cat");
    asked.env.insert("WHO".to_owned(), "me".to_owned());
    asked.env.insert("SKILL_NAME".to_owned(), "another".to_owned());
    asked.stdin = Some("from stdin".to_owned());
    asked.output_files = vec!["$OUTPUT_DIR/*.txt".to_owned()];
    let report = place.run(asked).await.unwrap();
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("demo me\nfrom stdin", ""));
    assert_eq!((report.exit_code, report.timed_out), (0, false));
    assert_eq!(contents(&report), [("out/copy.txt", Some("of the skill"))]);
    assert_eq!((&report.artifact_files, &report.warnings), (&vec![], &vec![]));
    let answer = serde_json::to_value(&report).unwrap();
    let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        BTreeSet::from_iter(keys),
        BTreeSet::from([
            "stdout",
            "stderr",
            "exit_code",
            "timed_out",
            "duration_ms",
            "truncated",
            "output_files",
            "artifact_files",
            "warnings",
            "sandbox"
        ])
    );
    assert_eq!(
        answer["output_files"][0],
        json!({"name": "out/copy.txt", "content": "of the skill", "mime_type": "text/plain", "size_bytes": 12, "truncated": false})
    );
}

#[tokio::test]
async fn a_report_of_which_something_was_cut_says_so() {
    let place = with_demo();
    let within = |limits: RunOutputs| {
        let mut asked = request("echo 12345 > out/a; echo 12345 > out/b");
        asked.outputs = Some(RunOutputs { globs: vec!["out/*".to_owned()], inline: true, ..limits });
        asked
    };
    let usual = RunOutputs::default;
    assert!(!place.run(within(usual())).await.unwrap().truncated);
    for limits in [
        RunOutputs { max_files: 1, ..usual() },
        RunOutputs { max_file_bytes: 3, ..usual() },
        RunOutputs { max_total_bytes: 8, ..usual() },
    ] {
        let report = place.run(within(limits.clone())).await.unwrap();
        assert!(report.truncated, "{limits:?}: {report:?}");
    }
    let long = place.run(request(&format!("echo {}", "x".repeat(2 << 20)))).await.unwrap();
    assert!(long.truncated && long.stdout.len() < 2 << 20, "{}", long.stdout.len());
}

#[tokio::test]
async fn failures_and_timeouts_are_answers_with_their_files() {
    let place = with_demo();
    let mut failing = request("echo made > out/a; cat none; exit 3");
    failing.output_files = vec!["out/*".to_owned()];
    let report = place.run(failing).await.unwrap();
    assert_eq!((report.exit_code, report.timed_out, names(&report.output_files)), (3, false, vec!["out/a"]));
    assert!(report.stderr.starts_with("cat: "), "{}", report.stderr);

    let mut slow = request("echo made > out/b; sleep 5; echo never > out/c");
    slow.timeout = Some(2);
    slow.output_files = vec!["out/*".to_owned()];
    let report = place.run(slow).await.unwrap();
    assert_eq!((report.exit_code, report.timed_out, report.duration_ms), (124, true, 2000));
    assert_eq!(names(&report.output_files), ["out/a", "out/b"]);
}

#[tokio::test]
async fn time_is_the_default_or_what_was_asked_up_to_the_most() {
    let place = with_demo();
    let run = async |command: &str, timeout| {
        let mut asked = request(command);
        asked.timeout = timeout;
        place.run(asked).await.unwrap()
    };
    assert!(run("sleep 61", None).await.timed_out);
    assert!(!run("sleep 59", Some(0)).await.timed_out);
    let report = run("sleep 601", Some(100_000)).await;
    assert!(report.timed_out);
    assert_eq!(report.duration_ms, MAX_TIMEOUT.as_secs() * 1000);
    assert_eq!(said(&report.warnings), ["the timeout was lowered to 600 seconds, the maximum"]);
}

#[tokio::test]
async fn errors_are_named_as_the_seed_names_them() {
    let place = with_demo();
    let unknown = place.run(RunRequest::new("nobody", "true")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "unknown skill: nobody");
    let runner = Runner { executor: None, ..place.runner() };
    let skills = |name: &str| place.source(name);
    let refused = runner.run("test", request("true"), RunContext::new(&skills)).await.unwrap_err();
    assert!(refused.to_string().starts_with("executor is not configured"), "{refused}");
}

#[tokio::test]
async fn a_directory_is_one_of_the_skills_or_the_workspaces() {
    let place = with_demo();
    let run = async |cwd: &str| {
        let mut asked = request("pwd");
        asked.cwd = Some(cwd.to_owned());
        place.run(asked).await
    };
    let root = place.workspace().path().display().to_string();
    for (cwd, expected) in [
        ("", "/skills/demo"),
        (".", "/skills/demo"),
        ("scripts", "/skills/demo/scripts"),
        ("./scripts/", "/skills/demo/scripts"),
        ("$WORK_DIR/inputs", "/work/inputs"),
        ("$WORKSPACE_DIR", "/"),
    ] {
        assert_eq!(run(cwd).await.unwrap().stdout, format!("{root}{expected}\n"), "{cwd}");
    }
    run("out").await.unwrap();
    for cwd in ["..", "../../", "/etc", "scripts/../../..", "none", "scripts/a.txt", "a\0b"] {
        let refused = run(cwd).await.unwrap_err().to_string();
        assert!(refused.starts_with("the directory `"), "{cwd}: {refused}");
    }
}

#[tokio::test]
async fn outputs_inline_only_when_asked_and_save_under_the_template() {
    let place = with_demo();
    let mut asked = request("echo text > out/a.txt");
    asked.outputs = Some(outputs(&["$OUTPUT_DIR/**"]));
    let report = place.run(asked.clone()).await.unwrap();
    assert_eq!(contents(&report), [("out/a.txt", None)]);
    assert_eq!(report.output_files[0].mime_type, "text/plain");
    assert_eq!(report.artifact_files, []);

    let spec = outputs(&["out/**"]);
    asked.outputs =
        Some(RunOutputs { inline: true, save: true, name_template: Some("pref/".to_owned()), ..spec });
    let report = place.run(asked).await.unwrap();
    assert_eq!(contents(&report), [("out/a.txt", Some("text\n"))]);
    assert_eq!(
        (report.artifact_files[0].name.as_str(), report.artifact_files[0].version),
        ("pref/out/a.txt", 0)
    );
}

#[tokio::test]
async fn output_files_are_saved_with_a_prefix_and_without_content_when_asked() {
    let place = with_demo();
    let mut asked = request("echo text > out/a.txt");
    asked.output_files = vec!["out/*".to_owned()];
    asked.omit_inline_content = true;
    let report = place.run(asked.clone()).await.unwrap();
    assert_eq!(contents(&report), [("out/a.txt", Some("text\n"))], "only together with saving");
    asked.save_as_artifacts = true;
    asked.artifact_prefix = Some("run/".to_owned());
    let report = place.run(asked).await.unwrap();
    assert_eq!(contents(&report), [("out/a.txt", None)]);
    assert_eq!(report.artifact_files[0].name, "run/out/a.txt");
}

#[tokio::test]
async fn both_ways_together_give_each_file_once() {
    let place = with_demo();
    let mut asked = request("echo a > out/a; echo b > out/b");
    asked.output_files = vec!["out/a".to_owned()];
    asked.save_as_artifacts = true;
    asked.outputs = Some(RunOutputs { save: true, inline: true, ..outputs(&["out/*"]) });
    let report = place.run(asked).await.unwrap();
    assert_eq!(contents(&report), [("out/a", Some("a\n")), ("out/b", Some("b\n"))]);
    let kept: Vec<_> = report.artifact_files.iter().map(|kept| (kept.name.as_str(), kept.version)).collect();
    assert_eq!(kept, [("out/a", 0), ("out/b", 0)]);
}

#[tokio::test]
async fn a_truncated_file_is_not_saved_as_if_whole() {
    let place = with_demo();
    let mut asked = request("echo 0123456789 > out/long; echo 0 > out/short");
    asked.outputs = Some(RunOutputs { save: true, inline: true, max_file_bytes: 5, ..outputs(&["out/*"]) });
    let report = place.run(asked).await.unwrap();
    assert_eq!(contents(&report), [("out/long", Some("01234")), ("out/short", Some("0\n"))]);
    assert!(report.output_files[0].truncated);
    let kept: Vec<_> = report.artifact_files.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(kept, ["out/short"]);
    assert!(said(&report.warnings).contains(&"`out/long` was not saved: it is truncated".to_owned()));
    let listed = place.runner().artifacts.unwrap().list().await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[test]
fn a_file_that_is_written_while_it_is_collected_is_not_saved() {
    use std::os::unix::fs::FileExt as _;
    let place = with_demo();
    let file = std::fs::File::create(place.workspace().path().join("out/moving")).unwrap();
    file.set_len(32 << 20).unwrap();
    let mut asked = request("true");
    asked.outputs = Some(RunOutputs { save: true, max_file_bytes: 64 << 20, ..outputs(&["out/*"]) });
    let over = std::sync::atomic::AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all_at(b"x", 0).unwrap();
            }
        });
        let report = crate::place::block_on(place.run(asked.clone()));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        report.unwrap()
    });
    assert_eq!((report.artifact_files.as_slice(), report.output_files[0].truncated), (&[][..], true));
    for warning in [
        "`out/moving` changed while it was collected: it may mix two versions",
        "`out/moving` was not saved: it changed while it was collected",
    ] {
        assert!(said(&report.warnings).contains(&warning.to_owned()), "{:?}", report.warnings);
    }
    let report = crate::place::block_on(place.run(asked)).unwrap();
    assert_eq!((report.artifact_files.len(), report.output_files[0].truncated), (1, false));
}

#[tokio::test]
async fn without_a_store_saving_is_a_warning() {
    let place = with_demo();
    let runner = Runner { artifacts: None, ..place.runner() };
    let mut asked = request("echo text > out/a");
    asked.output_files = vec!["out/*".to_owned()];
    asked.save_as_artifacts = true;
    let skills = |name: &str| place.source(name);
    let report = runner.run("test", asked, RunContext::new(&skills)).await.unwrap();
    assert_eq!(report.warnings, [RunWarning::NoArtifacts]);
    assert_eq!(contents(&report), [("out/a", Some("text\n"))]);
}

#[tokio::test]
async fn the_runs_own_directory_is_that_of_this_run() {
    let place = with_demo();
    let run = async |command: &str| {
        let mut asked = request(command);
        asked.output_files = vec!["$RUN_DIR/*".to_owned(), "${RUN_DIR}/deep/*".to_owned()];
        place.run(asked).await.unwrap()
    };
    let first = run("echo first > $RUN_DIR/log").await;
    assert_eq!(first.output_files[0].content.as_deref(), Some("first\n"));
    let second = run("mkdir -p $RUN_DIR/deep && echo second > $RUN_DIR/deep/log").await;
    assert_eq!((second.output_files.len(), second.output_files[0].content.as_deref()), (1, Some("second\n")));
    assert_eq!(run("true").await.output_files, []);
    let mut all = request("true");
    all.output_files = vec!["runs/**".to_owned()];
    assert_eq!(place.run(all).await.unwrap().output_files.len(), 2);
}

#[tokio::test]
async fn the_runs_own_directory_is_never_that_of_a_run_beside_it() {
    #[derive(Debug)]
    struct Beside {
        is_known: bool,
    }

    #[async_trait::async_trait]
    impl Executor for Beside {
        async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
            let runs = command.workspace.join("runs");
            let mut finished = FakeExecutor.run(command, output).await?;
            let own = finished.run.clone().unwrap();
            for other in ["other".to_owned(), format!("{own}0")] {
                std::fs::create_dir(runs.join(&other)).unwrap();
                std::fs::write(runs.join(&other).join("log"), "of another run").unwrap();
            }
            if !self.is_known {
                finished.run = None;
            }
            Ok(finished)
        }
        async fn probe(&self) -> Result<Sandbox, ExecuteError> {
            Err(ExecuteError::NotConfigured)
        }
    }

    for (is_known, glob, expected, warning) in [
        (true, "$RUN_DIR/**", 1, None),
        (true, "$RUN_DIR*/log", 0, Some("`$RUN_DIR*/log` matches nothing: write `/` after `$RUN_DIR`")),
        (false, "$RUN_DIR/*", 0, Some("`$RUN_DIR/*` matches nothing: this run has no `$RUN_DIR`")),
    ] {
        let place = with_demo();
        let runner = Runner { executor: Some(std::sync::Arc::new(Beside { is_known })), ..place.runner() };
        let mut asked = request("echo own > $RUN_DIR/log; echo out > out/a");
        asked.output_files = vec![glob.to_owned(), "out/*".to_owned()];
        let skills = |name: &str| place.source(name);
        let report = runner.run("test", asked, RunContext::new(&skills)).await.unwrap();
        let own = report.output_files.iter().filter(|file| file.name.starts_with("runs/"));
        let texts: Vec<_> = own.map(|file| file.content.as_deref()).collect();
        assert_eq!(texts, vec![Some("own\n"); expected], "{glob}");
        assert_eq!(report.output_files.len(), expected + 1, "{glob}");
        assert_eq!(said(&report.warnings), Vec::from_iter(warning));
    }
}

#[tokio::test]
async fn nothing_stays_of_a_linked_input_when_nobody_waits_for_the_run() {
    #[derive(Debug)]
    struct Endless;

    #[async_trait::async_trait]
    impl Executor for Endless {
        async fn run(&self, command: Command, _: &dyn OutputSink) -> Result<Finished, ExecuteError> {
            assert!(command.workspace.join("work/inputs/file").is_file());
            std::future::pending().await
        }
        async fn probe(&self) -> Result<Sandbox, ExecuteError> {
            Err(ExecuteError::NotConfigured)
        }
    }

    let place = with_demo();
    let file = place.file("host/file", "text");
    let runner = Runner { executor: Some(std::sync::Arc::new(Endless)), ..place.runner() };
    let mut asked = request("true");
    asked.inputs =
        vec![RunInput { mode: InputMode::Link, ..RunInput::copy(format!("host://{}", file.display())) }];
    let (skills, all) = (|name: &str| place.source(name), |_: &std::path::Path| true);
    let mut context = RunContext::new(&skills);
    context.input_gate = &all;
    let running = runner.run("test", asked, context);
    tokio::time::timeout(std::time::Duration::from_millis(500), running).await.unwrap_err();
    assert_eq!(tree(&place.workspace().path().join("work")), ["inputs"]);
}

#[tokio::test]
async fn what_runs_is_what_was_approved() {
    let place = with_demo();
    let (runner, skills) = (place.runner(), |name: &str| place.source(name));
    let staged = runner.stage("test", "demo", &place.source("demo").unwrap()).await.unwrap();
    let approved = staged.digest.clone();
    drop(staged);
    let run = async || {
        let mut context = RunContext::new(&skills);
        context.expected.insert("demo".to_owned(), approved.clone());
        runner.run("test", request("echo ran > out/a"), context).await
    };
    assert_eq!(run().await.unwrap().exit_code, 0);
    std::fs::remove_file(place.workspace().path().join("out/a")).unwrap();
    place.skill("demo", &[("scripts/a.txt", "another text")]);
    let refused = run().await.unwrap_err();
    assert!(matches!(&refused, RunError::Changed { skill } if skill == "demo"), "{refused:?}");
    assert!(refused.to_string().ends_with("changed after it was approved; ask again"), "{refused}");
    assert_eq!(tree(&place.workspace().path().join("out")), Vec::<String>::new());
    let refused = runner.stage("test", "../demo", &place.source("demo").unwrap()).await.unwrap_err();
    assert!(matches!(refused, RunError::UnknownSkill(_)), "{refused:?}");
}

#[tokio::test]
async fn sessions_share_nothing() {
    let place = with_demo();
    let skills = |name: &str| place.source(name);
    let run = async |session: &str, command: &str| {
        let mut asked = request(command);
        asked.output_files = vec!["out/*".to_owned()];
        place.runner().run(session, asked, RunContext::new(&skills)).await.unwrap()
    };
    run("one", "echo one > out/a").await;
    assert_eq!(run("two", "true").await.output_files, []);
    assert_eq!(names(&run("one", "true").await.output_files), ["out/a"]);
}

#[tokio::test]
async fn the_skills_own_warnings_are_in_the_report() {
    let place = Place::new();
    place.skill("demo", &[("out/own.txt", "own")]);
    let report = place.run(request("cat out/own.txt && echo x > $OUTPUT_DIR/a")).await.unwrap();
    assert_eq!(report.stdout, "own");
    assert!(report.warnings[0].to_string().contains("`$WORKSPACE_DIR/out`"), "{:?}", report.warnings);
}

#[test]
fn a_request_needs_a_skill_and_a_command_and_has_the_contracts_defaults() {
    let parse = |value| serde_json::from_value::<RunRequest>(value);
    assert!(parse(json!({"skill": "demo"})).is_err() && parse(json!({"command": "true"})).is_err());
    let least = parse(json!({"skill": "demo", "command": "true"})).unwrap();
    assert_eq!(least, RunRequest::new("demo", "true"));
    let nulls = json!({
        "skill": "demo", "command": "true", "cwd": null, "env": null, "output_files": null, "inputs": null,
        "outputs": null, "timeout": null, "save_as_artifacts": null, "omit_inline_content": null,
        "artifact_prefix": null, "stdin": null
    });
    assert_eq!(parse(nulls).unwrap(), least);
    let some = parse(json!({
        "skill": "demo", "command": "true", "inputs": [{"from": "artifact://a"}], "outputs": {"globs": ["out/**"]}
    }))
    .unwrap();
    let spec = some.outputs.unwrap();
    assert_eq!((spec.max_files, spec.max_file_bytes, spec.max_total_bytes), (100, 4 << 20, 64 << 20));
    assert_eq!(serde_json::to_value(some.inputs[0].mode).unwrap(), "copy");
    assert!(parse(json!({"skill": "demo", "command": "true", "timeout": -1})).is_err());
}

/// Records the names of spans.
struct Spans(Mutex<BTreeSet<&'static str>>);

impl tracing::Subscriber for &'static Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.0.lock().unwrap().insert(span.metadata().name());
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn spans_are_named_as_the_contract_names_them() {
    static SPANS: Spans = Spans(Mutex::new(BTreeSet::new()));
    tracing::subscriber::set_global_default(&SPANS).unwrap();
    let place = with_demo();
    let mut asked = request("echo text > out/a");
    asked.output_files = vec!["out/*".to_owned()];
    place.run(asked).await.unwrap();
    place.workspaces.cleanup(std::time::Duration::ZERO).unwrap();
    let seen = SPANS.0.lock().unwrap();
    for name in ["create", "stage.skill", "stage.inputs", "run", "collect", "inline", "cleanup"] {
        assert!(seen.contains(format!("workspace.{name}").as_str()), "{name}: {seen:?}");
    }
}
