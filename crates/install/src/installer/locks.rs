//! Both locks of a scope, read and written together.

use std::path::Path;

use crate::lock::own::LockedSkill;
use crate::lock::shared::portable_path;
use crate::lock::{
    GlobalEntry, GlobalLock, LockFinding, OwnLock, SharedEntry, SharedLock, compare, compare_global,
};
use crate::place::{ReadLock, Transaction};
use crate::source::{LockFields, Source, SourceType};
use crate::tree::SkillTree;

use super::{InstallError, Scope};

/// Both locks of a scope.
pub(super) struct Locks {
    pub(super) own: OwnLock,
    other: Other,
    /// What both files had when they were read.
    read: [ReadLock; 2],
}

/// The lock that `skills` reads and writes.
enum Other {
    Project(SharedLock),
    User(GlobalLock),
}

/// What the locks record about a skill besides its source.
pub(super) struct Facts<'a> {
    pub(super) name: prowess_catalog::SkillName,
    pub(super) directory_name: &'a str,
    pub(super) manifest_path: &'a str,
    pub(super) plugin: Option<&'a str>,
    pub(super) commit: Option<&'a str>,
    pub(super) tree: &'a SkillTree,
    pub(super) computed_hash: &'a str,
    pub(super) folder_sha1: Option<&'a str>,
    pub(super) site_digest: Option<&'a str>,
}

impl Locks {
    pub(super) fn read(scope: &Scope) -> Result<Self, InstallError> {
        let path = scope.shared_lock();
        let read = [ReadLock::of(&scope.own_lock())?, ReadLock::of(&path)?];
        let own = OwnLock::read(&scope.own_lock())?.unwrap_or_default();
        let other = match scope {
            Scope::Project(_) => Other::Project(SharedLock::read(&path)?.unwrap_or_default()),
            Scope::User { .. } => Other::User(GlobalLock::read(&path)?.unwrap_or_default()),
        };
        Ok(Self { own, other, read })
    }

    /// The differences between both locks.
    pub(super) fn findings(&self, scope: &Scope) -> Vec<LockFinding> {
        match &self.other {
            Other::Project(shared) => compare(shared, &self.own, scope.directory()),
            Other::User(global) => compare_global(global, &self.own, scope.directory()),
        }
    }

    /// Records a skill in both locks. `now` is the time for the lock of a user.
    pub(super) fn set(&mut self, scope: &Scope, source: &Source, facts: &Facts<'_>, now: &str) {
        let mut fields = source.lock_fields();
        if let Source::Local(local) = source {
            fields.url = local_path(scope, &local.path);
            fields.source = fields.url.clone();
        }
        let locked = LockedSkill {
            name: facts.name.clone(),
            source_type: fields.source_type.clone(),
            source: fields.url.clone(),
            reference: fields.reference.clone(),
            commit: facts.commit.map(str::to_owned),
            skill_path: facts.manifest_path.to_owned(),
            computed_hash: facts.computed_hash.to_owned(),
            tree: facts.tree.clone(),
        };
        self.own.skills.insert(facts.directory_name.to_owned(), locked);
        // `skills` locks no downloads.
        if fields.source_type == SourceType::Download {
            self.forget_in_other(facts.directory_name);
            return;
        }
        match &mut self.other {
            Other::Project(shared) => {
                let extra = shared.find(facts.directory_name).map(|(_, entry)| entry.extra.clone());
                let known = shared.find(facts.directory_name).map(|(name, _)| name.to_owned());
                if let Some(known) = known {
                    shared.skills.remove(&known);
                }
                shared
                    .skills
                    .insert(facts.name.to_string(), shared_entry(&fields, facts, extra.unwrap_or_default()));
            }
            Other::User(global) => global.insert(facts.name.as_ref(), global_entry(&fields, facts, now)),
        }
    }

