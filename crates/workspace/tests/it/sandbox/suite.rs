//! The behaviours that every executor has, in the local one.

use std::sync::Arc;

use prowess_workspace::executor::local::{LocalExecutor, LocalOptions};
use prowess_workspace::executor::{Executor, testing};
use tokio::sync::Semaphore;

use crate::home::lay_out;
use crate::modes::in_both_modes;

in_both_modes!(every_behaviour);

/// So many at once: enough to mix, not so many that a small machine stalls.
const AT_ONCE: usize = 4;

async fn every_behaviour() {
    let mut options = LocalOptions::default();
    options.redact.push(testing::SECRET.into());
    let executor: Arc<dyn Executor> = Arc::new(LocalExecutor::new(options));
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let runs: Vec<_> = testing::all()
        .into_iter()
        .map(|(name, behaviour)| {
            let (executor, turns) = (Arc::clone(&executor), Arc::clone(&turns));
            let run = tokio::spawn(async move {
                let _turn = turns.acquire().await.unwrap();
                let workspace = tempfile::tempdir().unwrap();
                lay_out(workspace.path());
                behaviour(executor, workspace.path().to_owned()).await;
            });
            (name, run)
        })
        .collect();
    assert!(runs.len() >= 60, "{}", runs.len());
    let mut failed = Vec::new();
    for (name, run) in runs {
        if run.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
