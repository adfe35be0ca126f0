//! Fetching sources: repositories, archives and web sites, friendly and hostile.

mod archives;
mod git;
mod git_hostile;
mod repository;
mod server;
mod sites;

/// Runs a future to its end.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
