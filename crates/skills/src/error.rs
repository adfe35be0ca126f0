//! What an operation says when it cannot be done. Nothing has changed then.

use prowess_catalog::ReadError;
use prowess_catalog::document::DocumentError;
use prowess_catalog::untrusted::code_text;
use prowess_permission::Refusal;

use crate::dialect::Dialect;
use crate::load::OverBudget;

/// How many names an answer lists before it only counts the rest.
pub(crate) const MAX_NAMES: usize = 100;
/// How many names that a model made up are repeated to it.
const MAX_ASKED: usize = 10;
/// How much of what a model made up is repeated to it.
const MAX_ECHO: usize = 200;

/// Why an operation was not done.
///
/// `Display` gives the words of the session's dialect; [`SkillError::for_model`] puts `Error: ` before them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is no such skill, or none that this agent may know of.
    #[error("{}", dialect.not_found(name, &or_none(available)))]
    NotFound {
        /// What was asked for.
        name: String,
        /// What there is.
        available: Vec<String>,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// As many skills are loaded as may be.
    #[error(
        "Cannot load skill '{}'. Maximum number of simultaneously loaded skills reached ({limit}). \
         Currently loaded: {}. Use `{}(\"skill-name\")` to unload a skill you no longer need, then retry loading.",
        safe(name), or_none(loaded), dialect.words().unload
    )]
    LimitReached {
        /// What was to be loaded.
        name: String,
        /// How many may be.
        limit: usize,
        /// What is loaded.
        loaded: Vec<String>,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// The text does not fit beside what is loaded.
    #[error("{}", over_budget(*what, name, *tokens, *budget, loaded, *dialect))]
    OverBudget {
        /// What was to come into context.
        what: OverBudget,
        /// Which skill it is about.
        name: String,
        /// How many tokens it takes.
        tokens: usize,
        /// How many all loaded skills may take.
        budget: usize,
        /// What is loaded, with its tokens.
        loaded: Vec<(String, usize)>,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// The permission gate did not let it pass.
    #[error("Cannot load skill '{}'. {refusal}", safe(name))]
    Refused {
        /// What was to be loaded.
        name: String,
        /// What the gate said.
        #[source]
        refusal: Refusal,
    },
    /// Only a person may start it.
    #[error("Skill '{0}' can only be started by the user. Ask the user to type `/{0}`.", safe(name))]
    ManualOnly {
        /// Which.
        name: String,
    },
    /// A person may not start it.
    #[error("Skill '{}' cannot be started by hand: it says `user-invocable: false`.", safe(name))]
    NotForUsers {
        /// Which.
        name: String,
    },
    /// What a person typed does not name a skill.
    #[error("'{}' is not a skill's name after a slash, such as `/skill-name arguments`.", shown(line))]
    NotACommand {
        /// What was typed.
        line: String,
    },
    /// Its document cannot be read.
    #[error("{}", safe(&.0.to_string()))]
    Read(#[from] ReadError),
    /// With its arguments and paths put in, the text is longer than a document may be.
    #[error(
        "Skill '{}' grows beyond {limit} bytes when its arguments are put in. \
         Load it with shorter arguments, or tell the user that the skill repeats them too often.",
        safe(name)
    )]
    Expanded {
        /// Which.
        name: String,
        /// The most bytes there may be.
        limit: usize,
    },
    /// It is not loaded.
    #[error("Skill '{}' is not currently loaded. Currently loaded skills: {}.", shown(name), or_none(loaded))]
    NotLoaded {
        /// Which.
        name: String,
        /// What is loaded.
        loaded: Vec<String>,
    },
    /// Permission is needed for it, and is asked for when it is loaded.
    #[error(
        "Permission is needed for skill '{0}' before any of it is told. Use `{1}(\"{2}\")` first.",
        safe(name), dialect.words().load, argument(name)
    )]
    LoadFirst {
        /// Which.
        name: String,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// Another skill has its name now.
    #[error(
        "Another skill is called '{0}' now, and the one that is loaded has no documents any more. \
         Use `{1}(\"{3}\")` and `{2}(\"{3}\")` to work with the new one.",
        safe(name), dialect.words().unload, dialect.words().load, argument(name)
    )]
    Replaced {
        /// Which.
        name: String,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// Its server publishes something else now than what was loaded.
    #[error(
        "Skill '{0}' is not what it was when it was loaded: its server publishes something else now, which nobody has \
         approved. Use `{1}(\"{3}\")` and `{2}(\"{3}\")` to work with what there is now.",
        safe(name), dialect.words().unload, dialect.words().load, argument(name)
    )]
    Republished {
        /// Which.
        name: String,
        /// Whose words are used.
        dialect: Dialect,
    },
    /// The skill has no document of that name.
    #[error(
        "Skill '{}' has no document {}. Its documents: {}.",
        safe(name),
        asked.iter().take(MAX_ASKED).map(|path| format!("'{}'", shown(path))).collect::<Vec<_>>().join(", "),
        or_none(available)
    )]
    NoSuchDocument {
        /// Whose documents.
        name: String,
        /// What was asked for and is not there.
        asked: Vec<String>,
        /// What is.
        available: Vec<String>,
    },
    /// More text of documents than one skill may have in context.
    #[error(
        "Skill '{}' may have {most} bytes of documents in context, which leaves no room for: {}. \
         Select fewer, or clear the selection first.",
        safe(name),
        or_none(left_out)
    )]
    TooManyDocuments {
        /// Whose documents.
        name: String,
        /// How many bytes it may have.
        most: usize,
        /// Those that have no room.
        left_out: Vec<String>,
    },
    /// A document cannot be read.
    #[error("Skill '{}': {}", safe(name), safe(&error.to_string()))]
    Document {
        /// Whose document.
        name: String,
        /// What happened.
        #[source]
        error: DocumentError,
    },
    /// The permission gate did not let a command pass.
    #[cfg(feature = "run")]
    #[error("Cannot run a command of skill '{}'. {refusal}", safe(name))]
    RunRefused {
        /// Whose command.
        name: String,
        /// What the gate said.
        #[source]
        refusal: Refusal,
    },
    /// A command was not run.
    #[cfg(feature = "run")]
    #[error("Cannot run a command of skill '{}': {}", safe(name), safe(&error.to_string()))]
    Run {
        /// Whose command.
        name: String,
        /// What happened.
        #[source]
        error: prowess_workspace::RunError,
    },
    /// Something could not be done with a command that goes on.
    #[cfg(feature = "run")]
    #[error("{}", safe(&.0.to_string()))]
    Live(#[source] prowess_workspace::live::LiveError),
    /// The arguments of a tool call are not what its schema asks for.
    #[error("{tool}: the arguments are not right: {}", shown(problem))]
    Arguments {
        /// The tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
    /// The host gave an operation something else than it wanted.
    #[error("The files of skills cannot be read: they were given for something else than was asked for.")]
    Misfed,
    /// The dialect has no such tool.
    #[error("There is no tool '{}'. Tools for skills: {}.", shown(tool), tools.join(", "))]
    NoSuchTool {
        /// What was called.
        tool: String,
        /// What there is.
        tools: Vec<&'static str>,
    },
}

impl SkillError {
    /// What the permission gate said, if it was the gate.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            #[cfg(feature = "run")]
            Self::RunRefused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// What a model reads.
    pub fn for_model(&self) -> String {
        format!("Error: {self}")
    }
}

/// Text of strangers as it may stand among the host's words: on one line, with nothing that could pass for
/// markup.
pub(crate) fn safe(text: &str) -> String {
    code_text(text)
}

/// A name as it may stand between double quotes in a call that a model is told to make.
pub(crate) fn argument(name: &str) -> String {
    safe(name).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Text of strangers, and short: for what a model made up.
pub(crate) fn shown(text: &str) -> String {
    let line = safe(text);
    match line.char_indices().nth(MAX_ECHO) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// `a, b, c`, or `(none)`; the rest only counted when there are very many.
pub(crate) fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        return "(none)".to_owned();
    }
    let listed: Vec<String> = names.iter().take(MAX_NAMES).map(|name| safe(name)).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn over_budget(
    what: OverBudget,
    name: &str,
    tokens: usize,
    budget: usize,
    loaded: &[(String, usize)],
    dialect: Dialect,
) -> String {
    let used = loaded.iter().fold(0_usize, |sum, (_, tokens)| sum.saturating_add(*tokens));
    let unload = dialect.words().unload;
    let name = safe(name);
    let (start, again) = match what {
        OverBudget::Skill => (format!("Cannot load skill '{name}'. It takes"), "retry loading"),
        OverBudget::Documents => {
            (format!("Cannot select these documents of skill '{name}'. They take"), "select them again")
        }
    };
    let start = format!("{start} {tokens} tokens, and loaded skills may take {budget} in all");
    if tokens > budget {
        return format!("{start}: that is too much for this session, whatever is unloaded.");
    }
    let each: Vec<String> = loaded.iter().map(|(name, tokens)| format!("{name} ({tokens})")).collect();
    format!(
        "{start}, of which {used} are in use. Currently loaded: {}. \
         Use `{unload}(\"skill-name\")` to unload a skill you no longer need, then {again}.",
        or_none(&each)
    )
}
