//! Runs the shared suite against every backend, and tests what is special about each.

#![allow(clippy::unwrap_used, reason = "what a test's fixture panics about, the test fails for")]

mod cage;
mod composite;
mod hostile;
mod models;
mod object;
mod races;
mod serde;
mod suites;
