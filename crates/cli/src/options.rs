//! The command line: commands, and options that several commands share.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    add, artifacts, chat, check, completions, config, demo, doctor, info, install, list, man, mcp, new,
    outdated, package, prompt, publish, queue, remove, run, search, serve, servers, session, threads, trust,
    uninstall, update, verify,
};
use crate::config::{Flag, NO_KIT};

/// The version, with its commit if that is known.
pub(crate) const VERSION: &str = env!("PROWESS_VERSION");

/// Find, check, run and chat with Agent Skills.
#[derive(Debug, Parser)]
#[command(
    name = "prowess",
    version = VERSION,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// When to use colors; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, hide_possible_values = true, value_name = "auto|always|never")]
    pub(crate) color: Color,
    /// Log to standard error; repeat for more detail
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
    /// Chat with an agent that uses your skills
    Chat(Box<chat::Options>),
    /// Show all features once, without an API key or a network
    Demo(demo::Options),
    /// Install skills from a Git repository, an archive, a web site or a directory
    Add(Box<add::Options>),
    /// Restore the skills that the lock has
    Install(install::Options),
    /// Compare the installed skills with the lock
    Verify(verify::Options),
    /// Show which installed skills have newer versions
    Outdated(outdated::Options),
    /// Update installed skills, and keep your changes
    #[command(visible_alias = "upgrade")]
    Update(update::Options),
    /// Remove installed skills
    #[command(visible_alias = "rm")]
    Remove(remove::Options),
    /// List the skills that prowess finds
    List(list::Options),
    /// Show everything about one skill
    Info(info::Options),
    /// Check skills against the open specification
    Check(check::Options),
    /// Create a new skill
    #[command(visible_alias = "create")]
    New(new::Options),
    /// Show what a model is told about the skills
    Prompt(prompt::Options),
    /// Search skills by words
    Search(search::Options),
    /// Step through a session by hand and see what a model would see
    Session(Box<session::Options>),
    /// Serve your skills to MCP clients, on standard input and output or over HTTP
    Mcp(Box<mcp::Options>),
    /// Serve an agent over HTTP, with a page, for several users
    Serve(Box<serve::Options>),
    /// Show the queue of a server for several users, and retry or drop dead letters
    Queue(queue::Options),
    /// Show the skills and tools of other MCP servers
    Servers(servers::Options),
    /// Run a skill's command in a sandbox
    Run(Box<run::Options>),
    /// List, print or remove the files that runs saved
    Artifacts(artifacts::Options),
    /// List, show, export or remove conversations
    Threads(threads::Options),
    /// Check whether skills can run here, and how well they are isolated
    Doctor(doctor::Options),
    /// Trust a project, so that its skills, prowess.toml and AGENTS.md are used
    Trust(trust::Options),
    /// Show all settings and where each value comes from
    Config(config::Options),
    /// Pack a skill into a .skill archive
    Package(package::Options),
    /// Write skills as a web site from which others can install them
    Publish(publish::Options),
    /// Print a completion script for a shell
    Completions(completions::Options),
    /// Print the manual page, or write the pages of all commands
    Man(man::Options),
    /// Remove everything that prowess keeps, except your skills
    Uninstall(uninstall::Options),
}

/// Where to look for skills.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Finding skills")]
pub(crate) struct RootArgs {
    /// Also look in this directory, which takes precedence over all others; can be repeated. SKILLS_ROOT does the same
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// Look only in the directories of --root and SKILLS_ROOT
    #[arg(long)]
    pub(crate) only: bool,
    /// Trust this project for this command only, so that its skills are used
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Follow links that lead out of a root
    #[arg(long)]
    pub(crate) follow_links: bool,
    /// Also look in hidden directories
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Skip what .gitignore excludes
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Also look for skills inside skills
    #[arg(long)]
    pub(crate) nested: bool,
    /// How many directories deep to look
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<usize>,
}

/// Which skills a model sees.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Finding skills")]
pub(crate) struct KitArgs {
    /// Use only the skills of this kit, and pinned skills; can be repeated. `off` uses all skills
    #[arg(long = "kit", value_name = "NAME", add = crate::complete::kits())]
    kits: Vec<String>,
}

impl KitArgs {
    /// Whether kits were chosen.
    pub(crate) fn is_given(&self) -> bool {
        !self.kits.is_empty()
    }

    /// The chosen kits, as a value of `skills.kits`.
    pub(crate) fn flag(&self) -> Option<Flag> {
        self.is_given().then(|| kit_flag("--kit", &self.kits))
    }
}

/// A choice of kits, as a value of `skills.kits`.
pub(crate) fn kit_flag(name: &'static str, kits: &[String]) -> Flag {
    let text = if kits == [NO_KIT] { String::new() } else { kits.join(",") };
    Flag { key: KITS, name, text }
}

/// The key of the kits in use.
pub(crate) const KITS: &str = "skills.kits";

/// Parses one of the words in `values`.
pub(crate) fn one_of<T: Clone + Send + Sync>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name)).try_map(move |given| {
        let found = values.iter().find(|(name, _)| *name == given);
        found.map(|(_, value)| value.clone()).ok_or("it is not one of these words")
    })
}
