//! The options of a session.

use std::fmt;
use std::sync::Arc;

use prowess_base::places;
use prowess_catalog::estimate_tokens;
use prowess_catalog::overview::ManualSkills;
use prowess_catalog::section::SectionTemplate;

use crate::allowed_tools::{AllowedTools, ToolNames};
use crate::dialect::{Capabilities, Dialect};
use crate::load::DEFAULT_RESOURCE_DEPTH;
use crate::load_limits::Budgets;
use crate::modes::SkillModes;
pub use crate::skill_paths::SkillPaths;
use crate::uses::SkillUses;

/// Where a loaded skill's text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Into the answer of the tool that loaded it.
    ToolAnswer,
    /// Into the system message of every later call, through
    /// [`SkillSession::loaded_section`](crate::SkillSession::loaded_section).
    SystemMessage,
}

/// How long a skill stays loaded if nobody unloads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Lifetime {
    /// For the next model call.
    Once,
    /// Until the turn ends.
    Turn,
    /// Until another skill needs its slot or its tokens. The skill that was used longest ago goes first.
    Capped,
    /// As long as the session.
    Session,
}

/// When prowess lists a skill's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discovery {
    /// When the skill is loaded.
    #[default]
    Lazy,
    /// For all skills, when the session starts and after every refresh.
    Eager,
}

/// How the overview tells a model to read a skill's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guidance {
    /// With the tools of the dialect.
    #[default]
    Tools,
    /// By reading the file, for programs without tools for skills. Then the session does not know what is loaded.
    ReadFile,
}

/// What happens to a skill's text in the history after the skill is unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnloadedText {
    /// It stays.
    #[default]
    Kept,
    /// [`SkillView::without_unloaded`](crate::SkillView::without_unloaded) replaces it with one line.
    Stub,
}

/// When the texts about skills in the system prompt and in the descriptions of tools change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prompt {
    /// With every change: they mark loaded skills and have notices about them.
    #[default]
    Current,
    /// They stay as they were when the conversation began, so that providers can cache them. The program tells the model at
    /// the end of the conversation what changed: see [`Told`](crate::told::Told).
    Frozen,
}

/// Counts the tokens of a text.
///
/// ```
/// use prowess_skills::options::TokenCounter;
///
/// let words = TokenCounter::new(|text| text.split_whitespace().count());
/// assert_eq!(words.count("Wave with one hand."), 4);
/// ```
#[derive(Clone)]
pub struct TokenCounter(Arc<dyn Fn(&str) -> usize + Send + Sync>);

impl TokenCounter {
    /// A counter of your own, such as your model's tokenizer.
    pub fn new(count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// The tokens of `text`.
    pub fn count(&self, text: &str) -> usize {
        (self.0)(text)
    }
}

impl Default for TokenCounter {
    /// One token for every four characters.
    fn default() -> Self {
        Self::new(estimate_tokens)
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCounter")
    }
}

/// The options of a session. The default is the `deepagents` dialect with lazy discovery, at most ten skills, and
/// `allowed-tools` as a recommendation.
///
/// ```
/// use prowess_skills::{Budgets, Dialect, Lifetime, SessionOptions};
///
/// let mut options = SessionOptions::new(Dialect::Trpc);
/// assert_eq!(options.lifetime, Lifetime::Turn, "each dialect has its own defaults");
/// options.lifetime = Lifetime::Session;
/// options.budgets = Budgets::new(3, Some(20_000));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The names and texts of the tools.
    pub dialect: Dialect,
    /// What the model can do besides loading skills.
    pub capabilities: Capabilities,
    /// The limits of what is loaded at once.
    pub budgets: Budgets,
    /// Where the text of loaded skills goes.
    pub placement: Placement,
    /// How long skills stay loaded.
    pub lifetime: Lifetime,
    /// When prowess lists resources.
    pub discovery: Discovery,
    /// The depth of the list of resources, in levels of directories.
    pub resource_depth: usize,
    /// What happens to the text of an unloaded skill.
    pub unloaded_text: UnloadedText,
    /// What a model sees of skills that only a person may start. `opencode` never lists them.
    pub manual: ManualSkills,
    /// How the overview tells a model to read instructions.
    pub guidance: Guidance,
    /// What `allowed-tools` means.
    pub allowed_tools: AllowedTools,
    /// The names that skills use for your tools, and the tools that are never blocked.
    pub tools: ToolNames,
    /// A section of the system prompt instead of the dialect's own.
    pub template: Option<SectionTemplate>,
    /// Where a person can create a first skill; if empty, the roots.
    pub create_in: Vec<String>,
    /// The paths by which the model knows the directories of skills.
    pub skill_paths: SkillPaths,
    /// The paths by which the model knows the project. Scopes of `allowed-tools` and the `paths` of skills are relative to it.
    pub project_paths: Vec<String>,
    /// When the texts about skills in the prompt change.
    pub prompt: Prompt,
    /// How many skills the model is told about when a request begins, if they match the request and the overview has no room
    /// for whole descriptions. Only with [`Prompt::Frozen`].
    pub suggestions: usize,
    /// The most tokens of the overview, if the model can search. By default, the overview lists all skills in full.
    pub overview_tokens: Option<usize>,
    /// How visible skills are, and the kits in use. By default, every skill is shown as the budget allows.
    pub modes: SkillModes,
    /// What remembers the use of skills. Recently used skills come before others in the overview. By default, nothing does.
    pub uses: Option<Arc<dyn SkillUses>>,
    /// How tokens are counted.
    pub tokens: TokenCounter,
}

impl SessionOptions {
    /// A path relative to the project. A path elsewhere stays as it is.
    pub(crate) fn in_project<'a>(&self, path: &'a str) -> &'a str {
        in_project(&self.project_paths, path)
    }
}

/// A path relative to the project, which has these paths. A path elsewhere stays as it is.
pub(crate) fn in_project<'a>(project_paths: &[String], path: &'a str) -> &'a str {
    project_paths.iter().find_map(|project| places::below(path, project)).unwrap_or(path)
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self::new(Dialect::DeepAgents)
    }
}

impl SessionOptions {
    /// The defaults of a dialect.
    pub fn new(dialect: Dialect) -> Self {
        let (placement, lifetime) = dialect.defaults();
        Self {
            dialect,
            capabilities: Capabilities::of(dialect),
            budgets: Budgets::default(),
            placement,
            lifetime,
            discovery: Discovery::default(),
            resource_depth: DEFAULT_RESOURCE_DEPTH,
            unloaded_text: UnloadedText::default(),
            manual: ManualSkills::default(),
            guidance: Guidance::default(),
            allowed_tools: AllowedTools::default(),
            tools: ToolNames::default(),
            template: None,
            create_in: Vec::new(),
            skill_paths: SkillPaths::default(),
            project_paths: vec![places::PROJECT.to_owned()],
            prompt: Prompt::default(),
            suggestions: 0,
            overview_tokens: None,
            modes: SkillModes::default(),
            uses: None,
            tokens: TokenCounter::default(),
        }
    }
}
