//! The low level as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod beneath;
mod hex;
mod sse;
mod text;
