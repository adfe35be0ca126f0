//! What a person can type.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    artifacts, chat, check, completions, config, demo, doctor, info, list, man, mcp, new, package, prompt,
    run, search, servers, session, threads, trust, uninstall,
};

/// The version, with its commit where that is known.
pub(crate) const VERSION: &str = env!("PROWESS_VERSION");

/// Finds, checks, shows and runs Agent Skills.
#[derive(Debug, Parser)]
#[command(
    name = "prowess",
    version = VERSION,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// When to use colours; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, hide_possible_values = true, value_name = "auto|always|never")]
    pub(crate) color: Color,
    /// Log what happens to standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk to an agent that has the skills
    Chat(Box<chat::Options>),
    /// Play the whole product once, with no key and no network
    Demo(demo::Options),
    /// List the skills that are found
    List(list::Options),
    /// Show everything about one skill
    Info(info::Options),
    /// Check skills against the open specification
    Check(check::Options),
    /// Make a new skill
    #[command(visible_alias = "create")]
    New(new::Options),
    /// Show what a model is told about the skills
    Prompt(prompt::Options),
    /// Find skills by words
    Search(search::Options),
    /// Try a session by hand: see what a model would see at each step
    Session(Box<session::Options>),
    /// Serve the skills to clients of the Model Context Protocol, on standard streams or over HTTP
    Mcp(Box<mcp::Options>),
    /// Show the skills and tools of other MCP servers, and look at a skill before it is loaded
    Servers(servers::Options),
    /// Run a command of a skill, isolated
    Run(Box<run::Options>),
    /// Show what runs have saved, or get it out
    Artifacts(artifacts::Options),
    /// List, show, export or remove conversations
    Threads(threads::Options),
    /// Say whether and how well isolated skills can run here
    Doctor(doctor::Options),
    /// Trust a project: let models see its skills, and use its prowess.toml
    Trust(trust::Options),
    /// Show what is set, and by whom
    Config(config::Options),
    /// Pack a skill into a .skill archive
    Package(package::Options),
    /// Print a script that completes commands in a shell
    Completions(completions::Options),
    /// Print the manual page, or write those of all commands
    Man(man::Options),
    /// Remove all that this program keeps, after asking; your skills stay
    Uninstall(uninstall::Options),
}

/// Where to look for skills.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where to look")]
pub(crate) struct RootArgs {
    /// Also look in this directory; it takes precedence over all others. Also from SKILLS_ROOT
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// Look only in the directories given by --root and SKILLS_ROOT
    #[arg(long)]
    pub(crate) only: bool,
    /// Trust this project for this command: let models see its skills
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Follow links wherever they lead
    #[arg(long)]
    pub(crate) follow_links: bool,
    /// Look in hidden directories
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Leave out what .gitignore excludes
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Look for skills inside skills
    #[arg(long)]
    pub(crate) nested: bool,
    /// How deep below a root to look
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<usize>,
}
