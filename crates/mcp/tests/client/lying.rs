//! `lying_server.py`, started.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prowess_mcp::client::{Connection, Server, ServerError, ServerOptions};
use tempfile::TempDir;

/// No answer of these tests takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that lies in one way.
pub(crate) struct Lying {
    scratch: TempDir,
    args: Vec<String>,
}

fn python() -> String {
    std::env::var("PROWESS_MCP_PYTHON").expect("PROWESS_MCP_PYTHON is not set: `make mcp` runs these tests")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lying_server.py")
}

impl Lying {
    pub(crate) fn new(scenario: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        let args =
            [scenario.to_owned(), "--log".to_owned(), path("log"), "--control".to_owned(), path("control")];
        Self { args: args.to_vec(), scratch }
    }

    pub(crate) fn with(mut self, option: &str, value: &str) -> Self {
        self.args.extend([option.to_owned(), value.to_owned()]);
        self
    }

    pub(crate) fn flag(mut self, option: &str) -> Self {
        self.args.push(option.to_owned());
        self
    }

    /// How it is reached, under this label.
    pub(crate) fn options(&self, label: &str) -> ServerOptions {
        let script = script().to_str().unwrap().to_owned();
        let args = [script].into_iter().chain(self.args.iter().cloned());
        let mut options = ServerOptions::new(label.parse().unwrap(), Connection::command(python(), args));
        options.limits.answer = PATIENCE;
        options
    }

    pub(crate) async fn connect(&self, label: &str) -> Server {
        Server::connect(self.options(label)).await.unwrap()
    }

    /// Started by us, on HTTP: the process, and the port.
    pub(crate) fn serve(&self) -> (Serving, String) {
        let file = self.scratch.path().join("port");
        let mut command = Command::new(python());
        command.arg(script()).args(&self.args).arg("--http").arg(&file).stdin(Stdio::null());
        let serving = Serving(command.spawn().unwrap());
        let begun = Instant::now();
        loop {
            if let Ok(port) = std::fs::read_to_string(&file) {
                return (serving, format!("http://127.0.0.1:{port}/mcp"));
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not start");
            pause();
        }
    }

    /// What it was asked, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// What it was asked that begins so.
    pub(crate) fn asked(&self, prefix: &str) -> Vec<String> {
        self.log().into_iter().filter(|line| line.starts_with(prefix)).collect()
    }

    /// Waits for a line in its log.
    pub(crate) async fn wait_for(&self, line: &str) {
        self.wait_for_times(line, 1).await;
    }

    pub(crate) async fn wait_for_times(&self, line: &str, times: usize) {
        let begun = Instant::now();
        while self.log().iter().filter(|logged| *logged == line).count() < times {
            assert!(begun.elapsed() < PATIENCE, "{line}: {:?}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Makes it do something else from now on.
    pub(crate) fn control(&self, word: &str) {
        let part = self.scratch.path().join("control.part");
        std::fs::write(&part, word).unwrap();
        std::fs::rename(part, self.scratch.path().join("control")).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "another process writes a file, which tells nobody")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A server on HTTP, killed when this goes.
pub(crate) struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is wrong, as the user reads it.
pub(crate) fn told<T: std::fmt::Debug>(result: Result<T, ServerError>) -> String {
    result.unwrap_err().to_string()
}
