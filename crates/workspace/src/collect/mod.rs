//! Collecting what a run made, after everything that it started is gone.

mod globs;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};

use bytes::Bytes;
use rustix::fs::{FileType, Stat};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::dir::{Dir, OWN_PREFIX, special};
use crate::executor::local::Redactor;
use crate::mime::{Mime, mime_of, text_of};
use crate::path::printable;
use crate::span::count;
use crate::warning::RunWarning;
use crate::workspace::Workspace;

pub(crate) use globs::Globs;
pub use globs::{GlobError, GlobProblem, MAX_GLOB_ALTERNATIVES, MAX_GLOB_BYTES, MAX_GLOBS, normalize_glob};

/// How many files and directories are looked at.
pub const MAX_VISITED: usize = 100_000;
/// How many warnings about single files are given.
const MAX_WARNINGS: usize = 50;
/// The most that a request can set for each limit.
const MOST: CollectLimits =
    CollectLimits { max_files: 1000, max_file_bytes: 64 << 20, max_total_bytes: 256 << 20 };

/// How much is collected.
///
/// ```
/// use prowess_workspace::collect::CollectLimits;
/// use prowess_workspace::Workspaces;
///
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("session-1")?;
/// std::fs::write(workspace.path().join("out/june.txt"), "a long report")?;
/// let limits = CollectLimits { max_file_bytes: 6, ..CollectLimits::default() };
/// let (files, warnings) = workspace.collect(&["$OUTPUT_DIR/*.txt".into()], limits)?;
/// assert_eq!(files[0].content.as_deref(), Some("a long"));
/// assert!(files[0].truncated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectLimits {
    /// Files.
    pub max_files: usize,
    /// Bytes of each.
    pub max_file_bytes: u64,
    /// Bytes of all together.
    pub max_total_bytes: u64,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { max_files: 100, max_file_bytes: 4 << 20, max_total_bytes: 64 << 20 }
    }
}

impl CollectLimits {
    /// These limits, none of them over what this crate keeps in memory for one run.
    pub(crate) fn bounded(self, warnings: &mut Vec<RunWarning>) -> Self {
        let bounded = Self {
            max_files: self.max_files.min(MOST.max_files),
            max_file_bytes: self.max_file_bytes.min(MOST.max_file_bytes),
            max_total_bytes: self.max_total_bytes.min(MOST.max_total_bytes),
        };
        if bounded != self {
            warnings.push(RunWarning::LimitsLowered { most: MOST });
        }
        bounded
    }
}

/// A file that a run made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedFile {
    /// Its path in the workspace. Control characters and bytes that are no UTF-8 are written as escapes.
    pub name: String,
    /// Its text; `None` when it is no text, or was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What it is, by its content and then by its name.
    pub mime_type: String,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// Whether only its beginning was collected, or it was written while it was read.
    pub truncated: bool,
}

/// A collected file with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct CollectedBytes {
    pub(crate) name: String,
    pub(crate) mime: Mime,
    pub(crate) size: u64,
    pub(crate) truncated: bool,
    /// Whether it was written while it was read: it may be a mix of what it was and what it is.
    pub(crate) moving: bool,
    pub(crate) bytes: Bytes,
}

impl CollectedBytes {
    /// The file as an answer has it, with its text when that is wanted.
    pub(crate) fn describe(self, inline: bool) -> CollectedFile {
        let _span = tracing::debug_span!("workspace.inline", inline).entered();
        let content = (inline && self.mime.is_text).then(|| into_text(self.bytes, self.truncated)).flatten();
        CollectedFile {
            name: self.name,
            content,
            mime_type: self.mime.name.into_owned(),
            size_bytes: self.size,
            truncated: self.truncated,
        }
    }
}

/// What was collected.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(crate) files: Vec<CollectedBytes>,
    pub(crate) warnings: Vec<RunWarning>,
    /// Whether a limit ended it: there are more files.
    pub(crate) is_cut: bool,
}

impl Collection {
    /// Takes secrets out of the text of files, as they are taken out of what a command says. What was saved has them
    /// still: the bytes of an artifact are as they were made.
    pub(crate) fn redact(&mut self, secrets: &[SecretString]) {
        for file in &mut self.files {
            if let Some(shown) = Redactor::new(secrets).redacted(&file.bytes) {
                file.bytes = shown.into();
                self.warnings.push(RunWarning::HasSecret { path: file.name.clone() });
            }
        }
    }
}

