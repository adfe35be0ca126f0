//! What a shell offers when somebody presses Tab: it asks the program, which looks and says nothing else.
//!
//! A completion writes nothing, asks nobody, starts nothing, and is silent about whatever goes wrong.

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

/// The variable by which a shell's script says which shell asks. It is set for that call alone.
const VARIABLE: &str = "_PROWESS_COMPLETE";
/// What is in every script that `prowess completions` prints.
pub(crate) const MARK: &str = VARIABLE;
/// The program, as scripts call it: by its name, so that they go on working when it is installed anew.
const PROGRAM: &str = "prowess";
/// The most that is offered: nobody reads more.
const MAX_OFFERED: usize = 1_000;

/// The words that were typed, for completions that depend on them.
static TYPED: OnceLock<Vec<OsString>> = OnceLock::new();

/// A shell that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn named(name: &OsStr) -> Option<Self> {
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

    /// The script that has this shell ask the program.
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
    // Whatever goes wrong, the line that somebody types stays as it is.
    std::panic::set_hook(Box::new(|_| {}));
    let answered = std::panic::catch_unwind(|| {
        let shell = Shell::named(&shell)?;
        let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect::<Vec<_>>();
        if words.is_empty() {
            words.push(PROGRAM.into());
        }
        let _ = TYPED.set(words.clone());
        let mut command = Cli::command();
        if words.len() <= 2 {
            // Of a command and its other name one is offered, and that is not the one that people look for.
            command = command.mut_subcommands(|one| one.visible_alias(Resettable::Reset));
        }
        let (directory, mut offered) = (std::env::current_dir().ok(), Vec::new());
        shell.completer().write_complete(&mut command, words, directory.as_deref(), &mut offered).ok()?;
        std::io::stdout().write_all(&offered).ok()
    });
    Some(if matches!(answered, Ok(Some(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Offers names of skills.
pub(crate) fn skills() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, skills::names))
}

/// Offers names of skills, and paths.
pub(crate) fn skills_and_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        use clap_complete::engine::{PathCompleter, ValueCompleter as _};
        let mut all = offered(begun, skills::names);
        all.extend(PathCompleter::any().complete(begun));
        all
    })
}

/// Offers threads, the last one first.
pub(crate) fn threads() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, threads::names))
}

/// Offers models.
pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, models::names))
}

/// Offers labels of MCP servers.
pub(crate) fn servers() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| offered(begun, models::servers))
}

/// A word to offer, and what it means.
type Suggestion = (String, Option<String>);

/// What begins as somebody did. A name with control characters, or one that would be an option, is not offered.
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

/// How much of what a word means is shown beside it.
const MAX_HELP: usize = 60;

/// Where skills are looked for, as the typed words say.
fn places() -> RootArgs {
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
