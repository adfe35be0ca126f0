//! Copies the changes of a run back to the project.
//!
//! Commands wrote the copy, so nothing in it is trusted: names are checked, links are not followed, and bytes are read once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Stat, Uid, linkat, unlinkat};
use rustix::io::Errno;

use super::{
    ChangedProjectFile, Known, LEFT, MAX_NAMED, MAX_WARNINGS, MAX_WRITABLE_BYTES, MAX_WRITABLE_ENTRIES,
    NOT_ALLOWED, ProjectChange, WritableCopy, WritableProject, is_protected,
};
use crate::digest::digest;
use crate::dir::{Dir, NoFile, Owner, special};
use crate::path::escaped_name;
use crate::tree::WORK;
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// Copies changes back.
pub(super) struct WriteBack<'a> {
    workspace: &'a Workspace,
    project: &'a WritableProject,
    changed: Vec<ChangedProjectFile>,
    warnings: Vec<RunWarning>,
    unnamed: usize,
}

/// A file of the copy that the run wrote.
struct Written {
    /// Its path in the writable directory.
    path: String,
    bytes: Vec<u8>,
    /// Whether it may be executed.
    mode: u32,
}

/// What a walk over a copy found.
#[derive(Default)]
struct Found {
    /// The paths of everything that is there.
    names: BTreeSet<String>,
    entries: usize,
    /// Files that are new or changed.
    written: Vec<Written>,
    bytes: u64,
}

/// The run wrote too much, or something that cannot be read. Then nothing of the directory is copied back, because a file
/// that was not seen is not a file that was removed.
struct TooMuch(String);

impl<'a> WriteBack<'a> {
    pub(super) fn new(workspace: &'a Workspace, project: &'a WritableProject) -> Self {
        Self { workspace, project, changed: Vec::new(), warnings: Vec::new(), unnamed: 0 }
    }

    pub(super) fn finish(mut self) -> (Vec<ChangedProjectFile>, Vec<RunWarning>) {
        if self.unnamed > 0 {
            self.warnings.push(RunWarning::MoreNotCopiedBack { count: self.unnamed });
        }
        if self.changed.len() > MAX_NAMED {
            self.warnings.push(RunWarning::MoreCopiedBack { count: self.changed.len() - MAX_NAMED });
            self.changed.truncate(MAX_NAMED);
        }
        (self.changed, self.warnings)
    }

    /// Copies the changes of one directory back. `place` is its copy, as a path in the workspace.
    pub(super) fn directory(&mut self, copy: &WritableCopy, place: &str) {
        let (copied, root) = match (self.workspace.dir().dir(place), Dir::open(&self.project.directory)) {
            (Ok(copied), Ok(root)) => (copied, root),
            (Err(error), _) => {
                return self.refuse((&copy.inside, ""), &format!("the copy cannot be read: {error}"));
            }
            (_, Err(error)) => {
                return self.refuse((&copy.inside, ""), &format!("the project cannot be opened: {error}"));
            }
        };
        let mut found = Found::default();
        if let Err(TooMuch(reason)) = self.find(&copied, &copy.known, (&copy.inside, ""), &mut found) {
            let kept = self.keep_all(&copied, copy, place);
            return self
                .refuse((&copy.inside, ""), &format!("{reason}; nothing of it was copied back{kept}"));
        }
        for written in &found.written {
            if let Err(reason) = self.write(&root, copy, written) {
                let kept = self.keep(&copy.inside, written);
                self.refuse((&copy.inside, &written.path), &format!("{reason}{kept}"));
            }
        }
        for (path, known) in copy.known.iter().filter(|(path, _)| !found.names.contains(*path)) {
            if let Err(reason) = self.remove(&root, &copy.inside, path, known) {
                self.refuse((&copy.inside, path), &format!("{reason}; it was not removed"));
            }
        }
    }

