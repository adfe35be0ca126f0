//! `prowess chat`

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_workspace::{Level, Runner};

use crate::chat::{self, AgentSetup, Approver, End, JsonView, PipeView, ScreenView, Start, View};
use crate::commands::CommandOutcome;
use crate::config::{Config, Flag};
use crate::database::DatabaseArgs;
use crate::directories;
use crate::executor::ExecutorArgs;
use crate::options::{KitArgs, RootArgs};
use crate::recent_skills::{Order, RecentSkills};
use crate::sandbox_level::{self, SandboxCheck, level_parser};
use crate::telemetry;
use crate::terminal::{Style, Terminal, count, printable, screen_width, styled};
use crate::trust::{ReviewScope, TrustReview, ask_to_trust};
use crate::visibility::ChatSkills;
use crate::workspace_dir::WorkspaceDir;

/// The longest PROMPT that is read from a pipe, in bytes.
const MAX_PROMPT: u64 = 4 << 20;

/// Options that had another name. The old names still work, with a notice.
pub(crate) const RENAMED_OPTIONS: [(&str, &str); 1] = [("--max-turns", "--max-model-calls")];

const AFTER_HELP: &str = "\
Without a PROMPT the chat is interactive, and /help lists its commands. If standard input is not a terminal, prowess \
reads the PROMPT from it. A PROMPT can also be a chat command, such as /context.

Exit codes: 0 the model responded, 1 no response or a question is waiting, 2 usage error, 130 stopped by Ctrl-C";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The message to send; prowess prints the response and exits
    prompt: Option<String>,
    /// The model: PROVIDER:NAME, or offline, which needs no API key and no network
    #[arg(long, value_name = "MODEL", add = crate::complete::models())]
    model: Option<String>,
    /// Continue this thread: its name, the start or end of the name, or `last` for the last one in this directory
    #[arg(long, value_name = "THREAD", add = crate::complete::threads())]
    resume: Option<String>,
    /// Approve everything that needs approval, once; what rules deny stays denied
    #[arg(long)]
    yes: bool,
    /// The weakest sandbox level to accept for commands; prowess uses the strongest that works
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    sandbox: Option<Level>,
    /// How often the model may be called in a turn
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_model_calls: Option<String>,
    /// The old name of --max-model-calls
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide = true)]
    max_turns: Option<String>,
    /// The most that the thread and its sub-agents may cost, in dollars; needs a price for the model in prowess.toml
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    max_cost: Option<String>,
    /// Print events as JSON, one object per line; needs a PROMPT or piped input
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    executor: ExecutorArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
    #[command(flatten)]
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &Terminal, verbose: u8) -> Result<CommandOutcome> {
    let prompt = options.prompt()?;
    let mut skills = options.root_args.discover()?;
    if prompt.is_none() {
        skills = options.trusted(skills)?;
    }
    let config = Config::load(&skills.configuration()?, &options.flags())?;
    let exporter = telemetry::exporter(&config.settings.telemetry)?;
    crate::init_log(verbose, terminal, exporter.as_ref());
    let start = options.start(prompt, skills, config, terminal)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the chat")?;
    let recent = Arc::clone(&start.setup.recent);
    let ended = runtime.block_on(chat::run(start));
    recent.flush();
    // This also ends commands that still run in a sandbox.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    telemetry::send_last_spans(exporter);
    Ok(match ended? {
        End::Well => CommandOutcome::Done,
        End::NoResponse | End::Waiting => CommandOutcome::Findings,
        End::Stopped => CommandOutcome::Code(130),
    })
}

impl Options {
    /// Sets up the chat: workspaces, executor and view, and the notices that come first.
    fn start(
        &self,
        prompt: Option<String>,
        skills: crate::skills::Skills,
        config: Config,
        terminal: &Terminal,
    ) -> Result<Start> {
        let mut notices: Vec<String> =
            config.warnings().map(|warning| format!("warning: {warning}")).collect();
        notices.extend(skills.notice());
        let state = state()?;
        let opened = self.workspace_dir.workspaces()?;
        if let Some(moved) = &opened.moved {
            let path = opened.path.display();
            notices.push(format!("{}; workspaces are in {path} instead", printable(moved)));
        }
        let executor = self.executor.or_configured(&config.settings.sandbox);
        let level = self.sandbox_level(&executor, &mut notices)?;
        let runner = Runner {
            workspaces: opened.workspaces,
            // Each thread gets its own artifacts.
            artifacts: None,
            executor: Some(executor.build(level, Vec::new())?),
        };
        let mut first = Vec::new();
        if prompt.is_none() {
            first = [notices, greeting(&config, &ChatSkills::new(&skills.catalog, &config))].concat();
        } else {
            notices.iter().try_for_each(|notice| writeln!(anstream::stderr(), "{notice}"))?;
        }
        let setup = AgentSetup {
            flags: self.flags(),
            recent: RecentSkills::of_user(Order::Current),
            root_args: self.root_args.clone(),
            runner,
            artifacts: self.workspace_dir.artifacts()?,
            workspace_dir: self.workspace_dir.clone(),
            state,
            approver: match (self.yes, &prompt) {
                (true, _) => Approver::Yes,
                (false, None) => Approver::Person,
                (false, Some(_)) => Approver::Nobody,
            },
            skills,
            config,
            database: self.database.clone(),
            lease: chat::LEASE,
        };
        let view = self.view(terminal);
        Ok(Start { setup, view, resume: self.resume.clone(), prompt, greeting: first })
    }

