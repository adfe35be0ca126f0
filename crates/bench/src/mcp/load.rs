//! Puts one HTTP server under the load of many clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use super::server::{Listening, prowess};
use super::{call, http};
use crate::resources;

/// The number of skills.
const SKILLS: usize = 100;
/// How much the server's memory may grow after its warm-up, as a fraction.
const GROWTH: f64 = 0.05;

/// The options of a load test.
#[derive(Args)]
pub(crate) struct HttpLoad {
    /// The number of concurrent clients; every second one has a session
    #[arg(long, default_value_t = 500)]
    clients: usize,
    /// The duration in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seconds before the first measurement of memory
    #[arg(long, default_value_t = 10)]
    warm_up: u64,
    /// The binary `prowess` [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    prowess: Option<PathBuf>,
}

/// The result of a load test.
#[derive(Debug)]
pub(crate) struct Pressed {
    clients: usize,
    seconds: u64,
    requests: u64,
    errors: u64,
    first_error: Option<String>,
    warm_mib: f64,
    end_mib: f64,
}

#[derive(Default)]
struct Counts {
    is_over: AtomicBool,
    requests: AtomicU64,
    errors: AtomicU64,
    first_error: std::sync::Mutex<Option<String>>,
}

impl HttpLoad {
    pub(crate) fn run(&self) -> Result<Pressed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.press())
    }

    async fn press(&self) -> Result<Pressed> {
        let skills = tempfile::tempdir()?;
        resources::write(skills.path(), SKILLS)?;
        let program = match &self.prowess {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("prowess"),
        };
        let server = Listening::start(prowess(&program, skills.path(), &["--http", "127.0.0.1:0"])).await?;
        let counts = Arc::new(Counts::default());
        let clients: Vec<_> = (0..self.clients)
            .map(|number| {
                let (address, counts) = (server.address.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    if let Err(error) = client(&address, number, &counts).await {
                        counts.errors.fetch_add(1, Ordering::Relaxed);
                        let mut first =
                            counts.first_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        first.get_or_insert(format!("{error:#}"));
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(self.warm_up)).await;
        let warm_mib = server.resident_mib()?;
        tokio::time::sleep(Duration::from_secs(self.seconds.saturating_sub(self.warm_up))).await;
        let end_mib = server.resident_mib()?;
        counts.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.context("a client failed")?;
        }
        let first_error =
            counts.first_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Ok(Pressed {
            clients: self.clients,
            seconds: self.seconds,
            requests: counts.requests.load(Ordering::Relaxed),
            errors: counts.errors.load(Ordering::Relaxed),
            first_error,
            warm_mib,
            end_mib,
        })
    }
}

/// Lists, loads, reads and unloads until the time is over.
async fn client(address: &str, number: usize, counts: &Counts) -> Result<()> {
    let has_session = number.is_multiple_of(2);
    let mut client = if has_session {
        http::Client::with_session(address).await?
    } else {
        http::Client::without_session(address).await?
    };
    let mut round = number;
    while !counts.is_over.load(Ordering::Relaxed) {
        let skill = format!("skill-{}", round % SKILLS);
        let name = json!({"skill_name": skill});
        let mut steps: Vec<(&str, Value)> = vec![
            ("tools/list", json!({})),
            ("tools/call", call("load_skill", &name)),
            ("resources/read", json!({"uri": format!("skill://{skill}/SKILL.md")})),
        ];
        if has_session {
            steps.push(("tools/call", call("unload_skill", &name)));
        }
        for (method, params) in &steps {
            let answer = client.request(method, params).await?;
            anyhow::ensure!(!answer.contains("\"isError\":true"), "{answer}");
            counts.requests.fetch_add(1, Ordering::Relaxed);
        }
        round += 1;
    }
    Ok(())
}

impl Pressed {
    /// Whether there were no errors and the memory did not grow.
    pub(crate) fn is_good(&self) -> bool {
        self.errors == 0 && self.end_mib <= self.warm_mib * (1.0 + GROWTH)
    }
}

impl std::fmt::Display for Pressed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { clients, seconds, requests, errors, warm_mib, end_mib, .. } = self;
        let each_second = requests / seconds.max(&1);
        writeln!(
            f,
            "{clients} clients for {seconds} s: {requests} requests, {each_second} a second, {errors} errors"
        )?;
        if let Some(error) = &self.first_error {
            writeln!(f, "the first error: {error}")?;
        }
        writeln!(f, "memory of the server: {warm_mib:.1} MiB after its warm-up, {end_mib:.1} MiB at the end")
    }
}
