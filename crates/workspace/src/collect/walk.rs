//! The walk that finds and reads the files of a run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{FileType, Stat};

use super::{CollectLimits, CollectedBytes, Collection, Globs};
use crate::dir::{Dir, OWN_PREFIX, special};
use crate::mime::mime_of;
use crate::path::escaped_name;
use crate::span::count;
use crate::warning::RunWarning;

/// How many files and directories one walk visits.
pub const MAX_VISITED: usize = 100_000;
/// How many warnings name a file; more are only counted.
const MAX_WARNINGS: usize = 50;

/// The staged skills from which files can be collected, by the names of their directories.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CollectableSkills<'a> {
    All,
    /// The skills that the command saw.
    Only(&'a [String]),
}

impl CollectableSkills<'_> {
    fn has(self, name: &OsStr) -> bool {
        // Directories that are being staged or removed belong to nobody.
        !name.to_string_lossy().starts_with(OWN_PREFIX)
            && match self {
                Self::All => true,
                Self::Only(skills) => skills.iter().any(|skill| name == skill.as_str()),
            }
    }
}

/// Collects the files below `root` that match.
pub(crate) fn collect(
    root: &Dir,
    globs: &Globs,
    limits: CollectLimits,
    visible: CollectableSkills<'_>,
) -> Collection {
    let span = tracing::info_span!("workspace.collect", files = tracing::field::Empty).entered();
    let matched = vec![false; globs.texts().count()];
    let mut walk = Walk {
        root,
        globs,
        visible,
        limits,
        visited: 0,
        bytes_left: limits.max_total_bytes,
        matched,
        unnamed: 0,
        collection: Collection::default(),
    };
    if !globs.is_empty() {
        walk.run();
    }
    span.record("files", count(walk.collection.files.len()));
    walk.collection
}

/// A limit ended the walk.
struct Stopped;

/// A walk in progress.
struct Walk<'a> {
    root: &'a Dir,
    globs: &'a Globs,
    visible: CollectableSkills<'a>,
    limits: CollectLimits,
    visited: usize,
    bytes_left: u64,
    /// For each glob, whether it has matched a file.
    matched: Vec<bool>,
    /// How many warnings there was no room for.
    unnamed: usize,
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
        if self.unnamed > 0 {
            self.collection.warnings.push(RunWarning::MoreLeftOut { count: self.unnamed });
        }
        if stopped {
            return;
        }
        for (glob, _) in self.globs.texts().zip(&self.matched).filter(|(_, matched)| !**matched) {
            self.collection.warnings.push(RunWarning::NoMatch { glob: glob.to_owned() });
        }
    }

    fn directory(&mut self, path: &OsStr, pending: &mut Vec<OsString>) -> Result<(), Stopped> {
        // Opened from the root each time: the kernel then refuses links anywhere in the path, and one descriptor is
        // enough for a tree of any depth.
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
            if path == "skills" && !self.visible.has(&name) {
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
                    self.leave_out(&full, "is a link, and links are not followed".to_owned());
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
            self.warn(RunWarning::HardLinked { path: escaped_name(path), names: stat.st_nlink });
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
                let name = escaped_name(path);
                if moving {
                    self.warn(RunWarning::Moving { path: name.clone() });
                } else if truncated {
                    self.warn(RunWarning::Truncated { path: name.clone(), read, size: size.max(read) });
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
        self.warn(RunWarning::LeftOut { path: escaped_name(path), reason });
    }

    fn warn(&mut self, warning: RunWarning) {
        if self.collection.warnings.len() < MAX_WARNINGS {
            self.collection.warnings.push(warning);
        } else {
            self.unnamed += 1;
        }
    }
}

/// Reads at most `cap` bytes of a file, even if it grows, and whether there are more.
fn read_capped(file: &File, size: u64, cap: u64) -> io::Result<(Vec<u8>, bool)> {
    // One byte more than the size, so that one read also sees the end.
    let room = usize::try_from(size.saturating_add(1).min(cap)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    let mut limited = file.take(cap);
    limited.read_to_end(&mut bytes)?;
    let more = bytes.len() as u64 == cap && limited.into_inner().read(&mut [0])? > 0;
    Ok((bytes, more))
}

/// The size and the times of a file, which change when it is written.
fn version(stat: &Stat) -> [i128; 5] {
    [
        stat.st_size.into(),
        stat.st_mtime.into(),
        stat.st_mtime_nsec.into(),
        stat.st_ctime.into(),
        stat.st_ctime_nsec.into(),
    ]
}

fn join(directory: &OsStr, name: &OsStr) -> OsString {
    let mut path = directory.to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path
}
