//! Hooks of a configuration or a skill: their form, their limits and their errors.

use std::time::Duration;

use hmac_sha256::Hash;
use prowess_skills::prowess_catalog;
use serde_json::{Value, json};

use super::event::HookEvent;
use super::matcher::Matcher;
use super::parse::{from_yaml, parse};

/// How long a hook may take by default.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a hook may take at most.
pub const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a hook may take at least.
pub(super) const MIN_HOOK_TIMEOUT: Duration = Duration::from_millis(1);
/// The most hooks of one configuration, or of one skill.
pub const MAX_HOOKS: usize = 64;
/// The longest command or prompt of a hook, in bytes.
pub(super) const MAX_HOOK_LINE: usize = 16 * 1024;

/// The hooks of one configuration, or of one skill.
///
/// ```
/// use prowess_agent::middleware::HookSet;
/// use serde_json::json;
///
/// let hooks = HookSet::parse(&json!({
///     "PreToolUse": [{
///         "matcher": "write_file|edit_file",
///         "hooks": [{"type": "command", "command": "jq -e '.tool_input.file_path != \"/etc\"' || exit 2"}]
///     }]
/// }));
/// assert_eq!(hooks.unwrap().len(), 1);
/// let error = HookSet::parse(&json!({"PreToolUsed": []})).unwrap_err();
/// assert_eq!(error.to_string(), "PreToolUsed: there is no such event");
/// ```
#[derive(Clone, Debug, Default)]
pub struct HookSet(pub(super) Vec<Hook>);

/// An error in the configuration of a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
#[non_exhaustive]
pub struct HookConfigError {
    /// Where it is, such as `PreToolUse[0].hooks[1]`.
    pub place: String,
    /// What is wrong.
    pub problem: HookProblem,
}

/// What is wrong with a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookProblem {
    /// There is no such event.
    #[error("there is no such event")]
    Event,
    /// The value has the wrong type or is missing.
    #[error("{0} is expected here")]
    Form(&'static str),
    /// There is no such key. It may be a misspelt one.
    #[error("there is no key `{0}`")]
    Key(String),
    /// There is no such handler.
    #[error("there is no handler `{0}`: it is `command`, `prompt` or `agent`")]
    Handler(String),
    /// The matcher is not a valid regular expression, or is too large.
    #[error("the matcher is invalid: {0}")]
    Matcher(String),
    /// A command or a prompt is too long.
    #[error("`{0}` has more than {MAX_HOOK_LINE} bytes")]
    TooLong(&'static str),
    /// There are too many hooks.
    #[error("there are more than {MAX_HOOKS} hooks")]
    TooMany,
}

/// One hook.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) event: HookEvent,
    pub(super) matcher: Matcher,
    pub(super) handler: Handler,
    pub(super) timeout: Duration,
    pub(super) once: bool,
    /// Identifies the hook among those of the same configuration or skill. Threads store it.
    pub(super) key: String,
    /// The key that an earlier version stored.
    pub(super) earlier_key: String,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    /// Runs a command.
    Command(String),
    /// Adds a text to the next model call.
    Prompt(String),
    /// Asks an agent.
    Agent { name: Option<String>, prompt: String },
}

impl Handler {
    /// Identifies a hook among those of the same configuration or skill. Threads store it, so its form, version 2, must not
    /// change.
    pub(super) fn key(&self, event: HookEvent, matcher: &str) -> String {
        let handler = match self {
            Self::Command(line) => json!(["command", line]),
            Self::Prompt(text) => json!(["prompt", text]),
            Self::Agent { name, prompt } => json!(["agent", name, prompt]),
        };
        key_of(&json!([2, event.to_string(), matcher, handler]).to_string())
    }
}

impl HookSet {
    /// Parses the hooks of a configuration: an object of events. Each event has a list of groups with a `matcher` and
    /// `hooks`.
    ///
    /// # Errors
    ///
    /// The first error in it.
    pub fn parse(value: &Value) -> Result<Self, HookConfigError> {
        let (hooks, errors) = parse(value);
        errors.into_iter().next().map_or(Ok(hooks), Err)
    }

    /// Parses the hooks in a skill's frontmatter. Returns the valid hooks, and the errors in the others.
    pub fn of_skill(value: &prowess_catalog::yaml::Value) -> (Self, Vec<HookConfigError>) {
        parse(&from_yaml(value))
    }

    /// The number of hooks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A short digest of a text.
pub(super) fn key_of(text: &str) -> String {
    prowess_base::hex::encode(&Hash::hash(text.as_bytes())[..12])
}
