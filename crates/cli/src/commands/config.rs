//! `prowess config`

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use prowess_catalog::{Environment, RootLayout};
use serde::Serialize;
use serde_json::Value;

use crate::commands::CommandOutcome;
use crate::config::{self, Config, Origin, key, written};
use crate::project::Project;
use crate::terminal::{Style, Terminal, count, printable, styled};
use crate::trust::{self, TrustStatus};

/// The widest value that the last column is aligned to, in characters.
const MAX_ALIGNED: usize = 40;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every key with its value and its origin
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Trust this project for this command: use its prowess.toml
        #[arg(long)]
        trust_project: bool,
    },
    /// Print where prowess looks for your own file
    Path,
    /// Print a reference of all keys, as Markdown
    Reference,
}

/// One key.
#[derive(Serialize)]
struct Row {
    key: String,
    value: Option<Value>,
    origin: Word,
    /// The file, the variable or the option.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// The kind of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Default,
    User,
    Project,
    Environment,
    Flag,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    match &options.command {
        Command::Show { json, trust_project } => show(*json, *trust_project, terminal)?,
        Command::Path => {
            let path = config::user_path().context("there is no home directory; set HOME")?;
            writeln!(terminal, "{}", path.display())?;
        }
        Command::Reference => write!(terminal, "{}", config::reference())?,
    }
    Ok(CommandOutcome::Done)
}

fn show(json: bool, trust_project: bool, terminal: &mut Terminal) -> Result<()> {
    let environment = Environment::of_process().context("cannot read the working directory")?;
    let project = Project::around(&environment, &RootLayout::default());
    let trust_status = if trust_project { TrustStatus::Whole } else { trust::status(project.as_ref())? };
    let config = Config::load(&trust_status.configuration(project.as_ref())?, &[])?;
    let rows = rows(&config);
    if json {
        terminal.json(&rows)?;
    } else {
        print(&rows, terminal)?;
        if terminal.is_screen() && rows.iter().any(|row| row.value.is_none()) {
            let note = "-: not set; `prowess config reference` says what prowess does then";
            writeln!(terminal, "{}", styled(note, Style::Faint))?;
        }
        for (what, number) in [("permission rule", config.rules()), ("hook", config.hooks()?.len())] {
            if number > 0 {
                writeln!(terminal, "and {}", count(number, what))?;
            }
        }
    }
    terminal.flush()?;
    if let Some(notice) = trust_status.notice_of_configuration(project.as_ref()) {
        writeln!(anstream::stderr(), "{notice}")?;
    }
    for warning in config.warnings() {
        writeln!(anstream::stderr(), "warning: {warning}")?;
    }
    Ok(())
}

fn rows(config: &Config) -> Vec<Row> {
    let row = |row: &config::Row| {
        let value = Some(without_secrets(&row.path, &row.value)).filter(|value| !value.is_null());
        let (origin, from, line) = match row.origin.clone() {
            Origin::Default => (Word::Default, None, None),
            Origin::User(path, line) => (Word::User, Some(path.display().to_string()), Some(line)),
            Origin::Project(path, line) => (Word::Project, Some(path.display().to_string()), Some(line)),
            Origin::Environment(name) => (Word::Environment, Some(name), None),
            Origin::Flag(name) => (Word::Flag, Some(name.to_owned()), None),
        };
        Row { key: key(&row.path), value, origin, from, line }
    };
    let mut rows: Vec<Row> = config.rows.iter().map(row).collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

/// The value without possible secrets: the arguments of a program, and the user name and password of a URL.
fn without_secrets(path: &[String], value: &Value) -> Value {
    match (path.last().map(String::as_str), value) {
        (Some("key_command"), Value::Array(words)) if words.len() > 1 => {
            words.iter().take(1).cloned().chain([Value::from("…")]).collect()
        }
        (Some("base_url" | "endpoint"), Value::String(url)) => Value::from(crate::url::without_secrets(url)),
        (_, value) => value.clone(),
    }
}

/// Prints one line per key: aligned and with faint defaults on a screen, else with tabs.
fn print(rows: &[Row], terminal: &mut Terminal) -> Result<()> {
    let value =
        |row: &Row| row.value.as_ref().map_or_else(|| "-".to_owned(), |value| printable(&written(value)));
    let from = |row: &Row| match (&row.from, row.line) {
        (Some(from), Some(line)) => format!("{}:{line}", printable(from)),
        (Some(from), None) => printable(from),
        (None, _) => "default".to_owned(),
    };
    let is_screen = terminal.is_screen();
    let widest = |cells: &mut dyn Iterator<Item = String>| cells.map(|cell| cell.chars().count()).max();
    let keys = widest(&mut rows.iter().map(|row| printable(&row.key))).unwrap_or(0);
    let values = widest(&mut rows.iter().map(value)).unwrap_or(0).min(MAX_ALIGNED);
    if is_screen {
        let heading = format!("{:keys$}  {:values$}  FROM", "KEY", "VALUE");
        writeln!(terminal, "{}", styled(heading, Style::Heading))?;
    }
    for row in rows {
        let (key, value, from) = (printable(&row.key), value(row), from(row));
        if !is_screen {
            writeln!(terminal, "{key}\t{value}\t{from}")?;
        } else if row.origin == Word::Default {
            let line = format!("{key:keys$}  {value:values$}  {from}");
            writeln!(terminal, "{}", styled(line, Style::Faint))?;
        } else {
            let (key, from) = (styled(format!("{key:keys$}"), Style::Name), styled(from, Style::Faint));
            writeln!(terminal, "{key}  {value:values$}  {from}")?;
        }
    }
    Ok(())
}
