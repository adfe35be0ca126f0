//! `prowess prompt`

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use prowess_catalog::SkillEntry;
use prowess_catalog::overview::{ManualSkills, Rendered, SkillMode};
use prowess_catalog::section::SectionTemplate;
use prowess_permission::{Broker, Decision, Pattern, Permissions, Rule, RuleSource};
use prowess_skills::options::SkillPaths;
use prowess_skills::{Discovery, Guidance, SessionOptions, SkillSession};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::config::LEAST_OVERVIEW;
use crate::options::{KitArgs, RootArgs};
use crate::recent_skills::{Order, RecentSkills};
use crate::skills::Skills;
use crate::terminal::{Terminal, count, printable};
use crate::visibility::{self, ChatSkills, Visibility};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The form of the overview
    #[arg(long, value_enum, default_value_t = Form::Section)]
    form: Form,
    /// Show this skill as loaded; can be repeated
    #[arg(long, value_name = "NAME", add = crate::complete::skills())]
    loaded: Vec<String>,
    /// Tell the model to read skill files itself, for agents without a tool that loads skills
    #[arg(long)]
    read_file: bool,
    /// Also list skills that only people may start, and mark them
    #[arg(long)]
    manual: bool,
    /// Show the files of each skill
    #[arg(long)]
    resources: bool,
    /// The most tokens of the overview, or `off`; by default as in a chat, and `off` with --read-file
    #[arg(long, value_name = "TOKENS", value_parser = budget)]
    budget: Option<Budget>,
    /// A template for the section, with the placeholders {skills_locations} and {skills_list}
    #[arg(long, value_name = "FILE")]
    template: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The whole section of the system prompt
    Section,
    /// Only the list of skills
    List,
    /// The specification's <available_skills>
    Xml,
    /// One line per skill
    Compact,
}

/// How much the overview may take.
#[derive(Clone, Copy, Debug)]
enum Budget {
    Unlimited,
    Tokens(usize),
}

fn budget(text: &str) -> Result<Budget, String> {
    if text == "off" {
        return Ok(Budget::Unlimited);
    }
    match text.parse() {
        Ok(tokens) if u64::try_from(tokens).is_ok_and(|tokens| tokens >= LEAST_OVERVIEW) => {
            Ok(Budget::Tokens(tokens))
        }
        _ => Err(format!("write a whole number of {LEAST_OVERVIEW} or more, or `off`")),
    }
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    refuse_without_effect(options)?;
    let skills = options.root_args.discover()?;
    let visible_skills = ChatSkills::of(&skills, Some(&options.kits))?;
    for name in &options.loaded {
        let entry = skills.find(name)?;
        match visible_skills.visibility(&entry) {
            Visibility::Denied(verdict) => bail!(
                "a model cannot load `{}`: it is denied by {}",
                printable(name),
                visibility::describe_rule(&verdict)
            ),
            Visibility::Off => bail!("a model cannot load `{}`: its mode is `off`", printable(name)),
            Visibility::OutsideKits => {
                bail!("a model cannot load `{}`: it is in none of the kits in use", printable(name));
            }
            _ => {}
        }
    }
    let behaviour = behaviour(options, &visible_skills)?;
    let is_marked = behaviour.manual == ManualSkills::Marked;
    let session = session(options, &visible_skills, &skills, behaviour)?;
    let state = session.state();
    let is_listed = |entry: &SkillEntry| {
        let is_offered =
            entry.skill.extensions.paths.is_empty() || state.get(entry.skill.name.as_str()).is_some();
        let is_manual = visible_skills.mode(entry) == SkillMode::Manual;
        is_offered && !is_manual && (is_marked || entry.skill.is_model_invocable())
    };
    let listed = visible_skills.view().entries().iter().filter(|entry| is_listed(entry)).count();
    let rendered = match options.form {
        Form::Section => session.prompt(),
        Form::List => session.view().overview(),
        Form::Xml => session.view().overview_xml(),
        Form::Compact => session.view().overview_compact(),
    };
    print(&rendered, listed, options.json, terminal)?;
    terminal.flush()?;
    if options.form == Form::Section && rendered.text.is_empty() {
        writeln!(
            anstream::stderr(),
            "the system prompt does not mention skills: in this dialect a tool lists them"
        )?;
    }
    for line in visible_skills.hidden_lines() {
        writeln!(anstream::stderr(), "{line}")?;
    }
    skills.tell_trust()?;
    Ok(CommandOutcome::Done)
}

