//! Connects to the configured MCP servers, for their skills and tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use prowess_catalog::{Catalog, Root, Severity, Storage};
use prowess_mcp::client::{BearerToken, Cache, Connection, Patience, ServerLabel, ServerOptions, Servers};

use crate::config::{McpSettings, Settings};
use crate::directories::home;
use crate::progress::Progress;
use crate::terminal::printable;

/// How long to wait for a server before the person is told.
const UNTOLD: Duration = Duration::from_secs(2);

/// The connected servers, and notices about the others.
pub(crate) struct Connected {
    pub(crate) servers: Arc<Servers>,
    pub(crate) notices: Vec<String>,
    /// Whether some are not connected.
    pub(crate) lacks_some: bool,
}

/// Connects to all configured servers, or to one. `None` if none is configured.
pub(crate) async fn connect(
    settings: &Settings,
    only: Option<&str>,
    roots: &[Root],
) -> Result<Option<Connected>> {
    if settings.mcp.is_empty() {
        return Ok(None);
    }
    let (mut all, mut notices) = (Vec::new(), Vec::new());
    for (label, server) in settings.mcp.iter().filter(|(label, _)| only.is_none_or(|only| *only == ***label))
    {
        match options(&label.value, server) {
            Ok(options) => all.push(options),
            Err(error) => notices.push(format!("MCP server {label}: {}", printable(&format!("{error:#}")))),
        }
    }
    let mut lacks_some = !notices.is_empty();
    let labels: Vec<ServerLabel> = settings.mcp.keys().map(|label| label.value.clone()).collect();
    let cache = match cache(&labels, roots) {
        Ok(cache) => cache,
        Err(error) => {
            notices
                .push(format!("files of MCP servers are not cached: {}", printable(&format!("{error:#}"))));
            None
        }
    };
    let progress = Progress::start("connecting to MCP servers");
    let tell = |server: &ServerLabel| progress.tell(&format!("waiting for server {server}…"));
    let patience = Patience::new(UNTOLD, &tell);
    let (servers, failed) = Servers::connect_with(all, cache.map(Arc::new), patience).await;
    lacks_some |= !failed.is_empty();
    notices.extend(failed.into_iter().map(|error| printable(&error.to_string())));
    Ok(Some(Connected { servers, notices, lacks_some }))
}

/// Adds the servers' skills to the catalog at the start, with a spinner. Also returns notices.
pub(crate) async fn add_skills_at_start(servers: &Servers, catalog: &Catalog) -> (Catalog, Vec<String>) {
    let progress = Progress::start("asking MCP servers for their skills");
    let tell = |server: &ServerLabel| progress.tell(&format!("waiting for server {server}…"));
    add_skills(servers, catalog, Patience::new(UNTOLD, &tell)).await
}

/// Adds the servers' current skills to the catalog. Also returns notices.
pub(crate) async fn add_skills(
    servers: &Servers,
    catalog: &Catalog,
    patience: Patience<'_>,
) -> (Catalog, Vec<String>) {
    let found = servers.scans_with(catalog, patience).await;
    let catalog = found.scans.into_iter().fold(catalog.clone(), |catalog, scan| catalog.with(scan));
    let is_servers =
        |file: &str| servers.all().any(|server| file.starts_with(&format!("{}:", server.label())));
    let odd: Vec<String> = catalog
        .diagnostics()
        .filter(|found| found.severity == Severity::Error && is_servers(&found.file))
        .map(|found| printable(&found.to_string()))
        .collect();
    let notices = found.notices.into_iter().map(|notice| printable(&notice.to_string()));
    (catalog, notices.chain(odd).collect())
}

fn options(label: &ServerLabel, settings: &McpSettings) -> Result<ServerOptions> {
    let connection = match (&settings.command, &settings.url) {
        (Some(command), _) => started(&command.0, settings)?,
        (None, Some(url)) => {
            let token = settings.token_env.as_deref().filter(|name| !name.is_empty());
            let token =
                token.map(|name| variable(name).map(|token| BearerToken::from(token.trim()))).transpose()?;
            Connection::http(url.value.clone(), token)
        }
        (None, None) => return Err(anyhow!("it has neither `command` nor `url`")),
    };
    let mut options = ServerOptions::new(label.clone(), connection);
    let grants = settings.grants.iter().map(|grant| (grant.value.uri.clone(), grant.value.digest));
    options.grants = grants.collect();
    Ok(options)
}

fn started(command: &[String], settings: &McpSettings) -> Result<Connection> {
    let (program, arguments) = command.split_first().context("`command` is empty")?;
    let given: BTreeMap<OsString, OsString> = settings
        .env
        .iter()
        .map(|name| Ok((OsString::from(&**name), OsString::from(variable(name)?))))
        .collect::<Result<_>>()?;
    let mut connection = Connection::command(program, arguments);
    if let Connection::Command { env, directory, .. } = &mut connection {
        *env = given;
        // Programs load code from where they start, and the working directory may be untrusted.
        let place = settings.directory.as_ref().map(|directory| directory.value.0.clone()).or_else(home);
        *directory = Some(place.context("HOME is not set: set `directory`, where the server starts")?);
    }
    Ok(connection)
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| anyhow!("{} is not set, or is not valid text", printable(name)))
}

/// Opens the cache of server files, outside of all skill roots. Files of servers that are no longer configured are
/// removed.
fn cache(labels: &[ServerLabel], roots: &[Root]) -> Result<Option<Cache>> {
    let Some(directory) = directory() else { return Ok(None) };
    let local = roots.iter().filter(|root| root.storage == Storage::Local).map(|root| &root.path);
    let cache = Cache::open(&directory, local)?;
    cache.forget_others(labels)?;
    Ok(Some(cache))
}

/// `$XDG_CACHE_HOME/prowess/servers`, or `~/.cache/prowess/servers`.
fn directory() -> Option<PathBuf> {
    Some(crate::directories::cache()?.join("servers"))
}
