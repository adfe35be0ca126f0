//! `prowess run SKILL -- COMMAND`

mod output;
mod permission;
mod results;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read as _, Write};
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use prowess_catalog::Trust;
use prowess_permission::Permissions;
use prowess_skills::{RunSetup, SkillSession, SkillState};
use prowess_workspace::artifact::ArtifactFile;
use prowess_workspace::{
    ArtifactStore, HostRule, InputMode, Level, Network, RunInput, RunReport, RunRequest, RunWarning, Runner,
};
use serde::Serialize;

use self::output::OutputPrinter;
use self::permission::{CommandLineAsker, NAME};
use crate::artifacts::{self, ScopeArgs};
use crate::commands::CommandOutcome;
use crate::config::Config;
use crate::executor::ExecutorArgs;
use crate::options::RootArgs;
use crate::signals::Signals;
use crate::terminal::{Style, Terminal, printable, size, styled};
use crate::workspace_dir::WorkspaceDir;

/// Workspaces that nobody used for so long are removed.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes of artifacts that nobody names are removed after so long: no save takes a day.
const SWEPT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The most that a command can be given to read.
const MAX_STDIN: u64 = 64 << 20;
/// Which files are results when nobody says.
const DEFAULT_OUT: &str = "out/**";
/// What a shell says of a program that was ended by a closed pipe.
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
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    sandbox: Option<Level>,
    #[command(flatten)]
    choice: ExecutorArgs,
    /// Work in the workspace of this name, with the files of earlier runs [default: a new workspace]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Print a JSON report, and no output while the command runs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    whose: ScopeArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
    #[command(flatten)]
    places: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let skills = options.places.discover()?;
    let entry = skills.find(&options.skill)?;
    if entry.trust == Trust::Untrusted {
        let reason = skills.trust_status.reason(skills.project.as_ref(), &entry);
        bail!(
            "the skill `{}` of this project is not trusted{}: review {}, then run `prowess trust`, or add --trust-project for this command only",
            printable(entry.skill.name.as_str()),
            reason.map(|reason| format!(" ({reason})")).unwrap_or_default(),
            printable(entry.skill.location.directory())
        );
    }
    options.to.as_deref().map_or(Ok(()), results::check)?;
    let request = options.request(entry.skill.name.as_str())?;
    let config = Config::load(&skills.configuration()?, &[])?;
    let policy = config.policy(NAME, &options.workspace_dir);
    if let Some(why) = permission::denied(&policy, &entry) {
        bail!("nothing ran: {why}");
    }
    if request.inputs.iter().any(|input| input.local_path().is_some()) {
        for warning in config.warnings() {
            writeln!(anstream::stderr(), "warning: {warning}")?;
        }
    }
    let given = options.stdin.as_deref().map(stdin).transpose()?;
    let place = options.workspace_dir.workspaces()?;
    if let Some(moved) = &place.moved {
        writeln!(
            anstream::stderr(),
            "{}; workspaces are in {} instead",
            printable(moved),
            place.path.display()
        )?;
    }
    // What cannot be removed is not this run's trouble.
    let _ = place.workspaces.cleanup(KEPT_FOR);
    let needs_artifacts =
        options.save || request.inputs.iter().any(|input| input.from.starts_with("artifact://"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the run")?;
    let mut artifacts = None;
    if needs_artifacts {
        let all = options.workspace_dir.artifacts()?;
        let project = artifacts::project(&skills)?;
        let scope = match runtime.block_on(options.whose.named(&all))? {
            Some(scope) => scope,
            None => {
                let own = artifacts::of_project(&project)?;
                artifacts::configured(config.settings.artifacts.scope, own, &project)?
            }
        };
        artifacts = Some(all.in_scope(scope));
    }
    let to_sweep = artifacts.clone().filter(|_| options.workspace_dir.is_sweep_due());
    let saved_in = artifacts.as_ref().map(|artifacts| artifacts.scope().clone());
    let artifacts = artifacts.map(|artifacts| Arc::new(artifacts) as Arc<dyn ArtifactStore>);
    let mut prefixes = Vec::new();
    for prefix in &options.prefix {
        let found = self::place(prefix).ok().filter(|found| found.is_dir());
        prefixes.push(found.with_context(|| format!("{} is not a directory", prefix.display()))?);
    }
    let choice = options.choice.over(&config.settings.sandbox);
    let executor = choice.build(options.sandbox, prefixes)?;

    let session = options.session.clone().unwrap_or_else(unnamed);
    let workspace = place.workspaces.workspace(&session).map_err(|error| anyhow!("{error}"))?;
    let runner = Runner { workspaces: place.workspaces, artifacts, executor: Some(executor) };
    let mut runs = RunSetup::new(runner, session);
    if !options.allow_host.is_empty() {
        runs.network = Network::Hosts(options.allow_host.clone());
    }
    let permissions = Permissions::unattended(policy);
    let builder = SkillSession::builder(skills.catalog).permissions(permissions).runs(runs);
    let (live, command) = (OutputPrinter::new(options.json), request.command.clone());
    let report = runtime.block_on(async {
        let service = builder.open().await;
        let view = service.engine().at(&SkillState::default());
        let mut signals = Signals::catch().context("signals cannot be caught")?;
        if let Some(artifacts) = to_sweep {
            let _ = artifacts.sweep(SWEPT_AFTER).await;
        }
        // Who is dropped here ends all that it started.
        let ran = service.run_typed(&view, request, given, &live, &CommandLineAsker);
        Ok::<_, anyhow::Error>(tokio::select! {
            report = ran => Ok(report),
            () = live.closed() => Err(BROKEN_PIPE),
            code = signals.code() => Err(code),
        })
    });
    // A lookup of a name that nobody answers is not waited for.
    runtime.shutdown_background();
    let report = match report? {
        Ok(report) => report,
        Err(code) => return Ok(CommandOutcome::Code(code)),
    };
    let mut report = match report {
        prowess_skills::Outcome::Done(report) => report,
        prowess_skills::Outcome::Refused(error) => {
            bail!("nothing ran: {}", permission::explained(&error, &command));
        }
        prowess_skills::Outcome::Asks(question) => {
            bail!("nothing ran: nobody is here to approve: {}", printable(&question.wording().title));
        }
    };
    if options.out.is_empty() {
        // Nobody said that there would be one.
        report
            .warnings
            .retain(|warning| !matches!(warning, RunWarning::NoMatch { glob } if glob == DEFAULT_OUT));
    }
    let copied = match &options.to {
        Some(directory) => copy_out(&mut report, &live.files(), directory, workspace.path()),
        None => Vec::new(),
    };
    if options.json {
        terminal.json(&JsonReport { report: &report, workspace: workspace.path().to_string_lossy() })?;
    } else {
        // Who saw it live has seen all of it.
        report.warnings.retain(|warning| !matches!(warning, RunWarning::OutputCut { .. }));
        let is_within_line = live.finish();
        let mut err = terminal.errors();
        if is_within_line {
            writeln!(err)?;
        }
        let fetch = |saved: &ArtifactFile| {
            Some(artifacts::get_command(saved_in.as_ref()?, saved, &options.workspace_dir))
        };
        print_summary(&report, &copied, workspace.path(), &fetch, &mut err)?;
    }
    Ok(CommandOutcome::Code(u8::try_from(report.exit_code).unwrap_or(u8::MAX)))
}

impl Options {
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

/// A new name for a workspace that nobody asks for again.
pub(crate) fn unnamed() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("run {} {}", std::process::id(), now.as_nanos())
}

/// One word is a line for the shell as it is; several are quoted.
fn line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

/// A word that a shell takes as it is.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `FROM` or `FROM=TO`; a file whose name has a `=` counts as itself.
fn input(given: &str, mode: InputMode) -> Result<RunInput> {
    let (from, to) = match given.rsplit_once('=') {
        Some((from, to)) if !Path::new(given).exists() => (from, Some(to)),
        _ => (given, None),
    };
    let mut input = RunInput { mode, ..RunInput::copy(from) };
    input.to = to.filter(|to| !to.is_empty()).map(ToOwned::to_owned);
    if !from.contains("://") {
        let path = named(Path::new(from))
            .with_context(|| format!("the input {} cannot be read", printable(from)))?;
        let path = path.to_str().map(|path| format!("host://{path}"));
        input.from = path.with_context(|| format!("the path of {} is not valid text", printable(from)))?;
    }
    Ok(input)
}

/// The absolute path of what has this name, without a `..`, and still with the last name that was given.
fn named(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    std::fs::metadata(&path)?;
    match (path.parent(), path.file_name()) {
        _ if !path.components().any(|part| part == Component::ParentDir) => Ok(path),
        (Some(parent), Some(name)) => Ok(place(parent)?.join(name)),
        _ => place(&path),
    }
}

/// Where a path leads, as the system says it.
pub(crate) fn place(path: &Path) -> std::io::Result<PathBuf> {
    use rustix::fs::{Mode, OFlags, open};
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

fn stdin(from: &str) -> Result<Bytes> {
    let source: Box<dyn std::io::Read> = if from == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(from).with_context(|| format!("{} cannot be read", printable(from)))?)
    };
    let mut bytes = Vec::new();
    let read = source.take(MAX_STDIN + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("{} cannot be read", printable(from)))?;
    if bytes.len() as u64 > MAX_STDIN {
        bail!("{} is larger than {}: use --input instead", printable(from), size(MAX_STDIN));
    }
    Ok(bytes.into())
}