    /// Records the skills of the own lock in the other one, if it lacks them. Returns their names.
    pub(super) fn share_missing(&mut self, scope: &Scope, now: &str) -> Result<Vec<String>, InstallError> {
        let is_same = |known: &String, name: &String| crate::discover::directory_name(known) == *name;
        // An entry that cannot be used belongs to another program.
        let lacks = |name: &String| match &self.other {
            Other::Project(shared) => {
                shared.find(name).is_none() && !shared.unreadable.keys().any(|known| is_same(known, name))
            }
            Other::User(global) => {
                let mut known = global.skills.keys().chain(global.unreadable.keys());
                !known.any(|known| is_same(known, name))
            }
        };
        // The own lock does not have the Git tree that `skills` expects of a skill from GitHub in the lock of a user.
        let is_known = |locked: &LockedSkill| {
            !matches!(self.other, Other::User(_)) || locked.source_type != SourceType::GitHub
        };
        let is_shared = |locked: &LockedSkill| locked.source_type != SourceType::Download && is_known(locked);
        let missing: Vec<(String, LockedSkill)> = self
            .own
            .skills
            .iter()
            .filter(|(name, locked)| lacks(name) && is_shared(locked))
            .map(|(name, locked)| (name.clone(), locked.clone()))
            .collect();
        for (name, locked) in &missing {
            let source = locked.source(scope.directory())?;
            let facts = Facts {
                name: locked.name.clone(),
                directory_name: name,
                manifest_path: &locked.skill_path,
                plugin: None,
                commit: locked.commit.as_deref(),
                tree: &locked.tree,
                computed_hash: &locked.computed_hash,
                folder_sha1: None,
                site_digest: None,
            };
            self.set(scope, &source, &facts, now);
        }
        Ok(missing.into_iter().map(|(name, _)| name).collect())
    }

    /// Forgets a skill in both locks.
    pub(super) fn remove(&mut self, directory_name: &str) {
        self.own.skills.remove(directory_name);
        self.forget_in_other(directory_name);
    }

    fn forget_in_other(&mut self, directory_name: &str) {
        let is_same = |name: &str| crate::discover::directory_name(name) == directory_name;
        match &mut self.other {
            Other::Project(shared) => {
                shared.skills.retain(|name, _| !is_same(name));
                shared.unreadable.retain(|name, _| !is_same(name));
            }
            Other::User(global) => {
                global.skills.retain(|name, _| !is_same(name));
                global.unreadable.retain(|name, _| !is_same(name));
            }
        }
    }

    /// Adds both locks to a transaction.
    pub(super) fn write_into(
        &self,
        scope: &Scope,
        transaction: &mut Transaction,
    ) -> Result<(), InstallError> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (own, other) = (scope.own_lock(), scope.shared_lock());
        transaction.replace_lock(&own, self.read[0], text(self.own.to_bytes()));
        let bytes = match &self.other {
            Other::Project(shared) => shared.to_bytes(),
            Other::User(global) => global.to_bytes(),
        };
        transaction.replace_lock(&other, self.read[1], text(bytes));
        Ok(())
    }
}

/// The path of a local source in a lock: from the project, so that the lock means the same for others, or absolute.
fn local_path(scope: &Scope, path: &Path) -> String {
    match scope {
        Scope::Project(directory) => portable_path(path, directory),
        Scope::User { .. } => path.to_string_lossy().into_owned(),
    }
}

fn shared_entry(
    fields: &LockFields,
    facts: &Facts<'_>,
    extra: std::collections::BTreeMap<String, serde_json::Value>,
) -> SharedEntry {
    SharedEntry {
        source: fields.source.clone(),
        source_url: fields.project_url().map(str::to_owned),
        reference: fields.reference.clone(),
        source_type: fields.source_type.clone(),
        skill_path: skill_path(fields, facts),
        computed_hash: facts.computed_hash.to_owned(),
        well_known_digest: facts.site_digest.map(str::to_owned),
        extra,
    }
}

/// The path of a SKILL.md in a repository. `skills` clones every source with a path, so others must have none.
fn skill_path(fields: &LockFields, facts: &Facts<'_>) -> Option<String> {
    let is_repository = !matches!(fields.source_type, SourceType::Local | SourceType::WellKnown);
    is_repository.then(|| facts.manifest_path.to_owned())
}

fn global_entry(fields: &LockFields, facts: &Facts<'_>, now: &str) -> GlobalEntry {
    let is_github = fields.source_type == SourceType::GitHub;
    let folder = facts.folder_sha1.filter(|_| is_github);
    GlobalEntry {
        source: fields.source.clone(),
        source_type: fields.source_type.clone(),
        source_url: fields.url.clone(),
        reference: fields.reference.clone(),
        skill_path: skill_path(fields, facts),
        skill_folder_hash: folder.unwrap_or(facts.computed_hash).to_owned(),
        plugin_name: facts.plugin.map(str::to_owned),
        source_base_url: (fields.source_type == SourceType::WellKnown).then(|| fields.url.clone()),
        well_known_digest: facts.site_digest.map(str::to_owned),
        installed_at: now.to_owned(),
        updated_at: now.to_owned(),
        extra: Default::default(),
    }
}
