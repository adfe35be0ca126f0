//! `prowess run SKILL -- COMMAND`

mod inputs;
mod output;
mod permission;
mod report;
mod results;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use prowess_catalog::{SkillEntry, Trust};
use prowess_permission::{Permissions, Policy};
use prowess_skills::{Outcome, RunSetup, SkillSession, SkillState};
use prowess_workspace::artifact::ArtifactFile;
use prowess_workspace::{
    ArtifactStore, Artifacts, HostRule, InputMode, Level, Network, RunReport, RunRequest, RunWarning, Runner,
    Scope,
};
use tokio::runtime::Runtime;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use self::inputs::{input, stdin};
use self::output::OutputPrinter;
use self::permission::{CommandLineAsker, NAME};
use self::report::{JsonReport, copy_out, print_summary};
use crate::artifacts::{self, ScopeArgs};
use crate::commands::CommandOutcome;
use crate::config::{Config, TelemetrySettings};
use crate::directories::real_path;
use crate::executor::ExecutorArgs;
use crate::options::RootArgs;
use crate::sandbox_level::level_parser;
use crate::shell::quote;
use crate::signals::Signals;
use crate::skills::Skills;
use crate::telemetry;
use crate::terminal::{Terminal, printable};
use crate::workspace_dir::{OpenWorkspaces, WORKSPACE_LIFETIME, WorkspaceDir, new_workspace_id};

/// Which files are results by default.
const DEFAULT_OUT: &str = "out/**";
/// How old artifact data without a name must be before it is removed. No save takes a day.
const SWEPT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The exit code of a program that a closed pipe ended, as a shell reports it.
const BROKEN_PIPE: u8 = 141;

const INPUT_HELP: &str = "\
A file or directory for the command, copied to work/inputs/ or to TO in its workspace. FROM is a path, \
artifact://NAME[@VERSION], skill://NAME/PATH or workspace://PATH; can be repeated";
const ALLOW_HOST_HELP: &str = "\
A host that the command may reach, through a proxy: NAME, *.DOMAIN or an address. Add :PORT for a port other than \
80 and 443; can be repeated";
const AFTER_HELP: &str = "\
The command runs in the skill's directory. It has no network unless --allow-host names hosts. It sees only the \
system's programs, the skill (read-only) and its workspace: out/, work/ and work/inputs/ (also $OUTPUT_DIR and \
$WORK_DIR). In a container it has the programs of the image; prowess finds the engine by DOCKER_HOST, or at its usual \
sockets. Without --stdin its standard input is empty. Workspaces that are not used for a week are removed.

Exit codes: the command's own; 124 timed out, 137 killed, 125 nothing ran; 129, 130 or 143 if a signal (SIGHUP, SIGINT, \
SIGTERM) ended prowess and the command

Examples:
  prowess run python-math -- 'python3 scripts/fib.py 10 > out/fib.txt'
  prowess run csv-report --input sales.csv -- python3 scripts/csv_profile.py inputs/sales.csv
  prowess run python-math --executor container --image python:3-slim -- python3 scripts/fib.py 10";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The skill's name
    #[arg(add = crate::complete::skills())]
    skill: String,
    /// The command: one line for the shell, or a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[arg(long, value_name = "FROM[=TO]", help = INPUT_HELP)]
    input: Vec<String>,
    /// Like --input, but read-only in place instead of copied; can be repeated
    #[arg(long, value_name = "FROM[=TO]")]
    link: Vec<String>,
    /// A directory of this machine that the command sees read-only at the same path, with its bin/ first in PATH: for a Python or Node outside /usr; can be repeated
    #[arg(long, value_name = "DIR")]
    prefix: Vec<PathBuf>,
    /// The workspace files that are results; can be repeated [default: out/**]
    #[arg(long, value_name = "GLOB")]
    out: Vec<String>,
    /// Save the results as artifacts of this project
    #[arg(long)]
    save: bool,
    /// Copy the results to this directory, up to 4 MiB each, without following links in it. A larger one stays in the workspace, and a warning says where
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The working directory: in the skill, or below $OUTPUT_DIR or $WORK_DIR
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// An environment variable for the command; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The command's standard input: a file, or - for that of prowess
    #[arg(long, value_name = "FILE")]
    stdin: Option<String>,
    #[arg(long, value_name = "HOST", help = ALLOW_HOST_HELP)]
    allow_host: Vec<HostRule>,
    /// How long the command may run, from 1 to 600 [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: Option<u64>,
    /// The weakest sandbox level to accept; prowess uses the strongest that works [default: bwrap]
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    sandbox: Option<Level>,
    #[command(flatten)]
    executor: ExecutorArgs,
    /// Work in the workspace of this name, with the files of earlier runs [default: a new workspace]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Print a JSON report, and no output while the command runs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scope_args: ScopeArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
    #[command(flatten)]
    root_args: RootArgs,
}

