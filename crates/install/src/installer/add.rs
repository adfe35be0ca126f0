//! Installs skills that a person has looked at.

use std::collections::BTreeSet;
use std::path::Path;

use prowess_catalog::Digest;

use crate::agents::Agent;
use crate::lock::own::LockedSkill;
use crate::place::{Installed, Report, Transaction};
use crate::store::Stored;
use crate::tree::{SkillTree, TreeError};

use super::locks::Facts;
use super::{Candidate, InstallError, Installer, Looked};

/// How other agents get a skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentFiles {
    /// As a link to the installed skill.
    #[default]
    Link,
    /// As a copy.
    Copy,
}

/// What an installation changes on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The skill is new.
    New,
    /// The same files are there already.
    Same,
    /// A skill that the lock has is replaced. Nobody has changed its files, or they are missing, or only its source changes.
    Replaces(Box<LockedSkill>),
    /// Something is in the way.
    Blocked {
        /// What, and what to do.
        reason: String,
    },
}

/// What an installation has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The directories of the skills that were installed or replaced.
    pub installed: Vec<String>,
    /// The skills whose files were there already.
    pub same: Vec<String>,
    /// What else happened.
    pub report: Report,
}

/// What is on the disk under the name of a skill.
pub(super) enum OnDisk {
    Nothing,
    Tree(SkillTree),
    /// Something that no installed skill can be.
    Unusable(String),
}

impl OnDisk {
    pub(super) fn of(installed: &Installed, name: &str) -> Self {
        match installed.open(name).and_then(|directory| directory.tree()) {
            Ok(tree) => Self::Tree(tree),
            Err(error) if error.is_absent() => Self::Nothing,
            Err(TreeError::NotADirectory) => Self::Unusable("a file or a link is in its place".to_owned()),
            Err(error) => Self::Unusable(error.to_string()),
        }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Tree(tree) => Some(tree.digest()),
            Self::Nothing | Self::Unusable(_) => None,
        }
    }
}

impl Installer {
    /// What installing the skills of a source would change. Nothing is written.
    ///
    /// # Errors
    ///
    /// The installed skills or a lock cannot be read.
    pub fn plan(&self, looked: &Looked) -> Result<Vec<Change>, InstallError> {
        // Both locks are read, so that one that cannot be used is an error before anybody is asked.
        let (locks, installed) = (self.locks()?, self.place.installed()?);
        let change = |candidate: &Candidate| {
            let name = candidate.directory_name();
            let locked = locks.own.skills.get(name);
            let is_other = locked.is_some_and(|locked| self.is_other_source(looked, locked));
            change(candidate, locked, is_other, &OnDisk::of(&installed, name))
        };
        Ok(looked.candidates.iter().map(change).collect())
    }