    /// The PROMPT, from the command line or standard input; `None` for an interactive chat.
    fn prompt(&self) -> Result<Option<String>> {
        const NOTHING: &str = "there is no PROMPT: give one as an argument, or write it to standard input";
        if let Some(prompt) = &self.prompt {
            if prompt.trim().is_empty() {
                bail!(NOTHING);
            }
            return Ok(Some(prompt.clone()));
        }
        let input = std::io::stdin();
        if input.is_terminal() {
            if self.json || !std::io::stdout().is_terminal() {
                bail!("an interactive chat needs a terminal for its output; otherwise give a PROMPT");
            }
            return Ok(None);
        }
        let mut prompt = String::new();
        let read = input.lock().take(MAX_PROMPT + 1).read_to_string(&mut prompt);
        read.context("cannot read the PROMPT from standard input")?;
        if prompt.len() as u64 > MAX_PROMPT {
            bail!("the PROMPT on standard input is larger than {} MiB", MAX_PROMPT >> 20);
        }
        // With --resume an empty PROMPT only continues the thread.
        if prompt.trim().is_empty() && self.resume.is_none() {
            bail!(NOTHING);
        }
        Ok(Some(prompt))
    }

    /// Asks whether to trust new or changed items of the project, and looks for skills again.
    fn trusted(&self, skills: crate::skills::Skills) -> Result<crate::skills::Skills> {
        // A refused item is not asked about again until it changes.
        let Some(project) = skills.project.as_ref().filter(|_| skills.trust_status.has_questions()) else {
            return Ok(skills);
        };
        let review = TrustReview::of(project, ReviewScope::Open)?;
        if !review.has_questions() {
            return Ok(skills);
        }
        write!(anstream::stderr(), "{}", review.summary(screen_width()))?;
        ask_to_trust(&review, &mut std::io::stdin().lock())?;
        self.root_args.discover()
    }

    /// The weakest sandbox level to accept. If it does not work here, the person is asked about a weaker one.
    fn sandbox_level(&self, executor: &ExecutorArgs, notices: &mut Vec<String>) -> Result<Option<Level>> {
        let least = executor.weakest_level(self.sandbox).filter(|_| std::io::stdin().is_terminal());
        let Some(least) = least else { return Ok(self.sandbox) };
        let SandboxCheck::Weaker { why, strongest } = SandboxCheck::probe(least)? else {
            return Ok(self.sandbox);
        };
        match strongest {
            Some(level) if sandbox_level::accept_weaker(level, &why)? => Ok(Some(level)),
            _ => {
                let why = printable(&why);
                notices.push(format!("skill commands cannot run: {why}"));
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
        given.into_iter().filter_map(flag).chain(self.kits.flag()).collect()
    }

    fn view(&self, terminal: &Terminal) -> Box<dyn View> {
        if self.json {
            return Box::new(JsonView(std::io::stdout()));
        }
        if terminal.is_screen() {
            return Box::new(ScreenView::new(std::io::stdout(), terminal.is_styled()));
        }
        Box::new(PipeView::new(std::io::stdout(), terminal.errors()))
    }
}

/// The state directory, which must be writable.
fn state() -> Result<PathBuf> {
    let path = directories::state().context("there is no home directory for threads: set HOME")?;
    let made = directories::make_directory(&path);
    let may = made.and_then(|()| Ok(rustix::fs::access(&path, rustix::fs::Access::WRITE_OK)?));
    may.with_context(|| {
        let path = printable(&path.display().to_string());
        format!("cannot keep threads in {path}; make it writable, or set XDG_STATE_HOME to another directory")
    })?;
    Ok(path)
}

/// The first lines of an interactive chat.
fn greeting(config: &Config, visible_skills: &ChatSkills) -> Vec<String> {
    let skills = count(visible_skills.view().entries().len(), "skill");
    let model = printable(&config.settings.model.name.to_string());
    let mut lines = vec![format!(
        "{} {}",
        styled("prowess", Style::Name),
        styled(format!("{model} · {skills} · /help, Ctrl-D leaves"), Style::Faint)
    )];
    if config.settings.model.name == crate::config::ModelName::Offline {
        let text = [
            "offline is not a language model: it picks a skill by its words and runs its first example.",
            "`prowess chat --model openai:NAME` uses a real one.",
        ];
        lines.extend(text.map(|line| styled(line, Style::Faint)));
    }
    lines
}
