//! Tests of whole runs: staged, in the sandbox, with collected files and artifacts.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use prowess_workspace::stage::StageSource;
use prowess_workspace::{
    ArtifactName, Artifacts, InputMode, Level, LocalExecutor, LocalOptions, RunContext, RunInput, RunOutputs,
    RunReport, RunRequest, RunWarning, Runner, Workspaces,
};

use crate::place::Scratch;

pub(crate) struct Machine {
    pub(crate) runner: Runner,
    /// Removed on drop.
    scratch: Scratch,
}

pub(crate) fn examples(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills").join(name)
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(LocalOptions::default())
    }

    fn with(options: LocalOptions) -> Self {
        let scratch = Scratch::new();
        // Commands run as another user, who must be able to enter.
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let runner = Runner {
            workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
            artifacts: Some(Arc::new(Artifacts::in_memory())),
            executor: Some(Arc::new(LocalExecutor::new(options))),
        };
        Self { runner, scratch }
    }

    async fn run(&self, request: RunRequest) -> RunReport {
        let sources =
            |name: &str| Some(examples(name)).filter(|path| path.is_dir()).map(StageSource::Directory);
        let host = self.scratch.path().to_owned();
        let may_come = move |path: &std::path::Path| path.starts_with(&host);
        let mut context = RunContext::new(&sources);
        context.input_gate = &may_come;
        self.runner.run("one", request, context).await.unwrap()
    }
}

#[tokio::test]
async fn an_example_skill_runs_and_its_output_is_kept() {
    let machine = Machine::new();
    let mut request =
        RunRequest::new("python-math", "python3 scripts/fib.py 10 > out/fib.txt && cat out/fib.txt");
    request.outputs = Some(RunOutputs {
        globs: vec!["$OUTPUT_DIR/**".into()],
        inline: true,
        save: true,
        ..RunOutputs::default()
    });
    let report = machine.run(request.clone()).await;
    assert_eq!((report.exit_code, report.stderr.as_str()), (0, ""), "{report:?}");
    assert_eq!(report.stdout, "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n");
    assert_eq!(report.sandbox.level, Level::Bwrap);
    assert_eq!(report.output_files[0].name, "out/fib.txt");
    assert_eq!(report.output_files[0].content.as_deref(), Some(report.stdout.as_str()));
    assert_eq!(
        (report.artifact_files[0].name.as_str(), report.artifact_files[0].version),
        ("out/fib.txt", 0)
    );
    let again = machine.run(request).await;
    assert_eq!(again.artifact_files[0].version, 1);
}

/// Allowed local files become inputs, and a linked one is read-only.
#[tokio::test]
async fn inputs_of_the_host_reach_the_command() {
    let machine = Machine::new();
    let given = machine.scratch.path().join("numbers.txt");
    std::fs::write(&given, "3 1 4\n").unwrap();
    std::fs::set_permissions(&given, PermissionsExt::from_mode(0o644)).unwrap();
    for mode in [InputMode::Copy, InputMode::Link] {
        let to = format!("work/inputs/{mode:?}.txt");
        let line = format!("python3 scripts/stats.py {to}; echo x >> {to} && echo wrote");
        let mut request = RunRequest::new("python-math", line);
        let input = RunInput::copy(format!("host://{}", given.display()));
        request.inputs = vec![RunInput { mode, to: Some(to), ..input }];
        let report = machine.run(request).await;
        assert!(report.stdout.contains('8'), "{mode:?}: {report:?}");
        assert_eq!(report.stdout.contains("wrote"), mode == InputMode::Copy, "{mode:?}: {report:?}");
        assert_eq!(std::fs::read_to_string(&given).unwrap(), "3 1 4\n", "{mode:?}");
    }
}

/// A skill cannot change its own files.
#[tokio::test]
async fn the_skill_itself_is_read_only() {
    let machine = Machine::new();
    let report = machine
        .run(RunRequest::new("python-math", "echo x >> SKILL.md; echo x > new.txt; touch $SKILLS_DIR/y; ls"))
        .await;
    assert_eq!(report.stderr.lines().count(), 3, "{report:?}");
    assert_eq!(report.stdout, "SKILL.md\nassets\ninputs\nout\nscripts\nwork\n");
    assert!(!examples("python-math").join("new.txt").exists());
}

/// A secret does not reach a model through a collected file; an artifact keeps its bytes.
#[tokio::test]
async fn secrets_are_taken_out_of_files_that_are_shown() {
    let mut options = LocalOptions::default();
    options.redact.push("correct-horse".into());
    let machine = Machine::with(options);
    let mut request =
        RunRequest::new("python-math", "echo key=correct-horse; echo key=correct-horse > out/a.txt");
    request.output_files = vec!["out/*".into()];
    request.save_as_artifacts = true;
    request.outputs =
        Some(RunOutputs { globs: vec!["out/**".into()], inline: true, ..RunOutputs::default() });
    let report = machine.run(request).await;
    let content = report.output_files[0].content.as_deref();
    assert_eq!((report.stdout.as_str(), content), ("key=[redacted]\n", Some("key=[redacted]\n")));
    assert!(report.warnings.contains(&RunWarning::HasSecret { path: "out/a.txt".to_owned() }), "{report:?}");
    assert!(!format!("{report:?}").contains("correct-horse"));
    let artifacts = machine.runner.artifacts.as_ref().unwrap();
    let kept = artifacts.load(&ArtifactName::parse("out/a.txt").unwrap(), None).await.unwrap();
    assert_eq!(kept.bytes, "key=correct-horse\n");
}
