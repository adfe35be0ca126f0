//! Runs the suite of executors with the local one.

use std::sync::Arc;

use prowess_workspace::executor::local::{LocalExecutor, LocalOptions};
use prowess_workspace::executor::testing;

use crate::behaviours::{all_hold, hold};
use crate::modes::in_both_modes;

in_both_modes!(every_behaviour, every_behaviour_of_terminals);

async fn every_behaviour() {
    let mut options = LocalOptions::default();
    options.redact.push(testing::SECRET.into());
    all_hold(Arc::new(LocalExecutor::new(options))).await;
}

async fn every_behaviour_of_terminals() {
    hold(Arc::new(LocalExecutor::new(LocalOptions::default())), testing::terminals()).await;
}
