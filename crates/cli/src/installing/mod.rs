//! What the commands that install skills share: the scope, the cache, sources, and what a person is told.

mod candidate;
mod changes;
mod findings;
mod origins;
mod owner;
mod tokens;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_catalog::{Environment, RootLayout};
use prowess_install::agents::Agent;
use prowess_install::installer::{InstallError, Installer, Listed, LookOptions, Looked, Scope};
use prowess_install::known_sources::KnownSources;
use prowess_install::place::Report;
use prowess_install::snapshot::fetch::{FetchOptions, Fetched, LockSources, fetch};
use prowess_install::source::{LocalSource, Source, SourceEnvironment};
use prowess_install::store::Store;
use prowess_skills::secret::Secret;

pub(crate) use self::candidate::{
    CandidateFile, candidate_files, candidate_json, candidate_text, findings, listed_json, requirements,
};
pub(crate) use self::changes::difference_text;
pub(crate) use self::findings::Findings;
pub(crate) use self::origins::{Origin, origins};
use crate::directories;
use crate::progress::Progress;
use crate::project::Project;
use crate::rows::folded;
use crate::terminal::{printable, screen_width};

/// The most bytes of the content cache. What was unused for longest goes first.
const MAX_CACHE_BYTES: u64 = 1024 * 1024 * 1024;

/// The exit code of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
/// How many skills of a source are named if it lacks the wanted one.
const MAX_AVAILABLE: usize = 20;
/// The bytes of the user's secret.
const SECRET_BYTES: usize = 16;

/// Whose skills are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScopeArgs {
    /// Your skills, in ~/.agents/skills, instead of those of the project
    #[arg(short, long)]
    pub(crate) global: bool,
}

/// What the lock of a project may name.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LockArgs {
    /// Fetch all sources that the project's lock names, also on this machine and at private addresses
    #[arg(long)]
    allow_private: bool,
}

impl LockArgs {
    /// How the sources of a lock are fetched.
    pub(crate) fn fetch_options(self) -> Result<FetchOptions> {
        let locks = if self.allow_private { LockSources::Typed } else { LockSources::Checked };
        Ok(FetchOptions { locks, ..fetch_options(&[])? })
    }
}

impl ScopeArgs {
    /// The installer of the scope. What a killed process has left is finished or undone first.
    pub(crate) fn installer(&self) -> Result<Installer> {
        let (installer, recovered) = self.recovered()?;
        tell(&recovered)?;
        Ok(installer)
    }

    /// The same, and what became of what a killed process had left. Nothing is printed. This can wait for another process.
    pub(crate) fn recovered(&self) -> Result<(Installer, Report)> {
        let installer = self.unrecovered()?;
        let recovered = installer.recover()?;
        Ok((installer, recovered))
    }

