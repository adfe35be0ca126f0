//! The catalog as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod authoring;
mod backend;
mod conformance;
mod diagnostics_page;
mod discovery;
mod documents;
mod given;
mod hostile;
mod overview;
mod overview_budget;
mod overview_modes;
mod published;
mod refresh;
mod search;
mod tree;
mod trusted;
mod verdicts;
