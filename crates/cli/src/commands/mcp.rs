//! `prowess mcp`

mod clients;
mod http;
mod reload;

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_catalog::Catalog;
use prowess_mcp::{
    AddressedArtifacts, LiveSkills, SkillServer, Watching, serve_http, serve_stdio, session_options,
};
use prowess_permission::{Broker, FileApprovals, Permissions};
use prowess_skills::{Capabilities, Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{ArtifactStore, Artifacts, Scope, Workspaces};

use self::clients::McpClient;
use self::http::Http;
use self::reload::SkillReloader;
use crate::artifacts;
use crate::commands::CommandOutcome;
use crate::commands::run::{KEPT_FOR, unnamed};
use crate::commands::session::{RunToolArgs, one_of};
use crate::config::Config;
use crate::directories;
use crate::options::RootArgs;
use crate::signals::Signals;
use crate::skills::Skills;
use crate::terminal::{Terminal, printable};

/// The agent name of this command in permission rules: `[agent.mcp.permission]`.
const NAME: &str = "mcp";
/// How long what still runs may take to end.
const LAST: Duration = Duration::from_secs(2);
/// How often workspaces are removed that nobody uses.
const CLEANED_EVERY: Duration = Duration::from_secs(60 * 60);

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
    running: RunToolArgs,
    #[command(flatten)]
    places: RootArgs,
}

/// What every client gets a server of.
struct ServerFactory {
    live: Arc<LiveSkills>,
    options: SessionOptions,
    permissions: Permissions,
    runs: Option<RunSetup>,
    /// The artifact scope that all clients share; without it, each client has its own.
    wider: Option<Scope>,
    artifacts: Option<Artifacts>,
    /// How many there were.
    made: AtomicU64,
    example: tokio::sync::Mutex<Option<SkillSession>>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    if let Some(client) = options.print_config {
        return print(client, options.http.address(), terminal);
    }
    let mut err = anstream::stderr();
    if options.http.address().is_none() && std::io::stdin().is_terminal() {
        bail!(
            "standard input is a terminal: an MCP client starts this command; see `prowess mcp --print-config CLIENT`"
        );
    }
    let skills = options.places.discover()?;
    let config = Config::load(&skills.configuration()?, &[])?;
    for warning in config.warnings() {
        writeln!(err, "warning: {warning}")?;
    }
    if let Some(notice) = skills.notice() {
        writeln!(err, "{notice}")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the server")?;
    let ended = runtime.block_on(serve(options, skills, &config));
    // What a command still does is ended with it.
    runtime.shutdown_timeout(LAST);
    ended
}

async fn serve(options: &Options, skills: Skills, config: &Config) -> Result<CommandOutcome> {
    let mut signals = Signals::catch().context("signals cannot be caught")?;
    let is_running = options.running.is_wanted();
    let settings = &config.settings.skills;
    let mut behaviour = session_options(options.dialect.or(settings.dialect).unwrap_or_default());
    behaviour.capabilities = Capabilities::all();
    behaviour.capabilities.run = is_running;
    behaviour.capabilities.interactive = is_running;
    settings.put_into(&mut behaviour);
    behaviour.create_in.clone_from(&skills.create_in);
    let permissions =
        Permissions::new(broker(&skills).await?, NAME, config.policy(NAME, options.running.workspace_dir()));
    let own = Scope::new_session().context("cannot get random bytes")?;
    let scope = config.settings.artifacts.scope;
    let scope = artifacts::configured(scope, own.clone(), &artifacts::project(&skills)?)?;
    let wider = Some(scope.clone()).filter(|scope| *scope != own);
    let artifacts = is_running.then(|| options.running.artifacts(scope.clone())).transpose()?;
    let runs = options.running.runs(unnamed(), config, scope)?;
    let live = LiveSkills::new(skills.catalog.clone());
    let reloader = SkillReloader::new(options.places.clone(), permissions.clone(), &skills);
    let factory = ServerFactory {
        live: Arc::clone(&live),
        options: behaviour,
        permissions,
        runs,
        wider,
        artifacts,
        made: AtomicU64::new(0),
        example: Default::default(),
    };
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
    // A client that said little was served all the same.
    let _ = tokio::time::timeout(LAST, telling).await;
    ended
}

impl ServerFactory {
    /// A session that nobody uses, of which others take over what is known of these skills.
    async fn like(&self, catalog: Catalog) -> SkillSession {
        let mut example = self.example.lock().await;
        match &*example {
            Some(session) if session.engine().catalog_view().catalog().is_same(&catalog) => session.clone(),
            _ => {
                let session = SkillSession::builder(catalog).permissions(self.permissions.clone());
                example.insert(session.start().await).clone()
            }
        }
    }

