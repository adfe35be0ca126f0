//! The security cases 46 to 71 against real processes.

mod calls;
mod files;
mod landlock;
mod network;
mod output;
mod processes;
mod runtime;
mod secrets;
mod suite;
