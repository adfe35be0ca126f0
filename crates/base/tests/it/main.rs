//! Tests of the crate through its public API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod beneath;
mod hex;
mod sse;
mod text;
