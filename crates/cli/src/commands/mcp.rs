//! `prowess mcp`

mod clients;
mod http;
mod print_config;
mod reload;
mod server_factory;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_mcp::{LiveSkills, SkillServer, Watching, serve_http, serve_stdio, session_options};
use prowess_permission::{ApprovalStore, Broker, FileApprovals, Permissions};
use prowess_skills::uses::SkillUses;
use prowess_skills::{Capabilities, Dialect, Lifetime, SessionOptions};
use prowess_workspace::{Scope, Workspaces};

use self::clients::McpClient;
use self::http::Http;
pub(crate) use self::http::{address, raise_open_files};
use self::print_config::print_config;
use self::reload::SkillReloader;
use self::server_factory::ServerFactory;
use crate::artifacts;
use crate::commands::CommandOutcome;
use crate::config::{Config, Flag};
use crate::database::DatabaseArgs;
use crate::directories;
use crate::embeddings::{self, Wait};
use crate::options::{KitArgs, RootArgs, one_of};
use crate::recent_skills::{Order, RecentSkills};
use crate::run_tools::RunToolArgs;
use crate::signals::Signals;
use crate::skills::Skills;
use crate::terminal::{Terminal, printable};
use crate::visibility;
use crate::workspace_dir::{WORKSPACE_LIFETIME, new_workspace_id};

/// The agent name of this command in permission rules: `[agent.mcp.permission]`.
const NAME: &str = "mcp";
/// How long running work may take to end.
const LAST: Duration = Duration::from_secs(2);
const AFTER_HELP: &str = "\
An MCP client starts this program and talks to it, or connects to one that runs with --http. --print-config prints \
the configuration for your client. If an action needs permission, the client asks its user. A reply of \"always\" is \
remembered, as in `prowess chat`. The rules come from prowess.toml, including [agent.mcp.permission].

Exit codes: 0 standard input ended, 2 usage error, 128 plus the signal's number if a signal ended it";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Print the client configuration for CLIENT, including the given options, and exit
    #[arg(long, value_enum, value_name = "CLIENT")]
    print_config: Option<McpClient>,
    /// The dialect: the names and texts of the tools that clients see [default: skills.dialect, else deepagents]
    #[arg(long, value_parser = one_of(&[("deepagents", Dialect::DeepAgents), ("trpc", Dialect::Trpc), ("opencode", Dialect::OpenCode)]))]
    dialect: Option<Dialect>,
    #[command(flatten)]
    http: Http,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    running: RunToolArgs,
    #[command(flatten)]
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    if let Some(client) = options.print_config {
        return print_config(client, options.http.address(), terminal);
    }
    let mut err = anstream::stderr();
    if options.http.address().is_none() && std::io::stdin().is_terminal() {
        bail!(
            "standard input is a terminal: an MCP client starts this command; see `prowess mcp --print-config CLIENT`"
        );
    }
    let skills = options.root_args.discover()?;
    let flags: Vec<Flag> = options.kits.flag().into_iter().collect();
    let config = Config::load(&skills.configuration()?, &flags)?;
    for notice in visibility::notices(&skills.catalog, &config.settings.skills) {
        writeln!(err, "notice: {notice}")?;
    }
    for warning in config.warnings() {
        writeln!(err, "warning: {warning}")?;
    }
    if let Some(notice) = skills.notice() {
        writeln!(err, "{notice}")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the server")?;
    // A client's cache would not survive another order.
    let recent = RecentSkills::of_user(Order::Fixed);
    let ended = runtime.block_on(serve(options, skills, &config, &recent));
    recent.flush();
    // This also ends commands that still run.
    runtime.shutdown_timeout(LAST);
    ended
}

/// Looks for skills again whenever a root changes.
fn watch(live: &Arc<LiveSkills>, skills: Skills, reloader: &Arc<SkillReloader>) -> Result<Option<Watching>> {
    let again = Arc::clone(reloader);
    match live.watch(skills.roots, reloader.root_args.scan_options(), move |known| again.again(known)) {
        Ok(watching) => Ok(Some(watching)),
        Err(error) => {
            let error = printable(&error.to_string());
            writeln!(anstream::stderr(), "cannot watch the skills; restart to see changes: {error}")?;
            Ok(None)
        }
    }
}

async fn tell_unserved(server: SkillServer) {
    for skill in server.unserved().await {
        let (name, why) = (printable(&skill.name), printable(&skill.why));
        let _ = writeln!(anstream::stderr(), "`{name}` is not served by the Skills extension: {why}");
    }
}

