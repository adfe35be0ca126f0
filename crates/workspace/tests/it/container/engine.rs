//! The engine of the tests, and a workspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prowess_workspace::executor::NoSink;
use prowess_workspace::{Command, ContainerExecutor, ContainerOptions, Executor as _, Finished};
use tempfile::TempDir;

use crate::home::{lay_out, text};

/// What to do if there is no engine.
const HOW: &str = "use `make test`, or `eval \"$(scripts/test-engine.sh start)\"` before and `scripts/test-engine.sh stop` after";

/// Whether this machine may skip containers. If so, it prints that.
#[allow(clippy::print_stderr, reason = "what was not tried is told")]
pub(crate) fn waived(test: &str) -> bool {
    let waived = std::env::var_os("PROWESS_WAIVE_CONTAINERS").is_some_and(|value| value == "1");
    if waived {
        eprintln!("{test}: without containers, by PROWESS_WAIVE_CONTAINERS=1");
    }
    waived
}

/// Options for the engine and the image of the tests.
pub(crate) fn options() -> ContainerOptions {
    let given = |name: &str| match std::env::var(name) {
        Ok(value) if !value.is_empty() => value,
        _ => panic!("{name} is not set: {HOW}"),
    };
    let mut options = ContainerOptions::default();
    options.socket = Some(PathBuf::from(given("PROWESS_TEST_ENGINE")));
    options.image = given("PROWESS_TEST_IMAGE");
    options
}

/// A workspace and an executor.
pub(crate) struct Home {
    directory: TempDir,
    pub(crate) executor: ContainerExecutor,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: ContainerOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        lay_out(directory.path());
        Self { directory, executor: ContainerExecutor::new(options) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(self.path(), "work", line);
        command.limits.grace = Duration::from_millis(300);
        command
    }

    pub(crate) async fn run(&self, line: &str) -> Finished {
        self.finish(self.command(line)).await
    }

    pub(crate) async fn finish(&self, command: Command) -> Finished {
        self.executor.run(command, &NoSink).await.unwrap()
    }

    /// Everything that a command writes.
    pub(crate) async fn says(&self, line: &str) -> String {
        text(&self.run(line).await)
    }
}

/// The names of all containers of a process.
pub(crate) fn containers_of(process: u32) -> Vec<String> {
    use std::io::{Read as _, Write as _};
    let mut engine = std::os::unix::net::UnixStream::connect(options().socket.unwrap()).unwrap();
    write!(engine, "GET /v1.40/containers/json?all=true HTTP/1.0\r\nHost: engine\r\n\r\n").unwrap();
    let mut answer = String::new();
    engine.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let list: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let names = list.as_array().unwrap().iter().map(|one| one["Names"][0].as_str().unwrap().to_owned());
    names.filter(|name| name.contains("/prowess-") && name.contains(&format!(".{process}."))).collect()
}

/// The directories of the containers of a process.
pub(crate) fn directories_of(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mark = format!(".{process}.");
    names.filter(|name| name.starts_with("prowess-") && name.contains(&mark)).collect()
}
