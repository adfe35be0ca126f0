//! A server as its clients meet it: every message on the wire, in each revision of the protocol.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answers;
mod client;
mod extension;
mod hostile;
mod http;
mod library;
mod permission;
mod running;
mod surface;
