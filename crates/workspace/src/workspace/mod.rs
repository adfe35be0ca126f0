//! Workspaces: directory trees in which runs work, one for each workspace id.

mod cleanup;
mod copy_files;
mod metadata;
mod recovery;

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Gid, Stat, Uid};

use crate::digest::short;
use crate::dir::{Dir, Owner};
use crate::error::WorkspaceError;
use crate::path::{InnerPath, escaped_name};
use crate::stage::{SHORTCUT_DIR, SHORTCUTS};
use metadata::Metadata;
use recovery::RunMark;

use cleanup::is_workspace;
pub use cleanup::{Cleaned, Removed};
pub use copy_files::{CopiedFiles, MAX_COPIED_BYTES, MAX_COPIED_ENTRIES};

/// The user and group of commands that root starts: `nobody`.
pub const NOBODY: u32 = 65534;

/// The directory that commands see as their workspace.
const INSIDE: &str = "ws";
/// A lock: shared by users of the workspace, exclusive for its removal.
const IN_USE: &str = "in-use.lock";
/// A lock: exclusive for staging.
const STAGING: &str = "staging.lock";
/// A lock: shared by runs, exclusive for the removal of old versions of skills.
const RUNNING: &str = "running.lock";
/// The directory of the indexes of staged skills.
const STAGED_INDEXES: &str = "manifests";
/// The directory of notes about placeholders.
const NOTES: &str = "links";
/// The directory of copies that runs see instead of local files.
const GIVEN: &str = "given";
/// The directory of commands that run apart from the workspace.
const OWN: &str = "own";
/// How often opening is tried while others remove the workspace.
const MAX_ATTEMPTS: u32 = 100;

/// The workspaces below one local directory. Several processes can use it at the same time.
///
/// ```
/// # let place = tempfile::tempdir()?;
/// use prowess_workspace::Workspaces;
///
/// let workspaces = Workspaces::open(place.path())?;
/// let workspace = workspaces.workspace("any text is an id")?;
/// assert!(workspace.path().join("out").is_dir());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: Arc<Dir>,
    path: PathBuf,
    owner: Owner,
}

