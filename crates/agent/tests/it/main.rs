//! The agent as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod agent;
mod cost;
mod files;
mod offline;
mod parts;
mod readme;
mod run;
mod says;
mod summarisation;
#[cfg(feature = "otel")]
mod telemetry;
mod threads;
