//! `prowess session`

mod command;
mod console;
mod input;
mod manual_session;
mod output;
mod question;
mod read_loop;
mod state_file;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use prowess_catalog::Digest;
use prowess_catalog::overview::ManualSkills;
use prowess_permission::config::MAX_CONFIG_BYTES;
use prowess_permission::{Broker, FileApprovals, PermissionConfig, Permissions, Policy, RuleSource};
use prowess_skills::options::{Placement, UnloadedText};
use prowess_skills::{AllowedTools, Dialect, Discovery, Lifetime, SessionOptions, SkillSession};
use prowess_workspace::Scope;

use self::console::Console;
use self::input::Input;
use self::output::Show;
use self::state_file::StateFile;
use crate::artifacts;
use crate::commands::CommandOutcome;
use crate::config::{Config, SkillSettings, guards, path_base};
use crate::embeddings::{self, Wait};
use crate::options::{RootArgs, one_of};
use crate::run_tools::RunToolArgs;
use crate::terminal::{Terminal, printable};
use crate::workspace_dir::{WorkspaceDir, new_workspace_id};

const AFTER_HELP: &str = "\
Reads one command per line from standard input, or from -c; `help` lists the commands. In a script, `#` starts a \
comment, and the line after a command that asks for permission is the reply: once, always, or no [REASON]. With -c \
nobody can be asked.

Exit codes: 0 success, 1 the last command of a script or of -c failed, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Run this command instead of reading standard input; can be repeated
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// What to show after every change, besides the answer
    #[arg(long, default_value = "prompt", value_parser = one_of(&[("prompt", Show::Prompt), ("list", Show::List), ("answer", Show::Answer)]))]
    show: Show,
    /// Print one JSON object per command
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    behaviour: Behaviour,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    running: RunToolArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

/// How the session behaves.
#[derive(Args, Debug)]
#[command(next_help_heading = "Session behavior")]
struct Behaviour {
    /// The dialect: the names and texts of the tools that the model sees [default: skills.dialect, else deepagents]
    #[arg(long, value_parser = one_of(&[("deepagents", Dialect::DeepAgents), ("trpc", Dialect::Trpc), ("opencode", Dialect::OpenCode)]))]
    dialect: Option<Dialect>,
    /// The most skills that may be loaded at once [default: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max_skills: Option<usize>,
    /// The most tokens that loaded skills may take together
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// List the files of all skills at the start, not when a skill is loaded
    #[arg(long)]
    eager: bool,
    /// Where the text of loaded skills goes [default: depends on the dialect]
    #[arg(long, value_parser = one_of(&[("answer", Placement::ToolAnswer), ("system", Placement::SystemMessage)]))]
    placement: Option<Placement>,
    /// How long a skill stays loaded [default: skills.lifetime, else it depends on the dialect]
    #[arg(long, value_parser = one_of(&[("once", Lifetime::Once), ("turn", Lifetime::Turn), ("capped", Lifetime::Capped), ("session", Lifetime::Session)]))]
    lifetime: Option<Lifetime>,
    /// Remove the text of unloaded skills from the messages
    #[arg(long)]
    stub: bool,
    /// Also list skills that only people may start, and mark them
    #[arg(long)]
    manual: bool,
    /// What the allowed-tools of a skill do [default: recommend]
    #[arg(long, value_parser = one_of(&[("recommend", AllowedTools::Recommend), ("restrict", AllowedTools::Restrict), ("preapprove", AllowedTools::Preapprove)]))]
    allowed_tools: Option<AllowedTools>,
}