    /// A server for one client, who has a session and a workspace of its own.
    async fn server(&self) -> SkillServer {
        let catalog = self.live.catalog();
        let mut session = SkillSession::builder(catalog.clone())
            .options(self.options.clone())
            .permissions(self.permissions.clone())
            .beside(&self.like(catalog).await);
        // Nothing is saved where no scope of its own can be had.
        let artifacts = self.artifacts.as_ref().and_then(|artifacts| {
            let scope = self.wider.clone().map_or_else(Scope::new_session, Ok);
            Some(artifacts.in_scope(scope.ok()?))
        });
        if let Some(runs) = &self.runs {
            let mut runs = runs.clone();
            // The clock may say the same to two of them.
            runs.workspace = format!("{} {}", unnamed(), self.made.fetch_add(1, Ordering::Relaxed));
            let addressed = artifacts.clone().map(AddressedArtifacts::new);
            runs.runner.artifacts = addressed.map(|artifacts| Arc::new(artifacts) as Arc<dyn ArtifactStore>);
            session = session.runs(runs);
        }
        let server = SkillServer::new(Arc::clone(&self.live), session.start().await);
        match artifacts {
            Some(artifacts) => server.with_artifacts(artifacts),
            None => server,
        }
    }
}

/// Who remembers what was allowed for good in this project. What is asked here says the same in every directory of it,
/// unlike the paths of `prowess chat`.
async fn broker(skills: &Skills) -> Result<Arc<Broker>> {
    let Some(state) = directories::state() else { return Ok(Broker::in_memory()) };
    let directory = std::env::current_dir().context("the working directory cannot be read")?;
    let project = skills.project.as_ref().map_or(directory.as_path(), |project| project.top());
    let approvals = Arc::new(FileApprovals::at(state.join("approvals.json")));
    Ok(Broker::open(approvals, project.to_string_lossy()).await?)
}

/// Looks for skills again whenever something changes where they are.
fn watch(live: &Arc<LiveSkills>, skills: Skills, reloader: &Arc<SkillReloader>) -> Result<Option<Watching>> {
    let again = Arc::clone(reloader);
    match live.watch(skills.roots, reloader.places.scan_options(), move |known| again.again(known)) {
        Ok(watching) => Ok(Some(watching)),
        Err(error) => {
            let error = printable(&error.to_string());
            writeln!(anstream::stderr(), "cannot watch the skills; restart to see changes: {error}")?;
            Ok(None)
        }
    }
}

/// Removes workspaces of clients that are gone for long.
async fn clean(workspaces: Workspaces) {
    loop {
        let workspaces = workspaces.clone();
        // What cannot be removed now may be the next time.
        let _ = tokio::task::spawn_blocking(move || workspaces.cleanup(KEPT_FOR)).await;
        tokio::time::sleep(CLEANED_EVERY).await;
    }
}

async fn tell_unserved(server: SkillServer) {
    for skill in server.unserved().await {
        let (name, why) = (printable(&skill.name), printable(&skill.why));
        let _ = writeln!(anstream::stderr(), "`{name}` is not served by the Skills extension: {why}");
    }
}

/// Prints how `client` is told of this server.
fn print(client: McpClient, address: Option<SocketAddr>, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut err = anstream::stderr();
    if let Some(address) = address {
        if address.port() == 0 {
            bail!("the client needs a fixed port: give --http a port other than 0");
        }
        write!(terminal, "{}", client.remote(&http::url(address), http::VARIABLE))?;
        terminal.flush()?;
        writeln!(err, "put this in {}", client.place())?;
        writeln!(err, "{}", client.how_it_gets(http::VARIABLE))?;
        return Ok(CommandOutcome::Done);
    }
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let configuration =
        client.configuration(&program.to_string_lossy(), &arguments(std::env::args().skip(1))?);
    write!(terminal, "{configuration}")?;
    terminal.flush()?;
    writeln!(err, "put this in {}", client.place())?;
    Ok(CommandOutcome::Done)
}

/// The options that were given but for the client's name, with paths that hold wherever it starts us.
fn arguments(given: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let absolute = |path: &str| {
        let path = std::path::absolute(Path::new(path)).context("the working directory cannot be read")?;
        anyhow::Ok(path.to_string_lossy().into_owned())
    };
    let (mut arguments, mut given) = (Vec::new(), given);
    while let Some(argument) = given.next() {
        match argument.split_once('=') {
            Some(("--print-config", _)) => {}
            Some((name @ ("--root" | "--workspace"), path)) => {
                arguments.push(format!("{name}={}", absolute(path)?));
            }
            _ if argument == "--print-config" => drop(given.next()),
            _ if matches!(argument.as_str(), "--root" | "--workspace") => {
                arguments.push(argument);
                arguments.extend(given.next().map(|path| absolute(&path)).transpose()?);
            }
            _ => arguments.push(argument),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_given_are_those_printed() {
        let given = [
            "-v",
            "mcp",
            "--root",
            "skills",
            "--print-config",
            "zed",
            "--run",
            "--root=/x",
            "--print-config=zed",
        ];
        let here = std::env::current_dir().unwrap().join("skills");
        let printed = arguments(given.into_iter().map(str::to_owned)).unwrap();
        assert_eq!(printed, ["-v", "mcp", "--root", here.to_str().unwrap(), "--run", "--root=/x"]);
    }
}
