//! Skills, models, replies and processes that mean no good, against whole agents.

mod approvals;
mod calls;
mod cuts;
mod strangers;
mod tasks;

use std::time::Duration;

use prowess_agent::AgentOptions;

/// A thread is free soon after its process died.
fn short_lease() -> AgentOptions {
    let mut options = AgentOptions::default();
    options.lease = Duration::from_millis(300);
    options
}

/// Waits for something, and not for ever.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}
