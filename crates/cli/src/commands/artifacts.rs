//! `prowess artifacts`

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use prowess_workspace::{ArtifactFile, ArtifactName, ArtifactStore as _, Artifacts};
use serde::Serialize;

use crate::commands::Outcome;
use crate::commands::run::quoted;
use crate::state::Kept;
use crate::terminal::{Terminal, count, shown, size};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the artifacts
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        kept: Kept,
    },
    /// Print an artifact, or write it to a file
    Get {
        /// Its name; the latest version unless one is given
        #[arg(value_name = "NAME[@VERSION]")]
        name: String,
        /// Write it to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        kept: Kept,
    },
    /// Remove an artifact with all its versions
    Rm {
        /// Its name
        name: String,
        #[command(flatten)]
        kept: Kept,
    },
}

#[derive(Serialize)]
struct Listed {
    name: String,
    version: u64,
    versions: usize,
    mime_type: String,
    size_bytes: u64,
    digest: String,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    let (Command::List { kept, .. } | Command::Get { kept, .. } | Command::Rm { kept, .. }) =
        &options.command;
    let artifacts = kept.artifacts()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the artifacts cannot be opened")?.block_on(async {
        match &options.command {
            Command::List { json, .. } => list(&artifacts, *json, terminal).await,
            Command::Get { name, output, .. } => get(&artifacts, name, output.as_deref(), terminal).await,
            Command::Rm { name, .. } => remove(&artifacts, name).await,
        }
    })?;
    Ok(Outcome::Done)
}

/// The command that fetches an artifact, for a person who has just made it.
pub(crate) fn fetch_line(kept: &Kept, saved: &ArtifactFile) -> String {
    let word = |text: String| {
        let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-@+:".contains(c));
        if is_plain && !text.is_empty() { text } else { quoted(&text) }
    };
    let mut line = format!("prowess artifacts get {}", word(format!("{}@{}", saved.name, saved.version)));
    if let Some(given) = kept.given() {
        let place = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        line.push_str(&format!(" --workspace {}", word(place.display().to_string())));
    }
    line
}

async fn list(artifacts: &Artifacts, json: bool, terminal: &mut Terminal) -> Result<()> {
    let mut listed = Vec::new();
    for record in artifacts.list().await.map_err(|error| anyhow!("{error}"))? {
        let name = ArtifactName::parse(&record.name)?;
        listed.push(Listed {
            versions: artifacts.versions(&name).await.map_err(|error| anyhow!("{error}"))?.len(),
            name: record.name,
            version: record.version,
            mime_type: record.mime_type,
            size_bytes: record.size,
            digest: record.digest,
        });
    }
    if json {
        return terminal.json(&listed);
    }
    if listed.is_empty() {
        writeln!(anstream::stderr(), "there are no artifacts; `prowess run --save` makes them")?;
        return Ok(());
    }
    let row = |one: &Listed| {
        vec![shown(&one.name), one.version.to_string(), size(one.size_bytes), shown(&one.mime_type)]
    };
    terminal.table(&["NAME", "LATEST", "SIZE", "TYPE"], &listed.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

async fn get(
    artifacts: &Artifacts,
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
    let loaded = artifacts.load(&parse(name)?, version).await.map_err(not_found)?;
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
        bail!("it is {}, which is no text: -o FILE writes it to a file", shown(&loaded.mime_type));
    };
    writeln!(terminal, "{}", crate::terminal::shown_lines(text).trim_end_matches('\n'))?;
    Ok(())
}

async fn remove(artifacts: &Artifacts, name: &str) -> Result<()> {
    let name = parse(name)?;
    let versions = artifacts.versions(&name).await.map_err(not_found)?;
    if versions.is_empty() {
        bail!("there is no artifact `{}`; `prowess artifacts list` shows all", shown(name.as_str()));
    }
    artifacts.delete(&name).await.map_err(not_found)?;
    writeln!(anstream::stderr(), "removed {}, {}", shown(name.as_str()), count(versions.len(), "version"))?;
    Ok(())
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
