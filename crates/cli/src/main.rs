//! `prowess`: finds, checks and runs Agent Skills, and chats with an agent that uses them.

#![allow(clippy::doc_markdown, reason = "doc comments on arguments are help texts, which have no markup")]

mod agent_files;
mod artifacts;
mod chat;
mod commands;
mod complete;
mod config;
mod confirm;
mod database;
mod directories;
mod embeddings;
mod executor;
mod installing;
mod key_command;
mod markdown;
mod options;
mod progress;
mod project;
mod recent_skills;
mod rows;
mod run_tools;
mod sandbox_level;
mod screen;
mod server_lock;
mod servers;
mod serving;
mod shell;
mod signals;
mod skills;
mod telemetry;
mod terminal;
mod threads;
mod trust;
mod url;
mod visibility;
mod workspace_dir;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use prowess_agent::telemetry::Exporter;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::commands::CommandOutcome;
use crate::options::Cli;
use crate::terminal::Terminal;

/// The exit code for usage errors and commands that failed.
const MISUSE: u8 = 2;
/// The same for `run`, whose other exit codes come from the command.
const NOTHING_RAN: u8 = 125;

fn main() -> ExitCode {
    if let Some(ended) = complete::answer() {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let mut terminal = Terminal::new(cli.color);
    // These commands start the log later, because their configuration may name a collector of spans.
    let is_later = |command: &options::Command| {
        use options::Command::{Chat, Run, Serve};
        matches!(command, Chat(_) | Run(_) | Serve(_))
    };
    if !is_later(&cli.command) {
        init_log(cli.verbose, &terminal, None);
    }
    let is_check = matches!(cli.command, options::Command::Check(_));
    let misuse = if matches!(cli.command, options::Command::Run(_)) { NOTHING_RAN } else { MISUSE };
    let result = commands::run(cli.command, cli.verbose, &mut terminal).and_then(|outcome| {
        terminal.flush()?;
        Ok(outcome)
    });
    match result {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Findings) => ExitCode::FAILURE,
        Ok(CommandOutcome::Code(code)) => ExitCode::from(code),
        // A check whose output nobody read to the end is not a success.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(u8::from(is_check)),
        Err(error) => {
            tell_error(&error);
            ExitCode::from(misuse)
        }
    }
}

/// Prints an error with its causes on the error stream, and returns what it says.
pub(crate) fn tell_error(error: &anyhow::Error) -> String {
    let told = prowess_catalog::untrusted::one_line(&with_causes(error)).into_owned();
    // If the error stream is closed, nothing can be done.
    let _ = writeln!(anstream::stderr(), "prowess: {told}");
    told
}

/// The error with its causes. Many errors end with the text of their cause, which is not said twice.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |told, cause| {
        if told.ends_with(&cause) { told } else { format!("{told}: {cause}") }
    })
}

/// Whether the reader of our output closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints help as it is, and a usage error in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(MISUSE);
    }
    let text = error.render().to_string();
    let told: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let mut told = told.join(" ").replacen("error: ", "", 1).replace(" tip: ", "; ");
    for (old, new) in commands::chat::RENAMED_OPTIONS {
        told = told.replace(&format!("a similar argument exists: '{old}'"), &format!("use '{new}'"));
    }
    let given = given_commands();
    let code = if given.first().is_some_and(|name| name == "run") { NOTHING_RAN } else { MISUSE };
    let help: String = given.iter().map(|name| format!("{name} ")).collect();
    let _ = writeln!(anstream::stderr(), "prowess: {told}; see `prowess {help}--help`");
    ExitCode::from(code)
}

/// The given command, with the command below it: `threads` and `prune`.
fn given_commands() -> Vec<String> {
    let mut command = &Cli::command();
    let mut given = Vec::new();
    for word in std::env::args().skip(1) {
        if let Some(below) = command.find_subcommand(&word) {
            (command, given) = (below, [given, vec![word]].concat());
        }
    }
    given
}

/// Starts the log on the error stream, and the export of spans to a collector.
fn init_log(verbose: u8, terminal: &Terminal, exporter: Option<&Exporter>) {
    init_log_from(LevelFilter::OFF, verbose, terminal, exporter);
}

/// The same for a server, which always says what went wrong.
fn init_server_log(verbose: u8, terminal: &Terminal, exporter: Option<&Exporter>) {
    init_log_from(LevelFilter::WARN, verbose, terminal, exporter);
}

fn init_log_from(least: LevelFilter, verbose: u8, terminal: &Terminal, exporter: Option<&Exporter>) {
    let level = match verbose {
        0 => least,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    if level == LevelFilter::OFF && exporter.is_none() {
        return;
    }
    let log = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(terminal.errors_are_styled())
        .with_filter(level);
    tracing_subscriber::registry().with(log).with(exporter.map(Exporter::layer)).init();
}