/// Serves clients until they leave or a signal ends it.
async fn serve(
    options: &Options,
    skills: Skills,
    config: &Config,
    recent: &Arc<RecentSkills>,
) -> Result<CommandOutcome> {
    let mut signals = Signals::catch().context("signals cannot be caught")?;
    let live = LiveSkills::new(skills.catalog.clone());
    let mut factory = server_factory(options, &skills, config, &live).await?;
    factory.options.uses = Some(Arc::clone(recent) as Arc<dyn SkillUses>);
    let (options_of_sessions, permissions) = (factory.options.clone(), factory.permissions.clone());
    if let Some(notice) = visibility::pinned_notice(&skills.catalog, options_of_sessions, permissions) {
        writeln!(anstream::stderr(), "notice: {notice}")?;
    }
    let reloader = SkillReloader::new(options.root_args.clone(), factory.permissions.clone(), &skills);
    let listening = match options.http.address() {
        Some(address) => Some(options.http.open(address).await?),
        None => None,
    };
    let _watching = watch(&live, skills, &reloader)?;
    tokio::spawn(reloader.follow(live));
    let first = factory.server().await;
    let telling = tokio::spawn(tell_unserved(first.clone()));
    if let Some((listener, options)) = listening {
        if let Some(runs) = &factory.runs {
            tokio::spawn(clean(runs.runner.workspaces.clone()));
        }
        let factory = Arc::new(factory);
        let make_server = move || {
            let factory = Arc::clone(&factory);
            async move { factory.server().await }
        };
        let mut code = None;
        let until = async { code = Some(signals.code().await) };
        serve_http(listener, options, make_server, until).await;
        return Ok(code.map_or(CommandOutcome::Done, CommandOutcome::Code));
    }
    let ended = tokio::select! {
        ended = serve_stdio(first) => ended.map(|()| CommandOutcome::Done).map_err(|error| anyhow!("{error}")),
        code = signals.code() => return Ok(CommandOutcome::Code(code)),
    };
    // The client may have left before all notices were printed.
    let _ = tokio::time::timeout(LAST, telling).await;
    ended
}

/// What all servers share: skills, rules, settings and artifacts.
async fn server_factory(
    options: &Options,
    skills: &Skills,
    config: &Config,
    live: &Arc<LiveSkills>,
) -> Result<ServerFactory> {
    let is_running = options.running.is_wanted();
    let own = Scope::new_session().context("cannot get random bytes")?;
    let scope = config.settings.artifacts.scope;
    let scope = artifacts::configured(scope, own.clone(), &artifacts::project(skills)?)?;
    Ok(ServerFactory {
        live: Arc::clone(live),
        options: behaviour(options, skills, config),
        permissions: Permissions::new(
            broker(skills, &options.database).await?,
            NAME,
            config.policy(NAME, options.running.workspace_dir()),
        ),
        wider: Some(scope.clone()).filter(|scope| *scope != own),
        artifacts: is_running.then(|| options.running.artifacts(scope.clone())).transpose()?,
        runs: options.running.runs(new_workspace_id(), config, scope)?,
        embeddings: embeddings::configured(&config.settings, Wait::AtMost, |message| {
            // Nothing can be done about an error stream that is closed.
            let _ = writeln!(anstream::stderr(), "{message}");
        }),
        made: AtomicU64::new(0),
        example: Default::default(),
    })
}

/// How sessions of clients behave.
fn behaviour(options: &Options, skills: &Skills, config: &Config) -> SessionOptions {
    let is_running = options.running.is_wanted();
    let settings = &config.settings.skills;
    let mut behaviour = session_options(options.dialect.or(settings.dialect).unwrap_or_default());
    behaviour.capabilities = Capabilities::all();
    behaviour.capabilities.run = is_running;
    behaviour.capabilities.interactive = is_running;
    settings.put_into(&mut behaviour);
    // A server sees no turns.
    if settings.lifetime == Some(Lifetime::Capped) {
        behaviour.lifetime = Lifetime::Capped;
    }
    // The client's model is not known.
    behaviour.overview_tokens = settings.overview_tokens(None);
    behaviour.create_in.clone_from(&skills.create_in);
    behaviour
}

/// The broker with the approvals of this project. Questions here mean the same in every directory of the project, unlike
/// the paths of `prowess chat`.
async fn broker(skills: &Skills, database: &DatabaseArgs) -> Result<Arc<Broker>> {
    let approvals: Arc<dyn ApprovalStore> = match (database.open().await?, directories::state()) {
        (Some(database), _) => database.approvals(),
        (None, Some(state)) => Arc::new(FileApprovals::at(state.join("approvals.json"))),
        (None, None) => return Ok(Broker::in_memory()),
    };
    let directory = std::env::current_dir().context("the working directory cannot be read")?;
    let project = skills.project.as_ref().map_or(directory.as_path(), |project| project.top());
    Ok(Broker::open(approvals, project.to_string_lossy()).await?)
}

/// How often unused workspaces are removed.
const CLEANED_EVERY: Duration = Duration::from_secs(60 * 60);

/// Removes workspaces of clients that left long ago.
async fn clean(workspaces: Workspaces) {
    loop {
        let workspaces = workspaces.clone();
        // What cannot be removed now is tried again the next time.
        let _ = tokio::task::spawn_blocking(move || workspaces.cleanup(WORKSPACE_LIFETIME)).await;
        tokio::time::sleep(CLEANED_EVERY).await;
    }
}