/// Everything that `prowess run` needs to start its run.
struct RunInvocation {
    skills: Skills,
    policy: Policy,
    setup: RunSetup,
    request: RunRequest,
    stdin: Option<Bytes>,
    /// The directory of the workspace.
    workspace: PathBuf,
    /// The scope that results are saved in.
    scope: Option<Scope>,
    /// Artifacts whose unused data is removed first.
    to_sweep: Option<Artifacts>,
    telemetry: TelemetrySettings,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal, verbose: u8) -> Result<CommandOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the run")?;
    let prepared = options.prepare(&runtime)?;
    let exporter = telemetry::exporter_if_possible(&prepared.telemetry);
    crate::init_log(verbose, terminal, exporter.as_ref());
    let ended = run_prepared(options, terminal, runtime, prepared);
    if exporter.is_some() {
        // A slow collector keeps nobody from reading the report.
        terminal.flush()?;
    }
    telemetry::send_last_spans(exporter);
    ended
}

fn run_prepared(
    options: &Options,
    terminal: &mut Terminal,
    runtime: Runtime,
    prepared: RunInvocation,
) -> Result<CommandOutcome> {
    let (workspace, scope) = (prepared.workspace.clone(), prepared.scope.clone());
    let printer = OutputPrinter::new(options.json);
    let span = span(&prepared);
    let ran = runtime.block_on(execute(prepared, &printer).instrument(span.clone()));
    record(&span, &ran);
    drop(span);
    // A name lookup that nobody answers is not waited for.
    runtime.shutdown_background();
    let mut report = match ran? {
        Ok(report) => report,
        Err(code) => return Ok(CommandOutcome::Code(code)),
    };
    if options.out.is_empty() {
        // Nobody promised that there would be results.
        report
            .warnings
            .retain(|warning| !matches!(warning, RunWarning::NoMatch { glob } if glob == DEFAULT_OUT));
    }
    options.print(&mut report, &printer, &workspace, scope.as_ref(), terminal)?;
    Ok(CommandOutcome::Code(u8::try_from(report.exit_code).unwrap_or(u8::MAX)))
}

/// The span of the command, around the steps of the run.
fn span(prepared: &RunInvocation) -> Span {
    let skill = prepared.telemetry.names_skills().then_some(prepared.request.skill.as_str());
    tracing::info_span!(
        "prowess.run",
        otel.name = "prowess run",
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        exit_code = Empty,
        gen_ai.skill.name = skill,
        gen_ai.skill.operation = skill.map(|_| "run"),
    )
}

/// Records how the command ended.
fn record(span: &Span, ran: &Result<Result<RunReport, u8>>) {
    let error = match ran {
        Ok(Ok(report)) => {
            span.record("exit_code", report.exit_code);
            return;
        }
        Ok(Err(_)) => "stopped",
        Err(_) => "nothing_ran",
    };
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error);
}