fn variable(given: &str) -> Result<(String, String), String> {
    let pair = given.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn level() -> impl clap::builder::TypedValueParser<Value = Level> {
    // ContainerArgs are chosen with --executor.
    let local = Level::ALL.into_iter().filter(|level| *level != Level::Container);
    PossibleValuesParser::new(local.map(Level::name)).try_map(|given| given.parse::<Level>())
}

/// Copies the results that were collected whole; says of the others why not.
fn copy_out(
    report: &mut RunReport,
    files: &BTreeMap<String, Vec<u8>>,
    directory: &Path,
    workspace: &Path,
) -> Vec<PathBuf> {
    let mut copied = Vec::new();
    for file in &report.output_files {
        let outcome = match files.get(&file.name) {
            None => {
                Err(format!("it is too large; the whole file is {}", workspace.join(&file.name).display()))
            }
            Some(bytes) => results::copy(directory, &file.name, bytes).map_err(|error| error.to_string()),
        };
        match outcome {
            Ok(path) => copied.push(path),
            Err(reason) => {
                let warning = format!("`{}` was not copied: {reason}", file.name);
                report.warnings.push(RunWarning::Other(warning));
            }
        }
    }
    copied
}

/// What became of it, for a program: the report, and where its files are.
#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    report: &'a RunReport,
    /// The directory that names of files are relative to.
    workspace: Cow<'a, str>,
}

