//! What an agent in a terminal has: skills, files, rules, a sandbox, and threads that stay.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_agent::backends::Backends;
use prowess_agent::cost::Price;
use prowess_agent::middleware::{CostLimit, Hooks, SandboxedHooks, Skills, SubAgents};
use prowess_agent::{Agent, AgentOptions, DeepAgent, Model, Thread, ThreadId, ThreadStore, TurnLimits};
use prowess_backend::{CompositeBackend, LocalBackend, VirtualPath};
use prowess_catalog::Catalog;
use prowess_mcp::client::{Patience, ServerFiles, ServerTools, Servers};
use prowess_permission::real_path::real_path;
use prowess_permission::{Broker, Decision, FileApprovals, Pattern, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Capabilities, Dialect, Lifetime, RunSetup, SessionOptions, SkillSession};
use prowess_store::SqliteStore;
use prowess_workspace::{Artifacts, Network, Runner, Scope};

use super::apart::{self, Apart};
use super::approvals;
use super::model::{self, Manner};
use super::place::Place;
use super::whereabouts::Whereabouts;
use crate::artifacts;
use crate::config::{Config, Flag, InheritedWord, OfProject, SkillSettings, guards};
use crate::options::Places;
use crate::project::MEMORY;
use crate::servers;
use crate::sight::Sight;
use crate::state::Kept;
use crate::terminal::{count, shown};

/// What the agent is called in rules and in telemetry.
const NAME: &str = crate::sight::AGENT;
/// How long a thread stays with a process that died: what somebody waits for who resumes it.
const LEASE: Duration = Duration::from_secs(6);
/// How long a thread that another has is waited for.
const PATIENCE: Duration = Duration::from_secs(8);
/// Where the agent finds what was taken out of its sight; kept beside the thread, and not among the user's files.
pub(super) const KEPT: [&str; 2] = ["conversation_history", "large_tool_results"];

/// What the agent is told about itself.
const PROMPT: &str = "You are an agent in a person's terminal. You work for that person, with skills and tools. \
Look at the skills first: if one fits the task, load it and follow it, and unload it when it is no longer needed. The files \
under `/` are those of the directory that the person works in. Commands of skills run in a sandbox with a workspace of its \
own, which does not have those files unless they are given as inputs; what a command writes below `out/` comes back to you. \
Some calls wait until the person allows them; if one is refused, do not try to get around that: say what you would need. \
Be brief. Answer in Markdown.";

/// Rules for what nobody wrote rules for: looking is allowed, changing and running is asked about.
const RULES: [(&str, &str, Decision); 4] = [
    ("tool", "*", Decision::Allow),
    ("read", "*", Decision::Allow),
    ("write", "*", Decision::Ask),
    ("run", "*", Decision::Ask),
];

/// How skills are told to the model and loaded.
pub(crate) fn session_options(settings: &SkillSettings) -> SessionOptions {
    let mut options = SessionOptions::new(settings.dialect.unwrap_or(Dialect::Trpc));
    options.capabilities = Capabilities::all();
    options.lifetime = settings.lifetime.unwrap_or(Lifetime::Session);
    settings.put_into(&mut options);
    options
}

/// What agents of this program are made of.
pub(super) struct Host {
    pub(super) config: Config,
    /// The options of the command, over every configuration.
    flags: Vec<Flag>,
    pub(super) model: Arc<dyn Model>,
    pub(super) store: SqliteStore,
    /// The directory that the person works in.
    pub(super) directory: PathBuf,
    /// Where everything of ours is kept.
    pub(super) state: PathBuf,
    pub(super) places: Places,
    pub(super) catalog: Arc<Mutex<Catalog>>,
    create_in: Vec<String>,
    /// What counts of the project's configuration.
    configuration: OfProject,
    /// Whether what the project tells models counts.
    trusts_memory: bool,
    /// What was last said of what is not trusted.
    notice: Option<String>,
    permissions: Permissions,
    /// What runs commands. Its artifacts are each thread's own.
    runner: Runner,
    artifacts: Artifacts,
    kept_at: Kept,
    /// The project's top, or the directory that the person works in.
    project: PathBuf,
    /// Other MCP servers, if there are any.
    servers: Option<Arc<Servers>>,
}

/// What a host is made with.
pub(super) struct Found {
    pub(super) config: Config,
    pub(super) flags: Vec<Flag>,
    pub(super) places: Places,
    pub(super) skills: crate::skills::Skills,
    pub(super) runner: Runner,
    pub(super) artifacts: Artifacts,
    pub(super) kept: Kept,
    pub(super) state: PathBuf,
}

