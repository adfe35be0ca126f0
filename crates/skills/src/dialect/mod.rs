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

use prowess_catalog::{Activation, SectionTemplate, SkillEntry};
use prowess_permission::Request;
use serde_json::Value;

pub use self::act::SkillAct;
use self::arguments::Wanted;
pub use self::capabilities::Capabilities;
pub use self::spec::ToolSpec;
use self::table::{RunSetting, Setting, Table};
use crate::delta::SkillDelta;
use crate::documents::Chosen;
use crate::error::SkillError;
use crate::load::PreparedLoad;
use crate::options::{Lifetime, Placement, UnloadedText};
use crate::overview::Moment;
use crate::session::{Answer, SkillSession};

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
pub struct Words {
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
pub struct ToolReply {
    /// What the model reads.
    pub text: String,
    /// Whether it is an error. Nothing has changed then.
    pub is_error: bool,
    /// The changes of state, which the session has made already.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, where it is more than text.
    pub data: Option<Value>,
}

impl From<Result<Answer, SkillError>> for ToolReply {
    fn from(result: Result<Answer, SkillError>) -> Self {
        match result {
            Ok(Answer { text, deltas, data }) => Self { text, is_error: false, deltas, data },
            Err(error) => Self { text: error.for_model(), is_error: true, deltas: Vec::new(), data: None },
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
    pub fn words(self) -> Words {
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
    /// use prowess_skills::{Dialect, SkillAct};
    ///
    /// assert_eq!(Dialect::act_of("skill_unload"), Some(SkillAct::Unload));
    /// assert_eq!(Dialect::act_of("grep"), None);
    /// ```
    pub fn act_of(tool: &str) -> Option<SkillAct> {
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
    pub(crate) fn heading(self, entry: &SkillEntry) -> String {
        self.table().heading(entry)
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

/// A tool call of which everything is done but the change of state.
///
/// A host that runs the calls of a turn at the same time and finishes them in the order of the calls gets
/// the same state every time.
///
/// ```
/// use prowess_skills::SkillSession;
/// use serde_json::json;
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).start().await;
/// let prepared = session.prepare_call("load_skill", json!({"skill_name": "greet"})).await;
/// assert!(session.state().loaded().is_empty(), "read, and not loaded yet");
/// assert!(prepared.finish().text.contains("Wave."));
/// assert_eq!(session.state().loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a prepared call changes nothing until `finish`"]
pub struct PreparedCall {
    tool: String,
    prepared: Result<Prepared, SkillError>,
}

#[derive(Debug)]
enum Prepared {
    Load(Box<PreparedLoad>),
    Select(SkillSession, String, Box<Chosen>),
    Unload(SkillSession, String),
    Answer(Answer),
}

/// A skill that wants to be followed by a sub-agent, read and past the gate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forked {
    /// The skill.
    pub name: String,
    /// The sub-agent that it names.
    pub agent: Option<String>,
    /// What it was given to work on.
    pub arguments: Option<String>,
    /// Its instructions, for an agent without skills of its own.
    pub instructions: String,
    /// What loads it in the sub-agent's session.
    pub deltas: Vec<SkillDelta>,
}

impl PreparedCall {
    /// What somebody has to be asked for this call, where nobody could be: a host that can wait asks, and makes the call
    /// again with [`prowess_permission::Permissions::allow_once`].
    pub fn unanswered(&self) -> Option<&Request> {
        self.prepared.as_ref().err()?.unanswered()
    }

    /// The skill that this call loads, if it says `context: fork`. A host that has sub-agents gives it to one, and drops
    /// this call; for all others the skill is loaded like any other.
    pub fn forked(&self) -> Option<Forked> {
        match &self.prepared {
            Ok(Prepared::Load(prepared)) => prepared.forked(),
            _ => None,
        }
    }

    /// Makes the change, if it still fits, and gives the answer. The event `tool.response` tells how many changes of
    /// state there were.
    pub fn finish(self) -> ToolReply {
        let finished = self.prepared.and_then(|prepared| match prepared {
            Prepared::Load(prepared) => prepared.finish(),
            Prepared::Select(session, name, chosen) => session.finish_selection(&name, *chosen),
            Prepared::Unload(session, name) => session.unload(&name),
            Prepared::Answer(answer) => Ok(answer),
        });
        let reply = ToolReply::from(finished);
        let (tool, is_error, changes) = (&self.tool, reply.is_error, reply.deltas.len());
        tracing::info!(name: "tool.response", tool, is_error, changes, "Tool '{tool}' answered");
        reply
    }
}

impl SkillSession {
    /// The tools that a model handles skills with. Descriptions and schemas follow the catalog: ask again
    /// for every model call.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.tools_of(&self.moment())
    }

    pub(crate) fn tools_of(&self, moment: &Moment) -> Vec<ToolSpec> {
        let options = self.options();
        let runs = self.run_setting();
        let setting = Setting {
            moment,
            capabilities: options.capabilities,
            placement: options.placement,
            runs: runs.as_ref(),
        };
        options.dialect.table().specs(&setting)
    }

    /// Where commands can be run, what they may use.
    fn run_setting(&self) -> Option<RunSetting> {
        #[cfg(feature = "run")]
        return self
            .runs()
            .map(|runs| RunSetting { hosts: runs.hosts(), timeout: runs.limits.timeout.as_secs() });
        #[cfg(not(feature = "run"))]
        None
    }

    /// What a tool of this name does, if the session has one. It has those for commands also where nothing runs them:
    /// their answer says so.
    ///
    /// ```
    /// use prowess_skills::{SkillAct, SkillSession};
    ///
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// let session = SkillSession::builder(catalog).start().await;
    /// assert_eq!(session.act("unload_skill"), Some(SkillAct::Unload));
    /// assert_eq!(session.act("skill_list_docs"), None, "this dialect has it only where it is wanted");
    /// # Ok(())
    /// # }
    /// ```
    pub fn act(&self, tool: &str) -> Option<SkillAct> {
        let options = self.options();
        let mut had = options.dialect.table().had(options.capabilities, true);
        had.find(|entry| entry.name == tool).map(|entry| entry.takes.act())
    }

    /// Calls one of [`SkillSession::tools`]. Foolish arguments get an answer that says what is wrong.
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolReply {
        self.prepare_call(tool, arguments).await.finish()
    }

    /// The part of [`SkillSession::call`] that takes time: everything but the change of state.
    pub async fn prepare_call(&self, tool: &str, arguments: Value) -> PreparedCall {
        PreparedCall { tool: tool.to_owned(), prepared: self.prepared(tool, arguments).await }
    }

    async fn prepared(&self, tool: &str, arguments: Value) -> Result<Prepared, SkillError> {
        let (table, capabilities) = (self.options().dialect.table(), self.options().capabilities);
        // Where nothing runs commands, the tools for them say so.
        let Some(entry) = table.had(capabilities, true).find(|entry| entry.name == tool) else {
            let can_run = self.run_setting().is_some();
            let tools = table.had(capabilities, can_run).map(|entry| entry.name).collect();
            return Err(SkillError::NoSuchTool { tool: tool.to_owned(), tools });
        };
        Ok(match table.wanted(entry, arguments, capabilities)? {
            Wanted::Load { name, arguments, documents } => {
                let prepared = self.prepare_load(&name, arguments.as_deref(), documents).await?;
                Prepared::Load(Box::new(prepared))
            }
            Wanted::Select { name, mode, choice } => {
                let chosen = self.choose(&name, mode, choice).await?;
                Prepared::Select(self.clone(), name, Box::new(chosen))
            }
            Wanted::Unload { name } => Prepared::Unload(self.clone(), name),
            Wanted::List { name } => Prepared::Answer(self.list_documents(&name).await?),
            #[cfg(feature = "run")]
            Wanted::Run(request) => Prepared::Answer(self.run(*request).await?),
            #[cfg(feature = "run")]
            Wanted::Start(request) => Prepared::Answer(self.exec(*request).await?),
            #[cfg(feature = "run")]
            Wanted::Write(request) => Prepared::Answer(self.write_stdin(request).await?),
            #[cfg(feature = "run")]
            Wanted::Look(request) => Prepared::Answer(self.poll(request).await?),
            #[cfg(feature = "run")]
            Wanted::End { id } => Prepared::Answer(self.kill(&id).await?),
        })
    }

    /// The state as the keys that `trpc` hosts keep: `temp:skill:loaded:<name>` and
    /// `temp:skill:docs:<name>`.
    pub fn state_keys(&self) -> BTreeMap<String, String> {
        trpc::state_keys(&self.state())
    }
}