    /// The same, but nothing on the disk is changed.
    pub(crate) fn unrecovered(&self) -> Result<Installer> {
        let home = directories::home().context("HOME is not set")?;
        let scope = if self.global {
            Scope::User {
                home,
                state: variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            }
        } else {
            let project = project()?;
            owner::check_owner(&project)?;
            Scope::Project(project)
        };
        let cache = directories::cache().context("there is no directory for the cache: set HOME")?;
        directories::make_directory(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
        let store = Store::open(&cache.join("skills"))?;
        let known = KnownSources::new(state()?.join("added-sources"));
        let installer = Installer::new(scope, store, &secret()?, |name| variable(name).map(PathBuf::from))?;
        Ok(installer.with_known_sources(known))
    }
}

/// Where an installer keeps what only this user may write.
fn state() -> Result<PathBuf> {
    let state = directories::state().context("there is no state directory: set HOME")?;
    directories::make_directory(&state).with_context(|| format!("cannot create {}", state.display()))?;
    Ok(state)
}

/// The secret of this user for unfinished installations. The first command makes it.
fn secret() -> Result<Vec<u8>> {
    let state = state()?;
    let path = state.join("install-key");
    let read = || std::fs::read(&path).ok().filter(|secret| secret.len() == SECRET_BYTES);
    if let Some(secret) = read() {
        return Ok(secret);
    }
    let failed = || format!("cannot write {}", path.display());
    // A temporary file is private. Another process may be faster.
    let mut file = tempfile::NamedTempFile::new_in(&state).with_context(failed)?;
    file.write_all(Secret::random().as_bytes()).with_context(failed)?;
    let _ = file.persist_noclobber(&path);
    read().with_context(|| format!("{} cannot be read; remove it", path.display()))
}

/// The project around the working directory.
fn project() -> Result<PathBuf> {
    let environment = Environment::of_process().context("the working directory cannot be read")?;
    let project = Project::around(&environment, &RootLayout::default());
    let project = project.ok_or_else(|| {
        anyhow!("there is no project here: this is your home directory, or one above it; use --global")
    })?;
    Ok(project.top().to_owned())
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Agents by their ids. `*` means all whose directory exists in the scope.
pub(crate) fn agents(ids: &[String], installer: &Installer) -> Result<Vec<&'static Agent>> {
    let mut agents = Vec::new();
    for id in ids {
        if id == "*" {
            let present = Agent::all().iter().filter(|agent| installer.has_agent(agent));
            agents.extend(present);
            continue;
        }
        agents.push(Agent::find(id).ok_or_else(|| unknown_agent(id))?);
    }
    Ok(agents)
}

fn unknown_agent(id: &str) -> anyhow::Error {
    let similar = Agent::suggestions(id);
    let similar = match similar.as_slice() {
        [] => "`universal` reaches all agents that read .agents/skills".to_owned(),
        similar => format!("did you mean {}?", similar.join(" or ")),
    };
    anyhow!("there is no agent called `{}`; {similar}", printable(id))
}

/// Parses what the person typed. A relative path is one from the working directory.
pub(crate) fn parse(source: &str) -> Result<Source> {
    let host = std::env::var("GH_HOST").ok();
    let parsed = Source::parse(source, &SourceEnvironment::new(host.as_deref()))?;
    let Source::Local(LocalSource { path, .. }) = &parsed else { return Ok(parsed) };
    let path = std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
    if !path.exists() {
        let hint = if source.contains("://") || source.starts_with(['.', '/']) {
            ""
        } else {
            "; for GitHub, write OWNER/REPO"
        };
        bail!("{} does not exist{hint}", printable(&path.display().to_string()));
    }
    Ok(Source::local(&path))
}

/// How sources are fetched, with the limits that the environment sets and the tokens that the configuration names.
pub(crate) fn fetch_options(skills: &[String]) -> Result<FetchOptions> {
    let mut options =
        FetchOptions { skills: wanted(skills), tokens: tokens::tokens()?, ..FetchOptions::default() };
    let number = |name: &str| -> Result<Option<u64>> {
        let Some(value) = variable(name) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        let number = value
            .trim()
            .parse()
            .map_err(|_| anyhow!("{name} must be a whole number, not `{}`", printable(&value)))?;
        Ok(Some(number))
    };
    if let Some(bytes) = number("SKILLS_DOWNLOAD_MAX_BYTES")? {
        options.archive.download_bytes = bytes;
    }
    if let Some(bytes) = number("SKILLS_EXTRACT_MAX_BYTES")? {
        options.archive.extract_bytes = bytes;
    }
    if let Some(files) = number("SKILLS_EXTRACT_MAX_FILES")? {
        options.archive.files = usize::try_from(files).unwrap_or(usize::MAX);
    }
    if let Some(milliseconds) = number("SKILLS_CLONE_TIMEOUT_MS")? {
        options.git.timeout = std::time::Duration::from_millis(milliseconds);
    }
    Ok(options)
}

/// The names of single skills. `*` means all.
fn wanted(skills: &[String]) -> Vec<String> {
    if skills.iter().any(|skill| skill == "*") { Vec::new() } else { skills.to_vec() }
}

/// A runtime for fetching.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")
}

/// Fetches a source and finds its skills. Ctrl-C ends it.
pub(crate) fn look(installer: &Installer, source: &Source, options: &LookOptions) -> Result<Looked> {
    let fetch_options = fetch_options(&options.skills)?;
    let _progress = Progress::start("fetching");
    let fetched = runtime()?.block_on(until_interrupted(fetch(source, &fetch_options)))??;
    let looked = installer.look_at(source, fetched, options)?;
    // A cache that cannot be pruned is only large.
    let _ = installer.store().prune(MAX_CACHE_BYTES);
    Ok(looked)
}

/// Fetches a source and lists its skills. Nothing is written, and only manifests are read.
pub(crate) fn list(source: &Source, options: &LookOptions) -> Result<Listed> {
    Ok(fetch_list(source, options)?.1)
}

/// The same, with the files of the skills in the content cache, unless they are too large together.
pub(crate) fn list_and_look(
    installer: &Installer,
    source: &Source,
    options: &LookOptions,
) -> Result<(Listed, Option<Looked>)> {
    let (fetched, mut listed) = fetch_list(source, options)?;
    let looked = match installer.look_at(source, fetched, options) {
        Ok(looked) => looked,
        Err(InstallError::SourceTooLarge { .. }) => return Ok((listed, None)),
        Err(error) => return Err(error.into()),
    };
    // A cache that cannot be pruned is only large.
    let _ = installer.store().prune(MAX_CACHE_BYTES);
    // Only whoever reads the files knows all of them.
    listed.refused.clone_from(&looked.refused);
    Ok((listed, Some(looked)))
}

