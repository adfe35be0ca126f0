//! Puts the trees of skills where agents look for them.
//!
//! A [`Place`] is a directory such as `PROJECT/.agents`. Its skills are in `skills/NAME`. Other agents get links or copies in
//! their own directories. All changes of one command are one [`Transaction`]: if the process is killed at any moment, the next
//! command finishes the transaction or removes its traces. Nothing that a person has edited is ever deleted.
//!
//! While a transaction runs, `.prowess-install/` has a directory with the new trees in `new/`, the replaced ones in `old/`,
//! and a journal. The journal is written when `new/` is complete. From then on the transaction is carried out, by whichever
//! process comes next. A transaction that has no journal has changed nothing.

mod apply;
mod directories;
mod error;
mod found;
mod journal;
mod lock_file;
mod prepare;
mod steps;
mod transaction;
mod wait;

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prowess_base::beneath;
use rustix::io::Errno;

pub use error::PlaceError;
pub use transaction::{ReadLock, Transaction};

use crate::disk;
use crate::tree::{TreeDirectory, TreeError};
use directories::Directories;
use steps::Steps;
use wait::LockGuard;

/// The directory with the skills.
const SKILLS: &str = "skills";
/// The directory for trees that somebody edited and that a transaction replaced. No agent loads skills from it.
const KEPT: &str = "skills-kept";
/// The directory for transactions that are not finished.
const UNFINISHED: &str = ".prowess-install";
/// How long [`Place::hold`] waits for another process, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with skills for agents, such as `PROJECT/.agents` or `HOME/.agents`.
///
/// Its journal may come from somebody else, for example with a repository. So a transaction, even an unfinished one, can only
/// change the skills of the place and the files and directories that the caller lists here.
///
/// ```
/// use prowess_install::place::{Place, Transaction};
/// use prowess_install::store::Store;
/// use prowess_install::tree::TreeDirectory;
///
/// # let scratch = tempfile::tempdir()?;
/// # let (project, cache) = (scratch.path().join("project"), scratch.path().join("cache"));
/// # let source = scratch.path().join("tides");
/// # std::fs::create_dir(&project)?;
/// # std::fs::create_dir(&source)?;
/// # std::fs::write(source.join("SKILL.md"), "Twice a day.")?;
/// let stored = Store::open(&cache)?.stage_directory(&TreeDirectory::open(&source)?)?;
/// let claude = project.join(".claude/skills");
/// let lock = project.join("skills-lock.json");
/// let place = Place::new(&project.join(".agents"))?.with_agent_directory(&claude).with_lock_file(&lock);
///
/// let held = place.hold()?;
/// let mut transaction = Transaction::default();
/// transaction.put("tides", &stored, None);
/// transaction.link(&claude, "tides", None);
/// transaction.write_lock(&lock, "{}\n");
/// held.commit(&transaction)?;
/// assert_eq!(std::fs::read(project.join(".claude/skills/tides/SKILL.md"))?, b"Twice a day.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
    agent_directories: Vec<PathBuf>,
    lock_files: Vec<PathBuf>,
    patience: Duration,
    /// What proves that a journal is of this user.
    secret: Option<Vec<u8>>,
    links: Links,
    steps: Steps,
}

/// Which links on the way to the directories of a place are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Those that stay below the directory that has the place, such as links in a home directory.
    #[default]
    Below,
    /// None, except one between directories of agents, such as from `.claude` to `.agents`, or from one listed directory of
    /// skills to another. A repository could have a link to its own `.git`.
    ToAgents,
}

/// What a transaction or a recovery has done besides its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The directories that somebody had changed meanwhile, and where they are now.
    pub kept: Vec<Kept>,
    /// The entries of agents' directories and the lock files that somebody changed meanwhile. They are as they were.
    pub left_alone: Vec<PathBuf>,
    /// How many transactions of earlier processes were finished.
    pub finished: usize,
}

/// A directory that was replaced although it was not what the transaction expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// The name of the skill.
    pub name: String,
    /// Where the directory is now.
    pub path: PathBuf,
}

/// The skills of a place, as they are on the disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct Installed {
    /// The names of the directories and of other entries, sorted.
    pub names: Vec<String>,
    skills: Option<OwnedFd>,
}

/// A place that no other process changes until this value is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    place: &'a Place,
    directories: Directories,
    recovered: Report,
    _lock: LockGuard,
}

impl Place {
    /// The place at `root`. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// `root` is not absolute, or has no parent directory.
    pub fn new(root: &Path) -> Result<Self, PlaceError> {
        if !root.is_absolute() || root.file_name().is_none() || root.parent().is_none() {
            return Err(PlaceError::Root(root.to_owned()));
        }
        Ok(Self {
            root: root.to_owned(),
            agent_directories: Vec::new(),
            lock_files: Vec::new(),
            patience: PATIENCE,
            secret: None,
            links: Links::default(),
            steps: Steps::default(),
        })
    }

