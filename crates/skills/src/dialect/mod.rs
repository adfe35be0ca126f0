//! Tools for skills in the words of three families of agents, over one engine.
//!
//! A dialect is data: names, descriptions and schemas of tools, and which act of the session a call of
//! each of them is. None of them knows how anything is done.

mod act;
mod arguments;
mod capabilities;
mod deepagents;
mod documents;
mod opencode;
#[cfg(feature = "run")]
mod run;
mod spec;
mod table;
mod trpc;

use std::collections::BTreeMap;
use std::str::FromStr;

use prowess_catalog::overview::Activation;
use prowess_catalog::section::SectionTemplate;
use prowess_permission::Refusal;
use serde_json::Value;

pub use self::act::SkillToolKind;
pub(crate) use self::arguments::Wanted;
pub use self::capabilities::Capabilities;
pub use self::spec::ToolSpec;
pub(crate) use self::table::RunSetting;
use self::table::{Setting, Table};
use crate::delta::SkillDelta;
use crate::error::SkillError;
use crate::options::{Lifetime, Placement, SessionOptions, UnloadedText};
use crate::run_summary::RunSummary;
use crate::session::SkillAnswer;
use crate::state::SkillState;
use crate::view::SkillView;

/// With more skills than this, a schema does not list their names.
pub const MAX_ENUM_NAMES: usize = 50;

/// The family of agents whose tools a session has: their names, their words and their defaults. What can be done is
/// not its business: [`Capabilities`] say that, and every dialect has tools for all of them.
///
/// ```
/// use prowess_skills::Dialect;
///
/// let dialect: Dialect = "trpc".parse()?;
/// assert_eq!(dialect.words().load, "skill_load");
/// assert!("latin".parse::<Dialect>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// `load_skill` and `unload_skill`; the overview is in the system prompt.
    #[default]
    DeepAgents,
    /// `skill_load` and `skill_unload`; loaded text goes into the system message and stays for a turn.
    Trpc,
    /// `skill`, whose description lists what there is, and `skill_unload`.
    OpenCode,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == name);
        found.ok_or_else(|| format!("there is no dialect `{name}`: it is deepagents, trpc or opencode"))
    }
}

/// The names of a dialect's tools, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadToolNames {
    /// The tool that loads a skill.
    pub load: &'static str,
    /// The tool that unloads one.
    pub unload: &'static str,
}

/// How much of a document a dialect gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole file.
    Document,
    /// What follows the frontmatter.
    Body,
}

/// What a tool call comes to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SkillToolAnswer {
    /// What the model reads.
    pub text: String,
    /// Whether it is an error. Nothing has changed then.
    pub is_error: bool,
    /// The changes of state.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, where it is more than text.
    pub data: Option<Value>,
    /// What came of a command, if one was run to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<Box<RunSummary>>,
    /// What the gate said, if it was the gate that refused.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
}

