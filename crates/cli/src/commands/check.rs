//! `prowess check [SKILL…]`

mod github;
pub(crate) mod human;
pub(crate) mod machine;
mod sarif;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use prowess_catalog::check::{CheckReport, Profile, check_directory};
use prowess_catalog::{Code, Diagnostic, Severity};

use crate::commands::CommandOutcome;
use crate::options::RootArgs;
use crate::progress::Progress;
use crate::skills::Skills;
use crate::terminal::{Terminal, count, printable};

/// How often fixes are applied. A fix can reveal another one, but never this often.
const FIX_ROUNDS: usize = 8;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Skill names, skill directories, SKILL.md files, or directories that contain skills. An existing path wins over a name [default: the directories of --root, else the working directory]
    #[arg(value_name = "SKILL", add = crate::complete::skills_and_paths())]
    skills: Vec<PathBuf>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Print JSON: the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// The rules to apply
    #[arg(long, value_enum, default_value_t = ProfileName::Spec)]
    profile: ProfileName,
    /// Fix what can be fixed safely
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    root_args: RootArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Source lines with explanations, for people
    Human,
    /// One JSON array
    Json,
    /// One JSON object per line
    Jsonl,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// GitHub workflow commands
    Github,
}

/// The profiles by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// The open specification, strictly
    Spec,
    /// What Claude's products accept
    Claude,
    /// The specification, plus every field that prowess uses
    Prowess,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Spec => Self::Spec,
            ProfileName::Claude => Self::Claude,
            ProfileName::Prowess => Self::Prowess,
        }
    }
}

/// The numbers for the summary.
#[derive(Debug, Default)]
struct Tally {
    skills: usize,
    valid: usize,
    fixed: usize,
    fixable: usize,
    /// For each code: how many findings, and in how many skills.
    codes: BTreeMap<Code, (usize, usize)>,
    /// Directories in which there is no skill.
    empty: usize,
    /// Whether something was skipped.
    incomplete: bool,
    /// Failures that are not findings about skills.
    failures: Vec<anyhow::Error>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let format = if options.json { Format::Json } else { options.format };
    let mut tally = Tally::default();
    let mut kept = Vec::new();
    let mut scan = options.root_args.scan_options();
    scan.hidden = true;
    let paths = options.paths();
    // Output that is printed as it comes needs no spinner.
    let silent = !terminal.is_screen() || matches!(format, Format::Json | Format::Sarif);
    let progress = silent.then(|| Progress::start("checking skills"));
    for path in paths {
        let path = match path {
            Ok(path) => path,
            Err(error) => {
                tally.failures.push(error);
                continue;
            }
        };
        let mut broken = None;
        let checked = prowess_catalog::check(&path, options.profile.into(), &scan, &mut |report| {
            if broken.is_none() {
                broken = handle_report(report, options, format, &mut tally, &mut kept, terminal).err();
            }
        });
        if let Some(error) = broken {
            return Err(error);
        }
        match checked.with_context(|| format!("{} cannot be checked", path.display())) {
            Ok(met) => {
                tally.incomplete |= met.iter().any(|met| met.code.leaves_out());
                print_scan_diagnostics(&met)?;
            }
            Err(error) => tally.failures.push(error),
        }
    }
    drop(progress);
    match format {
        Format::Human if tally.skills + tally.empty > 0 => {
            by_code(&tally, terminal)?;
            summarise(&tally, terminal)?;
        }
        Format::Json => terminal.json(&kept.iter().map(machine::object).collect::<Vec<_>>())?,
        Format::Sarif => terminal.json(&sarif::log(&kept))?,
        Format::Human | Format::Jsonl | Format::Github => {}
    }
    terminal.flush()?;
    outcome(tally)
}

impl Options {
    /// The paths to check. Skills are searched once, and only if an argument is not a path.
    fn paths(&self) -> Vec<Result<PathBuf>> {
        let unnamed = match (self.skills.is_empty(), self.root_args.root.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => vec![PathBuf::from(".")],
            (true, false) => self.root_args.root.clone(),
        };
        let mut found: Option<Skills> = None;
        let named = self.skills.iter().map(move |given| {
            let Some(name) = name(given) else { return Ok(given.clone()) };
            if found.is_none() {
                found = Some(self.root_args.discover()?);
            }
            let Some(skills) = &found else { return Ok(given.clone()) };
            skills.directory_of(name).map_err(|error| {
                anyhow!("{} cannot be checked: no such file or directory, and {error}", printable(name))
            })
        });
        unnamed.into_iter().map(Ok).chain(named).collect()
    }
}

/// The argument as a skill name; `None` if it is a path, because it exists or looks like one.
fn name(given: &Path) -> Option<&str> {
    let name = given.to_str().filter(|name| !name.contains('/') && !matches!(*name, "" | "." | ".."))?;
    given.symlink_metadata().is_err().then_some(name)
}

/// Prints diagnostics of the scan. Of those with the same reason only the first is printed, with a count of the
/// others.
fn print_scan_diagnostics(met: &[Diagnostic]) -> Result<()> {
    let mut err = anstream::stderr();
    for (at, found) in met.iter().enumerate() {
        let is_like = |other: &&Diagnostic| other.code == found.code;
        if found.code.leaves_out() && met[..at].iter().any(|other| is_like(&other)) {
            continue;
        }
        writeln!(err, "{}", printable(&found.to_string()))?;
        let more = met[at + 1..].iter().filter(is_like).count();
        if found.code.leaves_out() && more > 0 {
            let limit = if found.code == Code::DepthCap { "; --max-depth N looks deeper" } else { "" };
            writeln!(err, "and {more} more like it{limit}")?;
        }
    }
    Ok(())
}

