//! Lists and reads a skill in a local directory.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{FileType, Stat};

use super::source::{SkillListing, StageFile};
use super::{MAX_SKILL_ENTRIES, MAX_SKILL_FILES, MAX_SKILL_PATHS, MAX_WARNINGS, StageError};
use crate::dir::{Dir, special};
use crate::path::{InnerPath, escaped_name};
use crate::warning::RunWarning;
use crate::workspace::is_same;

/// A file that changed this recently could change again without new times.
const UNSETTLED_NANOSECONDS: i128 = 50_000_000;
/// The deepest directory of a skill.
const MAX_DEPTH: usize = 32;

/// The files of a local directory, with their versions.
#[derive(Debug)]
pub(super) struct LocalListing {
    pub(super) files: SkillListing,
    /// The version of each file, also of files whose stamp is not reliable yet.
    versions: Vec<String>,
}

impl LocalListing {
    /// Whether nothing changed between the two listings, judged by times.
    pub(super) fn is_same(&self, later: &Self) -> bool {
        let one = |file: &StageFile| (file.path.clone(), file.size, file.executable);
        self.versions == later.versions
            && self.files.directories == later.files.directories
            && self.files.warnings == later.files.warnings
            && self.files.files.iter().map(one).eq(later.files.files.iter().map(one))
    }
}

/// Lists the files below `root`. A link to something below `root` counts as its target.
pub(super) fn list(root: &Dir) -> Result<LocalListing, StageError> {
    let mut walk = Walk {
        root,
        now: nanoseconds_now(),
        listing: SkillListing::default(),
        versions: Vec::new(),
        entries_left: MAX_SKILL_ENTRIES,
        paths_left: MAX_SKILL_PATHS,
        unnamed: 0,
    };
    let stat = root.stat()?;
    walk.directory(&root.dir("").map_err(io::Error::from)?, "", &mut vec![stat])?;
    if walk.unnamed > 0 {
        walk.listing.warnings.push(RunWarning::MoreNotStaged { count: walk.unnamed });
    }
    Ok(LocalListing { files: walk.listing, versions: walk.versions })
}

/// Reads a file; `None` if it has more than `max` bytes.
pub(super) fn read(root: &Dir, path: &InnerPath, max: u64) -> io::Result<Option<Bytes>> {
    let (file, stat) = root.file_through_links(path.as_str())?;
    let mut bytes = Vec::with_capacity(usize::try_from(size(&stat).min(max)).unwrap_or(0));
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max).then(|| Bytes::from(bytes)))
}

struct Walk<'a> {
    root: &'a Dir,
    now: i128,
    listing: SkillListing,
    versions: Vec<String>,
    /// How many more entries can be visited. Links to each other can make endless entries, so every entry counts, even if
    /// it is left out or was visited before.
    entries_left: usize,
    paths_left: usize,
    /// How many more warnings there are than are named.
    unnamed: usize,
}

impl Walk<'_> {
    /// Adds the entries of `directory`. `above` has it and its parents, so that links back to them are found.
    fn directory(&mut self, directory: &Dir, path: &str, above: &mut Vec<Stat>) -> Result<(), StageError> {
        let (entries, more) = directory.entries(self.entries_left)?;
        if more {
            return Err(StageError::Entries);
        }
        self.entries_left -= entries.len();
        for (name, kind) in entries {
            let length = path.len() + 1 + name.len();
            self.paths_left = self.paths_left.checked_sub(length).ok_or(StageError::Paths)?;
            let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let inner = name.to_str().and_then(|name| InnerPath::parse(&at(name)).ok());
            let Some(inner) = inner else {
                self.skip(&at(&escaped_name(&name)), "its name is not valid in a workspace");
                continue;
            };
            match kind {
                FileType::RegularFile => match directory.entry(&name)? {
                    Some(stat) => self.file(inner, &stat)?,
                    None => self.skip(inner.as_str(), "it was removed"),
                },
                FileType::Directory => match directory.dir(&name) {
                    Ok(below) => self.enter(&below, &inner, above)?,
                    Err(error) => self.skip(inner.as_str(), format!("it cannot be opened: {error}")),
                },
                FileType::Symlink => self.link(inner, above)?,
                other => self.skip(inner.as_str(), format!("it is a {}", special(other))),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: InnerPath, stat: &Stat) -> Result<(), StageError> {
        if self.listing.files.len() == MAX_SKILL_FILES {
            return Err(StageError::Files);
        }
        let executable = stat.st_mode & 0o111 != 0;
        let version = version(stat);
        let stamp = self.is_settled(stat).then(|| version.clone());
        self.versions.push(version);
        self.listing.files.push(StageFile { path, size: size(stat), executable, stamp });
        Ok(())
    }

    fn enter(&mut self, below: &Dir, path: &InnerPath, above: &mut Vec<Stat>) -> Result<(), StageError> {
        let stat = below.stat()?;
        if above.iter().any(|one| is_same(one, &stat)) {
            self.skip(path.as_str(), "it is a link to one of its parent directories");
        } else if above.len() > MAX_DEPTH {
            self.skip(path.as_str(), format!("it is more than {MAX_DEPTH} directories deep"));
        } else {
            above.push(stat);
            self.listing.directories.push(path.clone());
            self.directory(below, path.as_str(), above)?;
            above.pop();
        }
        Ok(())
    }

    fn link(&mut self, path: InnerPath, above: &mut Vec<Stat>) -> Result<(), StageError> {
        match self.root.file_through_links(path.as_str()) {
            Ok((_, stat)) => self.file(path, &stat),
            Err(crate::dir::NoFile::Directory) => match self.root.dir_through_links(path.as_str()) {
                Ok(below) => self.enter(&below, &path, above),
                Err(error) => {
                    self.skip(path.as_str(), format!("the link cannot be followed: {error}"));
                    Ok(())
                }
            },
            Err(_) => {
                self.skip(path.as_str(), "the link leads out of the skill, or nowhere");
                Ok(())
            }
        }
    }

    fn skip(&mut self, path: &str, reason: impl Into<String>) {
        if self.listing.warnings.len() == MAX_WARNINGS {
            self.unnamed += 1;
            return;
        }
        let (path, reason) = (escaped_name(OsStr::new(path)), reason.into());
        self.listing.warnings.push(RunWarning::NotStaged { path, reason });
    }

    /// Whether a later change of the file would certainly change its times.
    fn is_settled(&self, stat: &Stat) -> bool {
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        self.now - changed > UNSETTLED_NANOSECONDS
    }
}

/// Identifies the version of a file without reading it.
fn version(stat: &Stat) -> String {
    format!(
        "{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        stat.st_dev, stat.st_ino, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec
    )
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn nanoseconds_now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
