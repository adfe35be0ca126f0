//! Simulates a server with many open threads on one PostgreSQL.
//!
//! The server is the real one: web process, workers, queue and store, in one process. Only the model and its tool pretend.
//! A run has these parts: users and threads are made; load with turns that take no time; the same while an old transaction keeps rows
//! from being removed, and after it; load with turns that take some seconds; and claims from a queue that is long or full of threads
//! that cannot be claimed.

mod agents;
mod claims;
mod load;
mod observe;
mod prepare;
mod report;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use prowess_agent::queue::ClaimLimits;
use prowess_serve::{Role, ServeLimits};
use prowess_store::Database;

use self::agents::{Behaviour, Counted};
use self::claims::Claims;
use self::load::{Load, Noted, Posting};
use self::observe::Observer;
use self::prepare::Population;
use self::report::{Phase, Report};
use self::servers::{Running, Setup};
use crate::machine::Machine;

/// The options of a simulation.
#[derive(Args)]
pub(crate) struct QueueLoad {
    /// An empty database of PostgreSQL, such as `postgres://user@host/name`
    #[arg(long, value_name = "URL")]
    database: String,
    /// The number of threads
    #[arg(long, default_value_t = 100_000)]
    threads: usize,
    /// The number of users
    #[arg(long, default_value_t = 1_000)]
    users: usize,
    /// The turns that each thread has at the beginning
    #[arg(long, default_value_t = 3)]
    history: usize,
    /// The number of workers
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// The turns of a worker at the same time
    #[arg(long, default_value_t = 512)]
    turns: usize,
    /// The turns of a user at the same time
    #[arg(long, default_value_t = 12)]
    turns_per_user: u64,
    /// The most messages that wait or are worked on, while turns take no time
    #[arg(long, default_value_t = 32)]
    waiting: u64,
    /// The tool calls of a turn
    #[arg(long, default_value_t = 1)]
    calls: usize,
    /// The size of each message, response and answer in bytes
    #[arg(long, default_value_t = 1_000)]
    bytes: usize,
    /// How long a response takes in milliseconds, in the last part of the load
    #[arg(long, default_value_t = 5_000)]
    delay: u64,
    /// How uneven the load is: each message goes to the lowest of this many random threads
    #[arg(long, default_value_t = 1)]
    skew: usize,
    /// The seconds of load before the first measurement
    #[arg(long, default_value_t = 15)]
    warm_up: u64,
    /// The seconds of load
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// The seconds of load with an old transaction, and again after it; 0 leaves them out
    #[arg(long, default_value_t = 60)]
    old: u64,
    /// The seconds of load with turns that take some time; 0 leaves them out
    #[arg(long, default_value_t = 60)]
    slow: u64,
    /// The threads in the longest queue; 0 leaves out the claims from a long queue
    #[arg(long, default_value_t = 20_000)]
    backlog: usize,
    /// The claims in each state of the queue, one after another and again at the same time
    #[arg(long, default_value_t = 300)]
    claims: usize,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl QueueLoad {
    pub(crate) fn run(&self) -> Result<String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(self.simulate())?;
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&report)? + "\n";
            std::fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
        }
        Ok(report.to_string())
    }

    async fn simulate(&self) -> Result<Report> {
        ensure!(self.users > 1, "a simulation needs at least two users");
        let database = Database::open(&self.database).await?;
        ensure!(database.accounts().users().await?.is_empty(), "the database has users: give an empty one");
        let observer = Observer::connect(&self.database).await?;
        let mut limits = ServeLimits::default();
        limits.turns = self.turns;
        limits.turns_per_user = self.turns_per_user;
        // What clients may ask is not measured.
        limits.requests_per_second = 1_000_000;
        let claim_limits = ClaimLimits { per_user: limits.turns_per_user, in_all: limits.turns_in_all };
        let behaviour = Behaviour { calls: self.calls, bytes: self.bytes };
        let counted = Arc::new(Counted::default());
        let setup = Setup { url: self.database.clone(), behaviour, limits, counted: Arc::clone(&counted) };

        let begun = Instant::now();
        let web = Running::start(&setup, Role::Web, "web").await?;
        let mut workers = Vec::new();
        for number in 0..self.workers {
            workers.push(Running::start(&setup, Role::Worker, &format!("worker-{number}")).await?);
        }
        let people = prepare::people(&database, self.users).await?;
        let first =
            prepare::first_thread(&database, web.address, &people[0], self.history, self.bytes).await?;
        let of_first = self.backlog / 4;
        let population = prepare::copies(&observer, &first, people, self.threads, of_first).await?;
        let population = Arc::new(population);
        let prepared_seconds = begun.elapsed().as_secs_f64();
        let events = observer.client.query_one("SELECT COUNT(*) FROM prowess_events", &[]).await?.get(0);

        let posting = Posting {
            population: Arc::clone(&population),
            counted: Arc::clone(&counted),
            waiting: AtomicU64::new(self.waiting),
            skew: self.skew,
            bytes: self.bytes,
            before: counted.turns.load(Ordering::Relaxed),
            posted: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            times: Noted::default(),
        };
        let probe = Database::open(&self.database).await?;
        let load = Load::start(web, workers, posting, probe, claim_limits);
        let phases = self.phases(&load, &observer).await?;
        load.stop().await?;
        let scenarios = if self.backlog > 0 {
            self.scenarios(&observer, &population, claim_limits).await?
        } else {
            Vec::new()
        };
        Ok(Report {
            machine: Machine::this(Path::new("/")),
            settings: observer.settings().await?,
            threads: self.threads,
            users: self.users,
            events,
            steps_per_turn: self.calls + 1,
            prepared_seconds,
            phases,
            scenarios,
        })
    }

    async fn phases(&self, load: &Load, observer: &Observer) -> Result<Vec<Phase>> {
        tokio::time::sleep(Duration::from_secs(self.warm_up)).await;
        let mut phases = Vec::new();
        phases.push(load.measure("load, first half", self.seconds / 2, observer).await?);
        phases.push(load.measure("load, second half", self.seconds - self.seconds / 2, observer).await?);
        if self.old > 0 {
            let old = observe::connect(&self.database).await?;
            // As a backup with `pg_dump` does.
            old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM prowess_schema").await?;
            phases.push(load.measure("an old transaction", self.old, observer).await?);
            old.batch_execute("COMMIT").await?;
            phases.push(load.measure("after it", self.old, observer).await?);
        }
        if self.slow > 0 {
            let places = (self.workers * self.turns) as u64;
            load.change(self.delay, places + self.waiting);
            // The turns of now have ended, and each place has begun one after the other.
            let turn = self.delay * (self.calls as u64 + 1);
            tokio::time::sleep(Duration::from_millis(turn) * 2).await;
            let name = format!("turns of {} s", turn as f64 / 1_000.0);
            phases.push(load.measure(&name, self.slow, observer).await?);
        }
        Ok(phases)
    }

    async fn scenarios(
        &self,
        observer: &Observer,
        population: &Population,
        limits: ClaimLimits,
    ) -> Result<Vec<report::Scenario>> {
        let database = Database::open(&self.database).await?;
        let (backlog, claims) = (self.backlog, self.claims);
        Claims { observer, database: &database, population, limits, backlog, claims }.all().await
    }
}
