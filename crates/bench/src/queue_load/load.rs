//! The load: messages for random threads, and workers that work on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use prowess_agent::queue::ClaimLimits;
use prowess_store::{Database, DatabaseCounters};
use serde_json::json;
use tokio::task::JoinHandle;

use super::agents::{Counted, text};
use super::observe::{Observer, Work};
use super::prepare::Population;
use super::report::{Phase, Sample, Times};
use super::servers::{Client, Running};
use crate::task::cpu_so_far;

/// How many clients post messages.
const CLIENTS: usize = 4;
/// How often the queue is probed, and how often the tables are looked at.
const PROBE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_secs(2);
/// How long a client waits if enough messages wait.
const PAUSE: Duration = Duration::from_millis(2);

/// Times in microseconds, until somebody takes them.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<Vec<u32>>);

impl Noted {
    pub(super) fn note(&self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
    }

    pub(super) fn take(&self) -> Times {
        Times::of(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Numbers that look random and are the same in each run.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`. With a skew of k, the lowest of k numbers.
    fn below(&mut self, end: usize, skew: usize) -> usize {
        let mut one = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from((self.0 >> 11) % (end.max(1) as u64)).unwrap_or_default()
        };
        (0..skew.max(1)).map(|_| one()).min().unwrap_or_default()
    }
}

/// What the clients do.
#[derive(Debug)]
pub(super) struct Posting {
    pub(super) population: Arc<Population>,
    pub(super) counted: Arc<Counted>,
    /// How many messages wait or are worked on, at most.
    pub(super) waiting: AtomicU64,
    pub(super) skew: usize,
    pub(super) bytes: usize,
    /// How many turns had ended before.
    pub(super) before: u64,
    pub(super) posted: AtomicU64,
    pub(super) is_over: AtomicBool,
    pub(super) times: Noted,
}

/// Servers under load.
pub(super) struct Load {
    pub(super) web: Running,
    pub(super) workers: Vec<Running>,
    posting: Arc<Posting>,
    probed: Arc<Noted>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Starts clients, and a probe of the queue.
    pub(super) fn start(
        web: Running,
        workers: Vec<Running>,
        posting: Posting,
        probe: Database,
        limits: ClaimLimits,
    ) -> Self {
        let (posting, probed) = (Arc::new(posting), Arc::new(Noted::default()));
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let (posting, address) = (Arc::clone(&posting), web.address);
            tasks.push(tokio::spawn(async move {
                let client = Client::connect(address).await?;
                post(&posting, client, number as u64).await
            }));
        }
        let (over, noted) = (Arc::clone(&posting), Arc::clone(&probed));
        tasks.push(tokio::spawn(async move {
            while !over.is_over.load(Ordering::Relaxed) {
                tokio::time::sleep(PROBE).await;
                let (queue, begun) = (probe.queue(), Instant::now());
                let claim = queue.claim("probe", Duration::from_secs(30), limits).await?;
                noted.note(begun.elapsed());
                if let Some(claim) = claim {
                    queue.give_back(&claim, Duration::ZERO).await?;
                }
            }
            Ok(())
        }));
        Self { web, workers, posting, probed, tasks }
    }

    /// Lets each response take so many milliseconds, and so many messages wait or be worked on.
    pub(super) fn change(&self, delay: u64, waiting: u64) {
        self.posting.counted.delay.store(delay, Ordering::Relaxed);
        self.posting.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Measures for a while.
    pub(super) async fn measure(&self, name: &str, seconds: u64, observer: &Observer) -> Result<Phase> {
        self.forget_times();
        let (before, begun) = (self.look(observer).await?, Instant::now());
        let mut samples = Vec::new();
        while begun.elapsed() < Duration::from_secs(seconds) {
            let left = Duration::from_secs(seconds).saturating_sub(begun.elapsed());
            tokio::time::sleep(LOOK.min(left)).await;
            self.check()?;
            let turns = self.posting.counted.turns.load(Ordering::Relaxed) - before.turns;
            samples.push(Sample {
                seconds: begun.elapsed().as_secs_f64(),
                turns,
                dead: observer.dead().await?,
            });
        }
        let after = self.look(observer).await?;
        Ok(Phase {
            name: name.to_owned(),
            seconds: begun.elapsed().as_secs_f64(),
            turns: after.turns - before.turns,
            steps: after.steps - before.steps,
            claims: after.claims - before.claims,
            worker_statements: after.workers.statements - before.workers.statements,
            worker_round_trips: after.workers.round_trips - before.workers.round_trips,
            web_round_trips: after.web.round_trips - before.web.round_trips,
            errors: after.workers.errors + after.web.errors - before.workers.errors - before.web.errors,
            own_cpu: after.own_cpu - before.own_cpu,
            claim_times: self.probed.take(),
            append_times: Times::of(self.posting.counted.take_appends()),
            post_times: self.posting.times.take(),
            samples,
            before: before.work,
            after: after.work,
        })
    }

    fn forget_times(&self) {
        drop((self.probed.take(), self.posting.times.take(), self.posting.counted.take_appends()));
    }

    /// Whether somebody failed.
    fn check(&self) -> Result<()> {
        let failed = self.tasks.iter().any(JoinHandle::is_finished);
        anyhow::ensure!(!failed, "a client or the probe ended early");
        Ok(())
    }

    async fn look(&self, observer: &Observer) -> Result<Looked> {
        let (mut claims, mut workers) = (0.0, DatabaseCounters::default());
        for worker in &self.workers {
            claims += worker.metric("prowess_queue_claims_total").await?;
            let own = worker.counters();
            workers.statements += own.statements;
            workers.round_trips += own.round_trips;
            workers.errors += own.errors;
        }
        let counted = &self.posting.counted;
        Ok(Looked {
            turns: counted.turns.load(Ordering::Relaxed),
            steps: counted.steps.load(Ordering::Relaxed),
            claims,
            workers,
            web: self.web.counters(),
            own_cpu: cpu_so_far() / 1_000.0,
            work: observer.look().await?,
        })
    }

    /// Ends the load. What was posted is worked off.
    pub(super) async fn stop(self) -> Result<()> {
        self.posting.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.context("a client crashed")??;
        }
        for worker in self.workers {
            worker.stop().await?;
        }
        self.web.stop().await
    }
}

struct Looked {
    turns: u64,
    steps: u64,
    claims: f64,
    workers: DatabaseCounters,
    web: DatabaseCounters,
    own_cpu: f64,
    work: Work,
}

/// Posts messages until the load is over.
async fn post(posting: &Posting, mut client: Client, seed: u64) -> Result<()> {
    let mut chance = Chance::new(seed + 1);
    let Population { people, threads, .. } = &*posting.population;
    let body = json!({"text": text(posting.bytes), "mode": "queue"}).to_string();
    while !posting.is_over.load(Ordering::Relaxed) {
        let ended = posting.counted.turns.load(Ordering::Relaxed) - posting.before;
        if posting.posted.load(Ordering::Relaxed).saturating_sub(ended)
            >= posting.waiting.load(Ordering::Relaxed)
        {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let (thread, owner) = &threads[chance.below(threads.len(), posting.skew)];
        let begun = Instant::now();
        client.post(&format!("/api/v1/threads/{thread}/turns"), &people[*owner].token, &body).await?;
        posting.times.note(begun.elapsed());
        posting.posted.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn chance_stays_below_its_end_and_a_skew_prefers_low_numbers() {
        let mut chance = Chance::new(1);
        let mut sum = |skew| {
            (0..1000).map(|_| chance.below(100, skew)).inspect(|one| assert!(*one < 100)).sum::<usize>()
        };
        let (even, skewed) = (sum(1), sum(4));
        assert!(skewed < even / 2, "{skewed} of {even}");
    }
}
