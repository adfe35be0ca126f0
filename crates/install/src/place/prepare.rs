//! The first part of a transaction: checks, copies and the journal. It changes nothing that an agent sees.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use prowess_base::beneath;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use super::directories::{AgentDirectory, Missing, check_movable, text_of};
use super::found::{Content, Found};
use super::journal::{Change, Journal, LockChange};
use super::transaction::{Planned, PlannedLock, Wanted};
use super::{Held, KEPT, PlaceError, Report, SKILLS, Transaction, UNFINISHED, lock_file};
use crate::disk;
use crate::snapshot::check_path;
use crate::tree::names::has_trailing_dot_or_space;
use crate::tree::writer::TreeWriter;

/// The directory of a transaction, with its journal.
pub(super) struct Prepared {
    /// Its name in the directory for unfinished transactions.
    pub(super) name: String,
    pub(super) handle: OwnedFd,
    pub(super) journal: Journal,
}

/// A change that passed the checks.
struct Checked<'a> {
    change: Change,
    planned: &'a Planned,
}

/// Checks that `name` is the name of one directory that every agent can load.
pub(super) fn check_name(name: &str) -> Result<(), PlaceError> {
    let is_bad = name.contains('/') || name.starts_with('.') || has_trailing_dot_or_space(name);
    if is_bad || check_path(name).is_err() { Err(PlaceError::Name(name.to_owned())) } else { Ok(()) }
}

