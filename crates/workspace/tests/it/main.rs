//! The workspace as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod artifacts;
mod collecting;
mod hostile;
mod inputs;
mod place;
mod runs;
mod staging;
mod workspaces;
