//! `prowess chat`

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_agent::telemetry::Exporter;
use prowess_workspace::{Level, Runner};

use crate::chat::{Answers, AsJson, End, InPipe, OnScreen, Start, View, talk};
use crate::commands::Outcome;
use crate::commands::run::level;
use crate::config::{Config, Flag};
use crate::executor::Choice;
use crate::isolation::{self, Isolation};
use crate::options::Places;
use crate::sight::Sight;
use crate::state::{self, Kept};
use crate::terminal::{Style, Terminal, count, shown, styled};
use crate::trust::{Scope, Survey, ask};

/// The longest prompt that is read from a pipe, in bytes.
const MAX_PROMPT: u64 = 4 << 20;

const AFTER_HELP: &str = "\
Without a PROMPT you talk at the keyboard; /help lists what there is besides talking. Where input is no terminal, the PROMPT \
is read from it. A PROMPT can be a command of a conversation, such as /context.

Exit codes: 0 answered, 1 there is no answer or a question waits for a person, 2 misuse, 130 stopped by Ctrl-C";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// What to say; then the program ends with the answer
    prompt: Option<String>,
    /// Which model answers: PROVIDER:NAME, or offline, which needs neither key nor network
    #[arg(long, value_name = "MODEL", add = crate::complete::models())]
    model: Option<String>,
    /// Go on with this thread: its name, the beginning or the end of it, or `last`, the last of this directory
    #[arg(long, value_name = "THREAD", add = crate::complete::threads())]
    resume: Option<String>,
    /// Say yes, once, to everything that is asked; what rules deny stays denied
    #[arg(long)]
    yes: bool,
    /// The weakest isolation that is enough for commands; the strongest that works here is taken
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    sandbox: Option<Level>,
    /// How often the model may be called in a turn
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_model_calls: Option<String>,
    /// The old name of --max-model-calls
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide = true)]
    max_turns: Option<String>,
    /// How many dollars the thread may cost with its sub-agents; it needs a price for the model in prowess.toml
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    max_cost: Option<String>,
    /// Print what happens as JSON, one object a line; with a PROMPT, or from a pipe
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    kept: Kept,
    #[command(flatten)]
    places: Places,
}

pub(crate) fn run(options: &Options, terminal: &Terminal, verbose: u8) -> Result<Outcome> {
    let prompt = options.prompt()?;
    let mut skills = options.places.discover()?;
    if prompt.is_none() {
        skills = options.trusted(skills)?;
    }
    let config = Config::load(&skills.configuration()?, &options.flags())?;
    let exporter = exporter(&config)?;
    crate::init_log(verbose, terminal, exporter.as_ref());
    let mut err = anstream::stderr();
    let mut notices: Vec<String> = config.warnings().map(|warning| format!("warning: {warning}")).collect();
    notices.extend(skills.notice());
    let state = state()?;
    let place = options.kept.workspaces()?;
    if let Some(moved) = &place.moved {
        notices.push(format!("{}: workspaces are at {}", shown(moved), place.path.display()));
    }
    let choice = options.choice.over(&config.settings.sandbox);
    let least = options.isolation(&choice, &mut notices)?;
    let runner = Runner {
        workspaces: place.workspaces,
        // Each thread has its own.
        artifacts: None,
        executor: Some(choice.build(least, Vec::new())?),
    };
    let mut first = Vec::new();
    if prompt.is_none() {
        first = [notices, greeting(&config, &Sight::new(&skills.catalog, &config))].concat();
    } else {
        notices.iter().try_for_each(|notice| writeln!(err, "{notice}"))?;
    }
    let start = Start {
        flags: options.flags(),
        places: options.places.clone(),
        runner,
        artifacts: options.kept.artifacts()?,
        kept: options.kept.clone(),
        state,
        view: options.view(terminal),
        answers: match (options.yes, &prompt) {
            (true, _) => Answers::Yes,
            (false, None) => Answers::Person,
            (false, Some(_)) => Answers::Nobody,
        },
        resume: options.resume.clone(),
        prompt,
        greeting: first,
        skills,
        config,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("the conversation cannot be started")?;
    let ended = runtime.block_on(talk(start));
    // What a sandbox still does is ended with it.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    if let Some(Err(error)) = exporter.map(Exporter::shutdown) {
        writeln!(err, "telemetry: {}", shown(&error.to_string()))?;
    }
    Ok(match ended? {
        End::Well => Outcome::Done,
        End::Unanswered | End::Waiting => Outcome::Findings,
        End::Stopped => Outcome::Code(130),
    })
}

