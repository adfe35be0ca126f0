//! `prowess artifacts`

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use prowess_workspace::{ArtifactName, ArtifactStore as _, Artifacts};
use serde::Serialize;

use crate::artifacts::{self, ScopeArgs};
use crate::commands::CommandOutcome;
use crate::confirm::confirm;
use crate::terminal::{Terminal, count, printable, size};
use crate::workspace_dir::WorkspaceDir;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the artifacts of all scopes, or of one scope
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        args: ArtifactArgs,
    },
    /// Print an artifact, or write it to a file
    Get {
        /// The artifact's name; the latest version unless one is given
        #[arg(value_name = "NAME[@VERSION]")]
        name: String,
        /// Write the artifact to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        args: ArtifactArgs,
    },
    /// Remove an artifact with all its versions, or all artifacts of a thread or scope
    Rm {
        /// The artifact's name; without it, all artifacts of the thread or scope
        #[arg(required_unless_present_any = ["thread", "scope"])]
        name: Option<String>,
        /// Do not ask before all artifacts of a thread or scope are removed
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        args: ArtifactArgs,
    },
}

/// The options that choose artifacts.
#[derive(Args, Debug)]
struct ArtifactArgs {
    #[command(flatten)]
    scope_args: ScopeArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

#[derive(Serialize)]
struct ArtifactRow {
    name: String,
    version: u64,
    versions: usize,
    mime_type: String,
    size_bytes: u64,
    digest: String,
    scope: String,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let (Command::List { args, .. } | Command::Get { args, .. } | Command::Rm { args, .. }) =
        &options.command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the artifacts cannot be opened")?.block_on(async {
        match &options.command {
            Command::List { json, .. } => list(args, *json, terminal).await?,
            Command::Get { name, output, .. } => get(args, name, output.as_deref(), terminal).await?,
            Command::Rm { name: Some(name), .. } => remove(args, name).await?,
            Command::Rm { name: None, yes, .. } => return remove_all(args, *yes).await,
        }
        Ok(CommandOutcome::Done)
    })
}

impl ArtifactArgs {
    /// The artifacts of the chosen scope, or of every scope.
    async fn scopes(&self) -> Result<Vec<Artifacts>> {
        let all = self.workspace_dir.artifacts()?;
        let scopes = match self.scope_args.chosen(&all).await? {
            Some(scope) => vec![scope],
            None => all.scopes().await.map_err(|error| anyhow!("{error}"))?,
        };
        Ok(scopes.into_iter().map(|scope| all.in_scope(scope)).collect())
    }

    /// The artifacts of the only scope that has this name. Fails if several have it.
    async fn with(&self, name: &ArtifactName, command: &str) -> Result<Artifacts> {
        let mut found = Vec::new();
        for artifacts in self.scopes().await? {
            if !artifacts.versions(name).await.map_err(not_found)?.is_empty() {
                found.push(artifacts);
            }
        }
        if found.len() > 1 {
            let line = |one: &Artifacts| {
                artifacts::artifacts_command(command, one.scope(), name.as_str(), &self.workspace_dir)
            };
            // Names of threads start with the date: the newest first.
            let mut err = anstream::stderr();
            found.iter().rev().try_for_each(|one| writeln!(err, "  {}", printable(&line(one))))?;
            bail!("`{}` is in {} scopes: use one of these commands", printable(name.as_str()), found.len());
        }
        found.pop().with_context(|| {
            format!("there is no artifact `{}`; `prowess artifacts list` shows all", printable(name.as_str()))
        })
    }
}

