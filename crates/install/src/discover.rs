//! Finds the skills in a snapshot, in the places in which `skills` looks for them.
//!
//! A SKILL.md at the root is the only skill, unless all depths are wanted. Else skills are looked for in the children of the
//! root, in `skills/`, in the directories of agents, and in the directories that a plugin manifest names. If there are none,
//! the whole source is searched, five directories deep.

mod name;
mod notice;
mod places;
mod plugins;

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::skill::{Location, MANIFEST, MAX_MANIFEST};
use prowess_catalog::yaml::Value;
use prowess_catalog::{Severity, Skill, SkillName};
use thiserror::Error;

use crate::snapshot::{Entry, EntryKind, MAX_SKILL_FILES, Snapshot, SnapshotError};

pub use name::directory_name;
pub use notice::Notice;
use places::Places;

/// The most directories with a SKILL.md that are looked at.
pub const MAX_MANIFESTS: usize = 20_000;
/// The most bytes of all SKILL.md files that are read.
pub const MAX_MANIFEST_BYTES: u64 = 256 * 1024 * 1024;
/// The most bytes of a plugin manifest, and of the source's own `skills-lock.json`.
pub const MAX_JSON_BYTES: u64 = 4 * 1024 * 1024;

/// The most entries of all skills together. An entry counts once for each skill around it, and skills may lie in skills.
pub const MAX_LISTED_ENTRIES: usize = 1_000_000;

/// Files and directories that `skills` never installs. prowess leaves out the same, so that both write the same files.
const NOT_INSTALLED: [&str; 3] = [".git", "__pycache__", "__pypackages__"];
/// A file that `skills` never installs.
const NOT_INSTALLED_FILE: &str = "metadata.json";

/// What to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoverOptions {
    /// The directory in which to look. `None` is the root.
    pub subpath: Option<String>,
    /// Also look below a root that is a skill, and five directories deep.
    pub full_depth: bool,
    /// The only skills that are wanted, by name. Empty or `*` are all.
    pub wanted: Vec<String>,
    /// Also find skills that are marked as internal. A wanted skill is found in any case.
    pub internal: bool,
}

/// The skills of a snapshot.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Discovery {
    /// The skills that are wanted, in the order in which they were found. No two have the same directory name.
    pub skills: Vec<FoundSkill>,
    /// The names of all skills that could be wanted.
    pub available: Vec<SkillName>,
    /// The wanted names that no skill has.
    pub missing: Vec<String>,
    /// What was left out, and why.
    pub notices: Vec<Notice>,
}

/// A skill in a snapshot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundSkill {
    /// Its parsed manifest.
    pub skill: Skill,
    /// The name of the directory in which it is installed.
    pub directory_name: String,
    /// Its directory in the snapshot. The root is empty.
    pub directory: String,
    /// The path of its SKILL.md in the snapshot. Lock files have it as `skillPath`.
    pub manifest_path: String,
    /// The plugin that names this skill in its manifest.
    pub plugin: Option<String>,
    /// Everything in its directory, with paths of the snapshot.
    pub entries: Vec<Entry>,
}

impl FoundSkill {
    /// Its name.
    pub fn name(&self) -> &SkillName {
        &self.skill.name
    }

    /// The path of an entry from the skill's directory.
    pub fn relative<'a>(&self, entry: &'a Entry) -> &'a str {
        below(&entry.path, &self.directory).unwrap_or(&entry.path)
    }

    /// The entries that are installed. `skills` installs no caches, no `.git` and no `metadata.json`.
    pub fn installed_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| {
            let path = self.relative(entry);
            let (directories, file) = path.rsplit_once('/').unwrap_or(("", path));
            file != NOT_INSTALLED_FILE && !directories.split('/').any(|name| NOT_INSTALLED.contains(&name))
        })
    }
}

/// Why skills cannot be looked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The source has nothing at the subpath.
    #[error("the source has no directory {0:?}: check the path after the repository")]
    NoSubpath(String),
    /// A file of the source cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Finds the skills of a snapshot.
///
/// # Errors
///
/// The snapshot has no such subpath, or a file cannot be read.
pub fn discover(snapshot: &mut dyn Snapshot, options: &DiscoverOptions) -> Result<Discovery, DiscoverError> {
    let mut search = Search::new(snapshot, options)?;
    search.run()?;
    Ok(search.finish())
}

