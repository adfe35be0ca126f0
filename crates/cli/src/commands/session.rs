//! `prowess session`

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use prowess_catalog::Digest;
use prowess_catalog::overview::ManualSkills;
use prowess_permission::config::MAX_CONFIG_BYTES;
use prowess_permission::{Broker, FileApprovals, PermissionConfig, Permissions, Policy, RuleSource};
use prowess_skills::options::{Placement, UnloadedText};
use prowess_skills::{AllowedTools, Dialect, Discovery, Lifetime, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{Artifacts, HostRule, Network, Runner, Scope};

use crate::artifacts;
use crate::commands::Outcome;
use crate::commands::run::unnamed;
use crate::config::{Config, SkillSettings, guards, path_base};
use crate::executor::Choice;
use crate::options::Places;
use crate::session::{Front, Input, Show, StateFile, drive};
use crate::state::Kept;
use crate::terminal::{Terminal, shown};

const AFTER_HELP: &str = "\
Reads one command a line from standard input, or from -c; `help` lists them. In a script, `#` begins a \
comment, and the line after a command that asks for permission is the answer: yes, always, or no [REASON]. \
With -c there is nobody to ask.

Exit codes: 0 all is well, 1 the last answer of a script or of -c was an error, 2 misuse";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Run this command, and read none from standard input; can be repeated
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// What to show after every change, beside the answer
    #[arg(long, default_value = "prompt", value_parser = one_of(&[("prompt", Show::Prompt), ("list", Show::List), ("answer", Show::Answer)]))]
    show: Show,
    /// Print one JSON object a command
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    behaviour: Behaviour,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    places: Places,
}

/// Whether and where the model's commands run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Running commands")]
pub(crate) struct Running {
    /// Give the model the tools that run commands of skills; they are asked about unless a rule allows them
    #[arg(long)]
    run: bool,
    /// A host that commands may ask to reach; can be repeated
    #[arg(long, value_name = "HOST", requires = "run")]
    allow_host: Vec<HostRule>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    kept: Kept,
}

/// How the session behaves.
#[derive(Args, Debug)]
#[command(next_help_heading = "How the session behaves")]
struct Behaviour {
    /// Whose tools and words the model has [default: skills.dialect, else deepagents]
    #[arg(long, value_parser = one_of(&[("deepagents", Dialect::DeepAgents), ("trpc", Dialect::Trpc), ("opencode", Dialect::OpenCode)]))]
    dialect: Option<Dialect>,
    /// How many skills may be loaded at once [default: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max_skills: Option<usize>,
    /// How many tokens loaded skills may take together
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Look for the files of all skills at once, and not when one is loaded
    #[arg(long)]
    eager: bool,
    /// Where the text of loaded skills goes; the dialect says it otherwise
    #[arg(long, value_parser = one_of(&[("answer", Placement::ToolAnswer), ("system", Placement::SystemMessage)]))]
    placement: Option<Placement>,
    /// How long a skill stays loaded; skills.lifetime or the dialect says it otherwise
    #[arg(long, value_parser = one_of(&[("once", Lifetime::Once), ("turn", Lifetime::Turn), ("session", Lifetime::Session)]))]
    lifetime: Option<Lifetime>,
    /// Take the text of unloaded skills out of the messages
    #[arg(long)]
    stub: bool,
    /// List skills that only people may start, marked as such
    #[arg(long)]
    manual: bool,
    /// What a skill's allowed-tools mean [default: recommend]
    #[arg(long, value_parser = one_of(&[("recommend", AllowedTools::Recommend), ("restrict", AllowedTools::Restrict), ("preapprove", AllowedTools::Preapprove)]))]
    allowed_tools: Option<AllowedTools>,
}

/// What it reads and writes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct Files {
    /// Rules about what may be loaded, as TOML
    #[arg(long, value_name = "FILE")]
    permissions: Option<PathBuf>,
    /// Also the rules for this agent, [agent.NAME.permission]
    #[arg(long, value_name = "NAME", requires = "permissions")]
    agent: Option<String>,
    /// Where to remember what was answered with "always"; else it is forgotten at the end
    #[arg(long, value_name = "FILE")]
    approvals: Option<PathBuf>,
    /// Go on from this state if it is there, and save it after every change
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    let state = options.files.state.as_deref().map(StateFile::at);
    let saved = state.as_ref().map(StateFile::restore).transpose()?.flatten();
    let skills = options.places.discover()?;
    let config = Config::load(&skills.configuration()?, &[])?;
    let policy = policy(&options.files, &config, options.running.kept())?;
    let input = Input::new(&options.command);
    let is_script = !input.is_keyboard();
    let workspace = options.files.workspace()?;
    let scope = artifacts::configured(
        config.settings.artifacts.scope,
        session_scope(&workspace)?,
        &artifacts::project(&skills)?,
    )?;
    let runs = options.running.runs(workspace, &config, scope)?;
    if let Some(notice) = skills.notice() {
        writeln!(anstream::stderr(), "{notice}")?;
    }
    // Commands go on while a person thinks.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("the session cannot be started")?;
    let failed = runtime.block_on(async {
        let broker = broker(options.files.approvals.as_deref()).await?;
        let permissions = Permissions::new(Arc::clone(&broker), "session", policy);
        let mut behaviour = options.behaviour.session_options(skills.create_in, &config.settings.skills);
        if options.running.is_wanted() {
            behaviour.capabilities.run = true;
            behaviour.capabilities.interactive = true;
        }
        let mut builder = SkillSession::builder(skills.catalog).options(behaviour).permissions(permissions);
        if let Some(saved) = saved {
            builder = builder.restore(saved);
        }
        if let Some(runs) = runs {
            builder = builder.runs(runs);
        }
        let session = builder.start().await;
        let mut front = Front::new(input, &broker, options.json, terminal);
        drive(session, &options.places, options.show, state.as_ref(), &mut front).await
    })?;
    Ok(if failed && is_script { Outcome::Findings } else { Outcome::Done })
}

