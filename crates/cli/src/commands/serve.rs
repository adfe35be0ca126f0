//! `prowess serve`

pub(super) mod place;
mod print_unit;
mod processes;
mod public_url;
pub(super) mod system_user;
mod users;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use prowess_serve::{OwnSkillsDecider, Process, Role, ServeLimits, ServedAgents as _, Server, login_link};
use prowess_workspace::{Level, Runner};
use serde_json::json;
use tokio::net::TcpListener;

use self::place::{NotedDatabase, ServerNotes, ServerPlace};
use self::processes::RunningProcess;
use self::public_url::public_url;
use self::users::Administrator;
use super::mcp::{address, raise_open_files};
use crate::chat::{AgentSetup, Approver};
use crate::commands::CommandOutcome;
use crate::config::{Config, Flag, OfProject, user_path};
use crate::database::DatabaseArgs;
use crate::executor::ExecutorArgs;
use crate::options::{KitArgs, RootArgs};
use crate::recent_skills::{Order, RecentSkills};
use crate::sandbox_level::level_parser;
use crate::server_lock;
use crate::serving::{ServerAgents, decider_parser};
use crate::shell::quote_if_needed;
use crate::signals::Signals;
use crate::telemetry;
use crate::terminal::{Terminal, count as counted, printable};
use crate::visibility::ChatSkills;
use crate::workspace_dir::WorkspaceDir;

/// The user that the first start makes.
const FIRST_USER: &str = "admin";
/// How long running work may take to end after the server has stopped.
const LAST: Duration = Duration::from_secs(2);

const AFTER_HELP: &str = "\
The first start makes the user `admin`. Each start prints a link with which `admin` signs in, once. Other users get theirs by \
`prowess serve login NAME`, and programs get tokens by `prowess serve token add NAME`. These commands need the same --data and \
--database as the server.

The server speaks plain HTTP. For other machines, put a proxy with TLS in front: see docs/serving.md.

Exit codes: 2 usage error, 128 plus the signal's number if a signal ended it";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    /// The address and the port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8930", value_parser = address)]
    listen: SocketAddr,
    /// Listen on an address that other machines can reach. Traffic is not encrypted: put a proxy with TLS in front
    #[arg(long)]
    allow_remote: bool,
    /// The address at which browsers reach the server, for links; if it is behind a proxy, that of the proxy
    #[arg(long, value_name = "URL", value_parser = public_url)]
    url: Option<String>,
    /// The model: PROVIDER:NAME, or offline, which needs no API key and no network
    #[arg(long, value_name = "MODEL", add = crate::complete::models())]
    model: Option<String>,
    /// The most that a thread and its sub-agents may cost, in dollars; needs a price for the model in prowess.toml
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    max_cost: Option<String>,
    /// What this process does: everything, requests and event streams, or turns. Several processes can share a database
    #[arg(long, value_name = "ROLE", value_enum, default_value_t)]
    role: RoleArg,
    /// How many threads run at the same time in this process
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// How many threads of one user run at the same time, in all processes [default: three quarters of --turns]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    turns_per_user: Option<u32>,
    /// How many threads of the agent run at the same time, in all processes [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    turns_in_all: Option<u32>,
    /// How many event streams may be open; one user may have a quarter of them
    #[arg(long, value_name = "N", default_value = "2048", value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    #[command(flatten)]
    daily: users::DailyArgs,
    /// Who decides whether models see the skills that users upload
    #[arg(long, value_name = "WHO", default_value = "user", value_parser = decider_parser())]
    own_skills: OwnSkillsDecider,
    /// After how many seconds another worker takes over the threads of a server that died
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u16).range(1..=600))]
    lease: u16,
    /// The weakest sandbox level to accept for commands; prowess uses the strongest that works
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    sandbox: Option<Level>,
    /// A direct connection to the database, if --database goes through a pooler. The variable PROWESS_LISTEN_DATABASE does the same
    #[arg(long, value_name = "URL", env = LISTEN_VARIABLE, hide_env_values = true, help_heading = "Storage")]
    listen_database: Option<String>,
    /// Order the server's processes on this host to hand their threads over and stop, wait for that, and exit. With --drain=all, on all hosts
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "host")]
    drain: Option<Drain>,
    /// Print a unit for systemd that starts the server with these options, and exit
    #[arg(long)]
    print_unit: bool,
    #[command(flatten)]
    executor: ExecutorArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
    #[command(flatten)]
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
    #[command(flatten)]
    place: ServerPlace,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The variable that names the direct connection, too.
