//! Sessions as their users meet them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod allowed_tools;
mod backend_runs;
mod capabilities;
mod compaction;
mod concurrency;
mod design;
mod dialects;
mod documents;
mod earlier;
mod gate;
mod given;
mod hostile;
mod in_order;
mod interactive;
mod invocation;
mod library;
mod logs;
mod messages;
mod modes;
mod operations;
mod properties;
mod refresh;
mod reloading;
mod runs;
mod saving;
mod servers;