fn fetch_list(source: &Source, options: &LookOptions) -> Result<(Fetched, Listed)> {
    let fetch_options = fetch_options(&options.skills)?;
    let _progress = Progress::start("fetching");
    let mut fetched = runtime()?.block_on(until_interrupted(fetch(source, &fetch_options)))??;
    let listed = prowess_install::installer::list(source, &mut fetched, options)?;
    Ok((fetched, listed))
}

/// Ctrl-C ended the work.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; nothing was changed")
    }
}

impl std::error::Error for Interrupted {}

/// Drops the work at Ctrl-C, so that its processes end. After the work, Ctrl-C ends this process: an installation survives that.
pub(crate) async fn until_interrupted<T>(work: impl Future<Output = T>) -> Result<T> {
    WORKING.store(true, Ordering::SeqCst);
    let done = tokio::select! {
        done = work => done,
        // The watcher stays silent: what the work has left on the disk is removed before the process ends.
        _ = tokio::signal::ctrl_c() => return Err(Interrupted.into()),
    };
    WORKING.store(false, Ordering::SeqCst);
    end_at_interrupts();
    Ok(done)
}

/// Whether Ctrl-C is left to [`until_interrupted`].
static WORKING: AtomicBool = AtomicBool::new(false);

/// Ends the process at Ctrl-C. Waiting for the signal once has switched its usual effect off.
fn end_at_interrupts() {
    static WATCHER: std::sync::Once = std::sync::Once::new();
    WATCHER.call_once(|| {
        let watch = || {
            if let Ok(runtime) = runtime() {
                loop {
                    let _ = runtime.block_on(tokio::signal::ctrl_c());
                    if !WORKING.load(Ordering::SeqCst) {
                        std::process::exit(INTERRUPTED);
                    }
                }
            }
        };
        // Without the thread, Ctrl-C has no effect at the question; a reply ends it.
        let _ = std::thread::Builder::new().name("interrupts".to_owned()).spawn(watch);
    });
}

/// Says what else a transaction did.
pub(crate) fn tell(report: &Report) -> Result<()> {
    for line in report_lines(report) {
        writeln!(anstream::stderr(), "{line}")?;
    }
    Ok(())
}

/// What else a transaction did, in lines.
pub(crate) fn report_lines(report: &Report) -> Vec<String> {
    let finished = (report.finished > 0).then(|| "finished an installation that was interrupted".to_owned());
    let kept = report.kept.iter().map(|kept| {
        format!("{}: your changed files were kept in {}", printable(&kept.name), shown(&kept.path))
    });
    let left_alone = report.left_alone.iter();
    let left_alone =
        left_alone.map(|path| format!("{} was changed by somebody else and left alone", shown(path)));
    finished.into_iter().chain(kept).chain(left_alone).collect()
}

/// What of a source cannot be installed, and why.
pub(crate) struct Problems<'a> {
    /// How many skills can be installed.
    pub(crate) usable: usize,
    pub(crate) refused: &'a [(String, String)],
    pub(crate) missing: &'a [String],
    available: &'a [String],
    notices: &'a [String],
}

impl<'a> From<&'a Looked> for Problems<'a> {
    fn from(looked: &'a Looked) -> Self {
        let Looked { candidates, refused, missing, available, notices, .. } = looked;
        Self { usable: candidates.len(), refused, missing, available, notices }
    }
}

impl<'a> From<&'a Listed> for Problems<'a> {
    fn from(listed: &'a Listed) -> Self {
        let Listed { skills, refused, missing, available, notices, .. } = listed;
        Self { usable: skills.len(), refused, missing, available, notices }
    }
}

impl Problems<'_> {
    /// The same, in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let refused = self.refused.iter();
        let refused = refused.map(|(name, why)| format!("{}: refused: {}", printable(name), printable(why)));
        let available: Vec<String> =
            self.available.iter().take(MAX_AVAILABLE).map(|name| printable(name)).collect();
        let missing = self.missing.iter().map(|name| {
            format!("the source has no skill `{}`; it has: {}", printable(name), available.join(", "))
        });
        let notices = self.notices.iter().map(|notice| printable(notice));
        refused.chain(missing).chain(notices).collect()
    }
}

/// Prints lines that contain text of strangers on the error stream, each behind a mark and folded, so that no row of them begins
/// where rows of prowess begin.
pub(crate) fn tell_lines(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let (width, mut err) = (screen_width(), anstream::stderr());
    for line in lines {
        for row in folded(&format!("  note: {line}"), width) {
            writeln!(err, "{row}")?;
        }
    }
    Ok(())
}

/// A path for a person.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// The start of a commit id.
pub(crate) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// The time for the lock of a user.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}