impl Held<'_> {
    /// Checks a transaction, copies its trees, and writes its journal. `None` if there is nothing to do.
    pub(super) fn prepare(
        &self,
        transaction: &Transaction,
        report: &mut Report,
    ) -> Result<Option<Prepared>, PlaceError> {
        let changes = self.check(transaction, &mut report.left_alone)?;
        let locks = self.check_locks(transaction)?;
        if changes.is_empty() && locks.is_empty() {
            return Ok(None);
        }
        self.check_kept()?;
        let unfinished_path = self.place.root.join(UNFINISHED);
        let failed = |error: std::io::Error| PlaceError::io("write to", &unfinished_path, error);
        self.steps().step()?;
        disk::make_directory(&self.directories.root, UNFINISHED).map_err(|error| failed(error.into()))?;
        let unfinished = self.open_unfinished()?;
        self.steps().step()?;
        let (name, handle) = beneath::with_unused_name("", "", |name| {
            fs::mkdirat(&unfinished, name, fs::Mode::RWXU)?;
            Ok(disk::open_directory(&unfinished, name)?)
        })
        .map_err(failed)?;
        let staged = self.stage(&handle, changes, locks);
        if let Err(error) = &staged
            && !error.is_killed()
        {
            // The error says more than a second one about the directory would. The next command removes the rest.
            let _ = disk::remove(&unfinished, &name);
            let _ = fs::unlinkat(&self.directories.root, UNFINISHED, AtFlags::REMOVEDIR);
        }
        Ok(Some(Prepared { name, handle, journal: staged? }))
    }

    /// Checks that trees with changes of a person can be kept, if their directory exists.
    fn check_kept(&self) -> Result<(), PlaceError> {
        let path = self.place.root.join(KEPT);
        match disk::open_directory(&self.directories.root, KEPT) {
            Ok(kept) => self.directories.check_writable(&kept, &path),
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(PlaceError::NotADirectory(path)),
            Err(error) => Err(PlaceError::io("open", &path, error)),
        }
    }

    /// Opens the directory for unfinished transactions.
    pub(super) fn open_unfinished(&self) -> Result<OwnedFd, PlaceError> {
        disk::open_directory(&self.directories.root, UNFINISHED)
            .map_err(|error| PlaceError::io("open", &self.place.root.join(UNFINISHED), error))
    }

    /// Checks every change before the first one is made.
    fn check<'a>(
        &self,
        transaction: &'a Transaction,
        left_alone: &mut Vec<PathBuf>,
    ) -> Result<Vec<Checked<'a>>, PlaceError> {
        let skills = self.place.root.join(SKILLS);
        if transaction.changes.iter().any(|planned| planned.agent.is_none()) {
            self.directories.check_writable(&self.directories.skills, &skills)?;
        }
        let mut agents: BTreeMap<&Path, Option<AgentDirectory>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut checked = Vec::with_capacity(transaction.changes.len());
        for planned in &transaction.changes {
            check_name(&planned.name)?;
            if !seen.insert((&planned.agent, &planned.name)) {
                let directory = planned.agent.as_ref().unwrap_or(&skills);
                return Err(PlaceError::Twice(directory.join(&planned.name)));
            }
            let Some(path) = &planned.agent else {
                check_movable(&self.directories.skills, &planned.name, &skills.join(&planned.name))?;
                checked.push(Checked { change: change(planned, None), planned });
                continue;
            };
            let missing =
                if matches!(planned.wanted, Wanted::Nothing) { Missing::Skip } else { Missing::Make };
            // A directory that one change skipped may be made by the next.
            if agents.get(path.as_path()).is_none_or(Option::is_none) {
                text_of(path)?;
                let agent = self.directories.open_agent(self.place, path, missing)?;
                if let Some(agent) = &agent {
                    self.directories.check_writable(&agent.handle, path)?;
                }
                agents.insert(path, agent);
            }
            let Some(Some(agent)) = agents.get(path.as_path()) else { continue };
            if let Some(change) = self.check_agent(planned, agent, &path.join(&planned.name), left_alone)? {
                check_movable(&agent.handle, &planned.name, &path.join(&planned.name))?;
                checked.push(Checked { change, planned });
            }
        }
        Ok(checked)
    }

    /// Checks a change of an agent's directory. `None` if there is nothing to do.
    fn check_agent(
        &self,
        planned: &Planned,
        agent: &AgentDirectory,
        path: &Path,
        left_alone: &mut Vec<PathBuf>,
    ) -> Result<Option<Change>, PlaceError> {
        let link = agent.link(&planned.name);
        let change = change(planned, Some(&link));
        let found = Found::at(&agent.handle, &planned.name);
        let is_ours = match &found {
            Found::Nothing | Found::Other => false,
            Found::Content(Content::Link(text)) => *text == link || self.leads_to_skill(agent, &planned.name),
            Found::Content(_) => found.is(change.before.as_ref()) || found.is(change.after.as_ref()),
        };
        match found {
            Found::Nothing if change.after.is_none() => Ok(None),
            Found::Nothing => Ok(Some(Change { before: None, ..change })),
            found if found.is(change.after.as_ref()) => Ok(None),
            Found::Content(content) if is_ours => Ok(Some(Change { before: Some(content), ..change })),
            _ if change.after.is_none() => {
                left_alone.push(path.to_owned());
                Ok(None)
            }
            _ => Err(PlaceError::Occupied(path.to_owned())),
        }
    }

    /// Whether the link `name` of an agent leads to the skill of that name, however the link is written.
    fn leads_to_skill(&self, agent: &AgentDirectory, name: &str) -> bool {
        let there = fs::statat(&agent.handle, name, AtFlags::empty());
        let here = fs::statat(&self.directories.skills, name, AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| {
            here.is_ok_and(|here| (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino))
        })
    }

    fn check_locks(&self, transaction: &Transaction) -> Result<Vec<LockChange>, PlaceError> {
        let mut seen = BTreeSet::new();
        let locks = transaction.locks.iter().map(|PlannedLock { path, text, read }| {
            if !self.place.lock_files.contains(path) {
                return Err(PlaceError::NotListed(path.clone()));
            }
            if !seen.insert(path) {
                return Err(PlaceError::Twice(path.clone()));
            }
            text_of(path)?;
            lock_file::make_parent(path)?;
            let before = lock_file::digest(path)?;
            if read.is_some_and(|read| read.0 != before) {
                return Err(PlaceError::LockChanged(path.clone()));
            }
            lock_file::check_writable(path)?;
            Ok(LockChange { path: path.clone(), before, text: text.clone() })
        });
        locks.collect()
    }

    /// Copies the new trees, and writes the journal when they are complete.
    fn stage(
        &self,
        transaction: &OwnedFd,
        checked: Vec<Checked<'_>>,
        locks: Vec<LockChange>,
    ) -> Result<Journal, PlaceError> {
        let path = self.place.root.join(UNFINISHED);
        let failed = |error: std::io::Error| PlaceError::io("write to", &path, error);
        let failed_call = |error: rustix::io::Errno| failed(error.into());
        for name in ["new", "old"] {
            self.steps().step()?;
            disk::make_directory(transaction, name).map_err(failed_call)?;
        }
        let new = disk::open_directory(transaction, "new").map_err(failed_call)?;
        for (number, Checked { change, planned }) in checked.iter().enumerate() {
            self.steps().step()?;
            let number = number.to_string();
            match (&planned.wanted, &change.after) {
                (Wanted::Tree(stored), _) => {
                    disk::make_directory(&new, &number).map_err(failed_call)?;
                    let directory = disk::open_directory(&new, &number).map_err(failed_call)?;
                    self.steps().step()?;
                    let source = stored
                        .open()
                        .map_err(|source| PlaceError::Stored { name: planned.name.clone(), source })?;
                    TreeWriter::new(directory)
                        .copy(&stored.tree, &source)
                        .map_err(|source| PlaceError::Copy { name: planned.name.clone(), source })?;
                }
                (Wanted::Link, Some(Content::Link(text))) => {
                    fs::symlinkat(text.as_str(), &new, &*number).map_err(failed_call)?;
                }
                (Wanted::Link | Wanted::Nothing, _) => {}
            }
        }
        let journal = Journal::new(checked.into_iter().map(|checked| checked.change).collect(), locks);
        self.steps().step()?;
        journal.write(self.place, transaction).map_err(failed)?;
        Ok(journal)
    }
}

/// The change that the caller asked for. `link` is the text of a link in that directory.
fn change(planned: &Planned, link: Option<&str>) -> Change {
    let after = match &planned.wanted {
        Wanted::Tree(stored) => Some(Content::Tree(stored.tree.digest())),
        Wanted::Link => link.map(|text| Content::Link(text.to_owned())),
        Wanted::Nothing => None,
    };
    let before = planned.before.map(Content::Tree);
    Change { agent: planned.agent.clone(), name: planned.name.clone(), before, after }
}