impl Workspaces {
    /// The workspaces below `root`, which is created if it is missing.
    ///
    /// If prowess was killed, files of its commands lose their set-uid and set-gid bits now, unless other commands run
    /// there.
    ///
    /// Commands of root run as [`NOBODY`], so that user owns what they write. A new directory lets that user pass, and its
    /// parents must do so too ([`Workspaces::closed_to_commands`]).
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let is_root = rustix::process::geteuid().is_root();
        let owner = is_root.then(|| (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY)));
        Self::open_for(root.as_ref(), owner)
    }

    fn open_for(root: &Path, owner: Owner) -> Result<Self, WorkspaceError> {
        let failed = |error| WorkspaceError::io("opening the workspaces at", root, error);
        let path = std::path::absolute(root).map_err(failed)?;
        let existed = path.is_dir();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let root = Dir::open(&path).map_err(failed)?;
        if !existed {
            enclose(&root, owner, 0o710).map_err(failed)?;
        }
        let workspaces = Self { root: Arc::new(root), path, owner };
        workspaces.recover();
        Ok(workspaces)
    }

    /// The first directory on the way to the workspaces that the user of commands cannot enter, if there is one. Then no
    /// command can run. Only commands of root run as another user.
    pub fn closed_to_commands(&self) -> Option<PathBuf> {
        use std::os::unix::fs::MetadataExt as _;
        let (user, group) = self.owner?;
        let may_pass = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|found| {
                let passes = if found.uid() == user.as_raw() {
                    0o100
                } else if found.gid() == group.as_raw() {
                    0o010
                } else {
                    0o001
                };
                found.mode() & passes != 0
            })
        };
        let mut above: Vec<&Path> = self.path.ancestors().collect();
        above.reverse();
        above.into_iter().find(|path| !may_pass(path)).map(Path::to_owned)
    }

    /// The directory that commands see as their workspace, whether it exists or not.
    pub fn path_of(&self, id: &str) -> PathBuf {
        self.path.join(short(id)).join(INSIDE)
    }

    /// The workspace with this id, created if there is none.
    ///
    /// Any text can be an id, usually that of a session or thread. It is never used as a path. A workspace that a crash left
    /// half made is repaired.
    ///
    /// # Errors
    ///
    /// The workspace cannot be created or opened, or a newer version of prowess made it.
    pub fn workspace(&self, id: &str) -> Result<Workspace, WorkspaceError> {
        let _span = tracing::info_span!("workspace.create").entered();
        let name = short(id);
        let path = self.path.join(&name);
        let failed = |error| WorkspaceError::io("opening the workspace", &path, error);
        for _ in 0..MAX_ATTEMPTS {
            let opened = self.root.make_dir(&name, 0o700, None);
            let opened = opened.and_then(|home| Ok((lock_file(&home, IN_USE)?, home)));
            let (in_use, home) = match opened {
                Ok(opened) => opened,
                // Somebody removed it before it was opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            in_use.lock_shared().map_err(failed)?;
            let found = self.root.entry(&name).map_err(failed)?;
            if !found.is_some_and(|found| home.stat().is_ok_and(|home| is_same(&home, &found))) {
                // Somebody removed it before it was locked.
                continue;
            }
            return self.prepare(id, &path, home, in_use);
        }
        Err(failed(io::Error::other("other processes keep removing it")))
    }

    fn prepare(&self, id: &str, path: &Path, home: Dir, in_use: File) -> Result<Workspace, WorkspaceError> {
        let failed = |error| WorkspaceError::io("making the workspace", path, error);
        // One at a time: two processes must not both repair it.
        let staging = lock_file(&home, STAGING).map_err(failed)?;
        staging.lock().map_err(failed)?;
        let metadata = Metadata::read(&home, path)?;
        enclose(&home, self.owner, 0o710).map_err(failed)?;
        let inside = real_dir(&home, INSIDE).map_err(failed)?;
        // Without a sandbox, commands see it and may list it.
        enclose(&inside, self.owner, 0o750).map_err(failed)?;
        home.make_dir(STAGED_INDEXES, 0o700, None).map_err(failed)?;
        let notes = home.make_dir(NOTES, 0o700, None).map_err(failed)?;
        let skills = real_dir(&inside, "skills").map_err(failed)?;
        skills.hand_over(0o755, None).map_err(failed)?;
        for name in ["work", "runs", "out"] {
            let directory = real_dir(&inside, name).map_err(failed)?;
            directory.hand_over(0o755, self.owner).map_err(failed)?;
            if name == "work" {
                let inputs = real_dir(&directory, "inputs").map_err(failed)?;
                inputs.hand_over(0o755, self.owner).map_err(failed)?;
            }
        }
        make_shortcuts(&inside).map_err(failed)?;
        crate::input::sweep(&notes, &inside).map_err(failed)?;
        let given = real_dir(&home, GIVEN).map_err(failed)?;
        enclose(&given, self.owner, 0o710).map_err(failed)?;
        crate::input::sweep_copies(&given).map_err(failed)?;
        Metadata::note_use(metadata, id, &home).map_err(failed)?;
        Ok(Workspace(Arc::new(Inner {
            home,
            dir: inside,
            path: path.join(INSIDE),
            owner: self.owner,
            root: Arc::clone(&self.root),
            name: short(id),
            _in_use: in_use,
        })))
    }
}

/// A workspace: `skills/`, `work/`, `runs/` and `out/`.
///
/// It is in use until the last clone of this value is dropped, and is not cleaned up before. Its metadata and the indexes
/// of its staged skills lie beside it, where commands cannot reach them.
///
/// ```
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::Workspaces;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let skill = scratch.path().join("greet");
/// # std::fs::create_dir(&skill)?;
/// std::fs::write(skill.join("SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// let workspace = Workspaces::open(scratch.path().join("workspaces"))?.workspace("workspace-1")?;
/// let staged = workspace.stage("greet", &StageSource::Directory(skill)).await?;
/// assert!(workspace.path().join(&staged.directory).join("SKILL.md").is_file());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workspace(Arc<Inner>);

struct Inner {
    home: Dir,
    dir: Dir,
    path: PathBuf,
    owner: Owner,
    /// The directory of all workspaces, and the name of this one in it.
    root: Arc<Dir>,
    name: String,
    /// A shared lock; closing it releases the workspace.
    _in_use: File,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workspace").field(&self.0.path).finish()
    }
}

impl Workspace {
    /// The directory that commands see as their workspace.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// A directory beside the workspace, created if there is none. Only commands with this directory as
    /// [`Command::apart`](crate::Command::apart) can reach it, so skills cannot change its contents.
    ///
    /// ```
    /// use prowess_workspace::{Command, Workspaces};
    ///
    /// # let place = tempfile::tempdir()?;
    /// let workspace = Workspaces::open(place.path())?.workspace("workspace-1")?;
    /// let mut command = Command::new(workspace.path(), "", "test -e $OUTPUT_DIR/report.txt");
    /// command.apart = Some(workspace.own_directory("checks")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The name cannot be the name of a directory, or the directory cannot be created.
    pub fn own_directory(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        if InnerPath::parse(name).is_ok_and(|path| path.as_str() == name && path.top() == name) {
            return self.make_own(name);
        }
        let reason = "it must be the name of one directory".to_owned();
        Err(WorkspaceError::Directory { path: escaped_name(name.as_ref()), reason })
    }

