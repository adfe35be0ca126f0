//! Every backend against the one suite, and each against what only it must withstand.

mod composite;
mod hostile;
mod models;
mod object;
mod suites;