impl Host {
    /// The host, and what a person should know of servers that cannot be used.
    pub(super) async fn new(found: Found) -> Result<(Self, Vec<String>)> {
        let Found { config, flags, places, mut skills, runner, artifacts, kept, state } = found;
        let model = model::chosen(&config.settings)?;
        let directory = std::env::current_dir().context("the working directory cannot be read")?;
        check_own(&state.join(crate::threads::FILE))?;
        let store =
            SqliteStore::open(state.join(crate::threads::FILE)).await.map_err(|error| anyhow!("{error}"))?;
        let approvals = Arc::new(FileApprovals::at(state.join("approvals.json")));
        let broker = Broker::open(approvals, directory.to_string_lossy()).await?;
        let mut notices = approvals::renew(&broker, &directory).await;
        let permissions = Permissions::new(broker, NAME, policy(&config, &kept));
        let mut servers = None;
        if let Some(connected) = servers::connect(&config.settings, None, &skills.roots).await? {
            let (catalog, more) = servers::offered_first(&connected.servers, &skills.catalog).await;
            skills.catalog = catalog;
            notices.extend(connected.notices.into_iter().chain(more));
            servers = Some(connected.servers);
        }
        let host = Self {
            model,
            store,
            directory,
            state,
            places,
            configuration: skills.configuration()?,
            trusts_memory: skills.trusts_memory(),
            notice: skills.notice(),
            project: artifacts::project(&skills)?,
            catalog: Arc::new(Mutex::new(skills.catalog)),
            create_in: skills.create_in,
            permissions,
            runner,
            artifacts,
            kept_at: kept,
            servers,
            flags,
            config,
        };
        Ok((host, notices))
    }