/// Failures come before findings. All failures except the last are printed here.
fn outcome(mut tally: Tally) -> Result<CommandOutcome> {
    if let Some(last) = tally.failures.pop() {
        for failure in &tally.failures {
            writeln!(anstream::stderr(), "prowess: {}", printable(&format!("{failure:#}")))?;
        }
        return Err(last);
    }
    let well = tally.valid == tally.skills && tally.empty == 0 && !tally.incomplete;
    Ok(if well { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn handle_report(
    report: CheckReport,
    options: &Options,
    format: Format,
    tally: &mut Tally,
    kept: &mut Vec<CheckReport>,
    terminal: &mut Terminal,
) -> Result<()> {
    let mut report = if options.fix { fix(report, tally) } else { report };
    if is_empty(&report) {
        tally.empty += 1;
    } else {
        tally.skills += 1;
        tally.valid += usize::from(report.is_valid());
    }
    let codes: BTreeSet<Code> = report.diagnostics.iter().map(|found| found.code).collect();
    for code in codes {
        let (findings, skills) = tally.codes.entry(code).or_default();
        *findings += report.diagnostics.iter().filter(|found| found.code == code).count();
        *skills += 1;
    }
    tally.fixable += report.diagnostics.iter().filter(|found| found.fix.is_some()).count();
    match format {
        Format::Human => human::report(&report, terminal)?,
        Format::Jsonl => terminal.json_line(&machine::object(&report))?,
        Format::Github => github::report(&report, terminal)?,
        Format::Json | Format::Sarif => {
            // The reports are kept to the end, but not their sources.
            report.source = Vec::new();
            kept.push(report);
        }
    }
    Ok(())
}

/// Whether there was no skill to check.
fn is_empty(report: &CheckReport) -> bool {
    report.diagnostics.iter().any(|found| found.code == Code::MissingSkillMd)
}

/// Applies fixes until there are none left, each round on the current file.
fn fix(mut report: CheckReport, tally: &mut Tally) -> CheckReport {
    for _ in 0..FIX_ROUNDS {
        let Some((text, applied)) = report.fixed() else { break };
        if let Err(error) = replace(&report.file, &report.source, &text) {
            tally.failures.push(error);
            break;
        }
        tally.fixed += applied;
        let directory = report.file.parent().unwrap_or(Path::new("."));
        report = check_directory(directory, &report.id, report.profile);
    }
    report
}

/// Replaces the file, unless it has changed since it was read.
fn replace(path: &Path, expected: &[u8], text: &[u8]) -> Result<()> {
    let context = || format!("cannot fix {}", path.display());
    if path.symlink_metadata().with_context(context)?.is_symlink() {
        bail!("{} is a link: fix the file it points to", path.display());
    }
    if std::fs::read(path).with_context(context)? != expected {
        bail!("{} changed during the check; run the check again", path.display());
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(parent).with_context(context)?;
    file.write_all(text).with_context(context)?;
    file.as_file().set_permissions(std::fs::metadata(path)?.permissions()).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
}

/// For many skills: the codes with their counts, the most frequent first.
fn by_code(tally: &Tally, terminal: &mut Terminal) -> Result<()> {
    const HEADING: [&str; 3] = ["CODE", "FINDINGS", "SKILLS"];
    if tally.skills < 2 || tally.codes.is_empty() {
        return Ok(());
    }
    let mut codes: Vec<_> = tally.codes.iter().collect();
    codes.sort_by_key(|(_, counts)| std::cmp::Reverse(**counts));
    let mut rows: Vec<Vec<String>> = codes
        .into_iter()
        .map(|(code, (findings, skills))| vec![code.to_string(), findings.to_string(), skills.to_string()])
        .collect();
    if !terminal.is_screen() {
        // In a pipe people also need the headings.
        rows.insert(0, HEADING.map(str::to_owned).into());
    }
    terminal.table(&HEADING, &rows)?;
    Ok(())
}

/// The severity of a finding in a check: an error if it makes the skill invalid, even if the skill loads.
fn severity(report: &CheckReport, found: &Diagnostic) -> Severity {
    if report.profile.rejects(found.code) { Severity::Error } else { found.severity.min(Severity::Warning) }
}

fn summarise(tally: &Tally, terminal: &mut Terminal) -> Result<()> {
    if tally.skills == 0 {
        writeln!(terminal, "no skill was checked; name a skill, or a directory that contains skills")?;
        return Ok(());
    }
    let mut line = format!("{} checked: {} valid", count(tally.skills, "skill"), tally.valid);
    if tally.valid < tally.skills {
        line = format!("{line}, {} invalid", tally.skills - tally.valid);
    }
    match tally.empty {
        0 => {}
        1 => line.push_str("; 1 directory has no skill"),
        empty => line.push_str(&format!("; {empty} directories have no skill")),
    }
    if tally.fixed > 0 {
        line = format!(
            "{line}; {} applied",
            if tally.fixed == 1 { "1 fix".to_owned() } else { format!("{} fixes", tally.fixed) }
        );
    }
    if tally.fixable > 0 {
        line = format!("{line}; --fix would fix {}", count(tally.fixable, "finding"));
    }
    if tally.incomplete {
        line = format!("{line}; some places were skipped");
    }
    writeln!(terminal, "{line}")?;
    Ok(())
}
