//! Every backend against the one suite, and each against what only it must withstand.

mod cage;
mod composite;
mod hostile;
mod models;
mod object;
mod races;
mod serde;
mod suites;
