//! The complete agent: all middleware with their defaults, in the right order.

use std::sync::Arc;

use prowess_backend::VirtualPath;
use prowess_permission::Permissions;

use crate::agent::{Agent, AgentBuilder, AgentError, AgentOptions};
use crate::backends::Backends;
use crate::middleware::{
    ChangeWatcher, Eviction, Files, Hooks, Memory, Skills, StateFiles, SubAgents, Summarisation,
    SummarisationOptions, Todos, ToolPermissions,
};
use crate::middleware::{MiddlewareError, MiddlewareFactory, WatchedChanges};
use crate::model::Model;
use crate::thread::ThreadStore;
use crate::tool::{Tool, ToolKind, ToolSelection};

/// Builds the complete [`Agent`]: skills, memory, files, todos, sub-agents, tool permissions, hooks, eviction and
/// summarisation. [`Agent::deep_builder`] starts it.
///
/// Without [`DeepAgentBuilder::files`], the agent keeps files in the state of each thread. The general-purpose sub-agent has
/// the same tools, skills, permissions and hooks, but no memory and no sub-agents.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::Skills;
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_backend::LocalBackend;
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_models::Offline; // or `OpenAi`, or `Anthropic`
/// use prowess_permission::{Permissions, Policy};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let (skills, files) = (scratch.path().join("skills"), scratch.path().join("files"));
/// # std::fs::create_dir(&skills)?;
/// # std::fs::create_dir(&files)?;
/// let catalog = Catalog::discover(&[Root::explicit(skills)], &ScanOptions::default());
/// let agent = Agent::deep_builder(Arc::new(Offline))
///     .prompt("You look after invoices.")
///     .skills(Skills::new(move |_| SkillSession::builder(catalog.clone())))
///     .files(Arc::new(LocalBackend::open(files)?))
///     .memory(["/memory/AGENTS.md"])
///     .permissions(Permissions::unattended(Policy::new()))
///     .build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("What is still to be paid?", &NoWatcher).await?;
/// assert!(thread.last_response().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct DeepAgentBuilder {
    model: Arc<dyn Model>,
    name: Option<String>,
    prompt: Option<String>,
    tools: Vec<Arc<dyn Tool>>,
    selection: ToolSelection,
    middleware: Vec<Arc<dyn MiddlewareFactory>>,
    files: Option<Backends>,
    skills: Option<Skills>,
    memory: Vec<String>,
    given_memory: Option<Memory>,
    changes: Option<WatchedChanges>,
    added_sub_agents: Vec<(String, String, Agent)>,
    change_sub_agents: Option<ChangeSubAgents>,
    permissions: Option<Permissions>,
    hooks: Option<Hooks>,
    summarisation: Option<SummarisationOptions>,
    store: Option<Arc<dyn ThreadStore>>,
    options: AgentOptions,
}

/// Changes the settings of sub-agents.
#[derive(Clone)]
struct ChangeSubAgents(Arc<dyn Fn(SubAgents) -> SubAgents + Send + Sync>);

impl std::fmt::Debug for ChangeSubAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeSubAgents").finish_non_exhaustive()
    }
}

impl Agent {
    /// Starts to build the complete agent, with this model and all middleware.
    pub fn deep_builder(model: Arc<dyn Model>) -> DeepAgentBuilder {
        DeepAgentBuilder::new(model)
    }
}

