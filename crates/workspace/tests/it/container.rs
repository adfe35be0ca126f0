//! Tests with containers of a real engine.

pub(crate) mod engine;
mod hostile;
mod leftovers;
mod refusals;
mod runtime;
mod skills;
mod suite;
