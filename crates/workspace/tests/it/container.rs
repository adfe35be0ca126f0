//! Commands in containers of a real engine.

mod engine;
mod suite;
