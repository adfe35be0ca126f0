//! What an operation says when it cannot be done. Nothing has changed then.

use prowess_catalog::{DocumentError, ReadError, one_line};
use prowess_permission::Refusal;

use crate::dialect::Dialect;

/// How many names an answer lists before it only counts the rest.
pub(crate) const MAX_NAMES: usize = 100;
/// How much of a name that a model made up is repeated to it.
const MAX_ECHO: usize = 100;

/// Why an operation was not done.
///
/// `Display` gives the words of the session's dialect; [`SkillError::for_model`] puts `Error: ` before them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is no such skill, or none that this agent may know of.
    #[error("{}", not_found(*dialect, name, available))]
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
        "Cannot load skill '{name}'. Maximum number of simultaneously loaded skills reached ({limit}). \
         Currently loaded: {}. Use `{}(\"skill-name\")` to unload a skill you no longer need, then retry loading.",
        or_none(loaded), dialect.words().unload
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
    #[error("{}", over_budget(name, *tokens, *budget, loaded, *dialect))]
    OverBudget {
        /// What was to be loaded.
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
    #[error("Cannot load skill '{name}'. {refusal}")]
    Refused {
        /// What was to be loaded.
        name: String,
        /// What the gate said.
        #[source]
        refusal: Refusal,
    },
    /// Only a person may start it.
    #[error("Skill '{name}' can only be started by the user. Ask the user to type `/{name}`.")]
    ManualOnly {
        /// Which.
        name: String,
    },
    /// A person may not start it.
    #[error("Skill '{name}' cannot be started by hand: it says `user-invocable: false`.")]
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
    #[error(transparent)]
    Read(#[from] ReadError),
    /// With its arguments and paths put in, the text is longer than a document may be.
    #[error(
        "Skill '{name}' grows beyond {limit} bytes when its arguments are put in. \
         Load it with shorter arguments, or tell the user that the skill repeats them too often."
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
    /// The skill has no document of that name.
    #[error(
        "Skill '{name}' has no document {}. Its documents: {}.",
        asked.iter().map(|path| format!("'{}'", shown(path))).collect::<Vec<_>>().join(", "),
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
    /// A document cannot be read.
    #[error("Skill '{name}': {error}")]
    Document {
        /// Whose document.
        name: String,
        /// What happened.
        #[source]
        error: DocumentError,
    },
    /// The arguments of a tool call are not what its schema asks for.
    #[error("{tool}: the arguments are not right: {problem}")]
    Arguments {
        /// The tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
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
    /// What a model reads.
    pub fn for_model(&self) -> String {
        format!("Error: {self}")
    }
}

/// Text that came from a model, short and on one line.
fn shown(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_ECHO) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// `a, b and c`, or `(none)`; the rest only counted when there are very many.
pub(crate) fn or_none(names: &[String]) -> String {
    match names {
        [] => "(none)".to_owned(),
        names if names.len() > MAX_NAMES => {
            format!("{} and {} more", names[..MAX_NAMES].join(", "), names.len() - MAX_NAMES)
        }
        names => names.join(", "),
    }
}

fn not_found(dialect: Dialect, name: &str, available: &[String]) -> String {
    let available = or_none(available);
    match dialect {
        Dialect::Trpc => format!("unknown skill '{}'. Available skills: {available}", shown(name)),
        Dialect::DeepAgents | Dialect::OpenCode => {
            format!("Skill '{}' not found. Available skills: {available}", shown(name))
        }
    }
}

fn over_budget(
    name: &str,
    tokens: usize,
    budget: usize,
    loaded: &[(String, usize)],
    dialect: Dialect,
) -> String {
    let used = loaded.iter().fold(0_usize, |sum, (_, tokens)| sum.saturating_add(*tokens));
    let unload = dialect.words().unload;
    let start = format!(
        "Cannot load skill '{name}'. It takes {tokens} tokens, and loaded skills may take {budget} in all"
    );
    if tokens > budget {
        return format!("{start}: it is too large for this session, whatever is unloaded.");
    }
    let each: Vec<String> = loaded.iter().map(|(name, tokens)| format!("{name} ({tokens})")).collect();
    format!(
        "{start}, of which {used} are in use. Currently loaded: {}. \
         Use `{unload}(\"skill-name\")` to unload a skill you no longer need, then retry loading.",
        or_none(&each)
    )
}
