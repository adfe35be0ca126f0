//! `prowess servers`

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::published::{Offer, PublishedFile};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Catalog, Digest};
use prowess_mcp::client::{HeldEntry, Server, ServerError, ServerLabel, Servers};
use prowess_permission::nearest::nearest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::CommandOutcome;
use crate::config::{Config, Settings, user_path};
use crate::options::RootArgs;
use crate::servers;
use crate::terminal::{Style, Terminal, count, printable, printable_lines, styled};

const AFTER_HELP: &str = "\
Configure servers in prowess.toml, under [mcp.LABEL]. prowess shows what servers report, trusts none of it, and \
fetches only the SKILL.md that you ask for.

Exit codes: 0 all servers answered, 1 some did not, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The label of the server to show [default: all servers]
    #[arg(add = crate::complete::servers())]
    label: Option<String>,
    /// A skill of this server to read before you load it: `label:path`, its path or its address
    skill: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root_args: RootArgs,
}

/// What is shown of a server.
#[derive(Serialize)]
struct ServerInfo {
    label: String,
    revision: String,
    skills: Vec<SkillInfo>,
    tools: Vec<ToolInfo>,
    notices: Vec<String>,
    /// Whether the server returned both lists.
    #[serde(skip)]
    has_answered: bool,
}

#[derive(Serialize)]
struct SkillInfo {
    name: String,
    uri: String,
    digest: Digest,
    files: usize,
    bytes: u64,
    is_granted: bool,
    description: String,
}

#[derive(Serialize)]
struct ToolInfo {
    name: String,
    description: String,
}

