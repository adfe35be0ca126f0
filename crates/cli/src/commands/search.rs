//! `prowess search WORDS`

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::{SearchHit, SkillEntry, Trust};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::config::{Config, OfProject};
use crate::embeddings::{self, Wait};
use crate::options::{KitArgs, RootArgs};
use crate::progress::Progress;
use crate::skills::Skills;
use crate::terminal::{Terminal, printable};
use crate::visibility::{ChatSkills, Visibility};

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
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    if options.words.iter().all(|word| word.trim().is_empty()) {
        bail!("write what to search for, such as: prowess search \"make a chart\"");
    }
    let skills = options.root_args.discover()?;
    let visible_skills = ChatSkills::of_or_warn(&skills, Some(&options.kits))?;
    let seen =
        |hit: &SearchHit| visible_skills.as_ref().map(|visible_skills| visible_skills.visibility(&hit.entry));
    let is_for_models = |entry: &SkillEntry| {
        let seen = visible_skills.as_ref().map(|visible_skills| visible_skills.visibility(entry));
        matches!(seen, Some(Visibility::Yes | Visibility::WithFiles | Visibility::Marked))
    };
    let mut hits = search(&skills, is_for_models, &options.words.join(" "))?;
    let all = hits.len();
    if let Some(visible_skills) = &visible_skills {
        hits.retain(|hit| !visible_skills.is_outside_kits(hit.entry.skill.name.as_str()));
    }
    let outside_kits = all - hits.len();
    let kits = visible_skills.as_ref().map(ChatSkills::kits).unwrap_or_default();
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
    } else if best.is_empty() && !kits.is_empty() {
        writeln!(terminal, "No skill in the kits in use ({kits}) matches these words.")?;
    } else if best.is_empty() {
        let is_foreign = options.words.iter().any(|word| !word.is_ascii());
        let advice = if is_foreign { " Most skills are in English: try English words." } else { "" };
        writeln!(terminal, "No skill matches these words.{advice} `prowess list` shows all skills.")?;
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
    if outside_kits > 0 && !options.json {
        terminal.flush()?;
        let (skills, are) = if outside_kits == 1 { ("skill", "is") } else { ("skills", "are") };
        writeln!(
            anstream::stderr(),
            "{outside_kits} matching {skills} {are} in none of the kits in use ({kits}); `--kit off` searches all"
        )?;
    }
    Ok(CommandOutcome::Done)
}

/// The skills that match, best first: by words and, with an embedding model, by meaning. Only the texts of skills that `may_send`
/// accepts reach that model.
fn search(skills: &Skills, may_send: impl Fn(&SkillEntry) -> bool, words: &str) -> Result<Vec<SearchHit>> {
    let view = skills.catalog.view_for_people();
    // Only the user's own file can name an embedding model.
    let settings = Config::load(&OfProject::Nothing, &[])?.settings;
    let tell = |message: &str| drop(writeln!(anstream::stderr(), "{message}"));
    let Some(embeddings) = embeddings::configured(&settings, Wait::ForAll, tell) else {
        return Ok(view.search(words));
    };
    let _progress = Progress::start("asking the embedding model");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("cannot start the search")?.block_on(embeddings.search(
        &view,
        &skills.catalog.view(may_send),
        words,
    )))
}
