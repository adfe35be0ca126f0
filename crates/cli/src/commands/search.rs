//! `prowess search WORDS`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_catalog::{SearchHit, Trust};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::options::RootArgs;
use crate::terminal::{Terminal, printable};
use crate::visibility::ChatSkills;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The words to search for
    #[arg(required = true)]
    words: Vec<String>,
    /// The most skills to show
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root_args: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let skills = options.root_args.discover()?;
    let visible_skills = ChatSkills::of_or_warn(&skills)?;
    let seen =
        |hit: &SearchHit| visible_skills.as_ref().map(|visible_skills| visible_skills.visibility(&hit.entry));
    let hits = skills.catalog.view_for_people().search(&options.words.join(" "));
    let best = &hits[..hits.len().min(usize::from(options.limit))];
    let is_untrusted = |hit: &SearchHit| hit.entry.trust == Trust::Untrusted;
    if options.json {
        let rows: Vec<_> = best
            .iter()
            .map(|hit| {
                let skill = &hit.entry.skill;
                json!({
                    "name": skill.name, "score": hit.score, "untrusted": is_untrusted(hit),
                    "model_visible": seen(hit).is_some_and(|seen| seen.is_visible()),
                    "description": skill.description, "location": skill.location,
                })
            })
            .collect();
        terminal.json(&rows)?;
    } else if best.is_empty() {
        writeln!(terminal, "No skill matches these words. `prowess list` shows all skills.")?;
    } else {
        let rows: Vec<Vec<String>> = best
            .iter()
            .map(|hit| {
                let mark = seen(hit).and_then(|seen| seen.mark()).map(|mark| format!(" ({mark})"));
                let name = format!("{}{}", hit.entry.skill.name, mark.unwrap_or_default());
                vec![name, format!("{:.2}", hit.score), printable(&hit.entry.skill.description)]
            })
            .collect();
        terminal.table(&["NAME", "SCORE", "DESCRIPTION"], &rows)?;
        if hits.len() > best.len() && terminal.is_screen() {
            writeln!(terminal, "\n{} more: --limit N shows them", hits.len() - best.len())?;
        }
    }
    Ok(CommandOutcome::Done)
}