impl DeepAgentBuilder {
    fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            name: None,
            prompt: None,
            tools: Vec::new(),
            selection: ToolSelection::default(),
            middleware: Vec::new(),
            files: None,
            skills: None,
            memory: Vec::new(),
            given_memory: None,
            changes: None,
            added_sub_agents: Vec::new(),
            change_sub_agents: None,
            permissions: None,
            hooks: None,
            summarisation: None,
            store: None,
            options: AgentOptions::default(),
        }
    }

    /// The agent's name in telemetry.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The first section of the system prompt: what the agent is for.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Another model than the one that the builder began with.
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = model;
        self
    }

    /// The tools that the model gets, of all that the agent has. Default: all. Middleware without a selected tool add
    /// nothing to the prompt, so that it recommends no missing tools. Skills still decide which of their files may be read.
    pub fn select_tools(mut self, selection: ToolSelection) -> Self {
        self.selection = selection;
        self
    }

    /// Adds a middleware, such as `WorkspaceFiles`. It comes before all shipped ones.
    pub fn middleware(mut self, middleware: impl MiddlewareFactory + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// The files that the agent works on. Default: files in the state of each thread.
    pub fn files(mut self, files: impl Into<Backends>) -> Self {
        self.files = Some(files.into());
        self
    }

    /// The agent's skills. Sub-agents follow those with `context: fork`.
    pub fn skills(mut self, skills: Skills) -> Self {
        self.skills = Some(skills);
        self
    }

    /// The files of its memory, such as `/memory/AGENTS.md`.
    pub fn memory<P: Into<String>>(mut self, sources: impl IntoIterator<Item = P>) -> Self {
        self.memory.extend(sources.into_iter().map(Into::into));
        self
    }

    /// A memory that you have set up, such as with files that you read yourself. It replaces [`DeepAgentBuilder::memory`].
    pub fn given_memory(mut self, memory: Memory) -> Self {
        self.given_memory = Some(memory);
        self
    }

    /// Tells `watcher` about every change that the file tools make, also those of sub-agents.
    pub fn watch_changes(mut self, watcher: Arc<dyn ChangeWatcher>) -> Self {
        self.changes = Some(WatchedChanges::new(watcher));
        self
    }

    /// Adds a sub-agent beside the general-purpose one. Its description says what it is for.
    pub fn sub_agent(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        agent: Agent,
    ) -> Self {
        self.added_sub_agents.push((name.into(), description.into(), agent));
        self
    }

    /// Changes the settings of sub-agents, such as their depth and limits.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use prowess_agent::{Agent, DeepAgentBuilder, Model};
    /// # fn build(model: Arc<dyn Model>) -> DeepAgentBuilder {
    /// Agent::deep_builder(model).sub_agents(|sub_agents| sub_agents.depth(1).inherit_skills())
    /// # }
    /// ```
    pub fn sub_agents(mut self, change: impl Fn(SubAgents) -> SubAgents + Send + Sync + 'static) -> Self {
        self.change_sub_agents = Some(ChangeSubAgents(Arc::new(change)));
        self
    }

    /// The rules for tool calls, files and skills. A skill session with its own rules keeps them. Without permissions,
    /// nobody is asked.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// The user's hooks.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// When and how the conversation is summarised.
    pub fn summarisation(mut self, options: SummarisationOptions) -> Self {
        self.summarisation = Some(options);
        self
    }

    /// The store that keeps the threads. Default: memory.
    pub fn store(mut self, store: Arc<dyn ThreadStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// How much the agent may do.
    pub fn options(mut self, options: AgentOptions) -> Self {
        self.options = options;
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// Two tools or two middleware have the same name; a path of the memory is invalid; or there is a memory without
    /// [`DeepAgentBuilder::files`].
    pub fn build(self) -> Result<Agent, AgentError> {
        let general_purpose = self.assemble(None, None).build()?;
        let mut sub_agents = SubAgents::new(general_purpose);
        for (name, description, agent) in &self.added_sub_agents {
            sub_agents = sub_agents.sub_agent(name, description, agent.clone());
        }
        if let Some(change) = &self.change_sub_agents {
            sub_agents = (change.0)(sub_agents);
        }
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            AgentError::of("memory")(MiddlewareError::new("set up the memory", error))
        };
        if !self.memory.is_empty() && self.files.is_none() {
            let why = "the memory must outlive a thread: give the agent `files`";
            return Err(failed(why.into()));
        }
        let memory = self.memory.iter().map(|source| VirtualPath::parse(source));
        let memory = memory.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.into()))?;
        let memory = match (&self.given_memory, &self.files) {
            (Some(given), _) => Some(given.clone()),
            (None, Some(files)) => Some(Memory::new(files.clone(), memory)),
            (None, None) => None,
        };
        let memory = memory.filter(|memory| !memory.is_empty());
        self.assemble(memory, Some(sub_agents)).build()
    }

    /// Builds an agent that works for another one. It has no memory and no sub-agents.
    ///
    /// # Errors
    ///
    /// Two tools or two middleware have the same name.
    pub fn build_sub_agent(self) -> Result<Agent, AgentError> {
        self.assemble(None, None).build()
    }

    /// The agent's settings and middleware. Without `sub_agents` it is the general-purpose sub-agent.
    ///
    /// The order matters. Skills add the text of a skill that a person starts, so summaries come after them and count it.
    /// Middleware that settle calls come before those that ask about them, and those that ask come before hooks. Eviction
    /// wraps all tools.
    fn assemble(&self, memory: Option<Memory>, sub_agents: Option<SubAgents>) -> AgentBuilder {
        let mut builder = self.settings();
        let files = match &self.files {
            Some(files) => files.clone(),
            None => {
                let files = StateFiles::new();
                builder = builder.middleware(files.clone());
                files.into()
            }
        };
        if let Some(memory) = memory {
            builder = builder.middleware(memory);
        }
        if let Some(skills) = self.skill_middleware(sub_agents.as_ref()) {
            builder = builder.middleware(skills);
        }
        builder = builder.middleware(self.summaries(&files));
        let mut file_tools = Files::new(files.clone());
        let has = |kind| self.selection.has_kind(kind);
        if let Some(permissions) = self.permissions.clone() {
            builder = builder.middleware(ToolPermissions::new(permissions.clone()));
            file_tools = file_tools.permissions(permissions);
        }
        if let Some(changes) = self.changes.clone() {
            file_tools = file_tools.changes(changes);
        }
        if let Some(hooks) = self.hooks.clone() {
            builder = builder.middleware(hooks);
        }
        // A model that cannot read files could not read an answer that was moved to one.
        if has(ToolKind::Read) {
            builder = builder.middleware(Eviction::new(files));
        }
        if has(ToolKind::Todo) {
            builder = builder.middleware(Todos);
        }
        if self.selection.has_files() {
            builder = builder.middleware(file_tools);
        }
        match sub_agents {
            Some(sub_agents) => builder.middleware(sub_agents),
            None => builder,
        }
    }

    /// A builder with the settings, the tools and the middleware that were added one by one.
    fn settings(&self) -> AgentBuilder {
        let mut builder = Agent::builder(Arc::clone(&self.model)).options(self.options.clone());
        builder = builder.select_tools(self.selection.clone());
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(prompt) = &self.prompt {
            builder = builder.prompt(prompt);
        }
        if let Some(store) = &self.store {
            builder = builder.store(Arc::clone(store));
        }
        for tool in &self.tools {
            builder = builder.tool(Arc::clone(tool));
        }
        for middleware in &self.middleware {
            builder = builder.shared_middleware(Arc::clone(middleware));
        }
        builder
    }

    fn summaries(&self, files: &Backends) -> Summarisation {
        let summaries = Summarisation::new(Arc::clone(&self.model), files.clone());
        match self.summarisation.clone() {
            Some(options) => summaries.options(options),
            None => summaries,
        }
    }

    fn skill_middleware(&self, sub_agents: Option<&SubAgents>) -> Option<Skills> {
        let mut skills = self.skills.clone()?;
        if let Some(permissions) = &self.permissions {
            skills = skills.permissions(permissions.clone());
        }
        Some(match sub_agents {
            Some(sub_agents) => skills.sub_agents(sub_agents.clone()),
            None => skills,
        })
    }
}