/// The rest of `path` below `directory`.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    if directory.is_empty() { Some(path) } else { path.strip_prefix(directory)?.strip_prefix('/') }
}

/// `directory/name`.
fn join(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    }
}

struct Search<'a> {
    snapshot: &'a mut dyn Snapshot,
    options: &'a DiscoverOptions,
    /// The directory in which to look.
    root: String,
    places: Places,
    /// The names in the source's own `skills-lock.json`, in the spelling of [`name::lock_key`].
    foreign: BTreeSet<String>,
    /// The plugins by the directory of their skills.
    plugins: BTreeMap<String, String>,
    looked_at: BTreeSet<String>,
    manifest_bytes: u64,
    listed: usize,
    found: Discovery,
    /// The directory names that are taken, with the directory of the skill that has them.
    taken: BTreeMap<String, String>,
}

impl<'a> Search<'a> {
    fn new(snapshot: &'a mut dyn Snapshot, options: &'a DiscoverOptions) -> Result<Self, DiscoverError> {
        let typed = options.subpath.as_deref().unwrap_or_default().trim_matches('/');
        // A path to a SKILL.md means its directory.
        let root = typed.strip_suffix(MANIFEST).map_or(typed, |directory| directory.trim_end_matches('/'));
        let exists = snapshot.entries().iter().any(|entry| below(&entry.path, root).is_some());
        if !root.is_empty() && !exists {
            return Err(DiscoverError::NoSubpath(typed.to_owned()));
        }
        let mut found = Discovery::default();
        let places = Places::new(snapshot.entries(), &mut found.notices);
        Ok(Self {
            snapshot,
            options,
            root: root.to_owned(),
            places,
            foreign: BTreeSet::new(),
            plugins: BTreeMap::new(),
            looked_at: BTreeSet::new(),
            manifest_bytes: 0,
            listed: 0,
            found,
            taken: BTreeMap::new(),
        })
    }

