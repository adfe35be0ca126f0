//! The providers on the wire, and the models without one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod anthropic;
mod failures;
mod offline;
mod openai;
mod requests;
mod scripted;
mod server;
mod support;
mod third_party;
