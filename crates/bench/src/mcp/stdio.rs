//! A client on standard input and output.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{hello, initialized, request};

pub(crate) struct Client {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Client {
    pub(crate) async fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("it has no input")?;
        let output = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut client = Self { _child: child, input, output, line: String::new(), next: 0 };
        client.request("initialize", &hello()).await?;
        client.write(&initialized()).await?;
        Ok(client)
    }

    async fn write(&mut self, message: &Value) -> Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(())
    }

    /// Sends a request and returns the raw answer.
    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> Result<&str> {
        self.next += 1;
        self.write(&request(self.next, method, params)).await?;
        let ours = format!("\"id\":{},", self.next);
        loop {
            self.line.clear();
            ensure!(self.output.read_line(&mut self.line).await? > 0, "the server ended");
            if self.line.contains(&ours) {
                return Ok(&self.line);
            }
        }
    }
}
