//! Measures one turn of many steps, in memory and on the disk.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use prowess_agent::{Agent, Event, MemoryThreads, ThreadStore};

use super::fake::Adds;
use super::{PROMPT, Place, ThreadStorage, add, one_thread, turn};
use crate::task::{Sample, cpu_of};

/// The number of steps in the turn. The model ends the turn after them.
pub(crate) const STEPS: usize = 50;
/// How many turns one process measures. The lowest value counts.
const ROUNDS: usize = 3;

/// The cost of one step with a model, a tool and nothing else, in memory.
pub(crate) fn bare() -> Result<Sample> {
    let runtime = one_thread()?;
    least_of(|| {
        let agent = Agent::builder(Adds::times(STEPS)).prompt(PROMPT).tool(add()).build()?;
        runtime.block_on(async { Ok(turn(&agent, STEPS).await?.close().await?) })
    })
}

/// The cost of one step of an agent with the usual middleware. The measurement includes the discovery of skills, the
/// building of the agent, and the opening and closing of its thread.
pub(crate) fn full(directory: &Path, storage: ThreadStorage) -> Result<Sample> {
    let (runtime, place) = (one_thread()?, Place::new(directory)?);
    let store = runtime.block_on(place.store(storage))?;
    least_of(|| {
        let agent = place.full(&Adds::times(STEPS), Arc::clone(&store))?;
        runtime.block_on(async { Ok(turn(&agent, STEPS).await?.close().await?) })
    })
}

/// The lowest cost of storing the same turn on the disk: append its events to a file, and flush the file as often as the loop
/// must. The start of a model call needs no flush, because it is stored with its response.
pub(crate) fn raw(directory: &Path) -> Result<Sample> {
    let (runtime, place) = (one_thread()?, Place::new(directory)?);
    let store = Arc::new(MemoryThreads::new());
    let agent = place.full(&Adds::times(STEPS), Arc::<MemoryThreads>::clone(&store))?;
    let events = runtime.block_on(async {
        let thread = turn(&agent, STEPS).await?;
        anyhow::Ok(store.events(thread.id(), 0, usize::MAX).await?)
    })?;
    let lines = events.iter().map(|stored| {
        let is_kept_with_the_next = matches!(stored.event, Event::ModelCalled { .. });
        Ok((serde_json::to_string(&stored.event)? + "\n", is_kept_with_the_next))
    });
    let lines: Vec<(String, bool)> = lines.collect::<Result<_>>()?;
    let mut file = File::create(place.0.path().join("raw"))?;
    least_of(|| {
        for (line, is_kept_with_the_next) in &lines {
            file.write_all(line.as_bytes())?;
            if !is_kept_with_the_next {
                file.sync_all()?;
            }
        }
        Ok(())
    })
}

/// The lowest CPU time and the lowest clock time of one step, over several turns. The first turn does not count.
fn least_of(mut work: impl FnMut() -> Result<()>) -> Result<Sample> {
    work()?;
    let (mut least_ms, mut least_clock_ms) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let (ms, done) = cpu_of(&mut work);
        done?;
        least_clock_ms = least_clock_ms.min(started.elapsed().as_secs_f64() * 1_000.0);
        least_ms = least_ms.min(ms);
    }
    let each = STEPS as f64;
    Ok(Sample { clock_ms: least_clock_ms / each, ..Sample::of(least_ms / each, STEPS)? })
}