impl From<Result<SkillAnswer, SkillError>> for SkillToolAnswer {
    fn from(result: Result<SkillAnswer, SkillError>) -> Self {
        match result {
            Ok(SkillAnswer { text, deltas, data, ran }) => {
                Self { text, is_error: false, deltas, data, ran, refusal: None }
            }
            Err(error) => Self {
                text: error.for_model(),
                is_error: true,
                deltas: Vec::new(),
                data: None,
                ran: None,
                refusal: error.refusal().cloned(),
            },
        }
    }
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DeepAgents, Self::Trpc, Self::OpenCode];

    /// The one place that tells dialects apart.
    fn table(self) -> &'static Table {
        match self {
            Self::DeepAgents => &deepagents::TABLE,
            Self::Trpc => &trpc::TABLE,
            Self::OpenCode => &opencode::TABLE,
        }
    }

    /// Its name in configurations.
    pub fn as_str(self) -> &'static str {
        self.table().name
    }

    /// What its tools are called.
    pub fn words(self) -> LoadToolNames {
        self.table().words
    }

    /// The names of all its tools, whatever a session's capabilities are.
    pub fn tool_names(self) -> impl Iterator<Item = &'static str> {
        self.table().entries().map(|entry| entry.name)
    }

    /// What a tool of this name does, in whichever dialect has it: for threads that were begun in another one. No name
    /// means two things.
    ///
    /// ```
    /// use prowess_skills::{Dialect, SkillToolKind};
    ///
    /// assert_eq!(Dialect::act_of("skill_unload"), Some(SkillToolKind::Unload));
    /// assert_eq!(Dialect::act_of("grep"), None);
    /// ```
    pub fn act_of(tool: &str) -> Option<SkillToolKind> {
        let mut entries = Self::ALL.into_iter().flat_map(|dialect| dialect.table().entries());
        entries.find(|entry| entry.name == tool).map(|entry| entry.takes.act())
    }

    /// The skill that a call of a tool for skills is about, in whichever dialect it was made.
    ///
    /// ```
    /// use prowess_skills::Dialect;
    ///
    /// assert_eq!(Dialect::skill_in(&serde_json::json!({"skill_name": "pdf"})), Some("pdf"));
    /// ```
    pub fn skill_in(arguments: &Value) -> Option<&str> {
        Self::ALL.into_iter().find_map(|dialect| arguments.get(dialect.table().skill)?.as_str())
    }

    pub(crate) fn defaults(self) -> (Placement, Lifetime) {
        (self.table().placement, self.table().lifetime)
    }

    pub(crate) fn form(self) -> Form {
        self.table().form
    }

    /// Whether loading a loaded skill again changes its documents.
    pub(crate) fn reselects(self) -> bool {
        self.table().reselects
    }

    /// What stands before a skill's text.
    pub(crate) fn heading(self, name: &str, directory: &str) -> String {
        self.table().heading(name, directory)
    }

    /// What is said of a skill that there is not.
    pub(crate) fn not_found(self, name: &str, available: &str) -> String {
        self.table().not_found(name, available)
    }

    /// What a model is told about the text of a skill that it unloaded.
    pub(crate) fn unload_note(self, placement: Placement, unloaded: UnloadedText) -> String {
        self.table().unload_note(placement, unloaded)
    }

    /// How the overview says to load a skill.
    pub(crate) fn activation(self, capabilities: Capabilities) -> Activation<'static> {
        self.table().activation(capabilities)
    }

    /// Whether skills that only people may start can be listed. A list in a tool's description has only what the tool
    /// can load.
    pub fn lists_manual_skills(self) -> bool {
        self.template(Capabilities::all(), Placement::ToolAnswer).is_some()
    }

    /// The section of the system prompt that its overview stands in. `opencode` has none: its tool says
    /// what there is.
    pub(crate) fn template(
        self,
        capabilities: Capabilities,
        placement: Placement,
    ) -> Option<SectionTemplate> {
        (self.table().template)(capabilities, placement)
    }
}

/// The tools of a session in a moment; with what commands may use, where they can be run.
pub(crate) fn tools(view: &SkillView, runs: Option<&RunSetting>) -> Vec<ToolSpec> {
    let options = view.engine().options();
    let setting = Setting { view, capabilities: options.capabilities, placement: options.placement, runs };
    options.dialect.table().specs(&setting)
}

/// What a tool of this name does, if a session with these options has one.
pub(crate) fn act(options: &SessionOptions, tool: &str) -> Option<SkillToolKind> {
    let mut had = options.dialect.table().had(options.capabilities, true);
    had.find(|entry| entry.name == tool).map(|entry| entry.takes.act())
}

/// What a call means, or what is wrong with it.
pub(crate) fn wanted(
    options: &SessionOptions,
    can_run: bool,
    tool: &str,
    arguments: Value,
) -> Result<Wanted, SkillError> {
    let (table, capabilities) = (options.dialect.table(), options.capabilities);
    // Where nothing runs commands, the tools for them say so.
    let Some(entry) = table.had(capabilities, true).find(|entry| entry.name == tool) else {
        let tools = table.had(capabilities, can_run).map(|entry| entry.name).collect();
        return Err(SkillError::NoSuchTool { tool: tool.to_owned(), tools });
    };
    table.wanted(entry, arguments, capabilities)
}

pub(crate) fn state_keys(state: &SkillState) -> BTreeMap<String, String> {
    trpc::state_keys(state)
}
