//! Claims and posts while the queue is long, or full of threads that cannot be claimed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use prowess_agent::ThreadId;
use prowess_agent::queue::ClaimLimits;
use prowess_store::Database;

use super::load::Noted;
use super::observe::Observer;
use super::prepare::Population;
use super::report::Scenario;

/// How long a claim lasts: longer than the simulation.
const LASTS: Duration = Duration::from_secs(7200);
/// How many claims and posts are made at the same time, to see how many fit into a second.
const AT_ONCE: usize = 8;
/// How often each of them looks.
const MOST_TRIES: usize = 100;
/// How many threads are queued that can be claimed, if others are in their way.
const FREE: usize = 1_000;

/// Queues threads as posts do: each gets its place in the line.
const QUEUE: &str = "CREATE OR REPLACE FUNCTION pg_temp.queue_up(threads TEXT[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    one TEXT;
BEGIN
    FOREACH one IN ARRAY threads LOOP
        INSERT INTO prowess_queue (thread, posted, attempts, until, queued, belongs_to, place, priority)
        SELECT one, 1, 0, prowess_now(), prowess_now(), line.belongs_to, line.place, 0 FROM prowess_line(one) AS line;
    END LOOP;
END $$";
/// Empties the queue, and ends all leases.
const EMPTY: &str =
    "TRUNCATE prowess_queue; UPDATE prowess_threads SET owner = NULL, until = 0 WHERE owner IS NOT NULL";
const HOLD: &str =
    "UPDATE prowess_queue SET owner = 'somebody', until = prowess_now() + 7200000000 WHERE thread = ANY ($1)";
const DELAY: &str = "UPDATE prowess_queue SET until = prowess_now() + 7200000000 WHERE thread = ANY ($1)";
const BURY: &str = "UPDATE prowess_queue SET dead = prowess_now(), failures = 5 WHERE thread = ANY ($1)";

/// What the measurements need.
pub(super) struct Claims<'a> {
    pub(super) observer: &'a Observer,
    pub(super) database: &'a Database,
    pub(super) population: &'a Population,
    pub(super) limits: ClaimLimits,
    /// How many threads are queued in the largest scenario.
    pub(super) backlog: usize,
    /// How many claims are timed one after another, and how many at the same time.
    pub(super) claims: usize,
}

impl Claims<'_> {
    /// Measures every scenario.
    pub(super) async fn all(&self) -> Result<Vec<Scenario>> {
        self.observer.client.batch_execute(QUEUE).await?;
        let Population { people, threads, of_first } = self.population;
        let users = people.len() - 1;
        let full = usize::try_from(self.limits.per_user)?;
        let (first, others) = threads.split_at(*of_first);
        let half = self.backlog / 2;
        let needed = self.backlog + FREE + self.claims;
        ensure!(others.len() >= needed, "this backlog needs {} threads", needed + first.len());
        let (blocking, free) = (&others[..self.backlog], &others[self.backlog..][..FREE]);

        let mut scenarios = Vec::new();
        self.empty().await?;
        self.queue(free).await?;
        scenarios.push(self.measure(format!("{FREE} queued")).await?);

        self.empty().await?;
        self.queue(first).await?;
        self.queue(blocking).await?;
        let name = format!("{} queued of {users} users, and {} of one user", blocking.len(), first.len());
        scenarios.push(self.measure(name).await?);

        // The others come after the user has reached the limit.
        let (held, waiting) = first.split_at(full.min(first.len()));
        self.empty().await?;
        self.queue(first).await?;
        self.change(HOLD, held).await?;
        self.queue(free).await?;
        let name = format!("{FREE} queued, and before them {} of a user at the limit", waiting.len());
        scenarios.push(self.measure(name).await?);

        // The threads of the users are in turn.
        let at_limit = (half / full).clamp(1, users / 2);
        let is_full = |thread: &&(ThreadId, usize)| thread.1 <= at_limit;
        let own: Vec<_> = others.iter().filter(is_full).take(at_limit * (full + 20)).cloned().collect();
        let rest: Vec<_> = others.iter().filter(|thread| !is_full(thread)).take(FREE).cloned().collect();
        let (held, waiting) = own.split_at((at_limit * full).min(own.len()));
        self.empty().await?;
        self.queue(&own).await?;
        self.change(HOLD, held).await?;
        self.queue(&rest).await?;
        let name = format!(
            "{} queued, and before them {} of {at_limit} users at the limit",
            rest.len(),
            waiting.len()
        );
        scenarios.push(self.measure(name).await?);

        // Every user can have more claims.
        let held = half.min(users * full * 3 / 4);
        for (change, count, what) in
            [(HOLD, held, "claimed"), (DELAY, half, "delayed"), (BURY, half, "dead letters")]
        {
            self.empty().await?;
            self.queue(&blocking[..count]).await?;
            self.change(change, &blocking[..count]).await?;
            self.queue(free).await?;
            scenarios.push(self.measure(format!("{FREE} queued, and {count} {what}")).await?);
        }
        self.empty().await?;
        Ok(scenarios)
    }

    async fn empty(&self) -> Result<()> {
        Ok(self.observer.client.batch_execute(EMPTY).await?)
    }

    async fn queue(&self, threads: &[(ThreadId, usize)]) -> Result<()> {
        self.change("SELECT pg_temp.queue_up($1)", threads).await
    }

    async fn change(&self, statement: &str, threads: &[(ThreadId, usize)]) -> Result<()> {
        let ids: Vec<&str> = threads.iter().map(|(id, _)| id.as_str()).collect();
        self.observer.client.execute(statement, &[&ids]).await?;
        Ok(())
    }

    async fn measure(&self, name: String) -> Result<Scenario> {
        let (queue, noted) = (self.database.queue(), Noted::default());
        for _ in 0..self.claims {
            let begun = Instant::now();
            let claim = queue.claim("simulation", LASTS, self.limits).await?;
            noted.note(begun.elapsed());
            claim.context("nothing could be claimed")?;
        }
        let claim_times = noted.take();
        // A thread that rests is queued, as by a post.
        let resting = &self.population.threads[self.population.threads.len() - self.claims..];
        for (thread, _) in resting {
            let begun = Instant::now();
            queue.wake(thread).await?;
            noted.note(begun.elapsed());
        }
        let post_times = noted.take();
        let (left, begun) = (Arc::new(AtomicUsize::new(self.claims)), Instant::now());
        let mut tasks = Vec::new();
        for _ in 0..AT_ONCE {
            let (left, queue, limits) = (Arc::clone(&left), Arc::clone(&queue), self.limits);
            tasks.push(tokio::spawn(async move {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    let mut tries = MOST_TRIES;
                    // A claim finds nothing if others are about to claim for all users that it looks at.
                    while queue.claim("simulation", LASTS, limits).await?.is_none() {
                        tries -= 1;
                        ensure!(tries > 0, "nothing could be claimed");
                    }
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        let claims_per_second = self.claims as f64 / begun.elapsed().as_secs_f64();
        Ok(Scenario { name, claim_times, post_times, claims_per_second })
    }
}