/// Runs the command. The error is the exit code if a signal or a closed pipe ended it.
async fn execute(prepared: RunInvocation, printer: &OutputPrinter) -> Result<Result<RunReport, u8>> {
    let RunInvocation { skills, policy, setup, request, stdin, to_sweep, .. } = prepared;
    let command = request.command.clone();
    let permissions = Permissions::unattended(policy);
    let service =
        SkillSession::builder(skills.catalog).permissions(permissions).runs(setup).build_service().await;
    let view = service.engine().at(&SkillState::default());
    let mut signals = Signals::catch().context("signals cannot be caught")?;
    if let Some(artifacts) = to_sweep {
        let _ = artifacts.sweep(SWEPT_AFTER).await;
    }
    // Dropping this future ends everything that it started.
    let ran = service.run_typed(&view, request, stdin, printer, &CommandLineAsker);
    let outcome = tokio::select! {
        outcome = ran => outcome,
        () = printer.closed() => return Ok(Err(BROKEN_PIPE)),
        code = signals.code() => return Ok(Err(code)),
    };
    match outcome {
        Outcome::Done(report) => Ok(Ok(report)),
        Outcome::Refused(error) => bail!("nothing ran: {}", permission::explain(&error, &command)),
        Outcome::Asks(question) => {
            bail!("nothing ran: nobody is here to approve: {}", printable(&question.wording().title))
        }
    }
}

impl Options {
    /// Finds the skill, checks trust and rules, and sets up workspace, artifacts and executor.
    fn prepare(&self, runtime: &Runtime) -> Result<RunInvocation> {
        let skills = self.root_args.discover()?;
        let entry = skills.find(&self.skill)?;
        check_trust(&skills, &entry)?;
        self.to.as_deref().map_or(Ok(()), results::check)?;
        let request = self.request(entry.skill.name.as_str())?;
        let config = Config::load(&skills.configuration()?, &[])?;
        let policy = config.policy(NAME, &self.workspace_dir);
        if let Some(why) = permission::denied(&policy, &entry) {
            bail!("nothing ran: {why}");
        }
        if request.inputs.iter().any(|input| input.local_path().is_some()) {
            for warning in config.warnings() {
                writeln!(anstream::stderr(), "warning: {warning}")?;
            }
        }
        let stdin = self.stdin.as_deref().map(stdin).transpose()?;
        let opened = self.open_workspaces()?;
        let artifacts = self.artifacts(&request, &skills, &config, runtime)?;
        let session = self.session.clone().unwrap_or_else(new_workspace_id);
        let workspace = opened.workspaces.workspace(&session).map_err(|error| anyhow!("{error}"))?;
        let runner = Runner {
            workspaces: opened.workspaces,
            artifacts: artifacts.clone().map(|artifacts| Arc::new(artifacts) as Arc<dyn ArtifactStore>),
            executor: Some(
                self.executor
                    .or_configured(&config.settings.sandbox)
                    .build(self.sandbox, self.prefixes()?)?,
            ),
        };
        let mut setup = RunSetup::new(runner, session);
        if !self.allow_host.is_empty() {
            setup.network = Network::Hosts(self.allow_host.clone());
        }
        Ok(RunInvocation {
            skills,
            policy,
            setup,
            request,
            stdin,
            workspace: workspace.path().to_owned(),
            scope: artifacts.as_ref().map(|artifacts| artifacts.scope().clone()),
            to_sweep: artifacts.filter(|_| self.workspace_dir.is_sweep_due()),
            telemetry: config.settings.telemetry.clone(),
        })
    }

    /// Opens the workspaces, and removes those that were not used for long.
    fn open_workspaces(&self) -> Result<OpenWorkspaces> {
        let opened = self.workspace_dir.workspaces()?;
        if let Some(moved) = &opened.moved {
            let path = opened.path.display();
            writeln!(anstream::stderr(), "{}; workspaces are in {path} instead", printable(moved))?;
        }
        // A workspace that cannot be removed does not stop this run.
        let _ = opened.workspaces.cleanup(WORKSPACE_LIFETIME);
        Ok(opened)
    }

