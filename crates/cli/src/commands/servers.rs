//! `prowess servers`

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::{Catalog, Digest, MANIFEST, Offer, PublishedFile};
use prowess_mcp::host::{HeldEntry, Server, ServerError, ServerLabel, Servers};
use prowess_permission::nearest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::Outcome;
use crate::config::{Config, Settings, user_path};
use crate::options::Places;
use crate::servers;
use crate::terminal::{Style, Terminal, count, shown, shown_lines, styled};

const AFTER_HELP: &str = "\
Servers are configured in prowess.toml, under [mcp.LABEL]. What they say is shown as they say it; nothing of it is trusted, and \
nothing is fetched but the SKILL.md that you ask for.

Exit codes: 0 all of them answered, 1 some did not, 2 misuse";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The server to look at, by its label; all of them otherwise
    #[arg(add = crate::complete::servers())]
    label: Option<String>,
    /// A skill of it to look at before anybody loads it, as `label:path`, as its path or by its address
    skill: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

/// What is told of a server.
#[derive(Serialize)]
struct Told {
    label: String,
    revision: String,
    skills: Vec<ToldSkill>,
    tools: Vec<ToldTool>,
    notices: Vec<String>,
    /// Whether both lists could be had.
    #[serde(skip)]
    has_answered: bool,
}

#[derive(Serialize)]
struct ToldSkill {
    name: String,
    uri: String,
    digest: Digest,
    files: usize,
    bytes: u64,
    is_granted: bool,
    description: String,
}

#[derive(Serialize)]
struct ToldTool {
    name: String,
    description: String,
}

impl Told {
    fn fail(&mut self, error: &ServerError) {
        self.has_answered = false;
        self.notices.push(error.to_string());
    }
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    let skills = options.places.discover()?;
    let config = Config::load(&skills.configuration()?, &[])?;
    let settings = &config.settings;
    if let Some(label) = &options.label {
        check(label, settings)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("servers cannot be asked")?;
    let ended = runtime.block_on(async {
        let connected = servers::connect(settings, options.label.as_deref(), &skills.roots).await?;
        let Some(connected) = connected else {
            writeln!(anstream::stderr(), "there are no servers; [mcp.LABEL] in {} adds one", own_file())?;
            return Ok(Outcome::Done);
        };
        for notice in &connected.notices {
            writeln!(anstream::stderr(), "{notice}")?;
        }
        let (servers, skill) = (&connected.servers, options.skill.as_deref());
        match (options.label.as_deref().and_then(|label| servers.get(label)), skill) {
            (Some(server), Some(skill)) => {
                inspect(servers, server, skill, options.json, terminal).await?;
                Ok(Outcome::Done)
            }
            (None, Some(_)) => Ok(Outcome::Findings),
            (_, None) => {
                let all_answered = list(options, servers, terminal).await?;
                Ok(if all_answered && !connected.lacks_some { Outcome::Done } else { Outcome::Findings })
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
    let label = shown(label);
    match nearest(&label, settings.mcp.keys().map(|label| &**label)) {
        Some(known) => bail!("there is no server `{label}`; did you mean `{known}`?"),
        None if label.parse::<ServerLabel>().is_ok() => {
            bail!("there is no server `{label}`; [mcp.{label}] in {} adds it", own_file())
        }
        None => bail!("there is no server `{label}`: the label comes first, and then a skill of it"),
    }
}

/// The file that servers are configured in.
fn own_file() -> String {
    user_path().map_or_else(|| "prowess.toml".to_owned(), |path| shown(&path.display().to_string()))
}

/// Shows what servers have, and says whether all of them answered.
async fn list(options: &Options, servers: &Servers, terminal: &mut Terminal) -> Result<bool> {
    let mut all = Vec::new();
    for server in servers.all() {
        all.push(told(server).await);
    }
    let all_answered = all.iter().all(|told| told.has_answered);
    if options.json {
        writeln!(terminal, "{}", json!(all))?;
        return Ok(all_answered);
    }
    let is_one = options.label.is_some();
    for Told { label, revision, skills, tools, notices, .. } in &all {
        let (some, more) = (count(skills.len(), "skill"), count(tools.len(), "tool"));
        let head = styled(format!("{some}, {more}, revision {}", shown(revision)), Style::Faint);
        writeln!(terminal, "{}  {head}", styled(label, Style::Name))?;
        for skill in skills {
            let size = format!("{}, {} bytes", count(skill.files, "file"), skill.bytes);
            let grant = if skill.is_granted { ", granted" } else { "" };
            writeln!(
                terminal,
                "  {}  {}",
                styled(shown(&skill.name), Style::Name),
                shown(&skill.description)
            )?;
            if is_one {
                writeln!(terminal, "    {}", styled(format!("{size}{grant}"), Style::Faint))?;
                writeln!(terminal, "    {} {}", shown(&skill.uri), skill.digest)?;
            }
        }
        for tool in tools {
            writeln!(terminal, "  {}  {}", styled(shown(&tool.name), Style::Name), shown(&tool.description))?;
        }
        for notice in notices {
            writeln!(anstream::stderr(), "{notice}")?;
        }
    }
    Ok(all_answered)
}

async fn told(server: &Arc<Server>) -> Told {
    let mut told = Told {
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
            let tool = |tool: &prowess_mcp::host::ServerTool| ToldTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
            };
            told.tools = list.tools.iter().map(tool).collect();
            told.notices.extend(list.left_out);
        }
        Err(error) => told.fail(&error),
    }
    told.notices.iter_mut().for_each(|notice| *notice = shown(notice));
    told
}

fn skill(offer: &Offer) -> ToldSkill {
    let frontmatter: serde_json::Value = serde_json::from_str(&offer.frontmatter).unwrap_or_default();
    let published = &offer.published;
    ToldSkill {
        name: published.name(),
        uri: published.uri.clone(),
        digest: published.digest(),
        files: published.files.len(),
        bytes: published.bytes(),
        is_granted: offer.is_granted,
        description: frontmatter["description"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Shows a skill as it is: its files, and its SKILL.md, fetched and verified.
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
    let not_there = || format!("the server {label} has no skill `{}`", shown(wanted));
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
    writeln!(terminal, "{} {}", shown(&published.uri), published.digest())?;
    for file in &published.files {
        writeln!(terminal, "{:>10}  {}", file.size, shown(&file.path))?;
    }
    writeln!(terminal, "\n{}", shown_lines(&String::from_utf8_lossy(&bytes)))?;
    Ok(())
}
