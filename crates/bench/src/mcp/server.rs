//! A server in its own process.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// The token of the clients.
pub(crate) const SECRET: &str = "a-token-of-the-benchmarks";

/// The command for `prowess mcp` with these skills.
pub(crate) fn prowess(program: &Path, skills: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("mcp").args(["--only", "--root"]).arg(skills).args(more);
    command.env("PROWESS_MCP_TOKEN", SECRET);
    command
}

/// The command for the echo of this program, with the answers in a file.
pub(crate) fn echo(over: &str, answers: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["echo", over]).arg(answers);
    Ok(command)
}

/// A server that is listening.
pub(crate) struct Listening {
    pub(crate) address: String,
    child: Child,
    // Keeps the pipe open, so that the server can write more lines.
    _errors: Lines<BufReader<ChildStderr>>,
}

impl Listening {
    pub(crate) async fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut errors = BufReader::new(child.stderr.take().context("it has no errors to read")?).lines();
        loop {
            let line = errors.next_line().await?.context("the server ended before it listened")?;
            if let Some(url) = line.strip_prefix("serving at http://") {
                let address = url.trim_end_matches("/mcp").to_owned();
                return Ok(Self { address, child, _errors: errors });
            }
        }
    }

    /// Its resident memory, in mebibytes.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        let id = self.child.id().context("the server has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1_024.0)
    }
}
