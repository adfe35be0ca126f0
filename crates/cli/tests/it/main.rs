//! The binary as a person uses it: exit code, output and errors together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod authoring;
mod chat;
mod checking;
mod config;
mod demo;
mod document;
mod documents;
mod mcp;
mod mcp_http;
mod mistakes;
mod model;
mod pty;
mod readme;
mod run;
mod session;
mod shipping;
mod showing;
mod trust;
mod wire;
mod world;
