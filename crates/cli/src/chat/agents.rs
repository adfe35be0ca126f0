//! The agents of a chat: model, skills, files, rules, sandbox and stored threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_agent::cost::Price;
use prowess_agent::middleware::{
    CostLimit, FollowingFiles, Hooks, SandboxedHooks, SkillModels, Skills, SubAgents,
};
use prowess_agent::tool::ToolSelection;
use prowess_agent::{Agent, AgentOptions, Model, ThreadId, ThreadStore, TurnLimits};
use prowess_backend::{Backend, VirtualPath};
use prowess_catalog::Catalog;
use prowess_mcp::client::{Patience, ServerFiles, ServerTools, Servers};
use prowess_permission::real_path::real_path;
use prowess_permission::{ApprovalStore, Broker, FileApprovals, Permissions};
use prowess_serve::view::Places;
use prowess_skills::embeddings::Embeddings;
use prowess_skills::options::{SkillPaths, UnloadedText};
use prowess_skills::uses::{SkillUses, UsedSkill};
use prowess_skills::{Capabilities, Dialect, Lifetime, RunSetup, SessionOptions, SkillSession};
use prowess_store::{Database, SqliteStore};
use prowess_workspace::tree::{self, WORK};
use prowess_workspace::writable::WritablePath;
use prowess_workspace::{Artifacts, Network, Runner, Scope};

use super::changes::{Changes, are_same};
use super::following::Following;
use super::kept_trust::KeptTrust;
use super::memory::ChatMemory;
use super::model::{self, ModelDefaults};
use super::old_approvals;
use super::open_thread::check_own;
use super::permissions::BaseRules;
use super::prompt::prompt;
use super::questions::UnseenChanges;
use super::run_files::RunFiles;
use super::skill_model;
use super::sub_agents::SubAgentBase;
use super::thread_artifacts::OwnArtifacts;
use super::thread_directory::ThreadDirectory;
use super::tree::{ChatTree, Opened, PathNames, THREAD_FILES};
use super::turn::Approver;
use crate::agent_files::FoundAgents;
use crate::artifacts;
use crate::config::{Amount, Config, Flag, Inherited, NO_KIT, OfProject, SkillSettings};
use crate::database::DatabaseArgs;
use crate::embeddings::{self, Wait};
use crate::options::{KITS, RootArgs, kit_flag};
use crate::recent_skills::RecentSkills;
use crate::servers;
use crate::terminal::{count, printable};
use crate::visibility::{self, ChatSkills};
use crate::workspace_dir::WorkspaceDir;

/// The name of the agent in rules and in telemetry.
pub(super) const NAME: &str = crate::visibility::CHAT_AGENT;
/// The directory of history files among the files stored with a thread.
const HISTORY: &str = THREAD_FILES[0];
/// Where a model may make new skills, in the project.
const NEW_SKILLS: &str = ".prowess/skills";

/// The session options of a chat: how skills are shown to the model and loaded.
pub(crate) fn session_options(settings: &SkillSettings) -> SessionOptions {
    let mut options = SessionOptions::new(settings.dialect.unwrap_or(Dialect::Trpc));
    options.capabilities = Capabilities::all();
    options.skill_paths = SkillPaths::Below(tree::SKILLS.to_owned());
    options.create_in = vec![format!("{}/{NEW_SKILLS}", tree::PROJECT)];
    options.lifetime = settings.lifetime.unwrap_or(Lifetime::Session);
    (options.placement, options.prompt) = (settings.placement, settings.prompt);
    options.suggestions = settings.suggestions.size();
    // An unload must free the tokens of the text.
    options.unloaded_text = UnloadedText::Stub;
    settings.put_into(&mut options);
    options
}

/// Where the agents work for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    /// In a terminal, in the directory of the person.
    Terminal,
    /// Behind a server. Each thread has a directory of its own, and reaches no other file of the server.
    Server,
}

/// What the agents of a terminal and of a server get from different places.
struct Home {
    surface: Surface,
    directory: PathBuf,
    store: Arc<dyn ThreadStore>,
    broker: Arc<Broker>,
}

