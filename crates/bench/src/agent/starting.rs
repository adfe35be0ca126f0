//! From nothing to the first question.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use prowess_agent::{Model, NoWatcher, ThreadId};

use super::fake::Notes;
use super::{Place, ThreadStorage, one_thread};
use crate::task::{Sample, cpu_so_far};

/// Discovers the skills, opens the store, builds the agent, opens a thread and says something, until the model is asked.
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
    Sample::of(asked.first().context("the model was not asked")? - before, 1)
}
