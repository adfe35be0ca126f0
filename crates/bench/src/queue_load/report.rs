//! The results, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::observe::{TABLES, Work};
use crate::machine::Machine;

/// The load that docs/scaling.md plans for, in turns per second.
const PLAN: f64 = 1_000.0;
const DAY: f64 = 86_400.0;
const MIB: f64 = 1_048_576.0;

/// How long something took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Times {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) most: f64,
}

impl Times {
    pub(super) fn of(mut micros: Vec<u32>) -> Self {
        micros.sort_unstable();
        let at = |percent: usize| {
            let place = (micros.len() * percent / 100).min(micros.len().saturating_sub(1));
            micros.get(place).map_or(0.0, |micros| f64::from(*micros) / 1_000.0)
        };
        Self { count: micros.len(), p50: at(50), p95: at(95), most: at(100) }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} | {:.2} | {:.1}", self.p50, self.p95, self.most)
    }
}

/// A moment of a phase. `dead`: rows of the queue, of inboxes and of threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) turns: u64,
    pub(super) dead: [i64; 3],
}

/// A part of the simulation.
#[derive(Debug, Serialize)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) turns: u64,
    pub(super) steps: u64,
    pub(super) claims: f64,
    pub(super) worker_statements: u64,
    pub(super) worker_round_trips: u64,
    pub(super) web_round_trips: u64,
    pub(super) errors: u64,
    /// CPU seconds of this program: workers, the web process and clients.
    pub(super) own_cpu: f64,
    pub(super) claim_times: Times,
    pub(super) append_times: Times,
    pub(super) post_times: Times,
    pub(super) samples: Vec<Sample>,
    pub(super) before: Work,
    pub(super) after: Work,
}

impl Phase {
    fn turns_per_second(&self) -> f64 {
        self.turns as f64 / self.seconds
    }

    fn per_step(&self, value: f64) -> f64 {
        value / self.steps.max(1) as f64
    }

    fn wal(&self) -> f64 {
        (self.after.wal_bytes - self.before.wal_bytes) as f64
    }

    fn postgres_cpu(&self) -> Option<f64> {
        Some(self.after.cpu? - self.before.cpu?)
    }

    /// The most dead rows of the queue, of inboxes and of threads.
    fn most_dead(&self) -> [i64; 3] {
        [0, 1, 2].map(|table| self.samples.iter().map(|sample| sample.dead[table]).max().unwrap_or_default())
    }

    /// By how many bytes the tables grew.
    fn growth(&self) -> i64 {
        let size =
            |work: &Work| work.tables.values().map(|table| table.bytes + table.index_bytes()).sum::<i64>();
        size(&self.after) - size(&self.before)
    }
}

/// A state of the queue, and how long claims and posts take in it.
#[derive(Debug, Serialize)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) claim_times: Times,
    pub(super) post_times: Times,
    pub(super) claims_per_second: f64,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) settings: Vec<(String, String)>,
    pub(super) threads: usize,
    pub(super) users: usize,
    pub(super) events: i64,
    pub(super) steps_per_turn: usize,
    pub(super) prepared_seconds: f64,
    pub(super) phases: Vec<Phase>,
    pub(super) scenarios: Vec<Scenario>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, threads, users, events, steps_per_turn, prepared_seconds, .. } = self;
        writeln!(f, "{machine}")?;
        let settings: Vec<_> =
            self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(f, "{}", settings.join(", "))?;
        writeln!(
            f,
            "{threads} threads of {users} users, with {events} events; {steps_per_turn} steps per turn; \
             made in {prepared_seconds:.0} s\n"
        )?;
        self.speeds(f)?;
        self.costs(f)?;
        self.tables(f)?;
        self.lines(f)?;
        self.plan(f)
    }
}

