//! Errors of operations, as a model reads them. After an error nothing has changed.

use prowess_base::text::cut;
use prowess_catalog::ReadError;
use prowess_catalog::document::DocumentError;
use prowess_catalog::untrusted::code_text;
use prowess_permission::Refusal;
use prowess_permission::nearest::nearest_first;

use crate::dialect::Dialect;
use crate::load::OverBudget;

/// The most names in a list; the rest is only counted.
pub(crate) const MAX_LISTED_NAMES: usize = 100;
/// The most skills that are all named if there is no skill of a name.
const MAX_AVAILABLE_NAMES: usize = 50;
/// The most skills with similar names that a message names.
const MAX_SIMILAR_NAMES: usize = 5;
/// The most unknown paths that a message repeats.
const MAX_REPEATED_PATHS: usize = 10;
/// The longest text of a model that a message repeats, in characters.
const MAX_REPEATED_CHARS: usize = 200;

/// Why an operation failed.
///
/// `Display` uses the tool names of the session's dialect. [`SkillError::for_model`] puts `Error: ` in front.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is no such skill, or the agent may not see it.
    #[error("{}", dialect.not_found(name, &available_or_similar(name, available, *search)))]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The available skills.
        available: Vec<String>,
        /// The tool that searches skills, if the caller has it.
        search: Option<&'static str>,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// The maximum number of skills is loaded.
    #[error(
        "Cannot load skill '{}'. Maximum number of simultaneously loaded skills reached ({limit}). \
         Currently loaded: {}. Use `{}(\"skill-name\")` to unload a skill you no longer need, then retry loading.",
        code_text(name), or_none(loaded), dialect.load_tools().unload
    )]
    LimitReached {
        /// The skill to load.
        name: String,
        /// The maximum number.
        limit: usize,
        /// The loaded skills.
        loaded: Vec<String>,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// The text exceeds the budget of tokens.
    #[error("{}", over_budget(*what, name, *tokens, *budget, loaded, *dialect))]
    OverBudget {
        /// What was to be loaded.
        what: OverBudget,
        /// The skill.
        name: String,
        /// Its number of tokens.
        tokens: usize,
        /// The budget of all loaded skills, in tokens.
        budget: usize,
        /// The loaded skills and their tokens.
        loaded: Vec<(String, usize)>,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// There is no permission to load the skill.
    #[error("Cannot load skill '{}'. {refusal}", code_text(name))]
    Refused {
        /// The skill to load.
        name: String,
        /// The refusal.
        #[source]
        refusal: Refusal,
    },
    /// Only a person may start the skill.
    #[error("Skill '{0}' can only be started by the user. Ask the user to type `/{0}`.", code_text(name))]
    ManualOnly {
        /// The skill.
        name: String,
    },
    /// A person may not start the skill.
    #[error(
        "Skill '{}' cannot be started by hand: its manifest says `user-invocable: false`.",
        code_text(name)
    )]
    NotForUsers {
        /// The skill.
        name: String,
    },
    /// A person's line does not name a skill.
    #[error(
        "'{}' is not a command. Type a slash and the name of a skill: `/skill-name arguments`.",
        shorten(line)
    )]
    NotACommand {
        /// The line.
        line: String,
    },
    /// The manifest cannot be read.
    #[error("{}", code_text(&.0.to_string()))]
    Read(#[from] ReadError),
    /// With its arguments and paths, the text is longer than a manifest may be.
    #[error(
        "Skill '{}' exceeds {limit} bytes with these arguments. \
         Load it with shorter arguments, or tell the user that the skill repeats them too often.",
        code_text(name)
    )]
    Expanded {
        /// The skill.
        name: String,
        /// The maximum, in bytes.
        limit: usize,
    },
    /// The skill is not loaded.
    #[error(
        "Skill '{}' is not currently loaded. Currently loaded skills: {}.",
        shorten(name),
        or_none(loaded)
    )]
    NotLoaded {
        /// The skill.
        name: String,
        /// The loaded skills.
        loaded: Vec<String>,
    },
    /// The skill must be loaded first, because loading asks for permission.
    #[error(
        "Skill '{0}' needs permission. Load it first with `{1}(\"{2}\")`.",
        code_text(name), dialect.load_tools().load, argument(name)
    )]
    LoadFirst {
        /// The skill.
        name: String,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// Another skill has this name now.
    #[error(
        "Another skill is called '{0}' now, and the loaded one has no documents any more. \
         To work with the new one, use `{1}(\"{3}\")` and `{2}(\"{3}\")`.",
        code_text(name), dialect.load_tools().unload, dialect.load_tools().load, argument(name)
    )]
    Replaced {
        /// The skill.
        name: String,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// The server has changed the skill since it was loaded.
    #[error(
        "The server has changed skill '{0}' since it was loaded, and nobody has approved the change. \
         To work with the new version, use `{1}(\"{3}\")` and `{2}(\"{3}\")`.",
        code_text(name), dialect.load_tools().unload, dialect.load_tools().load, argument(name)
    )]
    Republished {
        /// The skill.
        name: String,
        /// The dialect of the message.
        dialect: Dialect,
    },
    /// The skill has no such document.
    #[error(
        "Skill '{}' has no document {}. Its documents: {}.",
        code_text(name),
        asked.iter().take(MAX_REPEATED_PATHS).map(|path| format!("'{}'", shorten(path))).collect::<Vec<_>>().join(", "),
        or_none(available)
    )]
    NoSuchDocument {
        /// The skill.
        name: String,
        /// The paths that do not exist.
        asked: Vec<String>,
        /// The skill's documents.
        available: Vec<String>,
    },
    /// The documents exceed the limit of one skill.
    #[error(
        "Skill '{}' may have {most} bytes of documents in context, which leaves no room for: {}. \
         Select fewer, or clear the selection first.",
        code_text(name),
        or_none(left_out)
    )]
    TooManyDocuments {
        /// The skill.
        name: String,
        /// The limit, in bytes.
        most: usize,
        /// The documents without room.
        left_out: Vec<String>,
    },
    /// A document cannot be read.
    #[error("Skill '{}': {}", code_text(name), code_text(&error.to_string()))]
    Document {
        /// The skill.
        name: String,
        /// The cause.
        #[source]
        error: DocumentError,
    },
    /// There is no permission to run the command.
    #[cfg(feature = "run")]
    #[error("Cannot run a command of skill '{}'. {refusal}", code_text(name))]
    RunRefused {
        /// The skill.
        name: String,
        /// The refusal.
        #[source]
        refusal: Refusal,
    },
    /// The command did not run.
    #[cfg(feature = "run")]
    #[error("Cannot run a command of skill '{}': {}", code_text(name), code_text(&error.to_string()))]
    Run {
        /// The skill.
        name: String,
        /// The cause.
        #[source]
        error: prowess_workspace::RunError,
    },
    /// An operation on a running command failed.
    #[cfg(feature = "run")]
    #[error("{}", code_text(&.0.to_string()))]
    Live(#[source] prowess_workspace::live::LiveError),
    /// The arguments of a tool call do not match the schema.
    #[error("{tool}: the arguments are not right: {}", shorten(problem))]
    Arguments {
        /// The tool.
        tool: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The embedder fed an operation something that it did not want. This is a bug of the embedder.
    #[error("Cannot read the files of skills: the program supplied other files than it was asked for.")]
    WrongFeed,
    /// The embedder took the result of an operation that is not done. This is a bug of the embedder.
    #[error("Cannot finish: the operation has not been driven to its end.")]
    NotReady,
    /// A person must reply first, and the caller passed no asker that keeps questions.
    #[error("Permission is needed, and nobody can be asked.")]
    NeedsReply,
    /// The dialect has no such tool.
    #[error("There is no tool '{}'. Tools for skills: {}.", shorten(tool), tools.join(", "))]
    NoSuchTool {
        /// The name of the call.
        tool: String,
        /// The available tools.
        tools: Vec<&'static str>,
    },
}

impl SkillError {
    /// The refusal, if permission was missing.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            #[cfg(feature = "run")]
            Self::RunRefused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// The text for the model.
    pub fn for_model(&self) -> String {
        format!("Error: {self}")
    }
}

/// A name between double quotes, in a call that a message suggests.
pub(crate) fn argument(name: &str) -> String {
    code_text(name).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Untrusted text for a message, shortened: for text that a model made up.
pub(crate) fn shorten(text: &str) -> String {
    cut(&code_text(text), MAX_REPEATED_CHARS).into_owned()
}

/// `a, b, c` or `(none)`. A long list ends with the number of the remaining names.
pub(crate) fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        return "(none)".to_owned();
    }
    let listed: Vec<String> = names.iter().take(MAX_LISTED_NAMES).map(|name| code_text(name)).collect();
    match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// The available skills. If they are many: those with similar names, and how to find others.
fn available_or_similar(name: &str, available: &[String], search: Option<&str>) -> String {
    if available.len() <= MAX_AVAILABLE_NAMES {
        return format!("Available skills: {}", or_none(available));
    }
    let near = nearest_first(name, available.iter().map(String::as_str));
    let near: Vec<String> =
        near.iter().take(MAX_SIMILAR_NAMES).map(|name| format!("`{}`", code_text(name))).collect();
    let similar = match near.is_empty() {
        true => "No skill has a similar name.".to_owned(),
        false => format!("Similar: {}.", near.join(", ")),
    };
    match search {
        Some(search) => format!("{similar} Use `{search}` to find other skills."),
        None => format!("{similar} There are {} skills.", available.len()),
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
    let unload = dialect.load_tools().unload;
    let name = code_text(name);
    let (start, again) = match what {
        OverBudget::Skill => (format!("Cannot load skill '{name}'. It takes"), "retry loading"),
        OverBudget::Documents => {
            (format!("Cannot select these documents of skill '{name}'. They take"), "select them again")
        }
    };
    let start = format!("{start} {tokens} tokens, and loaded skills may take {budget} in all");
    if tokens > budget {
        return format!("{start}: that is too much for this session, even if you unload everything.");
    }
    let each: Vec<String> = loaded.iter().map(|(name, tokens)| format!("{name} ({tokens})")).collect();
    format!(
        "{start}, of which {used} are in use. Currently loaded: {}. \
         Use `{unload}(\"skill-name\")` to unload a skill you no longer need, then {again}.",
        or_none(&each)
    )
}
