//! Measures many threads of one agent: all working, and all idle.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;

use super::fake::Adds;
use super::{Place, ThreadStorage, one_thread, turn};
use crate::task::{Sample, cpu_of};

/// The number of threads.
pub(crate) const THREADS: usize = 1_000;
/// The number of steps per thread, if all work.
const STEPS_AT_ONCE: usize = 10;
/// The number of cores.
const CORES: usize = 2;
/// How many threads are opened together, so that they share flushes of the disk.
const OPENED_TOGETHER: usize = 50;

/// The cost of one step if all threads work at once, on two cores.
pub(crate) fn at_once(directory: &Path, storage: ThreadStorage) -> Result<Sample> {
    let place = Place::new(directory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(CORES).enable_time().build()?;
    let store = runtime.block_on(place.store(storage))?;
    let agent = place.full(&Adds::times(STEPS_AT_ONCE), store)?;
    let started = Instant::now();
    let (cpu_ms, ended) = cpu_of(|| {
        runtime.block_on(async {
            let one = || {
                let agent = agent.clone();
                tokio::spawn(async move { anyhow::Ok(turn(&agent, STEPS_AT_ONCE).await?.close().await?) })
            };
            let mut ended = 0;
            for thread in (0..THREADS).map(|_| one()).collect::<Vec<_>>() {
                thread.await??;
                ended += 1;
            }
            anyhow::Ok(ended)
        })
    });
    let clock_ms = started.elapsed().as_secs_f64() * 1_000.0;
    let steps = (THREADS * STEPS_AT_ONCE) as f64;
    Ok(Sample { clock_ms: clock_ms / steps, ..Sample::of(cpu_ms / steps, ended?)? })
}

/// The memory of one open thread, after each had a turn of one step.
pub(crate) fn idle(directory: &Path, storage: ThreadStorage) -> Result<Sample> {
    let (runtime, place) = (one_thread()?, Place::new(directory)?);
    let store = runtime.block_on(place.store(storage))?;
    let agent = place.full(&Adds::times(1), store)?;
    let open = || runtime.block_on(try_join_all((0..OPENED_TOGETHER).map(|_| turn(&agent, 1))));
    // The first thread already has everything that all threads share.
    let mut threads = Vec::with_capacity(THREADS + OPENED_TOGETHER);
    threads.extend(open()?);
    let before = resident_kib()?;
    let (cpu_ms, opened) = cpu_of(|| {
        while threads.len() < THREADS + OPENED_TOGETHER {
            threads.extend(open()?);
        }
        anyhow::Ok(())
    });
    opened?;
    let kib = (resident_kib()? - before) / THREADS as f64;
    Ok(Sample { kib, ..Sample::of(cpu_ms / THREADS as f64, threads.len() - OPENED_TOGETHER)? })
}

/// The private resident memory of this process, counted by page.
fn resident_kib() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let amount =
        line.and_then(|line| line.trim().strip_suffix("kB")).context("the amount of memory is missing")?;
    Ok(amount.trim().parse()?)
}