impl Report {
    fn speeds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| phase | seconds | turns per second | claims per second | claim p50, ms | p95 | most | append p50, ms | p95 | most \
             | message p50, ms | p95 | most |\n|---|{}",
            "---:|".repeat(12)
        )?;
        for phase in &self.phases {
            let Phase { name, seconds, claims, claim_times, append_times, post_times, .. } = phase;
            let (turns, claims) = (phase.turns_per_second(), claims / seconds);
            writeln!(
                f,
                "| {name} | {seconds:.0} | {turns:.1} | {claims:.1} | {claim_times} | {append_times} | {post_times} |"
            )?;
        }
        writeln!(f)
    }

    fn costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| phase | worker: statements per step | round trips per step | web: round trips per turn | WAL per step, KiB \
             | whole pages in it | CPU of PostgreSQL per step, ms | CPU of prowess per step, ms | growth per turn, KiB \
             | errors |\n|---|{}",
            "---:|".repeat(9)
        )?;
        for phase in &self.phases {
            let per_step = |value: f64| phase.per_step(value);
            let turns = phase.turns.max(1) as f64;
            let cpu =
                phase.postgres_cpu().map_or("?".to_owned(), |cpu| format!("{:.2}", per_step(cpu) * 1_000.0));
            writeln!(
                f,
                "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {cpu} | {:.2} | {:.1} | {} |",
                phase.name,
                per_step(phase.worker_statements as f64),
                per_step(phase.worker_round_trips as f64),
                phase.web_round_trips as f64 / turns,
                per_step(phase.wal()) / 1_024.0,
                per_step((phase.after.wal_pages - phase.before.wal_pages) as f64),
                per_step(phase.own_cpu) * 1_000.0,
                phase.growth() as f64 / turns / 1_024.0,
                phase.errors,
            )?;
        }
        writeln!(f)
    }

    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| after | table | live rows | dead rows | most dead rows | size, MiB | indexes, MiB | HOT updates | vacuums \
             |\n|---|---|{}",
            "---:|".repeat(7)
        )?;
        for phase in &self.phases {
            for name in TABLES {
                let (Some(before), Some(after)) =
                    (phase.before.tables.get(name), phase.after.tables.get(name))
                else {
                    continue;
                };
                let most =
                    ["prowess_queue", "prowess_inbox", "prowess_threads"].iter().position(|one| *one == name);
                let most = most.map_or(String::new(), |place| phase.most_dead()[place].to_string());
                let updates = (after.updates - before.updates) as f64;
                let hot = match updates {
                    0.0 => "-".to_owned(),
                    _ => {
                        format!("{:.0} %", (after.hot_updates - before.hot_updates) as f64 / updates * 100.0)
                    }
                };
                let indexes: Vec<_> = after
                    .indexes
                    .iter()
                    .map(|(index, bytes)| {
                        format!("{} {:.1}", index.trim_start_matches("prowess_"), *bytes as f64 / MIB)
                    })
                    .collect();
                writeln!(
                    f,
                    "| {} | {name} | {} | {} | {most} | {:.1} | {} | {hot} | {} |",
                    phase.name,
                    after.live,
                    after.dead,
                    after.bytes as f64 / MIB,
                    indexes.join(", "),
                    after.vacuums - before.vacuums,
                )?;
            }
        }
        writeln!(f)
    }

    fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scenarios.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "| queue | claims per second | claim p50, ms | p95 | most | post p50, ms | p95 | most |\n|---|{}",
            "---:|".repeat(7)
        )?;
        for Scenario { name, claim_times, post_times, claims_per_second } in &self.scenarios {
            writeln!(f, "| {name} | {claims_per_second:.0} | {claim_times} | {post_times} |")?;
        }
        writeln!(f)
    }

    /// What the planned load takes, from the phase that is most like it: the last one.
    fn plan(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(phase) = self.phases.last() else { return Ok(()) };
        let each_turn = |value: f64| value / phase.turns.max(1) as f64;
        let cores =
            phase.postgres_cpu().map_or("?".to_owned(), |cpu| format!("{:.1}", each_turn(cpu) * PLAN));
        let most = self.phases.iter().map(Phase::turns_per_second).fold(0.0, f64::max);
        writeln!(
            f,
            "{PLAN:.0} turns per second are {:.1} times the {most:.0} of this machine.",
            PLAN / most
        )?;
        writeln!(f, "From what a turn took in the phase \"{}\", they take:", phase.name)?;
        writeln!(f, "- {cores} cores of PostgreSQL, and {:.1} of prowess", each_turn(phase.own_cpu) * PLAN)?;
        writeln!(f, "- {:.0} MB of WAL per second", each_turn(phase.wal()) * PLAN / 1e6)?;
        writeln!(f, "- {:.0} GB of tables per day", each_turn(phase.growth() as f64) * PLAN * DAY / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn times_are_those_of_the_sorted_list() {
        let times = Times::of((1..=100).rev().map(|number| number * 1_000).collect());
        assert_eq!((times.count, times.p50, times.p95, times.most), (100, 51.0, 96.0, 100.0));
        assert_eq!(Times::of(Vec::new()).most, 0.0);
    }
}