impl Workspace {
    /// Collects the files that match one of `globs`, in the order of their paths, with their text inline.
    ///
    /// Globs are relative to the workspace; `**` spans directories, and `$OUTPUT_DIR` and its brothers stand
    /// for the workspace's directories. No link is followed; links, FIFOs, sockets and devices are left out
    /// with a warning. A limit that bites is a warning, and a file that was cut says so.
    ///
    /// # Errors
    ///
    /// A glob is refused; nothing was read.
    pub fn collect(
        &self,
        globs: &[String],
        limits: CollectLimits,
    ) -> Result<(Vec<CollectedFile>, Vec<RunWarning>), GlobError> {
        let mut warnings = Vec::new();
        let limits = limits.bounded(&mut warnings);
        let collection = collect(self.dir(), &Globs::parse(globs)?, limits, VisibleSkills::All);
        warnings.extend(collection.warnings);
        Ok((collection.files.into_iter().map(|file| file.describe(true)).collect(), warnings))
    }
}

/// Which of the skills that lie in a workspace can be collected from, by the names of their directories.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VisibleSkills<'a> {
    All,
    /// Those that the command saw.
    Only(&'a [String]),
}

impl VisibleSkills<'_> {
    fn has(self, name: &OsStr) -> bool {
        // Versions of skills that are on their way in or out are nobody's.
        !name.to_string_lossy().starts_with(OWN_PREFIX)
            && match self {
                Self::All => true,
                Self::Only(skills) => skills.iter().any(|skill| name == skill.as_str()),
            }
    }
}

/// Collects what matches below `root`.
pub(crate) fn collect(
    root: &Dir,
    globs: &Globs,
    limits: CollectLimits,
    seen: VisibleSkills<'_>,
) -> Collection {
    let span = tracing::info_span!("workspace.collect", files = tracing::field::Empty).entered();
    let matched = vec![false; globs.texts().count()];
    let mut walk = Walk {
        root,
        globs,
        seen,
        limits,
        visited: 0,
        bytes_left: limits.max_total_bytes,
        matched,
        uncounted: 0,
        collection: Collection::default(),
    };
    if !globs.is_empty() {
        walk.run();
    }
    span.record("files", count(walk.collection.files.len()));
    walk.collection
}

/// Why a walk ends early.
struct Stopped;

