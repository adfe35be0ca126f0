//! The binary as a person uses it: exit code, output and errors together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod authoring;
mod checking;
mod config;
mod document;
mod documents;
mod mcp;
mod mistakes;
#[expect(dead_code, reason = "the tests of conversations use the rest")]
mod model;
mod pty;
mod readme;
mod run;
mod session;
mod shipping;
mod showing;
mod trust;
mod world;
