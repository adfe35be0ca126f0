//! `prowess prompt`

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use prowess_catalog::{Activation, ManualSkills, OverviewOptions, Rendered, SectionTemplate};
use serde_json::json;

use crate::commands::Outcome;
use crate::options::Places;
use crate::sight::{self, Seen, Sight};
use crate::terminal::{Terminal, count, shown};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The form of the overview
    #[arg(long, value_enum, default_value_t = Form::Section)]
    form: Form,
    /// Show this skill as loaded
    #[arg(long, value_name = "NAME", add = crate::complete::skills())]
    loaded: Vec<String>,
    /// Tell the model to read files itself, where it has no tool to load a skill
    #[arg(long)]
    read_file: bool,
    /// List skills that only people may start, marked as such
    #[arg(long)]
    manual: bool,
    /// Show what files each skill has
    #[arg(long)]
    resources: bool,
    /// A template for the section, with the slots {skills_locations} and {skills_list}
    #[arg(long, value_name = "FILE")]
    template: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The whole section of the system prompt
    Section,
    /// Its list of skills alone
    List,
    /// The specification's <available_skills>
    Xml,
    /// One line a skill
    Compact,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    refuse_without_effect(options)?;
    let skills = options.places.discover()?;
    let sight = Sight::of(&skills)?;
    for name in &options.loaded {
        let entry = skills.find(name)?;
        if let Seen::Denied(verdict) = sight.seen(&entry) {
            bail!("a model cannot load `{}`: it is denied by {}", shown(name), sight::rule(&verdict));
        }
    }
    let view = match options.loaded.as_slice() {
        [] => sight.offered(),
        // What is loaded is listed, whichever files are in play.
        loaded => sight.view().filtered(|entry| {
            let is_loaded = loaded.iter().any(|name| name == entry.skill.name.as_str());
            is_loaded || entry.skill.extensions.paths.is_empty()
        }),
    };
    let listed =
        view.entries().iter().filter(|entry| options.manual || entry.skill.is_model_invocable()).count();
    let mut overview = OverviewOptions::default();
    overview.loaded = options.loaded.iter().map(String::as_str).collect();
    overview.create_in.clone_from(&skills.create_in);
    if options.read_file {
        overview.activation = Activation::ReadFile;
    }
    if options.manual {
        overview.manual = ManualSkills::Marked;
    }
    let list = || {
        view.overview_with(&overview, &|entry| {
            let wanted = options.resources || overview.loaded.contains(entry.skill.name.as_str());
            wanted.then(|| entry.resources(1).counts())
        })
    };
    let rendered = match options.form {
        Form::Section => template(options)?.render(&view.locations(), &list().text),
        Form::List => list(),
        Form::Xml => view.overview_xml(),
        Form::Compact => view.overview_compact(),
    };
    print(&rendered, listed, options.json, terminal)?;
    terminal.flush()?;
    if let Some(denied) = sight.of_denied() {
        writeln!(anstream::stderr(), "{denied}")?;
    }
    skills.tell_standing()?;
    Ok(Outcome::Done)
}

/// An option that the form has no use for is a mistake, and not ignored.
fn refuse_without_effect(options: &Options) -> Result<()> {
    let of_list = [
        ("--loaded", !options.loaded.is_empty()),
        ("--read-file", options.read_file),
        ("--manual", options.manual),
        ("--resources", options.resources),
    ];
    let of_section = [("--template", options.template.is_some())];
    let useless = match options.form {
        Form::Section => None,
        Form::List => of_section.iter().find(|(_, given)| *given),
        Form::Xml | Form::Compact => of_list.iter().chain(&of_section).find(|(_, given)| *given),
    };
    match useless {
        Some((option, _)) => bail!(
            "{option} has no effect on this form; use --form section{}",
            if options.form == Form::List { "" } else { " or list" }
        ),
        None => Ok(()),
    }
}

fn template(options: &Options) -> Result<SectionTemplate> {
    let Some(path) = &options.template else {
        return Ok(if options.read_file {
            SectionTemplate::for_reading()
        } else {
            SectionTemplate::default()
        });
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the template {} cannot be read", path.display()))?;
    SectionTemplate::parse(&text).with_context(|| path.display().to_string())
}

fn print(rendered: &Rendered, skills: usize, json: bool, terminal: &mut Terminal) -> Result<()> {
    if json {
        return terminal.json(&json!({ "text": rendered.text, "tokens": rendered.tokens, "skills": skills }));
    }
    writeln!(terminal, "{}", rendered.text)?;
    terminal.flush()?;
    writeln!(anstream::stderr(), "{}, about {} tokens", count(skills, "skill"), rendered.tokens)?;
    Ok(())
}