struct Walk<'a> {
    root: &'a Dir,
    globs: &'a Globs,
    seen: VisibleSkills<'a>,
    limits: CollectLimits,
    visited: usize,
    bytes_left: u64,
    /// Which globs have matched something.
    matched: Vec<bool>,
    /// How many warnings there was no room for.
    uncounted: usize,
    collection: Collection,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut pending = vec![OsString::new()];
        let mut stopped = false;
        while let Some(path) = pending.pop() {
            if self.directory(&path, &mut pending).is_err() {
                stopped = true;
                break;
            }
        }
        self.collection.files.sort_by(|one, other| one.name.cmp(&other.name));
        if self.uncounted > 0 {
            self.collection.warnings.push(RunWarning::MoreLeftOut { count: self.uncounted });
        }
        if stopped {
            return;
        }
        for (glob, _) in self.globs.texts().zip(&self.matched).filter(|(_, matched)| !**matched) {
            self.collection.warnings.push(RunWarning::NoMatch { glob: glob.to_owned() });
        }
    }

    fn directory(&mut self, path: &OsStr, pending: &mut Vec<OsString>) -> Result<(), Stopped> {
        // From the root each time: the kernel resolves the whole path without a link, and however deep the
        // tree is, one descriptor is enough.
        let directory = match self.root.dir(path) {
            Ok(directory) => directory,
            Err(error) => {
                self.leave_out(path, format!("cannot be listed: {error}"));
                return Ok(());
            }
        };
        let (entries, more) = match directory.entries(MAX_VISITED - self.visited) {
            Ok(listed) => listed,
            Err(error) => {
                self.leave_out(path, format!("cannot be listed: {error}"));
                return Ok(());
            }
        };
        self.visited += entries.len();
        let mut below = Vec::new();
        for (name, kind) in entries {
            if path == "skills" && !self.seen.has(&name) {
                continue;
            }
            let full = join(path, &name);
            if kind == FileType::Directory {
                if self.globs.may_be_below(&full) {
                    below.push(full);
                }
                continue;
            }
            let matches = self.globs.matches(&full);
            for glob in &matches {
                self.matched[*glob] = true;
            }
            match kind {
                FileType::RegularFile if !matches.is_empty() => self.file(&directory, &name, &full)?,
                FileType::Symlink if !matches.is_empty() || self.globs.leads_through(&full) => {
                    self.leave_out(&full, "is a link; links are not followed".to_owned());
                }
                other if other != FileType::RegularFile && !matches.is_empty() => {
                    self.leave_out(&full, format!("is a {}", special(other)));
                }
                _ => {}
            }
        }
        pending.extend(below.into_iter().rev());
        if more {
            return Err(self.stop(format!("the workspace has more than {MAX_VISITED} files")));
        }
        Ok(())
    }

    fn file(&mut self, directory: &Dir, name: &OsStr, path: &OsStr) -> Result<(), Stopped> {
        if self.collection.files.len() == self.limits.max_files {
            return Err(self.stop(format!("more than {} files match", self.limits.max_files)));
        }
        if self.bytes_left == 0 {
            let limit = self.limits.max_total_bytes;
            return Err(self.stop(format!("the files that match have more than {limit} bytes")));
        }
        let (file, stat) = match directory.file(name) {
            Ok(opened) => opened,
            Err(refused) => {
                self.leave_out(path, refused.reason());
                return Ok(());
            }
        };
        if stat.st_nlink > 1 {
            self.say(RunWarning::HardLinked { path: printable(path), names: stat.st_nlink });
        }
        let cap = self.limits.max_file_bytes.min(self.bytes_left);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let read = read_capped(&file, size, cap).and_then(|read| Ok((read, rustix::fs::fstat(&file)?)));
        match read {
            Ok(((bytes, more), after)) => {
                let read = bytes.len() as u64;
                self.bytes_left -= read;
                let moving = version(&stat) != version(&after);
                let truncated = moving || more || size > read;
                let name = printable(path);
                if moving {
                    self.say(RunWarning::Moving { path: name.clone() });
                } else if truncated {
                    self.say(RunWarning::Truncated { path: name.clone(), read, size: size.max(read) });
                }
                let mime = mime_of(&name, &bytes, truncated);
                let size = if more { size.max(read + 1) } else { size.max(read) };
                let bytes = bytes.into();
                self.collection.files.push(CollectedBytes { name, mime, size, truncated, moving, bytes });
            }
            Err(error) => self.leave_out(path, format!("cannot be read: {error}")),
        }
        Ok(())
    }

    fn stop(&mut self, reason: String) -> Stopped {
        self.collection.is_cut = true;
        self.collection.warnings.push(RunWarning::Stopped { reason });
        Stopped
    }

    fn leave_out(&mut self, path: &OsStr, reason: String) {
        self.say(RunWarning::LeftOut { path: printable(path), reason });
    }

    fn say(&mut self, warning: RunWarning) {
        if self.collection.warnings.len() < MAX_WARNINGS {
            self.collection.warnings.push(warning);
        } else {
            self.uncounted += 1;
        }
    }
}

/// At most `cap` bytes of a file, however it grows, and whether there are more.
fn read_capped(file: &File, size: u64, cap: u64) -> io::Result<(Vec<u8>, bool)> {
    // A byte more than it should have, so that its end is seen without asking once more.
    let room = usize::try_from(size.saturating_add(1).min(cap)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    let mut limited = file.take(cap);
    limited.read_to_end(&mut bytes)?;
    let more = bytes.len() as u64 == cap && limited.into_inner().read(&mut [0])? > 0;
    Ok((bytes, more))
}

/// What moves when a file is written.
fn version(stat: &Stat) -> [i128; 5] {
    [
        stat.st_size.into(),
        stat.st_mtime.into(),
        stat.st_mtime_nsec.into(),
        stat.st_ctime.into(),
        stat.st_ctime_nsec.into(),
    ]
}

/// The text that the bytes are, without copying them when nobody else has them.
fn into_text(bytes: Bytes, truncated: bool) -> Option<String> {
    let mut bytes = Vec::from(bytes);
    if truncated {
        let whole = text_of(&bytes, truncated)?.len();
        bytes.truncate(whole);
    }
    String::from_utf8(bytes).ok()
}

fn join(directory: &OsStr, name: &OsStr) -> OsString {
    let mut path = directory.to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path
}