    /// Finds everything that the run wrote in a directory of the copy.
    fn find(
        &mut self,
        directory: &Dir,
        known: &Known,
        (inside, path): (&str, &str),
        found: &mut Found,
    ) -> Result<(), TooMuch> {
        let listed = directory.entries(MAX_WRITABLE_ENTRIES - found.entries);
        let (entries, more) =
            listed.map_err(|error| TooMuch(format!("a directory in it cannot be read: {error}")))?;
        if more {
            return Err(TooMuch(format!("the run left more than {MAX_WRITABLE_ENTRIES} files")));
        }
        found.entries += entries.len();
        for (name, kind) in entries {
            let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let Some(path) = name.to_str().filter(|_| !is_protected(&name)).map(at) else {
                let path = at(&escaped_name(&name));
                self.refuse((inside, &path), "commands never write this name into a project");
                continue;
            };
            found.names.insert(path.clone());
            match kind {
                FileType::Directory => {
                    let below = directory.dir(&name);
                    let below =
                        below.map_err(|error| TooMuch(format!("{path} in it cannot be read: {error}")))?;
                    self.find(&below, known, (inside, &path), found)?;
                }
                FileType::RegularFile => self.read(directory, &name, known, (inside, path), found)?,
                other => self.refuse((inside, &path), &format!("it is a {}", special(other))),
            }
        }
        Ok(())
    }

    /// Reads a file of the copy, and keeps it if it is new or changed.
    fn read(
        &mut self,
        directory: &Dir,
        name: &OsStr,
        known: &Known,
        (inside, path): (&str, String),
        found: &mut Found,
    ) -> Result<(), TooMuch> {
        let opened = directory.file(name).map_err(|refused| format!("it {}", refused.reason()));
        let read = opened.and_then(|(file, stat)| {
            let mut bytes = Vec::new();
            let read = file.take(MAX_WRITABLE_BYTES + 1).read_to_end(&mut bytes);
            read.map(|_| (bytes, stat)).map_err(|error| format!("it cannot be read: {error}"))
        });
        let (bytes, stat) = match read {
            Ok(read) => read,
            Err(reason) => {
                self.refuse((inside, &path), &reason);
                return Ok(());
            }
        };
        if known.get(&path).is_some_and(|known| *known == digest(&bytes)) {
            return Ok(());
        }
        found.bytes += bytes.len() as u64;
        if found.bytes > MAX_WRITABLE_BYTES {
            return Err(TooMuch(format!("the run wrote more than {MAX_WRITABLE_BYTES} bytes")));
        }
        // Never a set-uid or set-gid bit.
        let mode = 0o644 | if stat.st_mode & 0o100 == 0 { 0 } else { 0o111 };
        found.written.push(Written { path, bytes, mode });
        Ok(())
    }

    /// Writes a file into the project, unless somebody else changed it since it was copied.
    fn write(&mut self, root: &Dir, copy: &WritableCopy, written: &Written) -> Result<(), String> {
        let failed = |error: io::Error| format!("it cannot be written: {error}");
        let real = self.project.directory.join(&copy.inside).join(&written.path);
        if (self.project.withheld)(&real) {
            return Err(NOT_ALLOWED.to_owned());
        }
        let (above, name) = parent(&copy.inside, &written.path);
        let directory = self.make_dirs(root, &above).map_err(failed)?;
        let known = copy.known.get(&written.path);
        let (present, stat) = match look(&directory, &name) {
            Ok(present) => present.unzip(),
            Err(reason) => return Err(format!("{reason} in the project now")),
        };
        let change = match (present, known) {
            (Some(present), _) if present == digest(&written.bytes) => return Ok(()),
            (Some(present), Some(known)) if present == *known => ProjectChange::Replaced,
            (None, None) => ProjectChange::Created,
            _ => return Err("somebody else changed it in the project meanwhile".to_owned()),
        };
        match change {
            ProjectChange::Replaced => {
                let mode = stat.as_ref().map_or(written.mode, |stat| stat.st_mode & 0o777);
                let owner = stat.as_ref().and_then(owner_like);
                directory.replace(&name, &written.bytes, mode, owner).map_err(failed)?;
            }
            _ => create(&directory, &name, written).map_err(failed)?,
        }
        self.note(&copy.inside, &written.path, change);
        Ok(())
    }

