//! Stores of threads.

use std::sync::Arc;

use prowess_agent::MemoryThreads;
use prowess_agent::testing::thread_store_suite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes_the_suite() {
    thread_store_suite(Arc::new(MemoryThreads::new())).await;
}
