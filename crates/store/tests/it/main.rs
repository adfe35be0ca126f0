//! Tests of the store through its public API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod approvals;
mod artifacts;
mod damage;
mod disk_full;
mod earlier;
mod files;
mod kill;
mod processes;
mod queue;
mod read_only_list;
mod retention;
mod serve;
mod servers;
mod support;
mod threads;
