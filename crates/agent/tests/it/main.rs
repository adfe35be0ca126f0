//! The agent as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod agent;
mod eviction;
mod failing;
mod files;
mod memory;
mod offline;
mod parts;
mod readme;
mod run;
mod says;
mod state_files;
mod summarisation;
mod threads;
mod todos;