    /// Removes a file that the run removed from its copy.
    fn remove(&mut self, root: &Dir, inside: &str, path: &str, known: &str) -> Result<(), String> {
        if (self.project.withheld)(&self.project.directory.join(inside).join(path)) {
            return Err(NOT_ALLOWED.to_owned());
        }
        let (above, name) = parent(inside, path);
        let directory = match root.dir(&above) {
            Ok(directory) => directory,
            // It is gone already.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(format!("its directory cannot be opened: {error}")),
        };
        match look(&directory, &name)? {
            None => return Ok(()),
            Some((present, _)) if present == known => {}
            Some(_) => return Err("somebody else changed it in the project meanwhile".to_owned()),
        }
        unlinkat(&directory, &name, AtFlags::empty())
            .map_err(|error| format!("it cannot be removed: {error}"))?;
        self.note(inside, path, ProjectChange::Removed);
        Ok(())
    }

    /// Makes the directories of a path in the project. They get the owner of the directory around them.
    fn make_dirs(&self, root: &Dir, path: &str) -> io::Result<Dir> {
        let mut directory = root.dir("")?;
        for name in path.split('/') {
            let owner = owner_like(&directory.stat()?);
            directory = directory.make_dir(name, 0o755, owner)?;
        }
        Ok(directory)
    }

    /// Keeps a file that was not copied back in `out/`, and says where.
    fn keep(&self, inside: &str, written: &Written) -> String {
        let owner = self.workspace.owner();
        let (above, name) = parent(&format!("out/{LEFT}/{inside}"), &written.path);
        let kept = self.workspace.dir().make_dirs(&above, 0o755, owner);
        match kept.and_then(|place| place.replace(&name, &written.bytes, written.mode, owner)) {
            Ok(()) => format!("; the run's file is at {WORK}/{above}/{name}"),
            Err(_) => String::new(),
        }
    }

    /// Keeps a whole copy in `out/`, and says where.
    fn keep_all(&self, copied: &Dir, copy: &WritableCopy, place: &str) -> String {
        let (above, name) = parent(&format!("out/{LEFT}"), &copy.inside);
        let moved = self.workspace.dir().make_dirs(&above, 0o755, self.workspace.owner()).and_then(|above| {
            copied.hand_over(0o755, self.workspace.owner())?;
            Ok(rustix::fs::renameat(self.workspace.dir(), place, &above, &name)?)
        });
        match moved {
            Ok(()) => format!("; it is at {WORK}/{above}/{name}"),
            Err(_) => String::new(),
        }
    }

    fn note(&mut self, inside: &str, path: &str, change: ProjectChange) {
        let real = self.project.directory.join(inside).join(path);
        self.changed.push(ChangedProjectFile { path: self.shown(inside, path), change, real });
    }

    fn shown(&self, inside: &str, path: &str) -> String {
        let all = [self.project.at.as_str(), inside, path];
        all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Notes that a change of a file in a writable directory was not copied back.
    fn refuse(&mut self, (inside, path): (&str, &str), reason: &str) {
        if self.warnings.len() == MAX_WARNINGS {
            self.unnamed += 1;
        } else {
            let real: PathBuf = self.project.directory.join(inside).join(path).components().collect();
            let (path, reason) = (self.shown(inside, path), reason.to_owned());
            self.warnings.push(RunWarning::NotCopiedBack { path, real, reason });
        }
    }
}

/// The directory and the name of a file in a writable directory.
fn parent(inside: &str, path: &str) -> (String, String) {
    let path = Path::new(inside).join(path);
    let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    (text(path.parent().map(Path::as_os_str)), text(path.file_name()))
}

/// The digest and metadata of a regular file of the project; `None` if nothing has the name.
fn look(directory: &Dir, name: &str) -> Result<Option<(String, Stat)>, String> {
    let (file, stat) = match directory.file(name) {
        Ok(opened) => opened,
        Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(refused) => return Err(format!("it {}", refused.reason())),
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_WRITABLE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(Some((digest(&bytes), stat)))
}

/// Creates a file. If something has the name meanwhile, that is an error.
fn create(directory: &Dir, name: &str, written: &Written) -> io::Result<()> {
    let owner = owner_like(&directory.stat()?);
    let temporary = directory.temporary(&written.bytes, written.mode, owner)?;
    let linked = linkat(directory, &temporary, directory, name, AtFlags::empty());
    directory.discard(&temporary);
    Ok(linked?)
}

/// The owner for a new file, if this process is root: the owner of what it replaces, or of its directory.
fn owner_like(stat: &Stat) -> Owner {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)))
}
