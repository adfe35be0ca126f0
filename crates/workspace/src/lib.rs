//! Stages skills, runs their commands isolated, collects what they made, and keeps artifacts.

mod command;
pub mod executor;
mod limits;

pub use command::{Captured, Command, Exit, Finished, Level, Network, Sandbox};
pub use executor::local::{LocalExecutor, LocalOptions};
pub use executor::{ExecuteError, Executor, NoSink, OutputSink, Stream};
pub use limits::{DEFAULT_TIMEOUT, Limits, MAX_TIMEOUT};
