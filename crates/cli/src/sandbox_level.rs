//! Asks a person whether a weaker sandbox is enough, when the one that is configured cannot be had.

use anyhow::{Context as _, Result};
use prowess_workspace::{Executor as _, Level, LocalExecutor, LocalOptions};

use crate::confirm::{Confirmation, ask, can_ask};
use crate::terminal::printable;

/// How commands can be isolated on this machine.
pub(crate) enum SandboxCheck {
    /// As strongly as the user wants.
    Enough,
    /// Not as strongly as the user wants.
    Weaker {
        /// What is missing, and what to do about it.
        why: String,
        /// The strongest level that works, if any isolates at all.
        strongest: Option<Level>,
    },
}

impl SandboxCheck {
    /// Tries the sandbox for real. `least` is the weakest level that the user allows.
    pub(crate) fn probe(least: Level) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot test the sandbox")?;
        let try_level = |least: Level| {
            let mut options = LocalOptions::default();
            options.least = least;
            runtime.block_on(LocalExecutor::new(options).probe())
        };
        let why = match try_level(least) {
            Ok(_) => return Ok(Self::Enough),
            Err(error) => error.to_string(),
        };
        let strongest = try_level(Level::None).ok().map(|found| found.level);
        Ok(Self::Weaker { why, strongest: strongest.filter(|level| *level != Level::None) })
    }
}

/// Says what is missing and asks whether `level` is enough this time. Only a person at a terminal can answer: elsewhere, and
/// without an answer, it is not enough.
pub(crate) fn accept_weaker(level: Level, why: &str) -> Result<bool> {
    if !can_ask() {
        return Ok(false);
    }
    let question = [
        printable(why),
        format!("The strongest sandbox that works here is `{level}`: {}.", describe(level)),
        format!("To avoid this question, set `sandbox.level = \"{level}\"` in your prowess.toml."),
        format!("Run commands with `{level}` this time?"),
    ];
    let lines = question.each_ref().map(String::as_str);
    Ok(ask(&lines, &mut std::io::stdin().lock())? == Confirmation::Yes)
}

/// What a level holds commands with.
pub(crate) fn describe(level: Level) -> &'static str {
    match level {
        Level::Container => "a container",
        Level::Bwrap => "namespaces, a system call filter, no network, a read-only system",
        Level::BwrapNoproc => "like bwrap, but commands have no /proc",
        Level::Landlock => "file rules and a system call filter, no namespaces",
        _ => "limits only: commands can read everything that you can read",
    }
}