pub(crate) const LISTEN_VARIABLE: &str = "PROWESS_LISTEN_DATABASE";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    #[default]
    All,
    Web,
    Worker,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::All => Self::All,
            RoleArg::Web => Self::Web,
            RoleArg::Worker => Self::Worker,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Drain {
    /// The processes on this host
    Host,
    /// All processes of the server
    All,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add, list or disable users
    User {
        #[command(subcommand)]
        command: users::UserCommand,
    },
    /// Add, list or revoke tokens, for programs
    Token {
        #[command(subcommand)]
        command: users::TokenCommand,
    },
    /// Print a link with which a user signs in, once
    Login {
        /// The user
        name: String,
        /// The address of the server, as the user's browser reaches it [default: the address with which the server started]
        #[arg(long, value_name = "URL", value_parser = public_url)]
        url: Option<String>,
    },
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal, verbose: u8) -> Result<CommandOutcome> {
    if options.print_unit {
        options.check_address()?;
        options.root_args.discover()?;
        let unit = print_unit::unit(options)?;
        write!(terminal, "{}", unit.text)?;
        terminal.flush()?;
        for warning in unit.warnings {
            writeln!(anstream::stderr(), "warning: {}", printable(&warning))?;
        }
        return Ok(CommandOutcome::Done);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the server")?;
    if let Some(command) = &options.command {
        crate::init_log(verbose, terminal, None);
        return runtime.block_on(users::run(command, &options.place, terminal));
    }
    if let Some(drain) = options.drain {
        crate::init_log(verbose, terminal, None);
        return runtime.block_on(drain_processes(options, drain, terminal));
    }
    options.check_address()?;
    let skills = options.root_args.discover()?;
    let config = Config::load(&OfProject::Nothing, &options.flags())?;
    let exporter = telemetry::exporter(&config.settings.telemetry)?;
    // A server always says what went wrong.
    crate::init_server_log(verbose, terminal, exporter.as_ref());
    let ended = runtime.block_on(serve(options, skills, config));
    // This also ends commands that still run in a sandbox.
    runtime.shutdown_timeout(LAST);
    telemetry::send_last_spans(exporter);
    ended
}

impl Options {
    /// Refuses an address that other machines can reach, unless that is wanted.
    fn check_address(&self) -> Result<()> {
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            bail!(
                "other machines can reach `{}`: listen on 127.0.0.1, or add --allow-remote if a proxy with TLS is in front",
                self.listen.ip()
            );
        }
        Ok(())
    }

    fn flags(&self) -> Vec<Flag> {
        let given = [("model.name", "--model", &self.model), ("limits.cost", "--max-cost", &self.max_cost)];
        let flag = |(key, name, text): (&'static str, &'static str, &Option<String>)| {
            Some(Flag { key, name, text: text.clone()? })
        };
        given.into_iter().filter_map(flag).chain(self.kits.flag()).collect()
    }

    fn limits(&self) -> ServeLimits {
        let mut limits = ServeLimits::default();
        limits.turns = self.turns.into();
        // One user leaves some places to others.
        let most = (u32::from(self.turns) * 3 / 4).max(1);
        limits.turns_per_user = self.turns_per_user.unwrap_or(most).into();
        limits.turns_in_all = self.turns_in_all.map_or(u64::MAX, u64::from);
        limits.daily = self.daily.into();
        limits.claim = Duration::from_secs(self.lease.into());
        limits.streams = self.streams.into();
        limits.streams_per_user = (limits.streams / 4).max(1);
        limits
    }
}

