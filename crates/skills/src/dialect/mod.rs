//! Dialects: the names and texts of the tools for skills, as three families of agents know them.
//!
//! A dialect is data: names, descriptions and schemas of tools, and the kind of each tool. The engine does the work.

mod arguments;
mod capabilities;
mod deepagents;
mod documents;
#[cfg(feature = "run")]
mod interactive_tools;
mod opencode;
#[cfg(feature = "run")]
mod run_tool;
mod search_tool;
mod spec;
mod table;
mod tool_kind;
mod trpc;

use std::collections::BTreeMap;
use std::str::FromStr;

use prowess_catalog::overview::Activation;
use prowess_catalog::section::SectionTemplate;
use serde_json::Value;

pub(crate) use self::arguments::ParsedCall;
pub use self::capabilities::Capabilities;
pub(crate) use self::search_tool::SEARCH_TOOL;
pub use self::spec::ToolSpec;
pub(crate) use self::table::RunToolInfo;
use self::table::{DialectTable, ToolContext};
pub use self::tool_kind::SkillToolKind;
use crate::error::SkillError;
use crate::options::{Lifetime, Placement, SessionOptions, UnloadedText};
use crate::state::SkillState;
use crate::view::SkillView;

/// The most skills that a schema lists by name.
pub const MAX_ENUM_NAMES: usize = 50;

/// The dialect of a session: the names and texts of its tools, and its defaults. What the model can do is a matter of
/// [`Capabilities`]; every dialect has tools for all of them.
///
/// ```
/// use prowess_skills::Dialect;
///
/// let dialect: Dialect = "trpc".parse()?;
/// assert_eq!(dialect.load_tools().load, "skill_load");
/// assert!("latin".parse::<Dialect>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dialect {
    /// `load_skill` and `unload_skill`; the overview is in the system prompt.
    #[default]
    DeepAgents,
    /// `skill_load` and `skill_unload`; loaded text goes into the system message and stays for a turn.
    Trpc,
    /// `skill`, whose description lists the skills, and `skill_unload`.
    OpenCode,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == name);
        found.ok_or_else(|| format!("there is no dialect `{name}`; use deepagents, trpc or opencode"))
    }
}

/// The names of the tools that load and unload a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadToolNames {
    /// The tool that loads a skill.
    pub load: &'static str,
    /// The tool that unloads one.
    pub unload: &'static str,
}

