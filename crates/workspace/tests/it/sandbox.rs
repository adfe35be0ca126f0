//! The security cases 46 to 71, and published checks of sandboxes, with real processes.

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