/// Orders processes to stop, and waits until they have.
async fn drain_processes(options: &Options, drain: Drain, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let (database, _) = options.place.open_existing().await?;
    let host = processes::host();
    let said = processes::drain(&database, (drain == Drain::Host).then_some(&*host)).await?;
    writeln!(terminal, "{said}")?;
    Ok(CommandOutcome::Done)
}

async fn serve(options: &Options, skills: crate::skills::Skills, config: Config) -> Result<CommandOutcome> {
    let signals = Signals::catch().context("signals cannot be caught")?;
    let mut err = anstream::stderr();
    let data = options.place.directory()?;
    // Until this process ends.
    let _running = server_lock::hold()?;
    let _directory_lock = processes::lock_directory(&data).await?;
    let (database, noted) = options.place.open(&data).await?;
    let role = Role::from(options.role);
    let others =
        prowess_store::signals::Signals::of(&database, options.listen_database.as_deref(), role.audiences())
            .await;
    let others = others.map_err(|error| anyhow!("--listen-database: {error}"))?;
    let opened = options.workspace_dir.workspaces()?;
    if let Some(moved) = &opened.moved {
        writeln!(err, "{}; workspaces are in {} instead", printable(moved), opened.path.display())?;
    }
    for warning in config.warnings() {
        writeln!(err, "warning: {warning}")?;
    }
    if let Some(notice) = skills.notice() {
        writeln!(err, "{notice}")?;
    }
    let count = ChatSkills::new(&skills.catalog, &config).view().entries().len();
    let model = config.settings.model.name.to_string();
    let executor = options.executor.or_configured(&config.settings.sandbox);
    let is_local = executor.is_local();
    let executor = executor.build(options.sandbox, Vec::new())?;
    if !is_local {
        // It also starts a container.
        executor.probe().await.context("no command can run in a container")?;
    }
    let runner = Runner {
        workspaces: opened.workspaces,
        // Each thread gets its own artifacts.
        artifacts: None,
        executor: Some(executor),
    };
    let setup = AgentSetup {
        flags: options.flags(),
        recent: RecentSkills::of_user(Order::ReadOnly),
        root_args: options.root_args.clone(),
        runner,
        artifacts: options.workspace_dir.checked_artifacts().await?,
        workspace_dir: options.workspace_dir.clone(),
        state: data.clone(),
        approver: Approver::Nobody,
        lease: Duration::from_secs(options.lease.into()),
        skills,
        config,
        database: DatabaseArgs::default(),
    };
    #[cfg(feature = "oidc")]
    let oidc = crate::serving::oidc(&setup.config.settings.serve.oidc)?;
    #[cfg(not(feature = "oidc"))]
    crate::serving::check_oidc(&setup.config.settings.serve.oidc)?;
    let (agents, notices) = ServerAgents::new(setup, options.own_skills, &database).await?;
    for notice in notices {
        writeln!(err, "notice: {notice}")?;
    }
    let limits = options.limits();
    if limits.daily.micro_dollars.is_some() && !agents.has_price(&model) {
        bail!("{}", price_is_missing(&model));
    }
    let object_store = options.workspace_dir.object_store();
    raise_open_files();
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.with_context(|| cannot_listen(options.listen))?;
    let running = RunningProcess::join(&database, role, &data, object_store.as_deref()).await?;
    let process = Process { role, host: processes::host(), signals: others };
    let server = Server::of(agents.clone(), &database, limits, process);
    #[cfg(feature = "oidc")]
    let server = match &oidc {
        Some(oidc) => server.sign_in_with(std::sync::Arc::clone(oidc)),
        None => server,
    };
    let listening = url(listener.local_addr()?);
    if !role.is_web() {
        let (skills, place) = (counted(count, "skill"), data.display());
        writeln!(err, "prowess worker {listening} · {model} · {skills} · {place}")?;
        return run_server(server, listener, running, signals, agents, database).await;
    }
    let admin = users::administrator(&database.accounts(), FIRST_USER).await?;
    let (url, listens) = match &options.url {
        Some(url) => (url.clone(), format!(" · listens on {listening}")),
        None => (listening, String::new()),
    };
    let first_user = place::first_user(&database.accounts()).await?;
    let unpriced_model = (!agents.has_price(&model)).then(|| model.clone());
    ServerNotes { url: url.clone(), database: noted, first_user, unpriced_model }.write(&data)?;
    let walls = match noted {
        NotedDatabase::File => "",
        NotedDatabase::Postgres if database.separates_users() => {
            " · PostgreSQL, row-level security keeps users apart"
        }
        NotedDatabase::Postgres => " · PostgreSQL, without row-level security (see docs/storage.md)",
    };
    writeln!(
        err,
        "prowess {url} · {model} · {} · {}{walls}{listens}",
        counted(count, "skill"),
        data.display()
    )?;
    match admin {
        Administrator::First(admin) => {
            let link = login_link(&database.accounts(), &admin.id).await.map_err(|error| anyhow!(error))?;
            users::note(&database.audit(), "make login link", &admin, json!({})).await?;
            writeln!(err, "sign in as `{}`, once, within 15 minutes: {url}{link}", admin.name)?;
        }
        Administrator::Others => {
            let login = options.place.command("serve login NAME");
            writeln!(err, "no link for `{FIRST_USER}`: {login} prints one for another user")?;
        }
        Administrator::Disabled(admin) => {
            let enable =
                options.place.command(&format!("serve user enable {}", quote_if_needed(&admin.name)));
            writeln!(err, "no administrator is enabled: {enable} brings one back")?;
        }
    }
    #[cfg(feature = "oidc")]
    oidc.map(|oidc| tokio::spawn(ask_issuer(oidc)));
    run_server(server, listener, running, signals, agents, database).await
}

