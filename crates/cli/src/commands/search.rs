//! `prowess search WORDS`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::commands::Outcome;
use crate::options::Places;
use crate::terminal::{Terminal, count, shown};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// The most skills to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    let skills = options.places.discover()?;
    let hits = skills.catalog.view_all().search(&options.words.join(" "));
    let best = &hits[..hits.len().min(options.limit)];
    if options.json {
        let rows: Vec<_> = best
            .iter()
            .map(|hit| {
                let skill = &hit.entry.skill;
                json!({ "name": skill.name, "score": hit.score, "description": skill.description, "location": skill.location })
            })
            .collect();
        terminal.json(&rows)?;
    } else if best.is_empty() {
        writeln!(terminal, "No skill has these words; `prowess list` shows all there are.")?;
    } else {
        let rows: Vec<Vec<String>> = best
            .iter()
            .map(|hit| {
                vec![
                    hit.entry.skill.name.to_string(),
                    format!("{:.2}", hit.score),
                    shown(&hit.entry.skill.description),
                ]
            })
            .collect();
        terminal.table(&["NAME", "SCORE", "DESCRIPTION"], &rows)?;
    }
    let untrusted = skills.catalog.untrusted().len();
    if untrusted > 0 {
        terminal.flush()?;
        let what = count(untrusted, "project skill");
        writeln!(
            anstream::stderr(),
            "{what} not searched: this project is not trusted; --trust-project searches them"
        )?;
    }
    Ok(Outcome::Done)
}