/// Everything that the agents of a chat are built from.
pub(crate) struct ChatAgents {
    surface: Surface,
    lease: Duration,
    pub(super) config: Config,
    /// The options of the command line, which override the configuration.
    flags: Vec<Flag>,
    /// The skills that were used recently.
    recent: Arc<RecentSkills>,
    pub(super) model: Arc<dyn Model>,
    /// The models that skills and sub-agents can choose. A key may come from a program, so each model is made once.
    pub(super) skill_models: SkillModels,
    pub(super) store: Arc<dyn ThreadStore>,
    /// The working directory of the person.
    pub(super) directory: PathBuf,
    /// The state directory.
    pub(super) state: PathBuf,
    pub(super) root_args: RootArgs,
    pub(super) catalog: Arc<Mutex<Catalog>>,
    /// The sub-agents that files and the configuration define.
    pub(super) sub_agents: FoundAgents,
    /// The part of the project's configuration that is used.
    configuration: OfProject,
    pub(super) memory: ChatMemory,
    approver: Approver,
    /// Changes that the person approved without seeing all of them.
    pub(super) unseen: UnseenChanges,
    /// The last notice about untrusted items.
    notice: Option<String>,
    pub(super) permissions: Permissions,
    pub(super) base_rules: BaseRules,
    /// Runs commands. Each thread gets its own artifacts.
    pub(super) runner: Runner,
    artifacts: Artifacts,
    pub(super) workspace_dir: WorkspaceDir,
    /// How the files of a server's thread follow it, if they do.
    following: Option<Following>,
    /// The top of the project, or the working directory.
    project: PathBuf,
    /// Other MCP servers, if there are any.
    servers: Option<Arc<Servers>>,
    /// How the model knows the places that it sees.
    names: PathNames,
    /// Searches skills by meaning, if a model for that is configured.
    embeddings: Option<Arc<Embeddings>>,
    /// Why searches do not use it, for the person.
    search_notes: Arc<Mutex<Vec<String>>>,
}

/// What [`ChatAgents`] is made from.
pub(crate) struct AgentSetup {
    pub(crate) config: Config,
    /// The options of the command line, which override the configuration.
    pub(crate) flags: Vec<Flag>,
    /// The skills that were used recently.
    pub(crate) recent: Arc<RecentSkills>,
    pub(crate) root_args: RootArgs,
    pub(crate) skills: crate::skills::Skills,
    pub(crate) runner: Runner,
    /// All artifacts; each thread gets its own.
    pub(crate) artifacts: Artifacts,
    /// The option `--workspace`.
    pub(crate) workspace_dir: WorkspaceDir,
    /// The state directory.
    pub(crate) state: PathBuf,
    pub(crate) approver: Approver,
    /// The option `--database`.
    pub(crate) database: DatabaseArgs,
    /// How long a thread stays leased to a process that died.
    pub(crate) lease: Duration,
}

impl ChatAgents {
    /// Makes the agents. Also returns notices about old approvals and about servers that cannot be used.
    pub(super) async fn new(found: AgentSetup) -> Result<(Self, Vec<String>)> {
        let directory = std::env::current_dir().context("the working directory cannot be read")?;
        if directory.to_str().is_none() {
            bail!("the path of the working directory is not valid UTF-8; rename the directory");
        }
        let database = found.database.open().await?;
        let (store, approvals): (Arc<dyn ThreadStore>, Arc<dyn ApprovalStore>) = match &database {
            Some(database) => (database.threads(), database.approvals()),
            None => {
                let path = found.state.join(crate::threads::FILE);
                check_own(&path)?;
                let store = SqliteStore::open(path).await.map_err(|error| anyhow!("{error}"))?;
                (Arc::new(store), Arc::new(FileApprovals::at(found.state.join("approvals.json"))))
            }
        };
        let broker = Broker::open(approvals, directory.to_string_lossy()).await?;
        let renewed = old_approvals::renew(&broker, &directory).await;
        let home = Home { surface: Surface::Terminal, directory, store, broker };
        let (agents, notices) = Self::at_home(found, home).await?;
        Ok((agents, renewed.into_iter().chain(notices).collect()))
    }