impl ServerInfo {
    fn fail(&mut self, error: &ServerError) {
        self.has_answered = false;
        self.notices.push(error.to_string());
    }
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let skills = options.root_args.discover()?;
    let config = Config::load(&skills.configuration()?, &[])?;
    let settings = &config.settings;
    if let Some(label) = &options.label {
        check(label, settings)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot ask the servers")?;
    let ended = runtime.block_on(async {
        let connected = servers::connect(settings, options.label.as_deref(), &skills.roots).await?;
        let Some(connected) = connected else {
            writeln!(anstream::stderr(), "there are no servers; add [mcp.LABEL] to {}", own_file())?;
            return Ok(CommandOutcome::Done);
        };
        for notice in &connected.notices {
            writeln!(anstream::stderr(), "{notice}")?;
        }
        let (servers, skill) = (&connected.servers, options.skill.as_deref());
        match (options.label.as_deref().and_then(|label| servers.get(label)), skill) {
            (Some(server), Some(skill)) => {
                inspect(servers, server, skill, options.json, terminal).await?;
                Ok(CommandOutcome::Done)
            }
            (None, Some(_)) => Ok(CommandOutcome::Findings),
            (_, None) => {
                let all_answered = list(options, servers, terminal).await?;
                Ok(if all_answered && !connected.lacks_some {
                    CommandOutcome::Done
                } else {
                    CommandOutcome::Findings
                })
            }
        }
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    ended
}

fn check(label: &str, settings: &Settings) -> Result<()> {
    if settings.mcp.contains_key(label) {
        return Ok(());
    }
    let label = printable(label);
    match nearest(&label, settings.mcp.keys().map(|label| &**label)) {
        Some(known) => bail!("there is no server `{label}`; did you mean `{known}`?"),
        None if label.parse::<ServerLabel>().is_ok() => {
            bail!("there is no server `{label}`; add [mcp.{label}] to {}", own_file())
        }
        None => bail!("there is no server `{label}`: give the label first, then the skill"),
    }
}

/// The file in which servers are configured.
fn own_file() -> String {
    user_path().map_or_else(|| "prowess.toml".to_owned(), |path| printable(&path.display().to_string()))
}

/// Shows what the servers have, and says whether all of them answered.
async fn list(options: &Options, servers: &Servers, terminal: &mut Terminal) -> Result<bool> {
    let mut all = Vec::new();
    for server in servers.all() {
        all.push(server_info(server).await);
    }
    let all_answered = all.iter().all(|told| told.has_answered);
    if options.json {
        writeln!(terminal, "{}", json!(all))?;
        return Ok(all_answered);
    }
    let is_one = options.label.is_some();
    for ServerInfo { label, revision, skills, tools, notices, .. } in &all {
        let (some, more) = (count(skills.len(), "skill"), count(tools.len(), "tool"));
        let head = styled(format!("{some}, {more}, revision {}", printable(revision)), Style::Faint);
        writeln!(terminal, "{}  {head}", styled(label, Style::Name))?;
        for skill in skills {
            let size = format!("{}, {} bytes", count(skill.files, "file"), skill.bytes);
            let grant = if skill.is_granted { ", granted" } else { "" };
            writeln!(
                terminal,
                "  {}  {}",
                styled(printable(&skill.name), Style::Name),
                printable(&skill.description)
            )?;
            if is_one {
                writeln!(terminal, "    {}", styled(format!("{size}{grant}"), Style::Faint))?;
                writeln!(terminal, "    {} {}", printable(&skill.uri), skill.digest)?;
            }
        }
        for tool in tools {
            writeln!(
                terminal,
                "  {}  {}",
                styled(printable(&tool.name), Style::Name),
                printable(&tool.description)
            )?;
        }
        for notice in notices {
            writeln!(anstream::stderr(), "{notice}")?;
        }
    }
    Ok(all_answered)
}

async fn server_info(server: &Arc<Server>) -> ServerInfo {
    let mut told = ServerInfo {
        label: server.label().to_string(),
        revision: server.revision().to_owned(),
        skills: Vec::new(),
        tools: Vec::new(),
        notices: Vec::new(),
        has_answered: true,
    };
    match server.skills().await {
        Ok(list) => {
            told.skills = list.offers.iter().map(skill).collect();
            told.notices.extend(list.refused.iter().chain(&list.stopped).map(ToString::to_string));
        }
        Err(error) => told.fail(&error),
    }
    match server.tools().await {
        Ok(list) => {
            let tool = |tool: &prowess_mcp::client::ServerTool| ToolInfo {
                name: tool.name.clone(),
                description: tool.description.clone(),
            };
            told.tools = list.tools.iter().map(tool).collect();
            told.notices.extend(list.left_out);
        }
        Err(error) => told.fail(&error),
    }
    told.notices.iter_mut().for_each(|notice| *notice = printable(notice));
    told
}

fn skill(offer: &Offer) -> SkillInfo {
    let frontmatter: serde_json::Value = serde_json::from_str(&offer.frontmatter).unwrap_or_default();
    let published = &offer.published;
    SkillInfo {
        name: published.name(),
        uri: published.uri.clone(),
        digest: published.digest(),
        files: published.files.len(),
        bytes: published.bytes(),
        is_granted: offer.is_granted,
        description: frontmatter["description"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Shows one skill: its files, and its SKILL.md, fetched and verified.
async fn inspect(
    servers: &Servers,
    server: &Server,
    wanted: &str,
    is_json: bool,
    terminal: &mut Terminal,
) -> Result<()> {
    let label = server.label();
    let name = match wanted.strip_prefix(&format!("{label}:")) {
        Some(_) => wanted.to_owned(),
        None => format!("{label}:{wanted}"),
    };
    let not_there = || format!("the server {label} has no skill `{}`", printable(wanted));
    let catalog = servers.look_up(&name, &Catalog::empty()).await?.with_context(not_there)?;
    let entry = catalog.entries().first().with_context(not_there)?;
    let held = HeldEntry::of(entry).with_context(not_there)?;
    let bytes = servers.read(&held, MANIFEST).await?;
    let published = held.published();
    if is_json {
        let file =
            |file: &PublishedFile| json!({"path": file.path, "size": file.size, "digest": file.digest});
        let files: Vec<Value> = published.files.iter().map(file).collect();
        let (name, text) = (published.name(), String::from_utf8_lossy(&bytes));
        let (uri, digest) = (&published.uri, published.digest());
        let told = json!({"name": name, "uri": uri, "digest": digest, "files": files, "text": text});
        writeln!(terminal, "{told}")?;
        return Ok(());
    }
    writeln!(terminal, "{} {}", printable(&published.uri), published.digest())?;
    for file in &published.files {
        writeln!(terminal, "{:>10}  {}", file.size, printable(&file.path))?;
    }
    writeln!(terminal, "\n{}", printable_lines(&String::from_utf8_lossy(&bytes)))?;
    Ok(())
}