async fn list(args: &ArtifactArgs, json: bool, terminal: &mut Terminal) -> Result<()> {
    let mut listed = Vec::new();
    for artifacts in args.scopes().await? {
        for record in artifacts.list().await.map_err(|error| anyhow!("{error}"))? {
            let name = ArtifactName::parse(&record.name)?;
            listed.push(ArtifactRow {
                versions: artifacts.versions(&name).await.map_err(|error| anyhow!("{error}"))?.len(),
                name: record.name,
                version: record.version,
                mime_type: record.mime_type,
                size_bytes: record.size,
                digest: record.digest,
                scope: artifacts.scope().to_string(),
            });
        }
    }
    if json {
        return terminal.json(&listed);
    }
    if listed.is_empty() {
        writeln!(anstream::stderr(), "there are no artifacts; `prowess run --save` creates them")?;
        return Ok(());
    }
    let row = |one: &ArtifactRow| {
        vec![
            printable(&one.name),
            one.version.to_string(),
            size(one.size_bytes),
            printable(&one.mime_type),
            printable(&one.scope),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    terminal.table(&["NAME", "LATEST", "SIZE", "TYPE", "SCOPE"], &rows)?;
    Ok(())
}

async fn get(
    args: &ArtifactArgs,
    wanted: &str,
    output: Option<&Path>,
    terminal: &mut Terminal,
) -> Result<()> {
    let (name, version) = match wanted.rsplit_once('@') {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, Some(version.parse().map_err(|_| anyhow!("there is no version {version}"))?))
        }
        _ => (wanted, None),
    };
    let name = parse(name)?;
    let loaded = args.with(&name, "get").await?.load(&name, version).await.map_err(not_found)?;
    if let Some(path) = output {
        let written = std::fs::write(path, &loaded.bytes);
        return written.with_context(|| format!("{} cannot be written", path.display()));
    }
    if !std::io::stdout().is_terminal() {
        let mut out = std::io::stdout().lock();
        out.write_all(&loaded.bytes)?;
        return Ok(out.flush()?);
    }
    let text = std::str::from_utf8(&loaded.bytes);
    let Ok(text) = text else {
        bail!("it is {}, which is not text: -o FILE writes it to a file", printable(&loaded.mime_type));
    };
    writeln!(terminal, "{}", crate::terminal::printable_lines(text).trim_end_matches('\n'))?;
    Ok(())
}

async fn remove(args: &ArtifactArgs, name: &str) -> Result<()> {
    let name = parse(name)?;
    let artifacts = args.with(&name, "rm").await?;
    let versions = artifacts.versions(&name).await.map_err(not_found)?;
    artifacts.delete(&name).await.map_err(not_found)?;
    let (name, versions) = (printable(name.as_str()), count(versions.len(), "version"));
    writeln!(anstream::stderr(), "removed {name}, {versions}, of {}", printable(artifacts.scope().as_str()))?;
    Ok(())
}

/// Removes all artifacts of the chosen scope.
async fn remove_all(args: &ArtifactArgs, yes: bool) -> Result<CommandOutcome> {
    for artifacts in args.scopes().await? {
        let scope = printable(artifacts.scope().as_str());
        let listed = artifacts.list().await.map_err(|error| anyhow!("{error}"))?;
        if listed.is_empty() {
            bail!("there are no artifacts in {scope}; `prowess artifacts list` shows all");
        }
        let what = format!("{} of {scope}", count(listed.len(), "artifact"));
        if !yes && !confirm(&format!("Remove {what}, with all versions?"))? {
            writeln!(anstream::stderr(), "Nothing was removed.")?;
            return Ok(CommandOutcome::Findings);
        }
        for record in &listed {
            artifacts.delete(&parse(&record.name)?).await.map_err(not_found)?;
        }
        writeln!(anstream::stderr(), "removed {what}")?;
    }
    Ok(CommandOutcome::Done)
}

fn parse(name: &str) -> Result<ArtifactName> {
    ArtifactName::parse(name).map_err(|error| anyhow!("{error}"))
}

#[allow(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
fn not_found(error: prowess_workspace::ArtifactError) -> anyhow::Error {
    match error {
        prowess_workspace::ArtifactError::NotFound { .. } => {
            anyhow!("{error}; `prowess artifacts list` shows all")
        }
        error => anyhow!("{error}"),
    }
}
