//! Measures one call, from the first byte of the request to the last byte of the answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::server::{Listening, echo, prowess};
use super::{SKILLS, call, http, stdio};
use crate::task::Sample;

/// The called tool.
const LOAD: &str = "load_skill";
/// How many calls come first without counting, and how many count.
const BEFORE: usize = 50;
const CALLS: usize = 500;

/// How a client reaches its server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// Standard input and output.
    Stdio,
    /// HTTP, in a session.
    Http,
    /// HTTP, in the revision without sessions.
    HttpWithoutSession,
}

enum Client {
    Stdio(stdio::Client),
    Http(http::Client, #[expect(dead_code, reason = "it ends with its client")] Listening),
}

impl Client {
    async fn start(
        over: Over,
        command: impl FnOnce(&str) -> Result<tokio::process::Command>,
    ) -> Result<Self> {
        Ok(match over {
            Over::Stdio => Self::Stdio(stdio::Client::start(command("stdio")?).await?),
            Over::Http | Over::HttpWithoutSession => {
                let listening = Listening::start(command("http")?).await?;
                let address = &listening.address;
                let client = match over {
                    Over::HttpWithoutSession => http::Client::without_session(address).await?,
                    _ => http::Client::with_session(address).await?,
                };
                Self::Http(client, listening)
            }
        })
    }

    async fn call(&mut self, tool: &str, arguments: &Value) -> Result<&str> {
        let call = call(tool, arguments);
        match self {
            Self::Stdio(client) => client.request("tools/call", &call).await,
            Self::Http(client, _) => client.request("tools/call", &call).await,
        }
    }

    /// Unloads the skill, if there is a session.
    async fn unload(&mut self, over: Over, arguments: &Value) -> Result<()> {
        if !matches!(over, Over::HttpWithoutSession) {
            self.call("unload_skill", arguments).await?;
        }
        Ok(())
    }
}

/// Measures calls of the echo, with the answers that `prowess mcp` gave to the same calls.
pub(crate) fn echoed(over: Over, skills: &Path, program: &Path) -> Result<Sample> {
    timed(async {
        let answers = answers(over, skills, program).await?;
        let file = tempfile::NamedTempFile::new()?;
        serde_json::to_writer(&file, &answers)?;
        let mut client = Client::start(over, |word| echo(word, file.path())).await?;
        let mut times = Vec::new();
        for number in 0..BEFORE + CALLS {
            let name = format!("skill-{number}");
            let arguments = json!({"skill_name": name});
            let begun = Instant::now();
            let answer = client.call(LOAD, &arguments).await?;
            times.push(begun.elapsed());
            ensure!(result_of(answer)? == answers[&name], "the echo gave another answer: {answer}");
        }
        Ok(times)
    })
}

/// Measures calls of `load_skill`, each for another skill. In a session, it unloads the skill afterwards.
pub(crate) fn loaded(over: Over, skills: &Path, program: &Path) -> Result<Sample> {
    timed(async {
        let mut client = served(over, skills, program).await?;
        let mut times = Vec::new();
        for number in 0..BEFORE + CALLS {
            let name = json!({"skill_name": format!("skill-{number}")});
            let begun = Instant::now();
            let answer = client.call(LOAD, &name).await?;
            times.push(begun.elapsed());
            ensure!(is_load(answer), "{answer}");
            client.unload(over, &name).await?;
        }
        Ok(times)
    })
}

/// Starts a client of `prowess mcp`.
async fn served(over: Over, skills: &Path, program: &Path) -> Result<Client> {
    let start = |word: &str| {
        let more: &[&str] = if word == "http" { &["--http", "127.0.0.1:0"] } else { &[] };
        Ok(prowess(program, skills, more))
    };
    Client::start(over, start).await
}

/// The answers of `prowess mcp`, for each loaded skill.
async fn answers(over: Over, skills: &Path, program: &Path) -> Result<BTreeMap<String, Value>> {
    let mut client = served(over, skills, program).await?;
    let mut answers = BTreeMap::new();
    for number in 0..BEFORE + CALLS {
        let name = format!("skill-{number}");
        let arguments = json!({"skill_name": name});
        let answer = client.call(LOAD, &arguments).await?;
        ensure!(is_load(answer), "{answer}");
        answers.insert(name, result_of(answer)?);
        client.unload(over, &arguments).await?;
    }
    Ok(answers)
}

fn is_load(answer: &str) -> bool {
    answer.len() > 4_096 && !answer.contains("\"isError\":true")
}

/// The result in an answer, which can be an event of a stream.
fn result_of(answer: &str) -> Result<Value> {
    let mut lines = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let line = lines.find(|line| line.contains("\"result\"")).context("the answer has no result")?;
    Ok(serde_json::from_str::<Value>(line)?["result"].take())
}

/// The median of the calls that count.
fn timed(calls: impl Future<Output = Result<Vec<std::time::Duration>>>) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(calls)?.split_off(BEFORE);
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1_000.0;
    let mut sample = Sample::of(median, SKILLS)?;
    sample.clock_ms = median;
    Ok(sample)
}
