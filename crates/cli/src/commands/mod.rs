//! The commands, one file each: options and behavior.

pub(crate) mod add;
pub(crate) mod artifacts;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod info;
pub(crate) mod install;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod outdated;
pub(crate) mod package;
pub(crate) mod prompt;
pub(crate) mod publish;
pub(crate) mod queue;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod session;
pub(crate) mod threads;
pub(crate) mod trust;
pub(crate) mod uninstall;
pub(crate) mod update;
pub(crate) mod verify;

use anyhow::Result;

use crate::options::Command;
use crate::terminal::Terminal;

/// How a command ended, if it could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Success.
    Done,
    /// It found a problem with the skills or the machine, or a script ended with an error.
    Findings,
    /// A program ran and ended with this code.
    Code(u8),
}

pub(crate) fn run(command: Command, verbose: u8, terminal: &mut Terminal) -> Result<CommandOutcome> {
    match command {
        Command::Chat(options) => chat::run(&options, terminal, verbose),
        Command::Demo(options) => demo::run(&options, terminal),
        Command::Add(options) => add::run(&options, terminal),
        Command::Install(options) => install::run(&options, terminal),
        Command::Verify(options) => verify::run(&options, terminal),
        Command::Outdated(options) => outdated::run(&options, terminal),
        Command::Update(options) => update::run(&options, terminal),
        Command::Remove(options) => remove::run(&options, terminal),
        Command::List(options) => list::run(&options, terminal),
        Command::Info(options) => info::run(&options, terminal),
        Command::Check(options) => check::run(&options, terminal),
        Command::New(options) => new::run(&options, terminal),
        Command::Prompt(options) => prompt::run(&options, terminal),
        Command::Search(options) => search::run(&options, terminal),
        Command::Session(options) => session::run(&options, terminal),
        Command::Mcp(options) => mcp::run(&options, terminal),
        Command::Serve(options) => serve::run(&options, terminal, verbose),
        Command::Queue(options) => queue::run(&options, terminal),
        Command::Servers(options) => servers::run(&options, terminal),
        Command::Run(options) => run::run(&options, terminal, verbose),
        Command::Artifacts(options) => artifacts::run(&options, terminal),
        Command::Threads(options) => threads::run(&options, terminal),
        Command::Uninstall(options) => uninstall::run(&options, terminal),
        Command::Doctor(options) => doctor::run(&options, terminal),
        Command::Config(options) => config::run(&options, terminal),
        Command::Trust(options) => trust::run(&options, terminal),
        Command::Package(options) => package::run(&options, terminal),
        Command::Publish(options) => publish::run(&options, terminal),
        Command::Completions(options) => completions::run(&options, terminal),
        Command::Man(options) => man::run(&options, terminal),
    }
}
