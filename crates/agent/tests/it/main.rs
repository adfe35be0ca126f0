//! The agent as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod again;
mod agent;
mod cost;
mod durable;
mod files;
mod foolish;
mod frontmatter;
mod hooks;
mod offline;
mod parts;
mod readme;
mod run;
mod says;
mod scenarios;
mod summarisation;
mod tasks;
#[cfg(feature = "otel")]
mod telemetry;
mod threads;
mod world;