    /// Makes the agents of a server, which keeps its files in the directory of the setup. Each thread needs
    /// [`ChatAgents::for_thread`].
    pub(crate) async fn of_server(found: AgentSetup, database: &Database) -> Result<(Self, Vec<String>)> {
        let broker = Broker::open(database.approvals(), "no user").await?;
        let (directory, store) = (found.state.clone(), database.threads());
        Self::at_home(found, Home { surface: Surface::Server, directory, store, broker }).await
    }

    /// The same agents for a thread of a server's user, with the user's threads and skills, and a directory of the thread.
    pub(crate) fn for_thread(
        &self,
        store: Arc<dyn ThreadStore>,
        broker: &Arc<Broker>,
        catalog: Arc<Mutex<Catalog>>,
        directory: PathBuf,
        following: Option<Following>,
    ) -> Self {
        Self {
            following,
            surface: self.surface,
            lease: self.lease,
            config: self.config.clone(),
            flags: self.flags.clone(),
            recent: Arc::clone(&self.recent),
            model: Arc::clone(&self.model),
            skill_models: self.skill_models.clone(),
            store,
            project: directory.clone(),
            directory,
            state: self.state.clone(),
            root_args: self.root_args.clone(),
            catalog,
            sub_agents: self.sub_agents.clone(),
            configuration: self.configuration.clone(),
            memory: ChatMemory::default(),
            approver: self.approver,
            unseen: UnseenChanges::default(),
            notice: None,
            permissions: Permissions::new(Arc::clone(broker), NAME, self.base_rules.policy()),
            base_rules: self.base_rules.clone(),
            runner: self.runner.clone(),
            artifacts: self.artifacts.clone(),
            workspace_dir: self.workspace_dir.clone(),
            servers: self.servers.clone(),
            names: self.names,
            embeddings: self.embeddings.clone(),
            search_notes: Arc::clone(&self.search_notes),
        }
    }

    async fn at_home(found: AgentSetup, home: Home) -> Result<(Self, Vec<String>)> {
        let AgentSetup {
            config,
            flags,
            recent,
            root_args,
            mut skills,
            runner,
            artifacts,
            workspace_dir,
            state,
            approver,
            database: _,
            lease,
        } = found;
        let Home { surface, directory, store, broker } = home;
        let model = model::configured(&config.settings)?;
        let base_rules = BaseRules::new(&config, &workspace_dir);
        let permissions = Permissions::new(broker, NAME, base_rules.policy());
        let mut notices = Vec::new();
        let mut servers = None;
        if let Some(connected) = servers::connect(&config.settings, None, &skills.roots).await? {
            let (catalog, more) = servers::add_skills_at_start(&connected.servers, &skills.catalog).await;
            skills.catalog = catalog;
            notices.extend(connected.notices.into_iter().chain(more));
            servers = Some(connected.servers);
        }
        let sub_agents = skills.sub_agents(&config.settings);
        notices.extend(sub_agents.problems.iter().cloned());
        let search_notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = Arc::clone(&search_notes);
        let tell =
            move |text: &str| notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
        let embeddings = embeddings::configured(&config.settings, Wait::AtMost, tell);
        let agents = Self {
            following: None,
            embeddings,
            search_notes,
            unseen: UnseenChanges::default(),
            names: PathNames::of(runner.executor.as_deref()).await,
            memory: match surface {
                Surface::Terminal => {
                    ChatMemory::read(&config.settings.memory, &skills, &directory, &permissions.policy())?
                }
                Surface::Server => ChatMemory::default(),
            },
            sub_agents,
            model,
            skill_models: skill_model::models(&config.settings),
            store,
            state,
            root_args,
            configuration: skills.configuration()?,
            approver,
            notice: skills.notice(),
            project: match surface {
                Surface::Terminal => artifacts::project(&skills)?,
                Surface::Server => directory.clone(),
            },
            surface,
            lease,
            catalog: Arc::new(Mutex::new(skills.catalog)),
            permissions,
            base_rules,
            runner,
            artifacts,
            workspace_dir,
            servers,
            flags,
            recent,
            config,
            directory,
        };
        notices.extend(agents.skill_notices());
        Ok((agents, notices))
    }

