//! The whole agent by one call: every part with its defaults, in the order in which they work together.

use std::sync::Arc;

use prowess_backend::VirtualPath;
use prowess_permission::Permissions;

use crate::agent::{Agent, AgentBuilder, AgentError, AgentOptions};
use crate::backends::Backends;
use crate::middleware::{
    Approval, Eviction, Files, Hooks, Memory, Skills, StateFiles, SubAgents, Summarisation,
    SummarisationOptions, Todos,
};
use crate::middleware::{MiddlewareError, MiddlewareFactory};
use crate::model::Model;
use crate::thread::ThreadStore;
use crate::tool::Tool;

/// The whole agent: skills, memory, files, todos, sub-agents, approval, hooks and summaries, each with its defaults.
///
/// Without files of its own an agent keeps them in the state of each thread. The general-purpose sub-agent has the same
/// tools, skills, approval and hooks, and no sub-agents and no memory of its own.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::Skills;
/// use prowess_agent::{DeepAgent, NoWatcher, ThreadId};
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
/// let agent = DeepAgent::new(Arc::new(Offline))
///     .prompt("You look after invoices.")
///     .skills(Skills::new(move |_| SkillSession::builder(catalog.clone())))
///     .files(Arc::new(LocalBackend::open(files)?))
///     .memory(["/memory/AGENTS.md"])
///     .permissions(Permissions::unattended(Policy::new()))
///     .build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("What is still to be paid?", &NoWatcher).await?;
/// assert!(thread.answer().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an agent is there after `build`"]
pub struct DeepAgent {
    model: Arc<dyn Model>,
    name: Option<String>,
    prompt: Option<String>,
    tools: Vec<Arc<dyn Tool>>,
    layers: Vec<Arc<dyn MiddlewareFactory>>,
    files: Option<Backends>,
    skills: Option<Skills>,
    memory: Vec<String>,
    sub_agents: Vec<(String, String, Agent)>,
    tasks: Option<Tasks>,
    permissions: Option<Permissions>,
    hooks: Option<Hooks>,
    summarisation: Option<SummarisationOptions>,
    store: Option<Arc<dyn ThreadStore>>,
    options: AgentOptions,
}

