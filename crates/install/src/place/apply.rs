//! The second part of a transaction: makes true what the journal says. It can be repeated from any point.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;

use prowess_base::beneath;
use rustix::fs::{self, AtFlags, RenameFlags};
use rustix::io::Errno;

use super::directories::{AgentDirectory, Missing};
use super::found::{Content, Found};
use super::journal::{Change, Journal};
use super::prepare::Prepared;
use super::{Held, KEPT, Kept, PlaceError, Report, SKILLS, UNFINISHED, lock_file};
use crate::disk;

/// How often a change is tried if another program makes and removes the same entry meanwhile.
const MAX_ATTEMPTS: usize = 8;
/// The most versions of one skill that are kept.
const MAX_KEPT: usize = 10_000;

/// Whether the entries in `new` are the new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staged {
    /// This process has just made them.
    Surely,
    /// An earlier process made them. It may have exchanged some with the old ones already.
    Perhaps,
}

/// The open directories of a transaction.
struct Entries {
    new: OwnedFd,
    old: OwnedFd,
}

impl Held<'_> {
    /// Finishes the transactions of earlier processes, and removes those that have changed nothing.
    pub(super) fn recover(&self) -> Result<Report, PlaceError> {
        let mut all = Report::default();
        if matches!(beneath::stat(&self.directories.root, UNFINISHED), Err(Errno::NOENT)) {
            return Ok(all);
        }
        let unfinished = self.open_unfinished()?;
        let path = self.place.root.join(UNFINISHED);
        let mut names = Vec::new();
        beneath::list(&unfinished, |name, _| {
            names.push(name.to_owned());
            ControlFlow::Continue(())
        })
        .map_err(|error| PlaceError::io("list", &path, error))?;
        names.sort_unstable();
        for name in names {
            let at = path.join(&name);
            let opened = disk::open_directory(&unfinished, &name).ok();
            let journal = match &opened {
                Some(handle) => Journal::read(self.place, handle, &at)?,
                None => None,
            };
            let (Some(handle), Some(journal), Some(name)) = (opened, journal, name.to_str()) else {
                self.steps().step()?;
                // It has changed nothing. What cannot be removed stays, and is in nobody's way.
                let _ = disk::remove(&unfinished, &name);
                continue;
            };
            let prepared = Prepared { name: name.to_owned(), handle, journal };
            self.finish(&prepared, Staged::Perhaps, &mut all)?;
            all.finished += 1;
        }
        // It is not empty if another version of prowess has left something.
        let _ = fs::unlinkat(&self.directories.root, UNFINISHED, AtFlags::REMOVEDIR);
        Ok(all)
    }

    /// Carries out a journal, and removes the directory of the transaction.
    pub(super) fn finish(
        &self,
        prepared: &Prepared,
        staged: Staged,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        let at = self.place.root.join(UNFINISHED).join(&prepared.name);
        let failed = |error: Errno| PlaceError::io("open", &at, error);
        let entries = Entries {
            new: disk::open_directory(&prepared.handle, "new").map_err(failed)?,
            old: disk::open_directory(&prepared.handle, "old").map_err(failed)?,
        };
        self.change_entries(prepared, &entries, staged, report)?;
        for (number, change) in prepared.journal.changes.iter().enumerate() {
            for directory in [&entries.new, &entries.old] {
                self.keep_if_edited(directory, &number.to_string(), change, report)?;
            }
        }
        for lock in &prepared.journal.locks {
            self.steps().step()?;
            lock_file::make_parent(&lock.path)?;
            let is_written = match lock_file::write(&lock.path, lock.before, &lock.text) {
                // Something else has taken its place since the checks.
                Err(PlaceError::LockFile(_)) => false,
                written => written?,
            };
            if !is_written {
                report.left_alone.push(lock.path.clone());
            }
        }
        self.steps().step()?;
        Journal::remove(&prepared.handle).map_err(|error| PlaceError::io("remove", &at, error))?;
        self.steps().step()?;
        // Without its journal it counts as one that has changed nothing. The next command tries to remove it again.
        let _ = disk::remove(&self.open_unfinished()?, &prepared.name);
        let _ = fs::unlinkat(&self.directories.root, UNFINISHED, AtFlags::REMOVEDIR);
        Ok(())
    }

    fn change_entries(
        &self,
        prepared: &Prepared,
        entries: &Entries,
        staged: Staged,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        let skills = self.place.root.join(SKILLS);
        let mut agents: BTreeMap<&Path, Option<AgentDirectory>> = BTreeMap::new();
        for (number, change) in prepared.journal.changes.iter().enumerate() {
            let number = number.to_string();
            let (directory, path) = match &change.agent {
                None => (&self.directories.skills, skills.join(&change.name)),
                Some(path) => {
                    if !agents.contains_key(path.as_path()) {
                        let agent = self.directories.open_agent(self.place, path, Missing::Make)?;
                        agents.insert(path, agent);
                    }
                    let Some(Some(agent)) = agents.get(path.as_path()) else { continue };
                    if let Some(Content::Link(text)) = &change.after
                        && *text != agent.link(&change.name)
                    {
                        // Only a stranger's journal, or one of a project that was moved, has such a link.
                        report.left_alone.push(path.join(&change.name));
                        continue;
                    }
                    (&agent.handle, path.join(&change.name))
                }
            };
            if staged == Staged::Perhaps {
                let is_done = match &change.after {
                    Some(after) => !Found::at(&entries.new, &number).is(Some(after)),
                    None => Found::at(&entries.old, &number) != Found::Nothing,
                };
                if is_done {
                    continue;
                }
                if change.agent.is_some() {
                    let found = Found::at(directory, &change.name);
                    let is_expected = found.is(change.before.as_ref()) || found.is(change.after.as_ref());
                    if found != Found::Nothing && !is_expected {
                        report.left_alone.push(path);
                        continue;
                    }
                }
            }
            match &change.after {
                Some(_) => self.put(entries, &number, directory, &path, change, report)?,
                None => self.take_away(entries, &number, directory, &path, change, report)?,
            }
        }
        Ok(())
    }

    /// Puts the new entry in its place. The entry that was there goes to `new` or `old`.
    fn put(
        &self,
        entries: &Entries,
        number: &str,
        directory: &OwnedFd,
        path: &Path,
        change: &Change,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        let name = &*change.name;
        for _ in 0..MAX_ATTEMPTS {
            self.steps().step()?;
            match disk::rename_new(&entries.new, number, directory, name) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(PlaceError::io("write", path, error)),
            }
            self.steps().step()?;
            let exchanged = if self.steps().may_exchange() {
                fs::renameat_with(&entries.new, number, directory, name, RenameFlags::EXCHANGE)
            } else {
                Err(Errno::INVAL)
            };
            match exchanged {
                Ok(()) => return Ok(()),
                Err(Errno::NOENT) => {}
                // The file system cannot do it.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    self.take_away(entries, number, directory, path, change, report)?;
                }
                Err(error) => return Err(PlaceError::io("replace", path, error)),
            }
        }
        Err(PlaceError::io("replace", path, Errno::EXIST))
    }

    /// Moves the entry that is there to `old`.
    fn take_away(
        &self,
        entries: &Entries,
        number: &str,
        directory: &OwnedFd,
        path: &Path,
        change: &Change,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        self.steps().step()?;
        match disk::rename_new(directory, &change.name, &entries.old, number) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // An earlier process has moved one there, and then somebody has made another.
            Err(Errno::EXIST) => self.keep(directory, &change.name, &change.name, report),
            Err(error) => Err(PlaceError::io("remove", path, error)),
        }
    }

    /// Keeps the entry that was replaced, unless it is exactly the one that the transaction knows.
    fn keep_if_edited(
        &self,
        directory: &OwnedFd,
        number: &str,
        change: &Change,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        let found = Found::at(directory, number);
        if found == Found::Nothing || found.is(change.before.as_ref()) || found.is(change.after.as_ref()) {
            return Ok(());
        }
        self.keep(directory, number, &change.name, report)
    }

    /// Moves an entry to the first free name in the directory of kept ones. If somebody has put something else in the place of that
    /// directory since the checks, the next name is used: the transaction must come to its end.
    fn keep(
        &self,
        directory: &OwnedFd,
        entry: &str,
        name: &str,
        report: &mut Report,
    ) -> Result<(), PlaceError> {
        let mut failed = Errno::EXIST;
        for attempt in 1..=MAX_ATTEMPTS {
            let directory_name = if attempt == 1 { KEPT.to_owned() } else { format!("{KEPT}-{attempt}") };
            self.steps().step()?;
            let opened = disk::make_directory(&self.directories.root, &directory_name)
                .and_then(|()| disk::open_directory(&self.directories.root, &directory_name));
            let kept = match opened {
                Ok(kept) => kept,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            match self.keep_in(&kept, directory, entry, name)? {
                Ok(free) => {
                    let path = self.place.root.join(directory_name).join(free);
                    report.kept.push(Kept { name: name.to_owned(), path });
                    return Ok(());
                }
                Err(error) => failed = error,
            }
        }
        Err(PlaceError::io("keep a changed skill in", &self.place.root.join(KEPT), failed))
    }

    /// Moves an entry to the first free name in `kept`.
    fn keep_in(
        &self,
        kept: &OwnedFd,
        directory: &OwnedFd,
        entry: &str,
        name: &str,
    ) -> Result<Result<String, Errno>, PlaceError> {
        for number in 1..=MAX_KEPT {
            let free = format!("{name}-{number}");
            self.steps().step()?;
            match disk::rename_new(directory, entry, kept, &free) {
                Ok(()) => return Ok(Ok(free)),
                Err(Errno::EXIST) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(Errno::EXIST))
    }
}
