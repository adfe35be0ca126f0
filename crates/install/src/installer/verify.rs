//! Compares the disk with the lock, without a network.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::thread;

use crate::lock::own::LockedSkill;
use crate::lock::{LockFinding, OwnLock};
use crate::place::Installed;
use crate::tree::TreeDifference;

use super::add::{OnDisk, copy_in};
use super::{InstallError, Installer};

/// How an installed skill differs from the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// It is not there.
    Missing,
    /// Its files are not those of the lock.
    Changed(TreeDifference),
    /// Something is there that no installed skill can be.
    Unusable(String),
}

/// The installed skills, compared with the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many skills the lock has.
    pub skills: usize,
    /// How many files they have.
    pub files: usize,
    /// The skills that differ, by the names of their directories.
    pub drift: Vec<(String, Drift)>,
    /// The differences between both locks.
    pub locks: Vec<LockFinding>,
    /// The copies in directories of agents that differ from the installed skill.
    pub copies: Vec<PathBuf>,
    /// The links and files in directories of agents that have the name of an installed skill and do not lead to it.
    pub links: Vec<PathBuf>,
    /// The directories beside installed skills that the lock does not have.
    pub unlocked: Vec<String>,
}

impl Verified {
    /// Whether the disk and both locks agree.
    pub fn is_clean(&self) -> bool {
        self.drift.is_empty() && self.locks.is_empty() && self.copies.is_empty() && self.links.is_empty()
    }
}

impl Installer {
    /// Compares the disk with the lock.
    ///
    /// # Errors
    ///
    /// The lock or the directory of the skills cannot be read.
    pub fn verify(&self) -> Result<Verified, InstallError> {
        let (locks, installed) = (self.locks()?, self.place.installed()?);
        let skills: Vec<(&String, &LockedSkill)> = locks.own.skills.iter().collect();
        let unlocked = installed.names.iter().filter(|name| !locks.own.skills.contains_key(*name));
        Ok(Verified {
            skills: skills.len(),
            files: skills.iter().map(|(_, locked)| locked.tree.files.len()).sum(),
            drift: drift(&installed, &skills),
            locks: locks.findings(&self.scope),
            copies: self.changed_copies(&installed, &locks.own),
            links: self.foreign_links(&locks.own),
            unlocked: unlocked.filter(|name| !name.starts_with('.')).cloned().collect(),
        })
    }
}

impl Installer {
    /// The copies of locked skills in directories of agents that are neither as in the lock nor as installed.
    pub(super) fn changed_copies(&self, installed: &Installed, own: &OwnLock) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for directory in self.agent_directories() {
            for (name, locked) in &own.skills {
                let is_directory =
                    directory.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
                if !is_directory {
                    continue;
                }
                // A directory that cannot be read as a skill is no copy as it was made.
                let copy = copy_in(directory, name);
                let is_known = copy == Some(locked.tree.digest())
                    || (copy.is_some() && copy == OnDisk::of(installed, name).digest());
                if !is_known {
                    changed.push(directory.join(name));
                }
            }
        }
        changed
    }

    /// The entries in directories of agents that have the name of a locked skill, are no directories, and do not lead to the skill.
    pub(super) fn foreign_links(&self, own: &OwnLock) -> Vec<PathBuf> {
        let mut foreign = Vec::new();
        for directory in self.agent_directories() {
            for name in own.skills.keys() {
                let path = directory.join(name);
                let is_directory = path.symlink_metadata().map(|metadata| metadata.is_dir());
                if is_directory.is_ok_and(|is_directory| !is_directory)
                    && !leads_to(directory, &path, &self.skill_path(name))
                {
                    foreign.push(path);
                }
            }
        }
        foreign
    }
}

/// Whether the entry `path` of `directory` is a link to `skill`.
fn leads_to(directory: &Path, path: &Path, skill: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match skill.symlink_metadata() {
        Ok(here) => path.metadata().is_ok_and(|there| identity(there) == identity(here)),
        // The skill is missing. In a fresh clone, the links to it can be there already.
        Err(_) => path.read_link().is_ok_and(|target| {
            let mut there = PathBuf::new();
            for component in directory.join(target).components() {
                match component {
                    Component::ParentDir => {
                        there.pop();
                    }
                    component => there.push(component),
                }
            }
            there == skill
        }),
    }
}

/// The skills that differ from the lock. Digests take most of the time, so all cores compute them.
fn drift(installed: &Installed, skills: &[(&String, &LockedSkill)]) -> Vec<(String, Drift)> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = skills.len().div_ceil(cores).max(1);
    let of_share = |share: &[(&String, &LockedSkill)]| -> Vec<(String, Drift)> {
        let differs = |(name, locked): &(&String, &LockedSkill)| {
            Some(((*name).clone(), drift_of(&OnDisk::of(installed, name), locked)?))
        };
        share.iter().filter_map(differs).collect()
    };
    if skills.len() <= share {
        return of_share(skills);
    }
    thread::scope(|scope| {
        let shares: Vec<_> = skills.chunks(share).map(|share| scope.spawn(move || of_share(share))).collect();
        // A thread that panics would be a defect; its skills must not count as clean.
        shares
            .into_iter()
            .flat_map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// How a skill on the disk differs from the lock, if it does.
pub(super) fn drift_of(on_disk: &OnDisk, locked: &LockedSkill) -> Option<Drift> {
    match on_disk {
        OnDisk::Nothing => Some(Drift::Missing),
        OnDisk::Unusable(reason) => Some(Drift::Unusable(reason.clone())),
        OnDisk::Tree(tree) if *tree == locked.tree => None,
        OnDisk::Tree(tree) => Some(Drift::Changed(locked.tree.difference(tree))),
    }
}