    /// The current skills.
    pub(super) fn catalog(&self) -> Catalog {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The skills that were used recently, the last one first.
    pub(super) fn recent_skills(&self) -> Vec<UsedSkill> {
        self.recent.recent()
    }

    /// Why searches used words alone, since this was last called.
    pub(super) fn take_search_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.search_notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The skills that the model sees.
    pub(crate) fn visible_skills(&self) -> ChatSkills {
        self.visible_in(&self.catalog())
    }

    /// The skills of a catalog that the model would see.
    pub(crate) fn visible_in(&self, catalog: &Catalog) -> ChatSkills {
        ChatSkills::new(catalog, &self.config)
    }

    /// The workspace of a thread, whether it exists or not.
    pub(super) fn workspace_of(&self, thread: &ThreadId) -> PathBuf {
        self.runner.workspaces.path_of(thread.as_str())
    }

    /// Knows the files that runs of a thread write.
    pub(super) fn run_files(&self, thread: &ThreadId) -> Result<RunFiles> {
        let (scope, place) = (self.artifacts_of(thread)?.scope().clone(), self.thread_files(thread));
        Ok(RunFiles::new(self.workspace_of(thread), &place, scope, self.workspace_dir.clone()))
    }

    /// Looks for skills again. Returns notices if something changed. There may be none: a change of a skill that is not
    /// trusted concerns the agent, which must not read its files, but no model sees it.
    pub(super) async fn refresh(&mut self) -> Result<Option<Vec<String>>> {
        let known = self.catalog();
        let mut skills = self.root_args.discover_again(&known)?;
        if let Some(servers) = self.servers.as_ref().filter(|servers| servers.has_changed()) {
            // `prowess servers` shows what cannot be used.
            skills.catalog = servers::add_skills(servers, &skills.catalog, Patience::endless()).await.0;
        }
        let rules = self.permissions.policy();
        let memory = ChatMemory::read(&self.config.settings.memory, &skills, &self.directory, &rules)?;
        let configuration = skills.configuration()?;
        let mut changes = Changes {
            skills: !are_same(known.entries(), skills.catalog.entries()),
            untrusted: !are_same(known.untrusted(), skills.catalog.untrusted()),
            memory: !self.memory.is_same(&memory),
            configuration: self.configuration != configuration,
            sub_agents: false,
        };
        if changes.configuration {
            // The project's settings are used only while they are trusted; its restrictions stay.
            let mut config = Config::load_silently(&configuration, &self.flags)?;
            config.settings.model.name = self.config.settings.model.name.clone();
            self.base_rules = BaseRules::new(&config, &self.workspace_dir);
            let broker = Arc::clone(self.permissions.broker());
            self.permissions = Permissions::new(broker, NAME, self.base_rules.policy());
            (self.config, self.configuration) = (config, configuration);
            self.forget_skill_models();
        }
        self.memory = memory;
        let sub_agents = skills.sub_agents(&self.config.settings);
        changes.sub_agents = self.sub_agents != sub_agents;
        self.sub_agents = sub_agents;
        let notice = skills.notice();
        // A notice is shown once.
        let news = notice.clone().filter(|_| notice != self.notice);
        self.notice = notice;
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = skills.catalog;
        let has_changed = changes != Changes::default() || news.is_some();
        Ok(has_changed.then(|| changes.notices().into_iter().chain(news).collect()))
    }

    /// What the person should know about modes, kits and pinned skills.
    fn skill_notices(&self) -> Vec<String> {
        let (catalog, settings) = (self.catalog(), &self.config.settings.skills);
        let mut notices = visibility::notices(&catalog, settings);
        let mut options = session_options(settings);
        options.overview_tokens = settings.overview_tokens(self.model.limits().context);
        notices.extend(visibility::pinned_notice(&catalog, options, self.permissions.clone()));
        notices
    }

    /// Puts other kits into use; all skills if there are none. If one does not exist, the kits stay as they are.
    pub(super) fn use_kits(&mut self, kits: &[String]) -> Result<()> {
        self.config.settings.skills.choose_kits(kits).map_err(anyhow::Error::msg)?;
        // The configuration may be read again.
        self.flags.retain(|flag| flag.key != KITS);
        self.flags.push(kit_flag("/kit", kits));
        Ok(())
    }

    /// A line that lists the MCP servers.
    pub(super) fn servers_line(&self) -> Option<String> {
        let visible_skills = self.visible_skills();
        let of = |label: &str| {
            let published = visible_skills.view().entries().iter().filter_map(|entry| entry.published());
            count(published.filter(|published| published.server == label).count(), "skill")
        };
        let servers = self.servers.iter().flat_map(|servers| servers.all());
        let told: Vec<String> =
            servers.map(|server| format!("{} ({})", server.label(), of(server.label().as_str()))).collect();
        (!told.is_empty()).then(|| format!("MCP servers: {}", told.join(", ")))
    }

    /// The agent for a thread.
    pub(crate) fn agent(&self, thread: &ThreadId) -> Result<Agent> {
        let settings = &self.config.settings;
        let mut limits = TurnLimits::default();
        limits.model_calls = u32::try_from(settings.limits.model_calls.0).unwrap_or(u32::MAX);
        limits.tokens = settings.limits.tokens.map(|most| most.0);
        let mut runner = self.runner.clone();
        // Sub-agents have other threads, and share these artifacts.
        runner.artifacts = Some(Arc::new(self.artifacts_of(thread)?));
        let tree = self.chat_tree(thread, runner.clone());
        let mut summarisation = settings.compaction.options();
        let history = tree.tree().shown_place(&format!("{WORK}/{HISTORY}"));
        let history = history.context("the path of the state directory is not valid UTF-8")?;
        summarisation.history_path_prefix =
            VirtualPath::parse(&history).map_err(|error| anyhow!("{error}"))?;
        let mut options = AgentOptions::default();
        (options.limits, options.lease) = (limits, self.lease);
        let manner = ModelDefaults {
            effort: settings.model.effort,
            max_output: settings.model.max_output_tokens.map(|most| most.0),
        };
        let mut agent = Agent::deep_builder(Arc::clone(&self.model)).name(NAME).prompt(prompt(
            self.surface,
            &tree.tree(),
            &ToolSelection::default(),
        ));
        let mut files = tree.clone().files(Arc::clone(&self.catalog))?;
        if let Some(following) = &self.following {
            // Files are restored before other middleware look at them.
            agent = agent.middleware(following.middleware(&tree));
            let history = summarisation.history_path_prefix.clone();
            files = FollowingFiles::backends(tree.tree_files(Arc::clone(&self.catalog))?, history);
        }
        let mut agent = agent
            .middleware(ThreadDirectory(self.directory.clone()))
            .middleware(OwnArtifacts)
            .middleware(manner)
            .skills(self.skills(&tree, self.skill_permissions(&tree.thread_files)))
            .files(files)
            .summarisation(summarisation)
            .permissions(self.file_permissions(thread))
            .store(Arc::clone(&self.store))
            .options(options);
        if settings.skills.inherited == Inherited::Loaded {
            agent = agent.sub_agents(SubAgents::inherit_skills);
        }
        let hooks = Hooks::new(self.config.hooks()?).commands(SandboxedHooks::new(runner));
        agent = agent.hooks(hooks);
        // Nothing in a thread of a server is trusted, so no trust follows a change there.
        if self.surface == Surface::Terminal {
            agent = agent.watch_changes(Arc::new(KeptTrust::new(self.approver, self.unseen.clone())));
        }
        let tools = |servers| ServerTools::new(Arc::clone(servers), self.permissions.clone());
        let base = SubAgentBase { agent, server_tools: self.servers.as_ref().map(tools) };
        agent = self.with_sub_agents(&base, &tree, thread)?;
        let own = tree.tree();
        let shown = |path: &Path| VirtualPath::parse(&own.shown(path)?).ok();
        agent = agent.given_memory(self.memory.middleware(&shown));
        if let Some(Amount(most)) = settings.limits.cost {
            agent = agent.middleware(CostLimit::new(self.config.settings.prices()?, dollars(most)?));
        }
        agent.build().map_err(|error| anyhow!("{error}"))
    }

    /// The artifacts of a thread: its own, unless `artifacts.scope` is wider.
    pub(crate) fn artifacts_of(&self, thread: &ThreadId) -> Result<Artifacts> {
        let own = Scope::thread(thread.as_str())?;
        // A wider scope would be that of the person who started the server.
        let scope = match self.surface {
            Surface::Server => own,
            Surface::Terminal => {
                artifacts::configured(self.config.settings.artifacts.scope, own, &self.project)?
            }
        };
        Ok(self.artifacts.in_scope(scope))
    }

    /// The directories of the project that commands may write.
    pub(super) fn writable_paths(&self) -> Vec<WritablePath> {
        match self.surface {
            Surface::Terminal => self.config.settings.run.writable_paths(),
            // The paths are those of the person who started the server.
            Surface::Server => Vec::new(),
        }
    }

    pub(super) fn skills(&self, tree: &ChatTree, permissions: Permissions) -> Skills {
        let settings = self.config.settings.skills.clone();
        let (catalog, tree) = (Arc::clone(&self.catalog), tree.clone());
        let hosts: Vec<_> = self.config.settings.sandbox.host_rules().collect();
        let writable = self.writable_paths();
        let (servers, embeddings) = (self.servers.clone(), self.embeddings.clone());
        let overview_tokens = settings.overview_tokens(self.model.limits().context);
        let recent = Arc::clone(&self.recent);
        let names_skills = self.config.settings.telemetry.names_skills();
        let mut skills = Skills::new(move |_| {
            let mut options = session_options(&settings);
            options.overview_tokens = overview_tokens;
            options.uses = Some(Arc::clone(&recent) as Arc<dyn SkillUses>);
            let own = tree.tree();
            options.skill_paths = SkillPaths::Below(own.skills());
            options.project_paths = own.project_paths();
            options.create_in = own.shown(&tree.project.join(NEW_SKILLS)).into_iter().collect();
            let mut runs = RunSetup::new(tree.runner.clone(), tree.thread.as_str());
            runs.tree = own;
            runs.writable.clone_from(&writable);
            if !hosts.is_empty() {
                runs.network = Network::Hosts(hosts.clone());
            }
            let catalog = catalog.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let session =
                SkillSession::builder(catalog).options(options).runs(runs).permissions(permissions.clone());
            let session = session.embeddings(embeddings.clone());
            match &servers {
                Some(servers) => session.files(Arc::new(ServerFiles::new(Arc::clone(servers)))),
                None => session,
            }
        });
        if names_skills {
            skills = skills.in_spans();
        }
        skills.models(self.skill_models.clone())
    }

    /// Finds the models of skills again, because the settings changed.
    pub(super) fn forget_skill_models(&mut self) {
        self.skill_models = skill_model::models(&self.config.settings);
    }

    /// Where agents work.
    pub(super) fn surface(&self) -> Surface {
        self.surface
    }

    /// The configuration.
    pub(crate) fn settings(&self) -> &crate::config::Settings {
        &self.config.settings
    }

    /// The model.
    pub(crate) fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The rules.
    pub(crate) fn rules(&self) -> prowess_permission::Policy {
        self.base_rules.policy()
    }

    /// All artifacts. Each thread has its own.
    pub(crate) fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// The current catalog of the server, which has no skill of a user.
    pub(crate) fn shared_catalog(&self) -> &Arc<Mutex<Catalog>> {
        &self.catalog
    }

    /// The directories of the workspaces.
    pub(crate) fn workspaces(&self) -> &prowess_workspace::Workspaces {
        &self.runner.workspaces
    }

    /// The files that the model of a thread sees.
    pub(crate) fn files_of(&self, thread: &ThreadId) -> Result<Arc<dyn Backend>> {
        self.chat_tree(thread, self.runner.clone()).tree_files(Arc::clone(&self.catalog))
    }

    /// The files that the model of a thread sees, with files from elsewhere.
    pub(crate) fn files_from(
        &self,
        thread: &ThreadId,
        at: impl Fn(&str) -> Arc<dyn Backend>,
    ) -> Result<Arc<dyn Backend>> {
        self.chat_tree(thread, self.runner.clone()).files_from(Arc::clone(&self.catalog), at)
    }

    /// The real paths of a thread's places, with their names in the tree.
    pub(crate) fn places_of(&self, thread: &ThreadId) -> Vec<(PathBuf, String)> {
        let own_workspace = self.workspace_of(thread);
        let tree = self.chat_tree(thread, self.runner.clone());
        let mut places = vec![
            (tree.project.clone(), tree::PROJECT.to_owned()),
            (self.workspace_of(thread), WORK.to_owned()),
            (real_path(&self.workspace_of(thread)), WORK.to_owned()),
        ];
        let thread_files = THREAD_FILES.map(|name| (tree.thread_files.join(name), format!("{WORK}/{name}")));
        places.extend(thread_files);
        // Commands can see where things of theirs are mounted from.
        places
            .extend(own_workspace.ancestors().nth(1).map(|all| (all.to_owned(), Places::HIDDEN.to_owned())));
        let skills = self.skills_of_user();
        places.extend(skills.map(|(path, name)| (path, format!("{}/{name}", tree::SKILLS))));
        places.push((self.state.clone(), Places::HIDDEN.to_owned()));
        places
    }

    /// The directories and names of the skills of a server's user. They are in the server's directory.
    pub(super) fn skills_of_user(&self) -> impl Iterator<Item = (PathBuf, String)> + use<> {
        let is_served = self.surface == Surface::Server;
        let entries = self.catalog().entries().to_vec();
        let state = self.state.clone();
        let own = entries.into_iter().filter(move |entry| is_served && entry.root.path.starts_with(&state));
        own.map(|entry| (entry.root.path.clone(), entry.skill.name.as_str().to_owned()))
    }

    /// Where the paths that the model of a thread sees really are.
    fn chat_tree(&self, thread: &ThreadId, runner: Runner) -> ChatTree {
        let (project, thread_files) = (real_path(&self.directory), self.thread_files(thread));
        let memory = self.memory.outside().map(PathBuf::from).collect();
        let opened = if self.following.is_some() { Opened::WhenUsed } else { Opened::AtOnce };
        ChatTree { thread: thread.clone(), project, thread_files, memory, runner, names: self.names, opened }
    }

    /// The command line that continues a thread, with its roots and its workspace directory.
    pub(super) fn resume_line(&self, thread: &ThreadId) -> String {
        let mut line = "prowess chat".to_owned();
        if self.root_args.only {
            line.push_str(" --only");
        }
        if let Some(kits) = self.flags.iter().find(|flag| flag.key == KITS) {
            let kits = if kits.text.is_empty() { NO_KIT } else { &kits.text };
            kits.split(',').for_each(|kit| line.push_str(&format!(" --kit {kit}")));
        }
        for root in &self.root_args.root {
            line.push_str(&artifacts::directory_option("--root", root));
        }
        if let Some(directory) = self.workspace_dir.given() {
            line.push_str(&artifacts::directory_option("--workspace", directory));
        }
        format!("{line} --resume {thread}")
    }

    /// The directory of files stored with a thread.
    pub(crate) fn thread_files(&self, thread: &ThreadId) -> PathBuf {
        crate::threads::files(&self.state, thread)
    }
}

/// A limit in dollars.
fn dollars(amount: f64) -> Result<Price> {
    amount.to_string().parse().map_err(|_| anyhow!("`limits.cost` is not an amount in dollars: {amount}"))
}

/// Creates a directory that only this user can read.
pub(super) fn make(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create {}", printable(&path.display().to_string())))
}