/// Serves until a signal, an order or the database ends it.
async fn run_server(
    server: Server,
    listener: TcpListener,
    running: RunningProcess,
    mut signals: Signals,
    agents: std::sync::Arc<ServerAgents>,
    database: prowess_store::Database,
) -> Result<CommandOutcome> {
    let watching = tokio::spawn(agents.watch_skills());
    let mut why = Ok(0);
    server
        .serve(listener, async {
            why = tokio::select! {
                code = signals.code() => Ok(code),
                ordered = running.until_ordered() => ordered.map(|()| 0),
            };
        })
        .await;
    watching.abort();
    running.leave().await;
    database.close().await.map_err(|error| anyhow!("{error}"))?;
    Ok(CommandOutcome::Code(why?))
}

/// Why there can be no limit of cost, with the line that is missing. TOML reads a string of JSON.
fn price_is_missing(model: &str) -> String {
    let file = user_path().map_or_else(|| "your prowess.toml".to_owned(), |path| path.display().to_string());
    format!(
        "--daily-cost needs a price for `{model}`: add `price.{} = {{ input = 1.25, output = 10.0 }}`, with its dollars for a million \
         tokens, at the top of {}",
        json!(model),
        printable(&file)
    )
}

/// Why a server cannot listen, for the error of the system.
fn cannot_listen(address: SocketAddr) -> String {
    format!(
        "cannot listen on {address}: another program may use the port; name a free one with --listen {}:PORT",
        address.ip()
    )
}

/// Says at the start if nobody can sign in with OpenID Connect. Everything else works.
#[cfg(feature = "oidc")]
async fn ask_issuer(oidc: std::sync::Arc<prowess_serve::Oidc>) {
    if let Err(why) = oidc.check().await {
        // Nobody can be told about an error stream that is closed.
        let _ = writeln!(
            anstream::stderr(),
            "warning: nobody can sign in with OpenID Connect now: the issuer cannot be used: {}; prowess tries again when \
             somebody signs in",
            printable(&why)
        );
    }
}

/// The address as a browser on this machine writes it.
fn url(listening: SocketAddr) -> String {
    let host = match listening.ip() {
        IpAddr::V4(address) if address.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(address) if address.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    format!("http://{host}:{}", listening.port())
}