    /// Installs skills for this scope, and for these agents. All of them, or none if one is blocked. `now` is the time for
    /// the lock of a user, in RFC 3339.
    ///
    /// # Errors
    ///
    /// A skill is blocked, or files cannot be written.
    pub fn add(
        &self,
        looked: &Looked,
        chosen: &[&Candidate],
        agents: &[&'static Agent],
        files: AgentFiles,
        now: &str,
    ) -> Result<Added, InstallError> {
        let held = self.place.hold()?;
        let mut locks = self.locks()?;
        let installed = self.place.installed()?;
        let (mut added, mut transaction) = (Added::default(), Transaction::default());
        for candidate in chosen {
            let name = candidate.directory_name();
            let on_disk = OnDisk::of(&installed, name);
            let locked = locks.own.skills.get(name);
            let before = locked.map(|locked| locked.tree.digest());
            let is_other = locked.is_some_and(|locked| self.is_other_source(looked, locked));
            match change(candidate, locked, is_other, &on_disk) {
                Change::Blocked { reason } => {
                    return Err(InstallError::Blocked { name: name.to_owned(), reason });
                }
                Change::Same => added.same.push(name.to_owned()),
                Change::New | Change::Replaces(_) => {
                    transaction.put(name, &candidate.stored, on_disk.digest());
                    added.installed.push(name.to_owned());
                }
            }
            let reached =
                self.reach_agents(&mut transaction, name, &candidate.stored, agents, files, before)?;
            if let Some(before) = before {
                let known = [Some(before), on_disk.digest()];
                self.refresh_copies(&mut transaction, name, &candidate.stored, known, &reached);
            }
            let facts = Facts {
                name: candidate.found.name().clone(),
                directory_name: name,
                manifest_path: &candidate.found.manifest_path,
                plugin: candidate.found.plugin.as_deref(),
                commit: looked.commit.as_deref(),
                tree: &candidate.stored.tree,
                computed_hash: &candidate.computed_hash,
                folder_sha1: candidate.folder_sha1.as_deref(),
                site_digest: candidate.site_digest.as_deref(),
            };
            locks.set(&self.scope, &looked.source, &facts, now);
        }
        locks.write_into(&self.scope, &mut transaction)?;
        added.report = held.commit(&transaction)?;
        if let Some(known) = &self.known {
            known.record(&looked.source).map_err(InstallError::KnownSources)?;
        }
        Ok(added)
    }

    /// Whether a locked skill has another source than the one that was looked at.
    fn is_other_source(&self, looked: &Looked, locked: &LockedSkill) -> bool {
        let source = self.source_of(locked);
        !source.is_ok_and(|source| source.location() == looked.source.location())
    }

    /// Makes links or copies of a skill for agents. Returns their directories.
    pub(super) fn reach_agents(
        &self,
        transaction: &mut Transaction,
        name: &str,
        stored: &Stored,
        agents: &[&'static Agent],
        files: AgentFiles,
        before: Option<Digest>,
    ) -> Result<BTreeSet<&Path>, InstallError> {
        let mut reached = BTreeSet::new();
        for agent in agents {
            let Some(directory) = self.agent_directory(agent) else {
                if agent.is_universal() {
                    continue;
                }
                return Err(InstallError::NoGlobalDirectory(agent.name));
            };
            if files == AgentFiles::Copy && self.has_common_directory(agent) {
                let (agent, directory) = (agent.name, agent.project_directory);
                return Err(InstallError::CommonDirectory { agent, directory });
            }
            // Several agents can share a directory.
            if !reached.insert(directory) {
                continue;
            }
            // `skills` may have put a copy of the same files there.
            let before = copy_in(directory, name).filter(|copy| *copy == stored.digest).or(before);
            match files {
                AgentFiles::Link => transaction.link(directory, name, before),
                AgentFiles::Copy => transaction.copy(directory, name, stored, before),
            }
        }
        Ok(reached)
    }

    /// Replaces copies of a skill in the directories of agents, except in those of `reached`. Only copies with a known digest are
    /// replaced: those that somebody changed stay.
    pub(super) fn refresh_copies(
        &self,
        transaction: &mut Transaction,
        name: &str,
        stored: &Stored,
        known: [Option<Digest>; 2],
        reached: &BTreeSet<&Path>,
    ) {
        for directory in self.agent_directories().difference(reached) {
            let copy = copy_in(directory, name);
            if copy.is_some() && copy != Some(stored.digest) && known.contains(&copy) {
                transaction.copy(directory, name, stored, copy);
            }
        }
    }

    /// The directories of agents that exist in this scope and can have copies. One behind a link that is not followed has nothing
    /// of prowess.
    pub(super) fn agent_directories(&self) -> BTreeSet<&Path> {
        self.directories_of(|agent| !self.has_common_directory(agent))
    }

    /// The directories of agents that exist in this scope and can have links only, such as `skills` of a project.
    pub(super) fn common_directories(&self) -> BTreeSet<&Path> {
        self.directories_of(|agent| self.has_common_directory(agent))
    }

    fn directories_of(&self, is_wanted: impl Fn(&Agent) -> bool) -> BTreeSet<&Path> {
        let wanted = self.agents.iter().filter(|(agent, _)| is_wanted(agent));
        let directories = wanted.map(|(_, directory)| directory.as_path());
        directories.filter(|directory| self.place.has_agent_directory(directory)).collect()
    }
}

/// The digest of a copy of a skill in the directory of an agent. A link is no copy.
pub(super) fn copy_in(directory: &Path, name: &str) -> Option<Digest> {
    let path = directory.join(name);
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_directory.then(|| SkillTree::read(&path).ok()).flatten().map(|tree| tree.digest())
}

fn change(
    candidate: &Candidate,
    locked: Option<&LockedSkill>,
    is_other_source: bool,
    on_disk: &OnDisk,
) -> Change {
    let blocked = |reason: &str| Change::Blocked { reason: reason.to_owned() };
    match (on_disk, locked) {
        (OnDisk::Nothing, Some(locked)) if is_other_source => Change::Replaces(Box::new(locked.clone())),
        (OnDisk::Nothing, _) => Change::New,
        (OnDisk::Unusable(reason), _) => blocked(reason),
        (OnDisk::Tree(tree), locked) if tree.digest() == candidate.stored.digest => match locked {
            Some(locked) if is_other_source => Change::Replaces(Box::new(locked.clone())),
            _ => Change::Same,
        },
        (OnDisk::Tree(tree), Some(locked)) if *tree == locked.tree => {
            Change::Replaces(Box::new(locked.clone()))
        }
        (OnDisk::Tree(_), Some(_)) => blocked(
            "its files were changed here; `prowess update` keeps your changes, `prowess remove` sets them aside",
        ),
        (OnDisk::Tree(_), None) => {
            blocked("a skill of this name is there that prowess did not install; move it away first")
        }
    }
}
