//! Tests of the spans and events of a run.

use std::sync::{Arc, Mutex};

use prowess_workspace::executor::NoSink;
use prowess_workspace::stage::StageSource;
use prowess_workspace::{
    Artifacts, Command, ContainerExecutor, Executor, LocalExecutor, LocalOptions, RunContext, RunInput,
    RunRequest, Runner, Workspaces,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::container::engine;
use crate::home::Home;
use crate::modes::Mode;
use crate::place::Scratch;

/// Records all spans and events.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<String>>>);

impl Visit for Recorded {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Recorded {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(span.metadata().name().to_owned());
        span.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The spans and events of a command that has secrets.
fn recorded_of(executor: &dyn Executor, mut command: Command) -> String {
    let recorded = Recorded::default();
    command.line = "echo spoken-word; exit 4".to_owned();
    command.environment.insert("TOKEN".into(), "given-word".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(recorded.clone(), || {
        runtime.block_on(executor.run(command, &NoSink)).unwrap();
    });
    recorded.0.lock().unwrap().join(" ")
}

#[test]
fn a_run_tells_how_it_was_held_and_ended_but_not_what_it_was() {
    let home = Home::new();
    let containers = (!engine::waived("span::a_run_tells_how_it_was_held_and_ended_but_not_what_it_was"))
        .then(|| ContainerExecutor::new(engine::options()));
    let mut executors: Vec<(&dyn Executor, &str)> = vec![(&home.executor, "Bwrap")];
    executors.extend(containers.iter().map(|containers| (containers as &dyn Executor, "Container")));
    for (executor, level) in executors {
        let recorded = recorded_of(executor, home.command(""));
        for part in ["workspace.run", &format!("level={level}"), "exit=Code(4)", "duration_ms="] {
            assert!(recorded.contains(part), "{part} in {recorded}");
        }
        assert!(!recorded.contains("-word"), "{recorded}");
    }
}

/// Runs in its own process: work on other threads reaches only the subscriber of the whole process.
#[test]
fn every_step_of_a_run_has_its_span() {
    crate::modes::run("span::every_step_of_a_run_has_its_span", Mode::User, async {
        let recorded = Recorded::default();
        tracing::subscriber::set_global_default(recorded.clone()).unwrap();
        let scratch = Scratch::new();
        let skill = scratch.path().join("kit");
        std::fs::create_dir(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "text").unwrap();
        let runner = Runner {
            workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
            artifacts: Some(Arc::new(Artifacts::in_memory())),
            executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
        };
        let find = |_: &str| Some(StageSource::Directory(skill.clone()));
        let mut request = RunRequest::new("kit", "cp work/inputs/SKILL.md out/");
        request.inputs = vec![RunInput::copy("skill://kit/SKILL.md")];
        request.output_files = vec!["out/*".into()];
        request.save_as_artifacts = true;
        let report = runner.run("one", request, RunContext::new(&find)).await.unwrap();
        assert_eq!(report.output_files[0].content.as_deref(), Some("text"), "{report:?}");
        runner.workspaces.cleanup(std::time::Duration::ZERO).unwrap();
        let recorded = recorded.0.lock().unwrap();
        for name in [
            "workspace.create",
            "workspace.stage.skill",
            "workspace.stage.inputs",
            "workspace.run",
            "workspace.collect",
            "workspace.inline",
            "workspace.keep",
            "workspace.cleanup",
        ] {
            assert!(recorded.iter().any(|one| one == name), "{name}: {recorded:?}");
        }
    });
}