    /// The artifacts that the run reads or saves, if it does either.
    fn artifacts(
        &self,
        request: &RunRequest,
        skills: &Skills,
        config: &Config,
        runtime: &Runtime,
    ) -> Result<Option<Artifacts>> {
        if !self.save && !request.inputs.iter().any(|input| input.from.starts_with("artifact://")) {
            return Ok(None);
        }
        let all = self.workspace_dir.artifacts()?;
        let scope = match runtime.block_on(self.scope_args.chosen(&all))? {
            Some(scope) => scope,
            None => {
                let project = artifacts::project(skills)?;
                let own = artifacts::of_project(&project)?;
                artifacts::configured(config.settings.artifacts.scope, own, &project)?
            }
        };
        Ok(Some(all.in_scope(scope)))
    }

    /// The directories of `--prefix`, which must exist.
    fn prefixes(&self) -> Result<Vec<PathBuf>> {
        let prefix = |prefix: &PathBuf| {
            let found = real_path(prefix).ok().filter(|found| found.is_dir());
            found.with_context(|| format!("{} is not a directory", prefix.display()))
        };
        self.prefix.iter().map(prefix).collect()
    }

    /// Copies the results to `--to`, and prints the report.
    fn print(
        &self,
        report: &mut RunReport,
        printer: &OutputPrinter,
        workspace: &Path,
        scope: Option<&Scope>,
        terminal: &mut Terminal,
    ) -> Result<()> {
        let copied = match &self.to {
            Some(directory) => copy_out(report, &printer.files(), directory, workspace),
            None => Vec::new(),
        };
        if self.json {
            return terminal.json(&JsonReport { report, workspace: workspace.to_string_lossy() });
        }
        // All output was printed while the command ran.
        report.warnings.retain(|warning| !matches!(warning, RunWarning::OutputCut { .. }));
        let is_within_line = printer.finish();
        let mut err = terminal.errors();
        if is_within_line {
            writeln!(err)?;
        }
        let fetch = |saved: &ArtifactFile| Some(artifacts::get_command(scope?, saved, &self.workspace_dir));
        print_summary(report, &copied, workspace, &fetch, &mut err)
    }

    fn request(&self, skill: &str) -> Result<RunRequest> {
        let mut request = RunRequest::new(skill, line(&self.command));
        let copied = self.input.iter().map(|given| input(given, InputMode::Copy));
        let linked = self.link.iter().map(|given| input(given, InputMode::Link));
        request.inputs = copied.chain(linked).collect::<Result<_>>()?;
        request.cwd.clone_from(&self.cwd);
        request.env = BTreeMap::from_iter(self.env.iter().cloned());
        request.output_files.clone_from(&self.out);
        if self.out.is_empty() {
            request.output_files.push(DEFAULT_OUT.to_owned());
        }
        request.network = self.allow_host.iter().map(ToString::to_string).collect();
        request.save_as_artifacts = self.save;
        request.timeout = self.timeout;
        Ok(request)
    }
}

/// Refuses a skill of a project that is not trusted.
fn check_trust(skills: &Skills, entry: &SkillEntry) -> Result<()> {
    if entry.trust != Trust::Untrusted {
        return Ok(());
    }
    let reason = skills.trust_status.reason(skills.project.as_ref(), entry);
    bail!(
        "the skill `{}` of this project is not trusted{}: review {}, then run `prowess trust`, or add --trust-project for this command only",
        printable(entry.skill.name.as_str()),
        reason.map(|reason| format!(" ({reason})")).unwrap_or_default(),
        printable(entry.skill.location.directory())
    )
}

/// One word is a line for the shell; several words are quoted.
fn line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
    }
}

fn variable(given: &str) -> Result<(String, String), String> {
    let pair = given.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_line_and_several_are_quoted() {
        let words = |words: &[&str]| line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["ls | wc"]), "ls | wc");
        assert_eq!(words(&["echo", "it's", "$HOME"]), r"'echo' 'it'\''s' '$HOME'");
    }

    #[test]
    fn variables_need_a_name() {
        assert_eq!(variable("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        variable("=b").unwrap_err();
        variable("A").unwrap_err();
    }
}