/// A change of how sub-agents work.
#[derive(Clone)]
struct Tasks(Arc<dyn Fn(SubAgents) -> SubAgents + Send + Sync>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl DeepAgent {
    /// An agent with nothing but a model.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            name: None,
            prompt: None,
            tools: Vec::new(),
            layers: Vec::new(),
            files: None,
            skills: None,
            memory: Vec::new(),
            sub_agents: Vec::new(),
            tasks: None,
            permissions: None,
            hooks: None,
            summarisation: None,
            store: None,
            options: AgentOptions::default(),
        }
    }

    /// What it is called, in telemetry.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What it is for.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// A tool more.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// A part more, before all others, such as `WorkspaceFiles`.
    pub fn with(mut self, layer: impl MiddlewareFactory + 'static) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// The files that it works on; those of each thread's state otherwise.
    pub fn files(mut self, files: impl Into<Backends>) -> Self {
        self.files = Some(files.into());
        self
    }

    /// The skills that it has. Those with `context: fork` are followed by its sub-agents.
    pub fn skills(mut self, skills: Skills) -> Self {
        self.skills = Some(skills);
        self
    }

    /// The files that it remembers by, such as `/memory/AGENTS.md`.
    pub fn memory<P: Into<String>>(mut self, sources: impl IntoIterator<Item = P>) -> Self {
        self.memory.extend(sources.into_iter().map(Into::into));
        self
    }

    /// A sub-agent beside the general-purpose one, for what its description says.
    pub fn sub_agent(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        agent: Agent,
    ) -> Self {
        self.sub_agents.push((name.into(), description.into(), agent));
        self
    }

    /// How sub-agents work, where that is not the default: how deep, for how much, with what.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use prowess_agent::{DeepAgent, Model};
    /// # fn build(model: Arc<dyn Model>) -> DeepAgent {
    /// DeepAgent::new(model).tasks(|tasks| tasks.depth(1).inherit_skills())
    /// # }
    /// ```
    pub fn tasks(mut self, change: impl Fn(SubAgents) -> SubAgents + Send + Sync + 'static) -> Self {
        self.tasks = Some(Tasks(Arc::new(change)));
        self
    }

    /// The rules that its calls, files and skills pass. Skills whose session has rules of its own pass those. Without any
    /// no call is asked about.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Commands, prompts and agents that hear of what it does.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// When and how it is summarised, where that is not the default.
    pub fn summarisation(mut self, options: SummarisationOptions) -> Self {
        self.summarisation = Some(options);
        self
    }

    /// Where its threads are kept; in memory otherwise.
    pub fn store(mut self, store: Arc<dyn ThreadStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// How much it may do.
    pub fn options(mut self, options: AgentOptions) -> Self {
        self.options = options;
        self
    }

    /// The agent.
    ///
    /// # Errors
    ///
    /// Two of its tools or two parts have one name, or a memory source is no path, or in no files.
    pub fn build(self) -> Result<Agent, AgentError> {
        let general_purpose = self.parts(None, None)?.build()?;
        let mut sub_agents = SubAgents::new(general_purpose);
        for (name, description, agent) in &self.sub_agents {
            sub_agents = sub_agents.and(name, description, agent.clone());
        }
        if let Some(change) = &self.tasks {
            sub_agents = (change.0)(sub_agents);
        }
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            AgentError::of("memory")(MiddlewareError::new("be put together", error))
        };
        if !self.memory.is_empty() && self.files.is_none() {
            let why = "what is remembered has to outlive a thread: give the agent `files`";
            return Err(failed(why.into()));
        }
        let memory = self.memory.iter().map(|source| VirtualPath::parse(source));
        let memory = memory.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.into()))?;
        self.parts(Some(memory), Some(sub_agents))?.build()
    }

    /// The parts in their order: what settles calls before what asks about them, what asks before what hears of them,
    /// and around all tools what takes their large answers away.
    fn parts(
        &self,
        memory: Option<Vec<VirtualPath>>,
        sub_agents: Option<SubAgents>,
    ) -> Result<AgentBuilder, AgentError> {
        let mut builder = Agent::builder(Arc::clone(&self.model)).options(self.options.clone());
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
        for layer in &self.layers {
            builder = builder.layer(Arc::clone(layer));
        }
        let files = match &self.files {
            Some(files) => files.clone(),
            None => {
                let files = StateFiles::new();
                builder = builder.with(files.clone());
                files.into()
            }
        };
        let summaries = Summarisation::new(Arc::clone(&self.model), files.clone());
        builder = builder.with(match self.summarisation.clone() {
            Some(options) => summaries.with(|default| *default = options),
            None => summaries,
        });
        if let Some(memory) = memory.filter(|memory| !memory.is_empty()) {
            builder = builder.with(Memory::new(files.clone(), memory));
        }
        if let Some(mut skills) = self.skills.clone() {
            if let Some(permissions) = &self.permissions {
                skills = skills.permissions(permissions.clone());
            }
            builder = builder.with(match &sub_agents {
                Some(sub_agents) => skills.forks(sub_agents.clone()),
                None => skills,
            });
        }
        let mut file_tools = Files::new(files.clone());
        if let Some(permissions) = self.permissions.clone() {
            builder = builder.with(Approval::new(permissions.clone()));
            file_tools = file_tools.permissions(permissions);
        }
        if let Some(hooks) = self.hooks.clone() {
            builder = builder.with(hooks);
        }
        builder = builder.with(Eviction::new(files)).with(Todos).with(file_tools);
        Ok(match sub_agents {
            Some(sub_agents) => builder.with(sub_agents),
            None => builder,
        })
    }
}
