//! Looks for newer versions of installed skills, and updates them. Local edits are kept.

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::skill::{Location, MANIFEST, MAX_MANIFEST};
use prowess_catalog::{Skill, SkillName};

use crate::difference::{SkillDifference, describe_difference};
use crate::hidden_text::HiddenText;
use crate::lock::own::LockedSkill;
use crate::merge::{Conflict, Version, merge};
use crate::place::{Installed, Report, Transaction};
use crate::snapshot::fetch::FetchOptions;
use crate::store::Stored;
use crate::tree::{ReadFiles as _, TreeError};

use super::add::OnDisk;
use super::locks::Facts;
use super::look::{digest_of, hash, new_hidden_text, stage};
use super::restore::{FetchedSources, by_source};
use super::{InstallError, Installer};

/// What is said about a lock that names another commit than that of its files.
const MISMATCH: &str =
    "the lock does not match its commit, which has other files: the skill may come from elsewhere";

/// What the source of an installed skill has now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Upstream {
    /// The same files.
    Same,
    /// Other files.
    New(Box<NewVersion>),
    /// The source cannot be fetched, or no longer has the skill.
    Gone {
        /// Why.
        reason: String,
    },
}

/// A newer version of a skill.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewVersion {
    /// Its files.
    pub stored: Stored,
    /// Its commit.
    pub commit: Option<String>,
    /// The SHA-1 of its Git tree.
    pub folder_sha1: Option<String>,
    /// The hash of `skills` over its files.
    pub computed_hash: String,
    /// The digest of its archive, from the index of a web site.
    pub site_digest: Option<String>,
    /// How it differs from the installed version, without local edits.
    pub difference: Option<SkillDifference>,
    /// Text in its new and changed files that a person does not see, or that does more than it seems.
    pub hidden: Vec<HiddenText>,
    /// What an update does with changes that the person made.
    pub local_edits: LocalEdits,
}

/// What an update does with changes that a person made to an installed skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalEdits {
    /// There are none.
    None,
    /// They stay in these files.
    Kept(Vec<String>),
    /// They conflict with the new version, so the skill stays as it is.
    Conflict(Vec<Conflict>),
    /// They cannot be merged, and why. The skill stays as it is.
    Unmerged(String),
}

/// An installed skill, and what its source has now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Newest {
    /// The name of its directory.
    pub name: String,
    /// What is installed.
    pub locked: LockedSkill,
    /// What the source has.
    pub upstream: Upstream,
}

impl Newest {
    fn is_new(&self) -> bool {
        matches!(self.upstream, Upstream::New(_))
    }
}

/// What an update has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The skills that were updated, and the files whose local edits were kept.
    pub updated: Vec<(String, Vec<String>)>,
    /// The skills whose local edits conflict with the new version. They are as they were.
    pub conflicts: Vec<(String, Vec<Conflict>)>,
    /// The skills that could not be updated, and why.
    pub failed: Vec<(String, String)>,
    /// What else happened.
    pub report: Report,
}

impl Installer {
    /// What the sources of installed skills have now: of these, or of all if there are no names. Nothing is installed.
    ///
    /// # Errors
    ///
    /// The lock has no such skill, or the content cache cannot be written. A source that fails is [`Upstream::Gone`].
    pub async fn newest(
        &self,
        names: &[String],
        options: &FetchOptions,
    ) -> Result<Vec<Newest>, InstallError> {
        let own = self.locks()?.own;
        let keys: Vec<String> = names.iter().map(|name| crate::discover::directory_name(name)).collect();
        if let Some((_, name)) = keys.iter().zip(names).find(|(key, _)| !own.skills.contains_key(*key)) {
            return Err(InstallError::NotLocked(name.clone()));
        }
        let mut sources = FetchedSources::default();
        let mut newest = Vec::new();
        let is_wanted = |(name, _): &(String, LockedSkill)| keys.is_empty() || keys.contains(name);
        let mut wanted: Vec<(String, LockedSkill)> = own.skills.into_iter().filter(is_wanted).collect();
        wanted.sort_by(|(_, one), (_, other)| by_source(one, other));
        for (name, locked) in wanted {
            let upstream = self.upstream(&name, &locked, &mut sources, options).await?;
            newest.push(Newest { name, locked, upstream });
        }
        newest.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(newest)
    }

