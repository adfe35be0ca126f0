//! Tools for skills in the words of three families of agents, over one engine.
//!
//! A dialect is data: names, descriptions and schemas of tools, and which act of the session a call of
//! each of them is. None of them knows how anything is done.

mod deepagents;
mod opencode;
mod trpc;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use prowess_catalog::{Activation, SectionTemplate};
use prowess_permission::Request;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::delta::{SelectMode, SkillDelta};
use crate::documents::{Choice, Chosen};
use crate::error::SkillError;
use crate::load::PreparedLoad;
use crate::options::{Lifetime, Placement};
use crate::overview::Moment;
use crate::session::{Answer, SkillSession};

/// With more skills than this, a schema does not list their names.
pub const MAX_ENUM_NAMES: usize = 50;

/// The family of agents whose tools a session has.
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
    /// `skill_load`, `skill_select_docs`, `skill_list_docs`, `skill_unload` and, where commands can be run,
    /// `skill_run`, `skill_exec` and its companions; loaded text goes into the system message and stays for a turn.
    Trpc,
    /// `skill`, whose description lists what there is, and `skill_unload`.
    OpenCode,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "deepagents" => Ok(Self::DeepAgents),
            "trpc" => Ok(Self::Trpc),
            "opencode" => Ok(Self::OpenCode),
            other => Err(format!("there is no dialect `{other}`: it is deepagents, trpc or opencode")),
        }
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

/// A tool, as data that any host can mount.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// What a model calls it.
    pub name: &'static str,
    /// What a model is told about it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
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

impl ToolSpec {
    /// Whether a call that was cut off may be made again: it runs nothing.
    pub fn is_idempotent(&self) -> bool {
        !matches!(self.name, "skill_run" | "skill_exec" | "skill_write_stdin")
    }
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
    /// Its name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeepAgents => "deepagents",
            Self::Trpc => "trpc",
            Self::OpenCode => "opencode",
        }
    }

    /// What its tools are called.
    pub fn words(self) -> Words {
        match self {
            Self::DeepAgents => deepagents::WORDS,
            Self::Trpc => trpc::WORDS,
            Self::OpenCode => opencode::WORDS,
        }
    }

    /// The names of all its tools.
    pub fn tool_names(self) -> &'static [&'static str] {
        match self {
            Self::DeepAgents => deepagents::TOOLS,
            Self::Trpc => trpc::TOOLS,
            Self::OpenCode => opencode::TOOLS,
        }
    }

    pub(crate) fn defaults(self) -> (Placement, Lifetime) {
        match self {
            Self::DeepAgents | Self::OpenCode => (Placement::ToolAnswer, Lifetime::Session),
            Self::Trpc => (Placement::SystemMessage, Lifetime::Turn),
        }
    }

    pub(crate) fn form(self) -> Form {
        match self {
            Self::DeepAgents => Form::Document,
            Self::Trpc | Self::OpenCode => Form::Body,
        }
    }

    /// How the overview says to load a skill.
    pub(crate) fn activation(self) -> Activation<'static> {
        match self {
            Self::DeepAgents => Activation::Tool(deepagents::WORDS.load),
            Self::Trpc => Activation::ToolByName(trpc::WORDS.load),
            Self::OpenCode => Activation::ToolByName(opencode::WORDS.load),
        }
    }

    /// Whether skills that only people may start can be listed. A list in a tool's description has only what the tool
    /// can load.
    pub fn lists_manual_skills(self) -> bool {
        self.template().is_some()
    }

    /// The section of the system prompt that its overview stands in. `opencode` has none: its tool says
    /// what there is.
    pub(crate) fn template(self) -> Option<SectionTemplate> {
        match self {
            Self::DeepAgents => Some(SectionTemplate::default()),
            Self::Trpc => Some(trpc::template()),
            Self::OpenCode => None,
        }
    }
}

