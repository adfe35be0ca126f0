//! Every backend against the one suite, and each against what only it must withstand.

#![allow(clippy::unwrap_used, reason = "what a test's fixture panics about, the test fails for")]

mod cage;
mod composite;
mod hostile;
mod models;
mod object;
mod races;
mod serde;
mod suites;