/// The session options of `prowess chat`, changed by the options of this command.
fn behaviour(options: &Options, visible_skills: &ChatSkills) -> Result<SessionOptions> {
    let mut behaviour = visible_skills.options().clone();
    behaviour.uses = Some(RecentSkills::of_user(Order::ReadOnly));
    if options.read_file {
        behaviour.guidance = Guidance::ReadFile;
        // This form is for programs whose file tools have the paths of this machine.
        behaviour.skill_paths = SkillPaths::Real;
    }
    if options.manual {
        behaviour.manual = ManualSkills::Marked;
    }
    if options.resources {
        behaviour.discovery = Discovery::Eager;
    }
    behaviour.overview_tokens = match options.budget {
        Some(Budget::Tokens(tokens)) => Some(tokens),
        Some(Budget::Unlimited) => None,
        // Without a tool that searches, every skill must be in the list.
        None => visible_skills.overview_tokens().filter(|_| !options.read_file),
    };
    behaviour.capabilities.search |= behaviour.overview_tokens.is_some();
    if let Some(path) = &options.template {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the template {} cannot be read", path.display()))?;
        let template = SectionTemplate::parse(&text).with_context(|| path.display().to_string())?;
        behaviour.template = Some(template);
    }
    Ok(behaviour)
}

/// A session as in `prowess chat`, with some skills loaded.
fn session(
    options: &Options,
    visible_skills: &ChatSkills,
    skills: &Skills,
    behaviour: SessionOptions,
) -> Result<SkillSession> {
    // A skill that is only shown as loaded needs no approval.
    let allowed = options.loaded.iter().map(|name| {
        let name = Pattern::literal(name);
        Rule::new("skill", name.as_str(), Decision::Allow)
    });
    let policy = visible_skills.policy().clone().rules(RuleSource::Agent, allowed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the session")?;
    runtime.block_on(async {
        let permissions = Permissions::new(Broker::in_memory(), visibility::CHAT_AGENT, policy);
        let session = SkillSession::builder(skills.catalog.clone())
            .options(behaviour)
            .permissions(permissions)
            .build()
            .await;
        for name in &options.loaded {
            let entry = skills.find(name)?;
            let is_for_models =
                entry.skill.is_model_invocable() && visible_skills.mode(&entry) != SkillMode::Manual;
            let loaded = if is_for_models {
                session.load(name, None).await
            } else {
                session.invoke(&format!("/{name}")).await
            };
            loaded.with_context(|| format!("`{}` cannot be shown as loaded", printable(name)))?;
        }
        Ok(session)
    })
}

/// Refuses options that have no effect on the chosen form.
fn refuse_without_effect(options: &Options) -> Result<()> {
    let of_list = [
        ("--loaded", !options.loaded.is_empty()),
        ("--read-file", options.read_file),
        ("--manual", options.manual),
        ("--resources", options.resources),
        ("--budget", options.budget.is_some()),
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

fn print(rendered: &Rendered, skills: usize, json: bool, terminal: &mut Terminal) -> Result<()> {
    if json {
        return terminal.json(&json!({ "text": rendered.text, "tokens": rendered.tokens, "skills": skills }));
    }
    writeln!(terminal, "{}", rendered.text)?;
    terminal.flush()?;
    writeln!(anstream::stderr(), "{}, about {} tokens", count(skills, "skill"), rendered.tokens)?;
    Ok(())
}
