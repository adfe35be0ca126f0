//! Restores exactly what the lock says.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::agents::Agent;
use crate::lock::LockFinding;
use crate::lock::own::LockedSkill;
use crate::place::{Installed, Report, Transaction};
use crate::snapshot::fetch::{FetchOptions, Fetched, fetch};
use crate::source::Source;
use crate::store::{Store, Stored};
use crate::tree::TreeDifference;

use super::add::OnDisk;
use super::locks::Locks;
use super::look::{MAX_SOURCE_BYTES, stage};
use super::verify::drift_of;
use super::{AgentFiles, Drift, InstallError, Installer};
use crate::known_sources::real_path;

/// What counts as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// Missing skills are restored. Changed ones are left alone and reported.
    #[default]
    Usual,
    /// Nothing is written if a skill or a lock differs, except that skills are missing.
    Frozen,
}

/// What a restoration has done, or why it did nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The skills that were restored.
    pub restored: Vec<String>,
    /// How many of them came from the content cache.
    pub from_cache: usize,
    /// How many were there already.
    pub unchanged: usize,
    /// The skills on the disk that differ from the lock.
    pub drift: Vec<(String, Drift)>,
    /// The differences between both locks.
    pub locks: Vec<LockFinding>,
    /// The copies in directories of agents that differ from the installed skill.
    pub copies: Vec<PathBuf>,
    /// The links and files in directories of agents that have the name of an installed skill and do not lead to it.
    pub links: Vec<PathBuf>,
    /// The skills whose source no longer has what the lock says, and why.
    pub failed: Vec<(String, String)>,
    /// The skills that the lock of `skills` lacked, and that were recorded there.
    pub shared: Vec<String>,
    /// What else happened.
    pub report: Report,
}

impl Restored {
    /// Whether the disk is now as the lock says.
    pub fn is_exact(&self) -> bool {
        let is_same = self.drift.is_empty() && self.copies.is_empty() && self.links.is_empty();
        is_same && self.locks.is_empty() && self.failed.is_empty()
    }
}

/// Locked skills by the names of their directories.
type Skills<'a> = Vec<(&'a String, &'a LockedSkill)>;

/// How many fetched sources are kept: that of a skill, and the same at the commit of the lock. Each may take much memory or room
/// on the disk.
const MAX_KEPT_SOURCES: usize = 2;

/// Whether a local source is no longer there.
fn is_gone(source: &Source) -> bool {
    matches!(source, Source::Local(local) if real_path(&local.path).is_none())
}

/// The sources that were fetched last. Skills of one source must come one after another, so that each source is fetched once.
#[derive(Default)]
pub(super) struct FetchedSources {
    /// The one that was used last is at the end.
    kept: Vec<(String, Fetched)>,
    /// Why sources could not be fetched.
    failed: BTreeMap<String, String>,
    /// The bytes of the skills of each source so far.
    bytes: BTreeMap<String, u64>,
}

impl FetchedSources {
    /// Fetches a source that the lock names for the skill in `directory`, or returns what was fetched before.
    pub(super) async fn get(
        &mut self,
        installer: &Installer,
        source: &Source,
        directory: &str,
        options: &FetchOptions,
    ) -> Result<&mut Fetched, String> {
        let key = format!("{source:?}");
        if let Some(why) = self.failed.get(&key) {
            return Err(why.clone());
        }
        let fetched = match self.kept.iter().position(|(kept, _)| *kept == key) {
            Some(at) => self.kept.remove(at).1,
            None => {
                // Before the next one is fetched.
                if self.kept.len() >= MAX_KEPT_SOURCES {
                    self.kept.remove(0);
                }
                let named_by = installer.who_named(source, options);
                let options = FetchOptions { named_by, ..options.clone() };
                match fetch(source, &options).await {
                    Ok(fetched) => fetched,
                    Err(error) => {
                        let why = if is_gone(source) {
                            format!("{source} is gone: there is no such file or directory any more")
                        } else if error.is_about_a_stranger() {
                            format!(
                                "{source} is not public, and you never added it here; --allow-private fetches it"
                            )
                        } else {
                            error.to_string()
                        };
                        self.failed.insert(key, why.clone());
                        return Err(why);
                    }
                }
            }
        };
        // A lock can name one large directory many times.
        let selection = Store::select(&*fetched.snapshot, directory);
        let bytes = self.bytes.entry(key.clone()).or_default();
        *bytes = bytes.saturating_add(selection.map_or(0, |selection| selection.all_bytes));
        if *bytes > MAX_SOURCE_BYTES {
            return Err(format!("the skills of {source} have more than {MAX_SOURCE_BYTES} bytes together"));
        }
        self.kept.push((key, fetched));
        match self.kept.last_mut() {
            Some((_, fetched)) => Ok(fetched),
            None => Err("the source was not fetched".to_owned()),
        }
    }
}