/// Files that the session reads and writes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct Files {
    /// A TOML file with permission rules
    #[arg(long, value_name = "FILE")]
    permissions: Option<PathBuf>,
    /// Also use the rules for this agent, [agent.NAME.permission]
    #[arg(long, value_name = "NAME", requires = "permissions")]
    agent: Option<String>,
    /// Where to save replies of "always" [default: they are forgotten at the end]
    #[arg(long, value_name = "FILE")]
    approvals: Option<PathBuf>,
    /// Continue from this state file if it exists, and save to it after every change
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let state = options.files.state.as_deref().map(StateFile::at);
    let saved = state.as_ref().map(StateFile::restore).transpose()?.flatten();
    let skills = options.root_args.discover()?;
    let config = Config::load(&skills.configuration()?, &[])?;
    let policy = policy(&options.files, &config, options.running.workspace_dir())?;
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
    // Commands continue while the person thinks.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the session")?;
    let failed = runtime.block_on(async {
        let broker = broker(options.files.approvals.as_deref()).await?;
        let permissions = Permissions::new(Arc::clone(&broker), "session", policy);
        let mut behaviour = options.behaviour.session_options(skills.create_in, &config.settings.skills);
        if options.running.is_wanted() {
            behaviour.capabilities.run = true;
            behaviour.capabilities.interactive = true;
        }
        let tell = |message: &str| drop(writeln!(anstream::stderr(), "{message}"));
        let embeddings = embeddings::configured(&config.settings, Wait::AtMost, tell);
        let mut builder = SkillSession::builder(skills.catalog)
            .options(behaviour)
            .permissions(permissions)
            .embeddings(embeddings);
        if let Some(saved) = saved {
            builder = builder.saved_state(saved);
        }
        if let Some(runs) = runs {
            builder = builder.runs(runs);
        }
        let session = builder.build().await;
        let mut console = Console::new(input, &broker, options.json, terminal);
        read_loop::run_lines(session, &options.root_args, options.show, state.as_ref(), &mut console).await
    })?;
    Ok(if failed && is_script { CommandOutcome::Findings } else { CommandOutcome::Done })
}

/// The scope of a session. Its id is computed from the workspace, and longer than random ids.
fn session_scope(workspace: &str) -> Result<Scope> {
    let digest = Digest::of(workspace.as_bytes());
    Ok(Scope::session(&prowess_base::hex::encode(&digest.as_bytes()[..20]))?)
}

impl Files {
    /// The workspace id. A saved session finds its files again.
    fn workspace(&self) -> Result<String> {
        let Some(file) = &self.state else { return Ok(new_workspace_id()) };
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

/// The rules of a file over the defaults, or those of the configuration if no file was given.
fn policy(files: &Files, config: &Config, workspace_dir: &WorkspaceDir) -> Result<Policy> {
    let Some(path) = &files.permissions else {
        for warning in config.warnings() {
            writeln!(anstream::stderr(), "warning: {warning}")?;
        }
        return Ok(config.policy("session", workspace_dir));
    };
    let name = path.display().to_string();
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_CONFIG_BYTES as u64 + 1).read_to_string(&mut text))
        .with_context(|| format!("the permissions {name} cannot be read"))?;
    let config = PermissionConfig::located(&text, &name, &[], &path_base());
    let config = config.map_err(|error| anyhow!("{error}"))?;
    for warning in &config.warnings {
        writeln!(anstream::stderr(), "warning: {}", printable(&warning.to_string()))?;
    }
    let policy = Policy::new()
        .rules(RuleSource::Defaults, guards(workspace_dir))
        .rules(RuleSource::User, config.rules);
    let Some(agent) = &files.agent else { return Ok(policy) };
    let rules = config.agents.get(agent).cloned();
    let rules = rules.ok_or_else(|| anyhow!("{name} has no rules for the agent `{}`", printable(agent)))?;
    Ok(policy.rules(RuleSource::Agent, rules))
}

/// Parses a number of skills, at least 1.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("nothing could be loaded: give 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

/// The broker of the session. Approvals in a file belong to the working directory.
async fn broker(approvals: Option<&Path>) -> Result<Arc<Broker>> {
    let Some(path) = approvals else { return Ok(Broker::in_memory()) };
    let project = std::env::current_dir().context("the working directory cannot be read")?;
    let store = Arc::new(FileApprovals::at(path));
    Ok(Broker::open(store, project.to_string_lossy()).await?)
}
