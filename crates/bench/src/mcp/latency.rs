//! How long one call takes, from the first byte of the request to the last of the answer.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::server::{Listening, echo, prowess};
use super::{SKILLS, call, http, stdio};
use crate::task::Sample;

/// How many calls are made before any counts, and how many count.
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
}

/// Calls of the echo.
pub(crate) fn echoed(over: Over) -> Result<Sample> {
    timed(async {
        let mut client = Client::start(over, echo).await?;
        let mut times = Vec::new();
        for number in 0..BEFORE + CALLS {
            let text = format!("skill-{number}");
            let begun = Instant::now();
            let answer = client.call("echo", &json!({"text": text})).await?;
            times.push(begun.elapsed());
            ensure!(answer.contains(&text), "{answer}");
        }
        Ok(times)
    })
}

/// Calls of `load_skill`, each of another skill, which is unloaded afterwards if there is a session to unload it from.
pub(crate) fn loaded(over: Over, skills: &Path, program: &Path) -> Result<Sample> {
    timed(async {
        let start = |word: &str| {
            let more: &[&str] = if word == "http" { &["--http", "127.0.0.1:0"] } else { &[] };
            Ok(prowess(program, skills, more))
        };
        let mut client = Client::start(over, start).await?;
        let mut times = Vec::new();
        for number in 0..BEFORE + CALLS {
            let name = json!({"skill_name": format!("skill-{number}")});
            let begun = Instant::now();
            let answer = client.call("load_skill", &name).await?;
            times.push(begun.elapsed());
            ensure!(answer.len() > 4_096 && !answer.contains("\"isError\":true"), "{answer}");
            if !matches!(over, Over::HttpWithoutSession) {
                client.call("unload_skill", &name).await?;
            }
        }
        Ok(times)
    })
}

/// The median of what counts.
fn timed(calls: impl Future<Output = Result<Vec<std::time::Duration>>>) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(calls)?.split_off(BEFORE);
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1_000.0;
    let mut sample = Sample::of(median, SKILLS)?;
    sample.clock_ms = median;
    Ok(sample)
}
