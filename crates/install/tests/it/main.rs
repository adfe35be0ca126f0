//! Installing skills, as the users of this crate meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod folder_hash;
mod hidden_text;
mod lock;
mod place_kill;
mod snapshot;
mod source;
