//! The binary as a person uses it: exit code, output and errors together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod authoring;
mod checking;
mod document;
mod documents;
mod mistakes;
mod readme;
mod run;
mod session;
mod shipping;
mod showing;
mod world;