/// How much of a manifest a dialect loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadedForm {
    /// The whole file.
    Manifest,
    /// Only the instructions after the frontmatter.
    Instructions,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 3] = [Self::DeepAgents, Self::Trpc, Self::OpenCode];

    /// The table of the dialect. Only this function tells dialects apart.
    fn table(self) -> &'static DialectTable {
        match self {
            Self::DeepAgents => &deepagents::TABLE,
            Self::Trpc => &trpc::TABLE,
            Self::OpenCode => &opencode::TABLE,
        }
    }

    /// Its name in the configuration.
    pub fn as_str(self) -> &'static str {
        self.table().name
    }

    /// The names of its tools for loading and unloading.
    pub fn load_tools(self) -> LoadToolNames {
        self.table().load_tools
    }

    /// The names of all its tools, with all capabilities.
    pub fn tool_names(self) -> impl Iterator<Item = &'static str> {
        self.table().entries().map(|entry| entry.name)
    }

    /// The kind of the tool with this name in any dialect, for threads that began in another dialect. No name has two
    /// meanings.
    ///
    /// ```
    /// use prowess_skills::{Dialect, SkillToolKind};
    ///
    /// assert_eq!(Dialect::tool_kind("skill_unload"), Some(SkillToolKind::Unload));
    /// assert_eq!(Dialect::tool_kind("grep"), None);
    /// ```
    pub fn tool_kind(tool: &str) -> Option<SkillToolKind> {
        let mut entries = Self::ALL.into_iter().flat_map(|dialect| dialect.table().entries());
        entries.find(|entry| entry.name == tool).map(|entry| entry.signature.kind())
    }

    /// The skill that a call is about, in any dialect.
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

    pub(crate) fn form(self) -> LoadedForm {
        self.table().form
    }

    /// Whether loading a loaded skill again selects its documents.
    pub(crate) fn reselects(self) -> bool {
        self.table().reselects
    }

    /// The heading before a skill's text.
    pub(crate) fn heading(self, name: &str, directory: &str) -> String {
        self.table().heading(name, directory)
    }

    /// The message about a skill that does not exist.
    pub(crate) fn not_found(self, name: &str, available: &str) -> String {
        self.table().not_found(name, available)
    }

    /// The note for the model about the text of an unloaded skill.
    pub(crate) fn unload_note(self, placement: Placement, unloaded: UnloadedText) -> String {
        self.table().unload_note(placement, unloaded)
    }

    /// The tool call that loads a skill.
    pub(crate) fn load_call(
        self,
        name: &str,
        arguments: Option<&str>,
        capabilities: Capabilities,
    ) -> (&'static str, Value) {
        self.table().load_call(name, arguments, capabilities)
    }

    /// How the overview tells the model to load a skill.
    pub(crate) fn activation(self, capabilities: Capabilities) -> Activation<'static> {
        self.table().activation(capabilities)
    }

    /// Whether the overview can list skills that only people may start. A list in a tool's description has only skills that
    /// the tool can load.
    pub fn lists_manual_skills(self) -> bool {
        self.template(Capabilities::all(), Placement::ToolAnswer).is_some()
    }

    /// The section of the system prompt with the overview. `opencode` has none, because its tool lists the skills.
    pub(crate) fn template(
        self,
        capabilities: Capabilities,
        placement: Placement,
    ) -> Option<SectionTemplate> {
        (self.table().template)(capabilities, placement)
    }
}

/// The tools of a session; with those that run commands if there is a runner.
pub(crate) fn tools(view: &SkillView, runs: Option<&RunToolInfo>) -> Vec<ToolSpec> {
    let options = view.engine().options();
    let context =
        ToolContext { view, capabilities: options.capabilities, placement: options.placement, runs };
    options.dialect.table().specs(&context)
}

/// The descriptions of the tools that list skills, in a dialect without an overview in the prompt.
pub(crate) fn listing_tools(view: &SkillView) -> BTreeMap<String, String> {
    let options = view.engine().options();
    if options.dialect.template(options.capabilities, options.placement).is_some() {
        return BTreeMap::new();
    }
    let loads = tools(view, None).into_iter().filter(|tool| tool.kind == SkillToolKind::Load);
    loads.map(|tool| (tool.name.to_owned(), tool.description)).collect()
}

/// The kind of the tool with this name in any dialect.
pub(crate) fn kind_in_any_dialect(tool: &str) -> Option<SkillToolKind> {
    Dialect::tool_kind(tool)
}

/// The kind of a tool, if a session with these options has it.
pub(crate) fn tool_kind(options: &SessionOptions, tool: &str) -> Option<SkillToolKind> {
    let mut available = options.dialect.table().available(options.capabilities, true);
    available.find(|entry| entry.name == tool).map(|entry| entry.signature.kind())
}

/// Parses a call, or says what is wrong with it.
pub(crate) fn parse_call(
    options: &SessionOptions,
    can_run: bool,
    tool: &str,
    arguments: Value,
) -> Result<ParsedCall, SkillError> {
    let (table, capabilities) = (options.dialect.table(), options.capabilities);
    // Without a runner, the tools that run commands still answer, and say so.
    let Some(entry) = table.available(capabilities, true).find(|entry| entry.name == tool) else {
        let tools = table.available(capabilities, can_run).map(|entry| entry.name).collect();
        return Err(SkillError::NoSuchTool { tool: tool.to_owned(), tools });
    };
    table.parse(entry, arguments, capabilities)
}

pub(crate) fn state_keys(state: &SkillState) -> BTreeMap<String, String> {
    trpc::state_keys(state)
}