    /// Lets transactions make links and copies in an agent's directory, such as `PROJECT/.claude/skills`.
    #[must_use]
    pub fn with_agent_directory(mut self, path: &Path) -> Self {
        self.agent_directories.push(path.to_owned());
        self
    }

    /// Lets transactions write a lock file.
    #[must_use]
    pub fn with_lock_file(mut self, path: &Path) -> Self {
        self.lock_files.push(path.to_owned());
        self
    }

    /// Sets which links on the way to the directories of the place are followed.
    #[must_use]
    pub fn with_links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Sets a secret of this user. Then only journals that were written with the same secret are finished: a journal can come
    /// with a repository.
    #[must_use]
    pub fn with_secret(mut self, secret: &[u8]) -> Self {
        self.secret = Some(secret.to_vec());
        self
    }

    /// Sets how long [`Place::hold`] waits for another process.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The directory of the place.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether an agent's directory exists beside the directory of skills. It does not count if it is the same directory, or if
    /// the place does not follow a link on the way to it.
    pub fn has_agent_directory(&self, path: &Path) -> bool {
        Directories::has_agent(self, path)
    }

    /// Whether a link on the way to an agent's directory is not followed.
    pub fn refuses_agent_directory(&self, path: &Path) -> bool {
        Directories::refuses_agent(self, path)
    }

    /// The directory of a skill.
    pub fn skill_path(&self, name: &str) -> PathBuf {
        self.root.join(SKILLS).join(name)
    }

    /// Finishes or removes what a killed process has left. Call it at the start of every command.
    ///
    /// If nothing is left, this takes no lock and writes nothing.
    ///
    /// # Errors
    ///
    /// As for [`Place::hold`].
    pub fn recover(&self) -> Result<Report, PlaceError> {
        match Directories::open_root(self)? {
            Some(root) if beneath::stat(&root, UNFINISHED).is_ok() => Ok(self.hold()?.recovered),
            _ => Ok(Report::default()),
        }
    }

    /// Waits until no other process changes the place, and recovers as [`Place::recover`] does.
    ///
    /// Read lock files after this call, not before: then no change of another process is lost.
    ///
    /// # Errors
    ///
    /// Another process takes too long, the place is a link that leads elsewhere, or it cannot be created or recovered.
    pub fn hold(&self) -> Result<Held<'_>, PlaceError> {
        let directories = Directories::make(self)?;
        let lock = wait::acquire(&directories.root, &self.root, self.patience)?;
        let mut held = Held { place: self, directories, recovered: Report::default(), _lock: lock };
        held.recovered = held.recover()?;
        Ok(held)
    }

    /// Lists the skills of the place. It has none if it does not exist.
    ///
    /// # Errors
    ///
    /// The place is a link that leads elsewhere, or cannot be listed.
    pub fn installed(&self) -> Result<Installed, PlaceError> {
        let mut installed = Installed { names: Vec::new(), skills: Directories::open_skills(self)? };
        let Some(skills) = &installed.skills else { return Ok(installed) };
        let path = self.root.join(SKILLS);
        let failed = |error: Errno| PlaceError::io("list", &path, error);
        let listed = disk::open_directory(skills, ".").map_err(failed)?;
        beneath::list(&listed, |name, _| {
            installed.names.extend(name.to_str().map(str::to_owned));
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
        installed.names.sort_unstable();
        Ok(installed)
    }
}

impl Installed {
    /// Opens the directory of a skill.
    ///
    /// # Errors
    ///
    /// There is no such directory ([`TreeError::is_absent`]), it is a link, or it cannot be opened.
    pub fn open(&self, name: &str) -> Result<TreeDirectory, TreeError> {
        match &self.skills {
            Some(skills) if !name.contains('/') => TreeDirectory::open_at(skills, name),
            _ => Err(TreeError::Io { path: String::new(), source: Errno::NOENT.into() }),
        }
    }
}

impl Held<'_> {
    /// What an earlier process had left, and what became of it.
    pub fn recovered(&self) -> &Report {
        &self.recovered
    }

    /// Makes all changes of a transaction.
    ///
    /// # Errors
    ///
    /// Before the first change: an agent's directory has something else under the name of a skill, a directory is on another
    /// file system, or files cannot be copied. Nothing is changed then. If a later step fails, the error is
    /// [`PlaceError::Unfinished`], and the next call of [`Place::recover`] tries again.
    pub fn commit(&self, transaction: &Transaction) -> Result<Report, PlaceError> {
        let mut report = Report::default();
        if let Some(prepared) = self.prepare(transaction, &mut report)? {
            self.finish(&prepared, apply::Staged::Surely, &mut report)
                .map_err(|error| PlaceError::Unfinished(Box::new(error)))?;
        }
        Ok(report)
    }

    fn steps(&self) -> &Steps {
        &self.place.steps
    }
}

#[cfg(test)]
mod tests;
