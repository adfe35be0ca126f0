//! What a session is told when it starts.

use std::fmt;
use std::sync::Arc;

use prowess_catalog::estimate_tokens;
use prowess_catalog::overview::ManualSkills;
use prowess_catalog::section::SectionTemplate;

use crate::dialect::{Capabilities, Dialect};
use crate::documents::MAX_CHOSEN_BYTES;
use crate::tools::{AllowedTools, ToolNames};

/// How many skills may be loaded at once, unless the host says otherwise.
pub const DEFAULT_MAX_LOADED_SKILLS: usize = 10;

/// How much may be loaded at once.
///
/// ```
/// use prowess_skills::{Budgets, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let mut options = SessionOptions::default();
/// options.budgets = Budgets::new(0, None);
/// let session = SkillSession::builder(catalog).options(options).start().await;
/// assert!(session.load("greet", None).await.is_err(), "there is no room for it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budgets {
    /// The most skills.
    pub max_loaded_skills: usize,
    /// The most tokens of instructions and documents together; no limit when `None`.
    pub max_loaded_tokens: Option<usize>,
    /// The most bytes of documents that one skill has in context.
    pub max_document_bytes: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_LOADED_SKILLS, None)
    }
}

impl Budgets {
    /// A budget of `max_loaded_skills`, and of tokens if there is a limit.
    pub fn new(max_loaded_skills: usize, max_loaded_tokens: Option<usize>) -> Self {
        Self { max_loaded_skills, max_loaded_tokens, max_document_bytes: MAX_CHOSEN_BYTES }
    }
}

/// Where a loaded skill's text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into the answer of the tool that loaded it.
    ToolAnswer,
    /// Into the system message of every later call, through
    /// [`SkillSession::loaded_section`](crate::SkillSession::loaded_section).
    SystemMessage,
}

/// How long a skill stays loaded when nobody unloads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// For the next model call.
    Once,
    /// Until the turn ends.
    Turn,
    /// As long as the session.
    Session,
}

/// When a skill's resources are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// When it is loaded.
    #[default]
    Lazy,
    /// When the session starts and whenever the catalog changes, for all skills.
    Eager,
}

/// How the overview tells a model to get at a skill's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guidance {
    /// With the tools of the dialect.
    #[default]
    Tools,
    /// By reading the file itself, for hosts that mount no tools for skills. Nothing is tracked then.
    ReadFile,
}

/// What becomes of a skill's text in the history when the skill is unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnloadedText {
    /// It stays.
    #[default]
    Kept,
    /// [`SkillView::without_unloaded`](crate::SkillView::without_unloaded) puts one line in its place.
    Stub,
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
    /// A counter of the host's, such as its model's tokenizer.
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

/// How a session behaves. The default is the `deepagents` dialect with lazy resources, ten skills at
/// most and `allowed-tools` as a recommendation.
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
    /// The tools that the model has, and their words.
    pub dialect: Dialect,
    /// What the model can do besides loading skills.
    pub capabilities: Capabilities,
    /// How much may be loaded at once.
    pub budgets: Budgets,
    /// Where loaded text goes.
    pub placement: Placement,
    /// How long it stays.
    pub lifetime: Lifetime,
    /// When resources are looked for.
    pub discovery: Discovery,
    /// How many directory levels of resources are listed.
    pub resource_depth: usize,
    /// What becomes of the text of an unloaded skill.
    pub unloaded_text: UnloadedText,
    /// What a model sees of skills that only a person may start; `opencode` never lists them.
    pub manual: ManualSkills,
    /// How the overview tells a model to get at instructions.
    pub guidance: Guidance,
    /// What `allowed-tools` means.
    pub allowed_tools: AllowedTools,
    /// Names that skills use for the host's tools, and tools that are never blocked.
    pub tools: ToolNames,
    /// Another section for the system prompt than the dialect's own.
    pub template: Option<SectionTemplate>,
    /// Where a person could put a first skill; the roots when empty.
    pub create_in: Vec<String>,
    /// How tokens are counted.
    pub tokens: TokenCounter,
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
            resource_depth: 1,
            unloaded_text: UnloadedText::default(),
            manual: ManualSkills::default(),
            guidance: Guidance::default(),
            allowed_tools: AllowedTools::default(),
            tools: ToolNames::default(),
            template: None,
            create_in: Vec::new(),
            tokens: TokenCounter::default(),
        }
    }
}