    /// The skills there are now.
    pub(super) fn catalog(&self) -> Catalog {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the model sees of them.
    pub(super) fn sight(&self) -> Sight {
        Sight::new(&self.catalog(), &self.config)
    }

    /// Where the runs of a thread leave their files.
    pub(super) fn whereabouts(&self, thread: &ThreadId) -> Result<Whereabouts> {
        let workspace = self.runner.workspaces.path_of(thread.as_str());
        Ok(Whereabouts::new(workspace, self.artifacts_of(thread)?.scope().clone(), self.kept_at.clone()))
    }

    /// Looks for skills again, and says what a person should know if they are others.
    pub(super) async fn refresh(&mut self) -> Result<Option<String>> {
        let known = self.catalog();
        let mut skills = self.places.discover_again(&known)?;
        if let Some(servers) = self.servers.as_ref().filter(|servers| servers.has_changed()) {
            // What cannot be used is told when it is looked at: `prowess servers`.
            skills.catalog = servers::offered(servers, &skills.catalog, Patience::endless()).await.0;
        }
        let mut is_same = same(&known, &skills.catalog) && self.trusts_memory == skills.trusts_memory();
        let configuration = skills.configuration()?;
        if self.configuration != configuration {
            // What the project set counts only while it is trusted; what it forbade stays.
            let mut config = Config::load(&configuration, &self.flags)?;
            config.settings.model.name = self.config.settings.model.name.clone();
            self.permissions =
                Permissions::new(Arc::clone(self.permissions.broker()), NAME, policy(&config, &self.kept_at));
            (self.config, self.configuration, is_same) = (config, configuration, false);
        }
        self.trusts_memory = skills.trusts_memory();
        let notice = skills.notice();
        // What is known already is not said again.
        let news = notice.clone().filter(|_| notice != self.notice);
        self.notice = notice;
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = skills.catalog;
        let changed = || "the skills have changed; the model reads what there is now".to_owned();
        Ok((!is_same).then(|| news.unwrap_or_else(changed)))
    }

    /// Which servers there are, in a line for a person.
    pub(super) fn of_servers(&self) -> Option<String> {
        let sight = self.sight();
        let of = |label: &str| {
            let published = sight.view().entries().iter().filter_map(|entry| entry.published());
            count(published.filter(|published| published.server == label).count(), "skill")
        };
        let servers = self.servers.iter().flat_map(|servers| servers.all());
        let told: Vec<String> =
            servers.map(|server| format!("{} ({})", server.label(), of(server.label().as_str()))).collect();
        (!told.is_empty()).then(|| format!("MCP servers: {}", told.join(", ")))
    }

    /// The agent for a thread. What it puts away is kept beside that thread.
    pub(super) fn agent(&self, thread: &ThreadId) -> Result<Agent> {
        let settings = &self.config.settings;
        let mut limits = TurnLimits::default();
        limits.model_calls = settings.limits.steps.unwrap_or(limits.model_calls);
        limits.tokens = settings.limits.tokens;
        let mut runner = self.runner.clone();
        // Sub-agents, whose threads are others, have the same.
        runner.artifacts = Some(Arc::new(self.artifacts_of(thread)?));
        let mut options = AgentOptions::default();
        (options.limits, options.lease) = (limits, LEASE);
        let manner = Manner { effort: settings.model.effort, max_output: settings.model.max_output };
        let mut agent = DeepAgent::builder(Arc::clone(&self.model))
            .name(NAME)
            .prompt(PROMPT)
            .middleware(Place(self.directory.clone()))
            .middleware(Apart)
            .middleware(manner)
            .skills(self.skills(&runner))
            .files(self.files(thread)?)
            .permissions(self.file_permissions(thread))
            .store(Arc::new(self.store.clone()) as Arc<dyn ThreadStore>)
            .options(options);
        if settings.skills.inherited == InheritedWord::Loaded {
            agent = agent.sub_agents(SubAgents::inherit_skills);
        }
        if let Some(servers) = &self.servers {
            agent = agent.middleware(ServerTools::new(Arc::clone(servers), self.permissions.clone()));
        }
        let hooks = Hooks::new(self.config.hooks()?).commands(SandboxedHooks::new(runner));
        agent = agent.hooks(hooks);
        // Where there is no project, nobody has answered for what lies about.
        if self.trusts_memory && self.directory.join(MEMORY).is_file() {
            agent = agent.memory([format!("/{MEMORY}")]);
        }
        if let Some(most) = settings.limits.cost {
            agent = agent.middleware(CostLimit::new(self.config.prices()?, dollars(most)?));
        }
        agent.build().map_err(|error| anyhow!("{error}"))
    }

    /// The artifacts that a thread has: its own, unless the person wants them shared more widely.
    pub(super) fn artifacts_of(&self, thread: &ThreadId) -> Result<Artifacts> {
        let scope = self.config.settings.artifacts.scope;
        let scope = artifacts::configured(scope, Scope::thread(thread.as_str())?, &self.project)?;
        Ok(self.artifacts.in_scope(scope))
    }

    /// Opens a thread, with the artifacts that it made before threads had their own.
    pub(super) async fn open(&self, id: ThreadId, waits: impl FnMut(&str)) -> Result<Thread> {
        let thread = self.open_alone(id, waits).await?;
        let artifacts = self.artifacts_of(thread.id())?;
        if artifacts.scope().thread_id().is_some() {
            apart::adopt(&thread, &artifacts).await?;
        }
        Ok(thread)
    }

    /// Opens a thread; one that another process has is waited for, for as long as it would be if that process died.
    async fn open_alone(&self, id: ThreadId, mut waits: impl FnMut(&str)) -> Result<Thread> {
        let agent = self.agent(&id)?;
        let begun = tokio::time::Instant::now();
        loop {
            match agent.open(id.clone()).await {
                Ok(thread) => return Ok(thread),
                Err(prowess_agent::AgentError::Thread(prowess_agent::thread::ThreadError::Leased {
                    owner,
                    ..
                })) if begun.elapsed() < PATIENCE => {
                    let owner = owner.split(" (").next().unwrap_or_default();
                    waits(&format!(
                        "waiting for {owner}, which has this thread; one that was killed lets go of it in seconds"
                    ));
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(prowess_agent::AgentError::Thread(prowess_agent::thread::ThreadError::Leased {
                    owner,
                    ..
                })) => {
                    let owner = owner.split(" (").next().unwrap_or_default();
                    bail!("{owner} works on {id}: wait until it is done, or end it");
                }
                Err(error) => return Err(anyhow!("{error}")),
            }
        }
    }

    fn skills(&self, runner: &Runner) -> Skills {
        let settings = self.config.settings.skills.clone();
        let (catalog, runner) = (Arc::clone(&self.catalog), runner.clone());
        let hosts = self.config.settings.sandbox.hosts.clone();
        let create_in = self.create_in.clone();
        let permissions = self.skill_permissions();
        let own = self.config.settings.clone();
        let servers = self.servers.clone();
        // A key may be the work of a program.
        let known: Mutex<BTreeMap<String, Option<Arc<dyn Model>>>> = Mutex::default();
        let skills = Skills::new(move |thread| {
            let mut options = session_options(&settings);
            options.create_in.clone_from(&create_in);
            let mut runs = RunSetup::new(runner.clone(), thread.as_str());
            if !hosts.is_empty() {
                runs.network = Network::Hosts(hosts.clone());
            }
            let catalog = catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let session =
                SkillSession::builder(catalog).options(options).runs(runs).permissions(permissions.clone());
            match &servers {
                Some(servers) => session.files(Arc::new(ServerFiles::new(Arc::clone(servers)))),
                None => session,
            }
        });
        skills.models(move |name| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(name.to_owned()).or_insert_with(|| model::named(&own, name)).clone()
        })
    }

    /// The rules for skills: what comes into a run from this machine is asked about, unless it lies in the directory that
    /// the person works in.
    fn skill_permissions(&self) -> Permissions {
        let here = Pattern::literal(&self.directory.to_string_lossy());
        let below = format!("{}/*", here.as_str().trim_end_matches('/'));
        let rules = [
            Rule::new("run", "*", Decision::Ask),
            Rule::new("read", "*", Decision::Ask),
            Rule::new("read", here.as_str(), Decision::Allow),
            Rule::new("read", &below, Decision::Allow),
        ];
        let policy = self.config.policy(NAME, &self.kept_at);
        // The directory may be the home, or hold secrets of its own.
        let rules = rules.into_iter().chain(guards(&self.kept_at));
        Permissions::new(
            Arc::clone(self.permissions.broker()),
            NAME,
            policy.with(RuleSource::BuiltInAgent, rules),
        )
    }

    /// The rules for the agent's own tools. What was taken out of its sight is in a directory of ours, and its own.
    fn file_permissions(&self, thread: &ThreadId) -> Permissions {
        let kept = KEPT.map(|name| {
            let place = Pattern::literal(&real_path(&self.kept(thread).join(name)).to_string_lossy());
            Rule::new("read", &format!("{place}*"), Decision::Allow)
        });
        let policy = policy(&self.config, &self.kept_at).with(RuleSource::BuiltInAgent, kept);
        Permissions::new(Arc::clone(self.permissions.broker()), NAME, policy)
    }

    /// The files of the directory that the person works in, and those that are kept beside the thread.
    fn files(&self, thread: &ThreadId) -> Result<Backends> {
        let own = LocalBackend::open(&self.directory);
        let own = own.with_context(|| format!("{} cannot be read", self.directory.display()))?;
        let mut files = CompositeBackend::new(Arc::new(own));
        for name in KEPT {
            let place = self.kept(thread).join(name);
            make(&place)?;
            let kept = LocalBackend::open(&place);
            let kept = kept.with_context(|| format!("{} cannot be read", place.display()))?;
            let at = VirtualPath::root().join(name).map_err(|error| anyhow!("{error}"))?;
            files = files.mount(at, Arc::new(kept));
        }
        Ok(Backends::from(Arc::new(files)))
    }

    /// The line that goes on with a thread: with the places where its skills were looked for, and its files are.
    pub(super) fn resume_line(&self, thread: &ThreadId) -> String {
        let mut line = "prowess chat".to_owned();
        if self.places.only {
            line.push_str(" --only");
        }
        for root in &self.places.root {
            line.push_str(&artifacts::option("--root", root));
        }
        if let Some(directory) = self.kept_at.given() {
            line.push_str(&artifacts::option("--workspace", directory));
        }
        format!("{line} --resume {thread}")
    }

    /// Where files beside a thread are kept.
    pub(super) fn kept(&self, thread: &ThreadId) -> PathBuf {
        crate::threads::files(&self.state, thread)
    }
}

/// Threads hold questions and their answers: a file of theirs is the user's alone, or not there yet.
fn check_own(path: &Path) -> Result<()> {
    let name = shown(&path.display().to_string());
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => bail!("{name} is not a file: remove it"),
        Ok(found) if found.mode() & 0o022 != 0 || found.uid() != rustix::process::geteuid().as_raw() => {
            bail!("{name} can be written by others: `chmod 600` it, if what is in it is yours")
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{name} cannot be read"))
        }
        _ => Ok(()),
    }
}

/// Dollars, as a limit.
fn dollars(amount: f64) -> Result<Price> {
    amount.to_string().parse().map_err(|_| anyhow!("`limits.cost` is no amount of dollars: {amount}"))
}

/// The rules: those of this program, and then the person's.
fn policy(config: &Config, kept: &Kept) -> Policy {
    let rules = RULES.iter().map(|(kind, pattern, decision)| Rule::new(kind, pattern, *decision));
    config.policy(NAME, kept).with(RuleSource::BuiltInAgent, rules)
}

/// Whether two catalogs have the same skills to show: entries that did not change are shared.
fn same(one: &Catalog, other: &Catalog) -> bool {
    let pairs = |one: &[Arc<prowess_catalog::SkillEntry>], other: &[Arc<prowess_catalog::SkillEntry>]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
    };
    pairs(one.entries(), other.entries()) && pairs(one.untrusted(), other.untrusted())
}

/// Makes a directory for this user alone.
pub(super) fn make(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("{} cannot be made", shown(&path.display().to_string())))
}