impl Options {
    /// What is to be said, if not at the keyboard.
    fn prompt(&self) -> Result<Option<String>> {
        const NOTHING: &str = "there is nothing to say: give a PROMPT, or write it to standard input";
        if let Some(prompt) = &self.prompt {
            if prompt.trim().is_empty() {
                bail!(NOTHING);
            }
            return Ok(Some(prompt.clone()));
        }
        let input = std::io::stdin();
        if input.is_terminal() {
            if self.json || !std::io::stdout().is_terminal() {
                bail!("to talk at the keyboard, output has to be a terminal too; or give a PROMPT");
            }
            return Ok(None);
        }
        let mut prompt = String::new();
        let read = input.lock().take(MAX_PROMPT + 1).read_to_string(&mut prompt);
        read.context("the PROMPT cannot be read from standard input")?;
        if prompt.len() as u64 > MAX_PROMPT {
            bail!("standard input has more than {} MiB: that is no PROMPT", MAX_PROMPT >> 20);
        }
        // Who resumes a thread may only want it to go on.
        if prompt.trim().is_empty() && self.resume.is_none() {
            bail!(NOTHING);
        }
        Ok(Some(prompt))
    }

    /// Asks whether to trust what of the project is new or has changed, and looks again.
    fn trusted(&self, skills: crate::skills::Skills) -> Result<crate::skills::Skills> {
        // Who said no once is not asked about the same again.
        let Some(project) = skills.project.as_ref().filter(|_| skills.standing.has_questions()) else {
            return Ok(skills);
        };
        let survey = Survey::of(project, Scope::Open)?;
        if !survey.has_questions() {
            return Ok(skills);
        }
        write!(anstream::stderr(), "{}", survey.summary())?;
        ask(&survey, &mut std::io::stdin().lock())?;
        self.places.discover()
    }

    /// The weakest isolation that is enough. Where it cannot be had, a person at the terminal is asked about a weaker one.
    fn isolation(&self, choice: &Choice, notices: &mut Vec<String>) -> Result<Option<Level>> {
        let least = choice.least(self.sandbox).filter(|_| std::io::stdin().is_terminal());
        let Some(least) = least else { return Ok(self.sandbox) };
        let Isolation::Weaker { why, strongest } = Isolation::find(least)? else { return Ok(self.sandbox) };
        match strongest {
            Some(level) if isolation::accepts(level, &why)? => Ok(Some(level)),
            _ => {
                let why = shown(&why);
                notices.push(format!("commands of skills are refused: {why}"));
                Ok(self.sandbox)
            }
        }
    }

    fn flags(&self) -> Vec<Flag> {
        let given = [
            ("model.name", "--model", &self.model),
            ("limits.model_calls", "--max-model-calls", &self.max_model_calls),
            ("limits.steps", "--max-turns", &self.max_turns),
            ("limits.cost", "--max-cost", &self.max_cost),
        ];
        let flag = |(key, name, text): (&'static str, &'static str, &Option<String>)| {
            Some(Flag { key, name, text: text.clone()? })
        };
        given.into_iter().filter_map(flag).collect()
    }

    fn view(&self, terminal: &Terminal) -> Box<dyn View> {
        if self.json {
            return Box::new(AsJson(std::io::stdout()));
        }
        if terminal.is_screen() {
            return Box::new(OnScreen::new(std::io::stdout(), terminal.is_styled()));
        }
        Box::new(InPipe::new(std::io::stdout(), terminal.errors()))
    }
}

/// Where everything is kept, which has to be written to.
fn state() -> Result<PathBuf> {
    let path = state::directory().context("there is no home to keep threads in: set HOME")?;
    let made = state::make_directory(&path);
    let may = made.and_then(|()| Ok(rustix::fs::access(&path, rustix::fs::Access::WRITE_OK)?));
    may.with_context(|| {
        let path = shown(&path.display().to_string());
        format!(
            "threads cannot be kept in {path}; make it writable, or set XDG_STATE_HOME to another directory"
        )
    })?;
    Ok(path)
}

/// What a person reads first.
fn greeting(config: &Config, sight: &Sight) -> Vec<String> {
    let skills = count(sight.view().entries().len(), "skill");
    let model = shown(&config.settings.model.name.to_string());
    let mut lines = vec![format!(
        "{} {}",
        styled("prowess", Style::Name),
        styled(format!("{model} · {skills} · /help, Ctrl-D leaves"), Style::Faint)
    )];
    if config.settings.model.name == crate::config::ModelName::Offline {
        let text = [
            "offline is not a language model: it picks a skill by its words and runs its first example.",
            "`prowess chat --model openai:NAME` asks a real one.",
        ];
        lines.extend(text.map(|line| styled(line, Style::Faint)));
    }
    lines
}

/// What sends spans to a collector, if there is one.
fn exporter(config: &Config) -> Result<Option<Exporter>> {
    let made = match &config.settings.telemetry.endpoint {
        Some(endpoint) => Exporter::new(endpoint, "prowess").map(Some),
        None => Exporter::from_env(),
    };
    made.map_err(|error| anyhow::anyhow!("telemetry: {error}"))
}