/// Orders skills by their sources.
pub(super) fn by_source(one: &LockedSkill, other: &LockedSkill) -> Ordering {
    let key = |locked: &LockedSkill| (locked.source.clone(), locked.reference.clone(), locked.commit.clone());
    key(one).cmp(&key(other))
}

impl Installer {
    /// Restores the skills that are missing: from the content cache, or else from their sources, at the commits of the lock.
    /// The files must have the digests of the lock.
    ///
    /// # Errors
    ///
    /// A lock cannot be read, or files cannot be written. A source that changed is no error: see [`Restored::failed`].
    pub async fn restore(
        &self,
        strictness: Strictness,
        agents: &[&'static Agent],
        files: AgentFiles,
        options: &FetchOptions,
        now: &str,
    ) -> Result<Restored, InstallError> {
        // Nothing is made for a lock that cannot be used, or that has no skills.
        let locks = self.locks()?;
        if strictness == Strictness::Frozen && !self.scope.own_lock().exists() {
            return Err(InstallError::NoLock(self.scope.own_lock()));
        }
        if locks.own.skills.is_empty() {
            return Ok(Restored { locks: locks.findings(&self.scope), ..Restored::default() });
        }
        let installed = self.place.installed()?;
        let (restored, mut missing, _) = self.compare(&locks, &installed);
        if strictness == Strictness::Frozen && !restored.is_exact() {
            return Ok(restored);
        }
        missing.sort_by(|(_, one), (_, other)| by_source(one, other));
        // Other processes must not wait for a slow source, so everything is fetched before the place is held.
        let (mut sources, mut fetched) = (FetchedSources::default(), BTreeMap::new());
        for (name, locked) in missing {
            fetched.insert(name.clone(), (locked.clone(), self.pinned(locked, &mut sources, options).await?));
        }
        let held = self.place.hold()?;
        let (mut locks, installed) = (self.locks()?, self.place.installed()?);
        let (mut restored, missing, unchanged) = self.compare(&locks, &installed);
        if strictness == Strictness::Frozen && !restored.is_exact() {
            return Ok(restored);
        }
        let mut transaction = Transaction::default();
        for (name, locked) in missing {
            let pinned = match fetched.remove(name) {
                Some((known, pinned)) if known == *locked => pinned,
                _ => Err("it changed meanwhile; run the command again".to_owned()),
            };
            match pinned {
                Ok((stored, is_cached)) => {
                    restored.from_cache += usize::from(is_cached);
                    transaction.put(name, &stored, None);
                    self.reach_agents(&mut transaction, name, &stored, agents, files, Some(stored.digest))?;
                    restored.restored.push(name.clone());
                }
                Err(why) => restored.failed.push((name.clone(), why)),
            }
        }
        if !agents.is_empty() {
            for (name, locked) in unchanged {
                let stored = match self.store.get(&locked.tree.digest()) {
                    Some(stored) => stored,
                    None => {
                        let directory = installed.open(name);
                        let failed = |source| InstallError::Tree { name: name.clone(), source };
                        self.store.stage_directory(&directory.map_err(failed)?)?
                    }
                };
                self.reach_agents(&mut transaction, name, &stored, agents, files, Some(stored.digest))?;
            }
        }
        // All or nothing.
        if strictness == Strictness::Frozen && !restored.is_exact() {
            restored.restored.clear();
            return Ok(restored);
        }
        // Another tool may have removed a skill that is there again.
        restored.shared = locks.share_missing(&self.scope, now)?;
        if !restored.shared.is_empty() {
            restored.locks = locks.findings(&self.scope);
            locks.write_into(&self.scope, &mut transaction)?;
        }
        restored.report = held.commit(&transaction)?;
        Ok(restored)
    }

    /// The differences between the disk and the locks, then the locked skills that are missing, and those that are as they were.
    fn compare<'a>(&self, locks: &'a Locks, installed: &Installed) -> (Restored, Skills<'a>, Skills<'a>) {
        let copies = self.changed_copies(installed, &locks.own);
        let links = self.foreign_links(&locks.own);
        let mut restored =
            Restored { locks: locks.findings(&self.scope), copies, links, ..Restored::default() };
        let (mut missing, mut unchanged) = (Vec::new(), Vec::new());
        for (name, locked) in &locks.own.skills {
            match drift_of(&OnDisk::of(installed, name), locked) {
                None => unchanged.push((name, locked)),
                Some(Drift::Missing) => missing.push((name, locked)),
                Some(drift) => restored.drift.push((name.clone(), drift)),
            }
        }
        restored.unchanged = unchanged.len();
        (restored, missing, unchanged)
    }

