//! Measures the start of an agent, up to the first request to its model.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use prowess_agent::{Model, NoWatcher, ThreadId};

use super::fake::Notes;
use super::{Place, ThreadStorage, one_thread};
use crate::task::{Sample, cpu_so_far};

/// Discovers the skills, opens the store, builds the agent, opens a thread and sends a message, until the model gets a
/// request.
pub(crate) fn start(directory: &Path, storage: ThreadStorage) -> Result<Sample> {
    let (runtime, place) = (one_thread()?, Place::new(directory)?);
    let model = Arc::new(Notes::default());
    let before = cpu_so_far();
    runtime.block_on(async {
        let store = place.store(storage).await?;
        let agent = place.full(&(Arc::<Notes>::clone(&model) as Arc<dyn Model>), store)?;
        let mut thread = agent.open(ThreadId::new()).await?;
        thread.say("Hello.", &NoWatcher).await?;
        anyhow::Ok(())
    })?;
    let asked = model.asked();
    Sample::of(asked.first().context("the model got no request")? - before, 1)
}