    fn run(&mut self) -> Result<(), DiscoverError> {
        let root = self.root.clone();
        if let Some(lock) = self.json(crate::lock::shared::FILE)? {
            self.foreign = name::lock_keys(&lock);
        }
        let market = self.json(&join(&root, plugins::MARKETPLACE))?;
        let plugin = self.json(&join(&root, plugins::PLUGIN))?;
        let named = plugins::named(&root, market.as_ref(), plugin.as_ref());
        self.plugins = named.plugins;

        if self.places.is_skill(&root) && self.look_at(&root)? && !self.options.full_depth {
            return Ok(());
        }
        for (container, depth) in places::containers(&root, named.containers) {
            for directory in self.places.in_container(&container, depth) {
                self.look_at(&directory)?;
            }
        }
        if self.taken.is_empty() || self.options.full_depth {
            for directory in self.places.everywhere(&root) {
                self.look_at(&directory)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Discovery {
        let wanted = &self.options.wanted;
        if !wanted.is_empty() && !wanted.iter().any(|name| name == "*") {
            let found = &mut self.found;
            let is_missing = |name: &&String| !found.skills.iter().any(|skill| is_called(skill, name));
            found.missing = wanted.iter().filter(is_missing).cloned().collect();
            found.skills.retain(|skill| wanted.iter().any(|name| is_called(skill, name)));
        }
        self.found
    }

    /// Parses the manifest of a directory, once. Whether it is a skill that may be installed.
    fn look_at(&mut self, directory: &str) -> Result<bool, DiscoverError> {
        if !self.looked_at.insert(directory.to_owned()) {
            return Ok(false);
        }
        let manifest_path = join(directory, MANIFEST);
        let Some(size) = self.size(&manifest_path) else { return Ok(false) };
        self.manifest_bytes = self.manifest_bytes.saturating_add(size);
        if size > MAX_MANIFEST || self.manifest_bytes > MAX_MANIFEST_BYTES {
            self.found.notices.push(Notice::TooLarge { path: manifest_path });
            return Ok(false);
        }
        let source = self.snapshot.read(&manifest_path)?;
        let parsed = Skill::parse(&source, &Location::new(format!("/{manifest_path}")));
        let Some(skill) = parsed.skill else {
            let error = parsed.diagnostics.into_iter().find(|found| found.code.severity() == Severity::Error);
            let reason =
                error.map_or_else(|| "it cannot be parsed".to_owned(), |error| error.message.clone());
            self.found.notices.push(Notice::Unusable { path: manifest_path, reason });
            return Ok(false);
        };
        Ok(self.add(skill, directory, manifest_path))
    }

    fn add(&mut self, skill: Skill, directory: &str, manifest_path: String) -> bool {
        let found = FoundSkill {
            directory_name: directory_name(skill.name.as_str()),
            directory: directory.to_owned(),
            manifest_path,
            plugin: self.plugins.get(directory).cloned(),
            entries: Vec::new(),
            skill,
        };
        let path = found.manifest_path.clone();
        if self.is_foreign(&found) {
            self.found.notices.push(Notice::Foreign { path });
            return false;
        }
        let is_wanted = self.options.wanted.iter().any(|name| is_called(&found, name));
        if is_internal(&found.skill) && !self.options.internal && !is_wanted {
            self.found.notices.push(Notice::Internal { path });
            return false;
        }
        if let Some(first) = self.taken.get(&found.directory_name) {
            let (name, first) = (found.directory_name, join(first, MANIFEST));
            self.found.notices.push(Notice::Duplicate { name, first, path });
            return false;
        }
        let entries = entries_below(self.snapshot.entries(), directory);
        self.listed = self.listed.saturating_add(entries.len());
        if entries.len() > MAX_SKILL_FILES || self.listed > MAX_LISTED_ENTRIES {
            self.found.notices.push(Notice::TooManyFiles { path, most: MAX_SKILL_FILES });
            return false;
        }
        let entries = entries.to_vec();
        self.taken.insert(found.directory_name.clone(), directory.to_owned());
        self.found.available.push(found.skill.name.clone());
        self.found.skills.push(FoundSkill { entries, ..found });
        true
    }

    /// Whether the source itself installed this skill from elsewhere: it is in the directory of an agent, and the source's
    /// own lock lists it.
    fn is_foreign(&self, found: &FoundSkill) -> bool {
        let directory = &found.directory;
        let last = directory.rsplit('/').next().unwrap_or_default();
        let is_listed = |text: &str| self.foreign.contains(&name::lock_key(text));
        places::is_agent_directory(directory) && (is_listed(found.skill.name.as_str()) || is_listed(last))
    }

    /// The bytes of a file. `None` if there is no regular file.
    fn size(&self, path: &str) -> Option<u64> {
        let entries = self.snapshot.entries();
        let at = entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        match entries.get(at)?.kind {
            EntryKind::File { size, .. } => Some(size),
            EntryKind::Link | EntryKind::Submodule | EntryKind::Other => None,
        }
    }

    /// A JSON file of the source. A file that cannot be parsed is a notice.
    fn json(&mut self, path: &str) -> Result<Option<serde_json::Value>, DiscoverError> {
        let Some(size) = self.size(path) else { return Ok(None) };
        if size > MAX_JSON_BYTES {
            self.found.notices.push(Notice::TooLarge { path: path.to_owned() });
            return Ok(None);
        }
        match serde_json::from_slice(&self.snapshot.read(path)?) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.found
                    .notices
                    .push(Notice::Unusable { path: path.to_owned(), reason: error.to_string() });
                Ok(None)
            }
        }
    }
}

/// Whether a person means this skill by `name`.
fn is_called(skill: &FoundSkill, name: &str) -> bool {
    skill.name().as_str().to_lowercase() == name.trim().to_lowercase() || skill.directory_name == name.trim()
}

/// Whether the manifest has `metadata.internal: true`.
fn is_internal(skill: &Skill) -> bool {
    let is_true = |value: &Value| value.as_text() == Some("true");
    skill.metadata.iter().any(|(key, value)| key == "internal" && is_true(value))
}

/// The entries below a directory, from a sorted list.
fn entries_below<'a>(entries: &'a [Entry], directory: &str) -> &'a [Entry] {
    if directory.is_empty() {
        return entries;
    }
    let prefix = format!("{directory}/");
    let start = entries.partition_point(|entry| entry.path.as_str() < prefix.as_str());
    let below = &entries[start..];
    &below[..below.partition_point(|entry| entry.path.starts_with(&prefix))]
}

#[cfg(test)]
mod tests;
