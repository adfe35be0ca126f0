//! The security cases 46 to 71, and the checks that comparisons publish, against real processes.

mod apart;
mod calls;
mod checks;
mod files;
mod hidden;
mod hosts;
mod landlock;
mod network;
mod output;
mod processes;
mod runtime;
mod secrets;
mod suite;
