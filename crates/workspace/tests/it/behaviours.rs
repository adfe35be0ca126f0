//! Runs the suite of executors.

use std::sync::Arc;

use prowess_workspace::executor::{Executor, testing};
use tokio::sync::Semaphore;

use crate::home::lay_out;

/// How many behaviours run at once: enough to mix, but few enough for a small machine.
const AT_ONCE: usize = 4;

/// Runs the behaviours of all executors.
pub(crate) async fn all_hold(executor: Arc<dyn Executor>) {
    let all = testing::all();
    assert!(all.len() >= 60, "{}", all.len());
    hold(executor, all).await;
}

/// Runs behaviours, each in its own workspace, and reports the failures.
pub(crate) async fn hold(executor: Arc<dyn Executor>, behaviours: Vec<(&'static str, testing::Behaviour)>) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let runs: Vec<_> = behaviours
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
    let mut failed = Vec::new();
    for (name, run) in runs {
        if run.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