    /// The version that the lock has: from the cache, from the disk if nobody changed it, or from its source.
    async fn installed_version(
        &self,
        name: &str,
        locked: &LockedSkill,
        sources: &mut FetchedSources,
        options: &FetchOptions,
    ) -> Result<Option<Stored>, InstallError> {
        if let Some(stored) = self.store.get(&locked.tree.digest()) {
            return Ok(Some(stored));
        }
        let on_disk =
            self.place.installed()?.open(name).and_then(|directory| Ok((directory.tree()?, directory)));
        if let Ok((tree, directory)) = on_disk
            && tree == locked.tree
        {
            return Ok(self.store.stage_directory(&directory).ok());
        }
        Ok(self.pinned(locked, sources, options).await?.ok().map(|(stored, _)| stored))
    }

    async fn upstream(
        &self,
        name: &str,
        locked: &LockedSkill,
        sources: &mut FetchedSources,
        options: &FetchOptions,
    ) -> Result<Upstream, InstallError> {
        let directory = locked.source_directory();
        let fetched = match sources.get(self, &self.source_of(locked)?, directory, options).await {
            Ok(fetched) => fetched,
            Err(reason) => return Ok(Upstream::Gone { reason }),
        };
        let commit = fetched.snapshot.commit().map(str::to_owned);
        let folder_sha1 = fetched.snapshot.folder_sha1(directory);
        let stored = match stage(&self.store, fetched, directory) {
            Ok(stored) => stored,
            Err(InstallError::Store(error)) if error.is_about_the_skill() => {
                return Ok(Upstream::Gone { reason: error.to_string() });
            }
            Err(error) => return Err(error),
        };
        if !stored.tree.files.contains_key(MANIFEST) {
            return Ok(Upstream::Gone { reason: "the source has no SKILL.md there any more".to_owned() });
        }
        if let Some(name) = name_of(&stored, &locked.skill_path).filter(|name| *name != locked.name) {
            let reason = format!("the skill is called {name} now; `prowess add` installs it under that name");
            return Ok(Upstream::Gone { reason });
        }
        // A commit never has other files.
        if commit.is_some() && commit == locked.commit && stored.tree != locked.tree {
            return Ok(Upstream::Gone { reason: MISMATCH.to_owned() });
        }
        let computed_hash = hash(fetched, directory, &stored)?;
        let site_digest = fetched.site.as_ref().and_then(|site| digest_of(site, directory));
        // `skills` also counts files that neither tool installs. If those changed, its lock does too.
        if stored.digest == locked.tree.digest() && computed_hash == locked.computed_hash {
            return Ok(Upstream::Same);
        }
        let base = self.installed_version(name, locked, sources, options).await?;
        let difference = base.as_ref().and_then(|old| difference(old, &stored).ok());
        let hidden = new_hidden_text(&locked.tree, &stored)
            .map_err(|source| InstallError::Tree { name: locked.name.to_string(), source })?;
        let local_edits = LocalEdits::None;
        let mut new = NewVersion {
            stored,
            commit,
            folder_sha1,
            computed_hash,
            site_digest,
            difference,
            hidden,
            local_edits,
        };
        let installed = self.place.installed()?;
        let on_disk = OnDisk::of(&installed, name);
        new.local_edits = self.merged(name, locked, &new, &installed, &on_disk, base.as_ref())?.1;
        Ok(Upstream::New(Box::new(new)))
    }

