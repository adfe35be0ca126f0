//! The sandbox level: tests it, asks about a weaker one, and parses `--sandbox`.

use anyhow::{Context as _, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use prowess_workspace::{Executor as _, Level, LocalExecutor, LocalOptions};

use crate::confirm::{Confirmation, ask, can_ask};
use crate::terminal::printable;

/// How well commands can be isolated on this machine.
pub(crate) enum SandboxCheck {
    /// As strongly as configured.
    Enough,
    /// Less strongly than configured.
    Weaker {
        /// What is missing, and what to do about it.
        why: String,
        /// The strongest level that works, if any.
        strongest: Option<Level>,
    },
}

impl SandboxCheck {
    /// Tests the sandbox. `least` is the weakest level that the user accepts.
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

/// Asks whether the weaker `level` is enough this time. Only a person at a terminal can say yes.
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

/// What isolates commands at a level.
pub(crate) fn describe(level: Level) -> &'static str {
    match level {
        Level::Container => "a container",
        Level::Bwrap => "namespaces, a system call filter, no network, a read-only system",
        Level::BwrapNoproc => "like bwrap, but commands have no /proc",
        Level::Landlock => "file rules and a system call filter, no namespaces",
        _ => "limits only: commands can read everything that you can read",
    }
}

/// Parses the value of `--sandbox`.
pub(crate) fn level_parser() -> impl clap::builder::TypedValueParser<Value = Level> {
    // Containers are chosen with --executor.
    let local = Level::ALL.into_iter().filter(|level| *level != Level::Container);
    PossibleValuesParser::new(local.map(Level::name)).try_map(|given| given.parse::<Level>())
}