    fn make_own(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        let place = self.0.path.with_file_name(OWN).join(name);
        let made = real_dir(&self.0.home, OWN).and_then(|all| {
            enclose(&all, self.0.owner, 0o710)?;
            real_dir(&all, name)?.hand_over(0o700, self.0.owner)
        });
        made.map_err(|error| WorkspaceError::io("making the directory", &place, error))?;
        Ok(place)
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.0.dir
    }

    pub(crate) fn owner(&self) -> Owner {
        self.0.owner
    }

    pub(crate) fn staged_indexes(&self) -> io::Result<Dir> {
        Ok(self.0.home.dir(STAGED_INDEXES)?)
    }

    /// The directory of copies that runs see instead of local files.
    pub(crate) fn given(&self) -> io::Result<Dir> {
        Ok(self.0.home.dir(GIVEN)?)
    }

    pub(crate) fn given_path(&self) -> PathBuf {
        self.0.path.with_file_name(GIVEN)
    }

    pub(crate) fn notes(&self) -> io::Result<Dir> {
        Ok(self.0.home.dir(NOTES)?)
    }

    /// Waits until nobody else stages a skill here.
    pub(crate) fn lock_staging(&self) -> io::Result<File> {
        let file = lock_file(&self.0.home, STAGING)?;
        file.lock()?;
        Ok(file)
    }

    /// Keeps all staged versions of skills until the guard is dropped.
    pub(crate) fn lock_running(&self) -> io::Result<RunGuard> {
        let file = lock_file(&self.0.home, RUNNING)?;
        file.lock_shared()?;
        let mark = RunMark::new(&self.0.root, &self.0.name)?;
        Ok(RunGuard { _mark: mark, _lock: file, _workspace: self.clone() })
    }

    /// Takes the lock if no run uses the workspace. While it is held, no run can start.
    pub(crate) fn lock_idle(&self) -> io::Result<Option<File>> {
        let file = lock_file(&self.0.home, RUNNING)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Keeps the staged skills that a run uses.
#[derive(Debug)]
pub(crate) struct RunGuard {
    /// Dropped before the lock: a mark without a lock means that a process was killed.
    _mark: RunMark,
    _lock: File,
    _workspace: Workspace,
}

/// Makes a directory private to this user. The user of commands gets the access in `mode`.
fn enclose(directory: &Dir, owner: Owner, mode: u32) -> io::Result<()> {
    match owner {
        Some((_, group)) => directory.hand_over(mode, Some((rustix::process::geteuid(), group))),
        None => directory.hand_over(0o700, None),
    }
}

/// Makes the links through which a staged skill reaches the workspace. A command without a sandbox may have changed them.
fn make_shortcuts(inside: &Dir) -> io::Result<()> {
    let shortcuts = real_dir(inside, SHORTCUT_DIR)?;
    shortcuts.hand_over(0o755, None)?;
    for (name, place) in SHORTCUTS {
        let target = format!("../{place}");
        let found = rustix::fs::readlinkat(&shortcuts, name, Vec::new());
        if found.is_ok_and(|found| found.as_bytes() == target.as_bytes()) {
            continue;
        }
        shortcuts.discard(name);
        rustix::fs::symlinkat(&target, &shortcuts, name)?;
    }
    Ok(())
}

/// Opens or makes the directory `name`. Anything else with that name, such as a link, is removed.
fn real_dir(parent: &Dir, name: &str) -> io::Result<Dir> {
    let found = parent.entry(name)?;
    let is_directory = |stat: &Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    if found.as_ref().is_some_and(|stat| !is_directory(stat)) {
        tracing::warn!(name, "removed a file in place of a directory of the workspace");
        parent.discard(name);
    }
    // A command of the same user may have taken our access away.
    if found.is_some_and(|stat| is_directory(&stat) && stat.st_mode & 0o700 != 0o700) {
        parent.open_up(name)?;
    }
    parent.make_dir(name, 0o700, None)
}

fn lock_file(home: &Dir, name: &str) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(home, name, flags, Mode::from_raw_mode(0o600))?))
}

pub(crate) fn is_same(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}