/// What became of it, for a person.
fn print_summary(
    report: &RunReport,
    copied: &[PathBuf],
    workspace: &Path,
    fetch: &dyn Fn(&ArtifactFile) -> Option<String>,
    err: &mut impl Write,
) -> Result<()> {
    let seconds = report.duration_ms as f64 / 1000.0;
    let (end, style) = match report.exit_code {
        _ if report.timed_out => (format!("timed out after {seconds:.2} s"), Style::Bad),
        0 => (format!("exit 0 after {seconds:.2} s"), Style::Good),
        137 => (format!("killed after {seconds:.2} s"), Style::Bad),
        code => (format!("exit {code} after {seconds:.2} s"), Style::Bad),
    };
    writeln!(err, "{}, sandbox {}", styled(end, style), report.sandbox.level)?;
    let mut line = |label: &str, text: &str| {
        writeln!(err, "  {} {}", styled(format!("{label:<10}"), Style::Faint), printable(text))
    };
    for missing in &report.sandbox.missing {
        line("missing", &missing.to_string())?;
    }
    for file in &report.output_files {
        let cut = if file.truncated { ", truncated" } else { "" };
        let path = workspace.join(&file.name);
        line("file", &format!("{} ({}, {}{cut})", path.display(), size(file.size_bytes), file.mime_type))?;
    }
    for saved in &report.artifact_files {
        let name = format!("{}@{}", saved.name, saved.version);
        line("saved", &fetch(saved).map_or(name.clone(), |line| format!("{name}: `{line}`")))?;
    }
    for path in copied {
        line("copied", &path.display().to_string())?;
    }
    if !report.output_files.is_empty() {
        line("workspace", &workspace.display().to_string())?;
    }
    for warning in &report.warnings {
        line("warning", &warning.to_string())?;
    }
    Ok(())
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
