//! The providers on the wire, and the models without one.

mod anthropic;
mod failures;
mod offline;
mod openai;
mod requests;
mod scripted;
mod server;
mod support;
mod third_party;
