//! The catalog as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod authoring;
mod backend;
mod conformance;
mod discovery;
mod documents;
mod documents_of_skills;
mod given;
mod hostile;
mod overview;
mod published;
mod refresh;
mod tree;
mod trusted;
mod verdicts;
