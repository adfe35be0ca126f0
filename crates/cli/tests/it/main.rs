//! The binary as a person uses it: exit code, output and errors together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answer_size;
mod artifact_scopes;
mod authoring;
mod chat;
mod checking;
mod completing;
mod config;
mod demo;
mod document;
mod documents;
mod earlier;
mod inputs;
mod installing;
mod mcp;
mod mcp_http;
mod mistakes;
mod model;
mod names;
mod promises;
mod pty;
mod publishing;
mod readme;
mod renamed;
mod run;
mod same_run;
mod sandbox;
mod sandbox_level;
mod searching;
mod serving;
mod session;
mod shipping;
mod showing;
mod telemetry;
mod threads;
mod trust;
mod trust_entries;
mod uninstalling;
mod wire;
mod world;