impl Running {
    /// Whether clients or models get tools that run commands.
    pub(crate) fn is_wanted(&self) -> bool {
        self.run
    }

    /// The artifacts of this scope.
    pub(crate) fn artifacts(&self, scope: Scope) -> Result<Artifacts> {
        Ok(self.kept.artifacts()?.in_scope(scope))
    }

    /// Where workspaces and artifacts are kept.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// What commands run with, if they do, in the workspace of this name and with the artifacts of this scope.
    pub(crate) fn runs(&self, workspace: String, config: &Config, scope: Scope) -> Result<Option<RunSetup>> {
        if !self.run {
            return Ok(None);
        }
        let place = self.kept.workspaces()?;
        if let Some(moved) = &place.moved {
            writeln!(anstream::stderr(), "{}: workspaces are at {}", shown(moved), place.path.display())?;
        }
        let runner = Runner {
            workspaces: place.workspaces,
            artifacts: Some(Arc::new(self.artifacts(scope)?)),
            executor: Some(self.choice.over(&config.settings.sandbox).build(None, Vec::new())?),
        };
        let mut runs = RunSetup::new(runner, workspace);
        let hosts: Vec<HostRule> =
            self.allow_host.iter().chain(&config.settings.sandbox.hosts).cloned().collect();
        if !hosts.is_empty() {
            runs.network = Network::Hosts(hosts);
        }
        Ok(Some(runs))
    }
}

/// The scope of the session with this workspace. Its id is longer than those that nobody guesses: it can be computed.
fn session_scope(workspace: &str) -> Result<Scope> {
    let digest = Digest::of(workspace.as_bytes());
    Ok(Scope::session(&prowess_base::hex::encode(&digest.as_bytes()[..20]))?)
}

impl Files {
    /// The workspace's name. A session that is saved finds its files again.
    fn workspace(&self) -> Result<String> {
        let Some(file) = &self.state else { return Ok(unnamed()) };
        let file = std::path::absolute(file).context("the working directory cannot be read")?;
        Ok(format!("session {}", file.display()))
    }
}

impl Behaviour {
    fn dialect(&self, configured: &SkillSettings) -> Dialect {
        self.dialect.or(configured.dialect).unwrap_or_default()
    }

    fn session_options(&self, create_in: Vec<String>, configured: &SkillSettings) -> SessionOptions {
        let mut options = SessionOptions::new(self.dialect(configured));
        configured.put_into(&mut options);
        let budgets = options.budgets;
        options.budgets.max_loaded_skills = self.max_skills.unwrap_or(budgets.max_loaded_skills);
        options.budgets.max_loaded_tokens = self.max_tokens.or(budgets.max_loaded_tokens);
        options.placement = self.placement.unwrap_or(options.placement);
        options.lifetime = self.lifetime.or(configured.lifetime).unwrap_or(options.lifetime);
        options.allowed_tools = self.allowed_tools.unwrap_or(options.allowed_tools);
        options.create_in = create_in;
        if self.eager {
            options.discovery = Discovery::Eager;
        }
        if self.stub {
            options.unloaded_text = UnloadedText::Stub;
        }
        if self.manual {
            options.manual = ManualSkills::Marked;
        }
        options
    }
}

/// The rules in a file, over the defaults; those of the configuration where no file was named.
fn policy(files: &Files, config: &Config, kept: &Kept) -> Result<Policy> {
    let Some(path) = &files.permissions else {
        for warning in config.warnings() {
            writeln!(anstream::stderr(), "warning: {warning}")?;
        }
        return Ok(config.policy("session", kept));
    };
    let name = path.display().to_string();
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_CONFIG_BYTES as u64 + 1).read_to_string(&mut text))
        .with_context(|| format!("the permissions {name} cannot be read"))?;
    let config = PermissionConfig::located(&text, &name, &[], &path_base());
    let config = config.map_err(|error| anyhow!("{error}"))?;
    for warning in &config.warnings {
        writeln!(anstream::stderr(), "warning: {}", shown(&warning.to_string()))?;
    }
    let policy = Policy::new().with(RuleSource::Defaults, guards(kept)).with(RuleSource::User, config.rules);
    let Some(agent) = &files.agent else { return Ok(policy) };
    let rules = config.agents.get(agent).cloned();
    let rules = rules.ok_or_else(|| anyhow!("{name} has no rules for the agent `{}`", shown(agent)))?;
    Ok(policy.with(RuleSource::Agent, rules))
}

/// A number of skills that lets something be loaded.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("with none, nothing could be loaded: give 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

/// Who asks, and remembers. Approvals in a file are of the working directory.
async fn broker(approvals: Option<&Path>) -> Result<Arc<Broker>> {
    let Some(path) = approvals else { return Ok(Broker::in_memory()) };
    let project = std::env::current_dir().context("the working directory cannot be read")?;
    let store = Arc::new(FileApprovals::at(path));
    Ok(Broker::open(store, project.to_string_lossy()).await?)
}

/// One of the words in `values`, and what it stands for.
pub(crate) fn one_of<T: Clone + Send + Sync>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name)).try_map(move |given| {
        let found = values.iter().find(|(name, _)| *name == given);
        found.map(|(_, value)| value.clone()).ok_or("it is not one of these words")
    })
}
