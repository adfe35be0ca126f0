//! What the executor tells of a run.

use std::sync::{Arc, Mutex};

use prowess_workspace::{Command, ContainerExecutor, Executor, NoSink};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::container::engine;
use crate::home::Home;

/// Remembers everything that is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Told {
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

/// What an executor tells of a command that has secrets.
fn told_of(executor: &dyn Executor, mut command: Command) -> String {
    let told = Told::default();
    command.line = "echo spoken-word; exit 4".to_owned();
    command.environment.insert("TOKEN".into(), "given-word".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(told.clone(), || {
        runtime.block_on(executor.run(command, &NoSink)).unwrap();
    });
    told.0.lock().unwrap().join(" ")
}

#[test]
fn a_run_tells_how_it_was_held_and_ended_but_not_what_it_was() {
    let home = Home::new();
    let containers = ContainerExecutor::new(engine::options());
    let executors: [(&dyn Executor, &str); 2] = [(&home.executor, "Bwrap"), (&containers, "Container")];
    for (executor, level) in executors {
        let told = told_of(executor, home.command(""));
        for part in ["workspace.run", &format!("level={level}"), "exit=Code(4)", "duration_ms="] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(!told.contains("-word"), "{told}");
    }
}
