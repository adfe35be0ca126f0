//! Measures model calls in a conversation in which no skill changes: the prompt about skills is made once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use prowess_agent::middleware::Skills;
use prowess_agent::model::{ModelStream, PromptSection};
use prowess_agent::{
    Agent, Model, ModelDelta, ModelError, ModelRequest, NoWatcher, ThreadId, TurnOutcome, TurnStatus,
};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::options::Prompt;
use prowess_skills::{Capabilities, SessionOptions, SkillSession};

use super::fake::{call, said};
use super::{PROMPT, add, one_thread};
use crate::task::{Sample, cpu_so_far};

/// The number of model calls after the first one.
pub(crate) const CALLS: usize = 50;
/// The budget of the overview, as in `prowess chat`.
const OVERVIEW_TOKENS: usize = 4_000;

/// A model that calls a tool each time, and records the CPU time and the prompt at each request.
#[derive(Debug, Default)]
struct Watched {
    asked: Mutex<Vec<(f64, Vec<PromptSection>)>>,
}

#[async_trait]
impl Model for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push((cpu_so_far(), request.system));
        let step = asked.len();
        Ok(if step <= CALLS + 1 {
            let piece = format!("{{\"a\": {step}, \"b\": 1}}");
            said(vec![call(0, step, "add"), ModelDelta::Arguments { index: 0, piece }])
        } else {
            said(vec![ModelDelta::Text("done".to_owned())])
        })
    }
}

/// The cost of one model call and its tool call, from the second model call on, with the skills in `skills`.
pub(crate) fn unchanged(skills: &Path) -> Result<Sample> {
    let catalog = Catalog::discover(&[Root::explicit(skills)], &ScanOptions::default());
    let count = catalog.entries().len();
    let model = Arc::new(Watched::default());
    let skills = Skills::new(move |_| {
        let mut options = SessionOptions::default();
        (options.capabilities, options.prompt) = (Capabilities::all(), Prompt::Frozen);
        options.overview_tokens = Some(OVERVIEW_TOKENS);
        SkillSession::builder(catalog.clone()).options(options)
    });
    let agent = Agent::builder(Arc::<Watched>::clone(&model))
        .prompt(PROMPT)
        .tool(add())
        .middleware(skills)
        .build()?;
    one_thread()?.block_on(async {
        let mut thread = agent.open(ThreadId::new()).await?;
        let turn = thread.say("Add some numbers.", &NoWatcher).await?;
        ensure!(turn == TurnStatus::Ended(TurnOutcome::Responded), "the turn ended otherwise: {turn:?}");
        Ok(thread.close().await?)
    })?;
    let asked = model.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, last) =
        (asked.get(1).context("there was one model call")?, asked.last().context("no model call")?);
    ensure!(asked.iter().all(|(_, prompt)| *prompt == first.1), "the prompt changed");
    Sample::of((last.0 - first.0) / (asked.len() - 2) as f64, count.max(CALLS))
}