/// What a model wants, whatever the dialect calls it.
#[derive(Debug)]
enum Act {
    Load {
        name: String,
        arguments: Option<String>,
        documents: Option<Choice>,
    },
    Unload {
        name: String,
    },
    Select {
        name: String,
        mode: SelectMode,
        choice: Choice,
    },
    List {
        name: String,
    },
    #[cfg(feature = "run")]
    Run(Box<prowess_workspace::RunRequest>),
    #[cfg(feature = "run")]
    Exec(Box<crate::exec::ExecRequest>),
    #[cfg(feature = "run")]
    Write(crate::exec::WriteRequest),
    #[cfg(feature = "run")]
    Poll(crate::exec::PollRequest),
    #[cfg(feature = "run")]
    Kill {
        id: String,
    },
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
        match self.options().dialect {
            Dialect::DeepAgents => deepagents::tools(moment),
            Dialect::Trpc => trpc::tools(moment, self.hosts_of_runs()),
            Dialect::OpenCode => opencode::tools(moment),
        }
    }

    /// Where commands can be run, the hosts that they may ask for.
    fn hosts_of_runs(&self) -> Option<Vec<String>> {
        #[cfg(feature = "run")]
        return self.runs().map(crate::run::Runs::hosts);
        #[cfg(not(feature = "run"))]
        None
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
        let dialect = self.options().dialect;
        let Some(tool) = dialect.tool_names().iter().find(|name| **name == tool) else {
            let tools = dialect.tool_names().to_vec();
            return Err(SkillError::NoSuchTool { tool: tool.to_owned(), tools });
        };
        let act = match dialect {
            Dialect::DeepAgents => deepagents::act(tool, arguments),
            Dialect::Trpc => trpc::act(tool, arguments),
            Dialect::OpenCode => opencode::act(tool, arguments),
        };
        Ok(match act? {
            Act::Load { name, arguments, documents } => {
                let prepared = self.prepare_load(&name, arguments.as_deref(), documents).await?;
                Prepared::Load(Box::new(prepared))
            }
            Act::Select { name, mode, choice } => {
                let chosen = self.choose(&name, mode, choice).await?;
                Prepared::Select(self.clone(), name, Box::new(chosen))
            }
            Act::Unload { name } => Prepared::Unload(self.clone(), name),
            Act::List { name } => Prepared::Answer(self.list_documents(&name).await?),
            #[cfg(feature = "run")]
            Act::Run(request) => Prepared::Answer(self.run(*request).await?),
            #[cfg(feature = "run")]
            Act::Exec(request) => Prepared::Answer(self.exec(*request).await?),
            #[cfg(feature = "run")]
            Act::Write(request) => Prepared::Answer(self.write_stdin(request).await?),
            #[cfg(feature = "run")]
            Act::Poll(request) => Prepared::Answer(self.poll(request).await?),
            #[cfg(feature = "run")]
            Act::Kill { id } => Prepared::Answer(self.kill(&id).await?),
        })
    }

    /// The state as the keys that `trpc` hosts keep: `temp:skill:loaded:<name>` and
    /// `temp:skill:docs:<name>`.
    pub fn state_keys(&self) -> BTreeMap<String, String> {
        trpc::state_keys(&self.state())
    }
}

/// The arguments of a call, or what is wrong with them.
fn parsed<T: DeserializeOwned>(tool: &str, arguments: Value) -> Result<T, SkillError> {
    // A call without arguments comes as null from some models.
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    let wrong = |problem| SkillError::Arguments { tool: tool.to_owned(), problem };
    if !arguments.is_object() {
        return Err(wrong("they must be a JSON object".to_owned()));
    }
    serde_json::from_value(arguments).map_err(|error| wrong(error.to_string()))
}

/// The schema of `T`; `names`, when they are few, are all that its property `of_skills` may be.
fn schema<T: JsonSchema + 'static>(of_skills: &str, names: &[String]) -> Value {
    let mut schema = Value::clone(&made::<T>());
    if (1..=MAX_ENUM_NAMES).contains(&names.len())
        && let Some(property) = schema.pointer_mut(&format!("/properties/{of_skills}"))
    {
        property["enum"] = json!(names);
    }
    schema
}

/// The schema of `T` alone. It is made once: every call of a model needs it.
fn made<T: JsonSchema + 'static>() -> Arc<Value> {
    static MADE: RwLock<BTreeMap<TypeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    let of = TypeId::of::<T>();
    if let Some(made) = MADE.read().unwrap_or_else(PoisonError::into_inner).get(&of) {
        return Arc::clone(made);
    }
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(without_null);
    let schema = Arc::new(schema);
    MADE.write().unwrap_or_else(PoisonError::into_inner).insert(of, Arc::clone(&schema));
    schema
}

/// What is optional may be left out, and need not be null: some providers know no types that may be.
fn without_null(property: &mut Value) {
    let Some(object) = property.as_object_mut() else { return };
    object.remove("default");
    if let Some(types) = object.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
}
