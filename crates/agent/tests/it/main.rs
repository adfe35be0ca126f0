//! The agent as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod agent;
mod asks;
mod attack;
mod called_again;
mod changes;
mod contract;
mod copying;
mod cost;
mod deep;
mod durable;
mod earlier;
mod eviction;
mod failing;
mod files;
mod following_files;
mod foolish;
mod frontmatter;
mod hooks;
mod in_order;
mod layering;
mod lines;
mod memory;
mod middleware;
mod model_calls;
mod offline;
mod person;
mod readme;
mod says;
mod scenarios;
mod sections;
mod servers;
mod skill_state;
mod state_files;
mod summarisation;
mod tasks;
#[cfg(feature = "otel")]
mod telemetry;
mod thread_state;
mod threads;
mod todos;
mod tool_kinds;
mod typed_forks;
mod world;