    /// Installs new versions. Local edits are merged; a skill whose edits conflict stays as it is.
    ///
    /// # Errors
    ///
    /// The lock cannot be read, or files cannot be written.
    pub async fn update(
        &self,
        newest: &[Newest],
        options: &FetchOptions,
        now: &str,
    ) -> Result<Updated, InstallError> {
        // Other processes must not wait for a slow source, so everything is fetched before the place is held.
        let (mut sources, mut bases) = (FetchedSources::default(), BTreeMap::new());
        let mut wanted: Vec<&Newest> = newest.iter().filter(|newest| newest.is_new()).collect();
        wanted.sort_by(|one, other| by_source(&one.locked, &other.locked));
        for Newest { name, locked, .. } in wanted {
            bases.insert(name, self.installed_version(name, locked, &mut sources, options).await?);
        }
        let held = self.place.hold()?;
        let mut locks = self.locks()?;
        let installed = self.place.installed()?;
        let (mut updated, mut transaction) = (Updated::default(), Transaction::default());
        for Newest { name, locked, upstream } in newest {
            let Upstream::New(new) = upstream else { continue };
            // Another process may have changed it since the person looked.
            if locks.own.skills.get(name) != Some(locked) {
                updated.failed.push((name.clone(), "it changed meanwhile; run the command again".to_owned()));
                continue;
            }
            let on_disk = OnDisk::of(&installed, name);
            let base = bases.get(name).and_then(Option::as_ref);
            let (stored, kept) = match self.merged(name, locked, new, &installed, &on_disk, base)? {
                (stored, LocalEdits::None) => (stored, Vec::new()),
                (stored, LocalEdits::Kept(kept)) => (stored, kept),
                (_, LocalEdits::Conflict(conflicts)) => {
                    updated.conflicts.push((name.clone(), conflicts));
                    continue;
                }
                (_, LocalEdits::Unmerged(why)) => {
                    updated.failed.push((name.clone(), why));
                    continue;
                }
            };
            transaction.put(name, &stored, on_disk.digest());
            let known = [Some(locked.tree.digest()), on_disk.digest()];
            self.refresh_copies(&mut transaction, name, &stored, known, &BTreeSet::new());
            let source = self.source_of(locked)?;
            let facts = Facts {
                name: locked.name.clone(),
                directory_name: name,
                manifest_path: &locked.skill_path,
                plugin: None,
                commit: new.commit.as_deref(),
                tree: &new.stored.tree,
                computed_hash: &new.computed_hash,
                folder_sha1: new.folder_sha1.as_deref(),
                site_digest: new.site_digest.as_deref(),
            };
            locks.set(&self.scope, &source, &facts, now);
            updated.updated.push((name.clone(), kept));
        }
        if !updated.updated.is_empty() {
            locks.write_into(&self.scope, &mut transaction)?;
            updated.report = held.commit(&transaction)?;
        }
        Ok(updated)
    }
}

impl Installer {
    /// The files that an update installs, and what becomes of local edits. `base` is the version that the lock has.
    fn merged(
        &self,
        name: &str,
        locked: &LockedSkill,
        new: &NewVersion,
        installed: &Installed,
        on_disk: &OnDisk,
        base: Option<&Stored>,
    ) -> Result<(Stored, LocalEdits), InstallError> {
        let as_it_is = |edits| Ok((new.stored.clone(), edits));
        let tree = match on_disk {
            OnDisk::Unusable(reason) => return as_it_is(LocalEdits::Unmerged(reason.clone())),
            OnDisk::Nothing => return as_it_is(LocalEdits::None),
            OnDisk::Tree(tree) if *tree == locked.tree || *tree == new.stored.tree => {
                return as_it_is(LocalEdits::None);
            }
            OnDisk::Tree(tree) => tree,
        };
        let Some(base) = base else {
            let why = "your changes cannot be merged, because the installed version cannot be fetched again";
            return as_it_is(LocalEdits::Unmerged(why.to_owned()));
        };
        let failed = |source: TreeError| InstallError::Tree { name: name.to_owned(), source };
        let (base_files, local_files) = (base.open().map_err(failed)?, installed.open(name).map_err(failed)?);
        let new_files = new.stored.open().map_err(failed)?;
        let merged = merge(
            Version { tree: &base.tree, files: &base_files },
            Version { tree, files: &local_files },
            Version { tree: &new.stored.tree, files: &new_files },
        );
        let merged = merged.map_err(failed)?;
        if !merged.conflicts.is_empty() {
            return as_it_is(LocalEdits::Conflict(merged.conflicts));
        }
        let stored = self.store.stage_merged(&merged, &local_files, &new_files)?;
        Ok((stored, LocalEdits::Kept(merged.kept_local)))
    }
}

/// The name that the manifest of a skill gives it. `path` is that of the manifest in its source.
fn name_of(stored: &Stored, path: &str) -> Option<SkillName> {
    let bytes = stored.open().and_then(|files| files.read_file(MANIFEST, MAX_MANIFEST)).ok()?;
    let skill = Skill::parse(&bytes, &Location::new(format!("/{path}"))).skill?;
    Some(skill.name)
}

fn difference(old: &Stored, new: &Stored) -> Result<SkillDifference, TreeError> {
    let (old_files, new_files) = (old.open()?, new.open()?);
    let (old, new) =
        (Version { tree: &old.tree, files: &old_files }, Version { tree: &new.tree, files: &new_files });
    describe_difference(old, new)
}
