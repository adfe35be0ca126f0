//! Suggestions for shell completion: the shell asks the program each time Tab is pressed.
//!
//! Completion writes nothing, asks nobody, starts nothing, and prints no errors.

mod bash;
mod models;
mod skills;
mod threads;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::CommandFactory as _;
use clap::builder::Resettable;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Zsh};
use prowess_catalog::untrusted::is_unprintable;

use crate::options::{Cli, RootArgs};

/// The variable in which a shell's script says which shell asks. It is set only for that call.
const VARIABLE: &str = "_PROWESS_COMPLETE";
/// A text that is in every script of `prowess completions`.
pub(crate) const MARK: &str = VARIABLE;
/// How scripts call the program: by its name, so that they survive a new installation.
const PROGRAM: &str = "prowess";
/// The most suggestions that are offered.
const MAX_OFFERED: usize = 1_000;

/// The typed words, for suggestions that depend on them.
static TYPED: OnceLock<Vec<OsString>> = OnceLock::new();

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn from_name(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        <Self as clap::ValueEnum>::from_str(name, true).ok()
    }

    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &bash::Bash,
            Self::Elvish => &Elvish,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
            Self::Zsh => &Zsh,
        }
    }

    /// The script that makes this shell ask the program.
    pub(crate) fn script(self) -> std::io::Result<Vec<u8>> {
        let mut script = Vec::new();
        self.completer().write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
        Ok(script)
    }
}

/// Whether a shell asks for completions.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|shell| !shell.is_empty())
}

/// Answers a shell that asks for completions. The process then has nothing else to do.
pub(crate) fn answer() -> Option<ExitCode> {
    let shell = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    // Whatever goes wrong, the typed line must stay as it is.
    std::panic::set_hook(Box::new(|_| {}));
    let answered = std::panic::catch_unwind(|| {
        let shell = Shell::from_name(&shell)?;
        let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect::<Vec<_>>();
        if words.is_empty() {
            words.push(PROGRAM.into());
        }
        let _ = TYPED.set(words.clone());
        let mut command = Cli::command();
        if words.len() <= 2 {
            // A command is suggested by its name, not by its alias.
            command = command.mut_subcommands(|one| one.visible_alias(Resettable::Reset));
        }
        let (directory, mut offered) = (std::env::current_dir().ok(), Vec::new());
        shell.completer().write_complete(&mut command, words, directory.as_deref(), &mut offered).ok()?;
        std::io::stdout().write_all(&offered).ok()
    });
    Some(if matches!(answered, Ok(Some(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Suggests skills.
pub(crate) fn skills() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, skills::names))
}

/// Suggests skills and paths.
pub(crate) fn skills_and_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        use clap_complete::engine::{PathCompleter, ValueCompleter as _};
        let mut all = offered(begun, skills::names);
        all.extend(PathCompleter::any().complete(begun));
        all
    })
}

/// Suggests threads, the last one first.
pub(crate) fn threads() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, threads::names))
}

/// Suggests models.
pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, models::names))
}

/// Suggests kits.
pub(crate) fn kits() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, models::kits))
}

/// Suggests labels of MCP servers.
pub(crate) fn servers() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, models::servers))
}

/// A suggestion and its description.
type Suggestion = (String, Option<String>);

/// The suggestions that start with the typed text. Names with control characters, or that look like options, are left
/// out.
fn offered(begun: &OsStr, names: impl Fn() -> Option<Vec<Suggestion>>) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let fits = |(name, _): &Suggestion| {
        name.starts_with(begun) && !name.starts_with('-') && !name.chars().any(is_unprintable)
    };
    let candidate = |(name, help): Suggestion| {
        let help = help.map(|help| crate::terminal::printable_start(&help, MAX_HELP));
        CompletionCandidate::new(name).help(help.map(Into::into))
    };
    names().unwrap_or_default().into_iter().filter(fits).take(MAX_OFFERED).map(candidate).collect()
}

/// How many characters of a description are shown.
const MAX_HELP: usize = 60;

/// The roots, according to the typed options.
fn root_args() -> RootArgs {
    let words = TYPED.get().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&str> =
        words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let has = |flag: &str| words.contains(&flag);
    let after = words.windows(2).filter(|pair| pair[0] == "--root").map(|pair| pair[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("--root="));
    RootArgs {
        root: after.chain(joined).map(PathBuf::from).filter(|root| root.is_dir()).collect(),
        only: has("--only"),
        trust_project: has("--trust-project"),
        follow_links: has("--follow-links"),
        hidden: has("--hidden"),
        gitignore: has("--gitignore"),
        nested: has("--nested"),
        max_depth: None,
    }
}