    /// The files that the lock pins, and whether they came from the content cache. The inner error says why there are none.
    pub(super) async fn pinned(
        &self,
        locked: &LockedSkill,
        sources: &mut FetchedSources,
        options: &FetchOptions,
    ) -> Result<Result<(Stored, bool), String>, InstallError> {
        let wanted = locked.tree.digest();
        // The digest has no sizes.
        let has_sizes = |stored: &Stored| stored.tree == locked.tree;
        let wrong_sizes = || "its sizes in the lock are wrong: a merge or an edit broke it".to_owned();
        if let Some(stored) = self.store.get(&wanted) {
            return Ok(if has_sizes(&stored) { Ok((stored, true)) } else { Err(wrong_sizes()) });
        }
        let mut source = self.source_of(locked)?;
        if let (Source::Git(git), Some(commit)) = (&mut source, &locked.commit) {
            git.reference = Some(commit.clone());
        }
        let fetched = match sources.get(self, &source, locked.source_directory(), options).await {
            Ok(fetched) => fetched,
            Err(why) => return Ok(Err(why)),
        };
        let stored = match stage(&self.store, fetched, locked.source_directory()) {
            Ok(stored) => stored,
            Err(InstallError::Store(error)) if error.is_about_the_skill() => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        if stored.digest == wanted {
            return Ok(if has_sizes(&stored) { Ok((stored, false)) } else { Err(wrong_sizes()) });
        }
        Ok(Err(format!("the source has other files now: {}", list(&locked.tree.difference(&stored.tree)))))
    }
}

/// The names of the files of a difference, bounded.
fn list(difference: &TreeDifference) -> String {
    const MOST: usize = 5;
    let parts =
        [("added", &difference.added), ("removed", &difference.removed), ("changed", &difference.changed)];
    let part = |(what, paths): &(&str, &std::collections::BTreeSet<String>)| {
        let shown: Vec<String> = paths.iter().take(MOST).map(|path| format!("{path:?}")).collect();
        let more = paths.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!paths.is_empty()).then(|| format!("{what} {}{more}", shown.join(", ")))
    };
    parts.iter().filter_map(part).collect::<Vec<_>>().join("; ")
}
