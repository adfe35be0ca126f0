//! Tests of the workspace through its public API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod artifacts;
mod backend;
mod behaviours;
mod collecting;
mod container;
mod crash;
mod executable;
mod home;
mod hostile;
mod inputs;
mod inventory;
mod live;
mod modes;
mod place;
mod runs;
mod sandbox;
mod span;
mod staging;
mod whole;
mod workspaces;
