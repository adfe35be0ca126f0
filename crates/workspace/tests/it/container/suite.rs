//! Runs the suite of executors in containers.

use std::sync::Arc;

use prowess_workspace::ContainerExecutor;
use prowess_workspace::executor::testing;

use super::engine::options;
use crate::behaviours::all_hold;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_behaviour() {
    let mut options = options();
    options.redact.push(testing::SECRET.into());
    all_hold(Arc::new(ContainerExecutor::new(options))).await;
}
