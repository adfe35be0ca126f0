//! `.skill-lock.json` of a user: the lock of globally installed skills that `skills` and `gh` share, version 3.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::LockError;
use super::key_order::Ordered;
use super::{UnreadableEntry, check_entry, file, read_entries};
use crate::source::SourceType;

/// The name of the file.
pub const FILE: &str = ".skill-lock.json";
/// The version that prowess reads and writes.
pub const VERSION: u64 = 3;
/// The most bytes of the file.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A `.skill-lock.json`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GlobalLock {
    /// The skills by name.
    pub skills: BTreeMap<String, GlobalEntry>,
    /// Entries that prowess cannot use. They are written back as they were.
    pub unreadable: BTreeMap<String, UnreadableEntry>,
    /// Other keys of the file, such as `dismissed` and `lastSelectedAgents`.
    pub extra: BTreeMap<String, Value>,
}

impl Default for GlobalLock {
    /// A lock without skills. `skills` expects that it has `dismissed`.
    fn default() -> Self {
        let extra = BTreeMap::from([("dismissed".to_owned(), Value::Object(serde_json::Map::new()))]);
        Self { skills: BTreeMap::new(), unreadable: BTreeMap::new(), extra }
    }
}

/// A skill in a `.skill-lock.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalEntry {
    /// Where it came from: `owner/repo`, a URL, a host or a path.
    pub source: String,
    /// The kind of the source.
    pub source_type: SourceType,
    /// The URL or path.
    pub source_url: String,
    /// The branch, tag or commit that was asked for.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The path of its SKILL.md in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_path: Option<String>,
    /// The SHA-1 of the Git tree if it came from GitHub, else the hash of
    /// [`computed_hash`](crate::folder_hash::computed_hash).
    pub skill_folder_hash: String,
    /// The plugin that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_name: Option<String>,
    /// The address of the web site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_base_url: Option<String>,
    /// The digest that a web site's index gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub well_known_digest: Option<String>,
    /// When it was first installed, in ISO 8601.
    pub installed_at: String,
    /// When it was last installed, in ISO 8601.
    pub updated_at: String,
    /// Other keys, such as `pinnedRef` of `gh`.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Read {
    version: Value,
    skills: BTreeMap<String, Value>,
    #[serde(flatten)]
    extra: BTreeMap<String, Value>,
}

#[derive(Serialize)]
struct Write<'a> {
    version: u64,
    skills: Ordered<'a, Entry<'a>>,
    #[serde(flatten)]
    extra: &'a BTreeMap<String, Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Usable(&'a GlobalEntry),
    Unreadable(&'a Value),
}

impl GlobalLock {
    /// The path of the lock of a user. An empty or relative `XDG_STATE_HOME` is ignored.
    ///
    /// ```
    /// use std::path::Path;
    /// use prowess_install::lock::GlobalLock;
    ///
    /// let home = Path::new("/home/ada");
    /// assert_eq!(GlobalLock::path(home, None), home.join(".agents/.skill-lock.json"));
    /// assert_eq!(GlobalLock::path(home, Some(Path::new("/state"))), Path::new("/state/skills/.skill-lock.json"));
    /// ```
    pub fn path(home: &Path, xdg_state_home: Option<&Path>) -> PathBuf {
        match xdg_state_home.filter(|path| path.is_absolute()) {
            Some(state) => state.join("skills").join(FILE),
            None => home.join(".agents").join(FILE),
        }
    }

    /// Reads the lock at `path`. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no lock, or has another version. `skills` would empty an older lock without a word;
    /// prowess does not touch it.
    pub fn read(path: &Path) -> Result<Option<Self>, LockError> {
        let Some(bytes) = file::read(path, MAX_BYTES)? else { return Ok(None) };
        let json = |source| LockError::Json { path: path.to_owned(), source };
        let read: Read = serde_json::from_slice(&bytes).map_err(json)?;
        if read.version.as_u64() != Some(VERSION) {
            let is_older = read.version.as_f64().is_some_and(|version| version < VERSION as f64);
            return Err(LockError::Version {
                path: path.to_owned(),
                found: read.version.to_string(),
                known: VERSION,
                advice: if is_older {
                    "move it away and add the skills again"
                } else {
                    "update prowess, or move the file away"
                },
            });
        }
        let (skills, unreadable) = read_entries(read.skills, |name, entry: &GlobalEntry| {
            let reference = entry.reference.as_deref().unwrap_or_default();
            check_entry(name, &[&entry.source, &entry.source_url, reference], entry.skill_path.as_deref())
        });
        Ok(Some(Self { skills, unreadable, extra: read.extra }))
    }

    /// Writes the lock to `path`, and creates its directory.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        if let Some(directory) = path.parent() {
            let failed = |source| LockError::Write { path: path.to_owned(), source };
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        file::write(path, &self.to_bytes())
    }

    /// The text of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let usable = self.skills.iter().map(|(name, entry)| (name.as_str(), Entry::Usable(entry)));
        let others =
            self.unreadable.iter().map(|(name, entry)| (name.as_str(), Entry::Unreadable(&entry.value)));
        let skills: BTreeMap<&str, Entry<'_>> = others.chain(usable).collect();
        let write = Write { version: VERSION, skills: Ordered(&skills), extra: &self.extra };
        // `skills` writes this file without a final line break, so prowess does too. Maps with text keys always have a JSON
        // form.
        serde_json::to_vec_pretty(&write).unwrap_or_default()
    }

    /// Adds or replaces a skill. An older entry keeps its time of installation and its unknown keys.
    pub fn insert(&mut self, name: &str, mut entry: GlobalEntry) {
        self.unreadable.remove(name);
        if let Some(old) = self.skills.remove(name) {
            entry.installed_at = old.installed_at;
            entry.plugin_name = entry.plugin_name.or(old.plugin_name);
            for (key, value) in old.extra {
                entry.extra.entry(key).or_insert(value);
            }
        }
        self.skills.insert(name.to_owned(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"{
  "version": 3,
  "skills": {
    "tide": {
      "source": "o/r",
      "sourceType": "github",
      "sourceUrl": "https://github.com/o/r.git",
      "ref": "main",
      "skillPath": "skills/tide/SKILL.md",
      "skillFolderHash": "3b9e98c0275573e5250d239de47d167f74b956ea",
      "pluginName": "sea",
      "installedAt": "2026-01-01T00:00:00.000Z",
      "updatedAt": "2026-01-02T00:00:00.000Z",
      "pinnedRef": "v1"
    }
  },
  "dismissed": {
    "findSkillsPrompt": true
  },
  "lastSelectedAgents": [
    "codex"
  ]
}"#;

    #[test]
    fn a_lock_of_skills_comes_back_byte_by_byte() {
        let scratch = tempfile::tempdir().unwrap();
        let path = GlobalLock::path(scratch.path(), None);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, LOCK).unwrap();
        let mut lock = GlobalLock::read(&path).unwrap().unwrap();
        lock.write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), LOCK);

        let mut entry = lock.skills["tide"].clone();
        entry.extra.clear();
        entry.installed_at = "2027-01-01T00:00:00.000Z".to_owned();
        lock.insert("tide", entry);
        assert_eq!(lock.skills["tide"].installed_at, "2026-01-01T00:00:00.000Z");
        assert_eq!(lock.skills["tide"].extra["pinnedRef"], "v1");
    }

    #[test]
    fn an_older_lock_is_an_error_and_never_emptied() {
        let scratch = tempfile::tempdir().unwrap();
        let path = GlobalLock::path(scratch.path(), Some(&scratch.path().join("state")));
        assert!(GlobalLock::read(&path).unwrap().is_none());
        GlobalLock::default().write(&path).unwrap();
        assert_eq!(GlobalLock::read(&path).unwrap().unwrap(), GlobalLock::default());
        for version in ["1", "2", "4", "null"] {
            let text = LOCK.replace("\"version\": 3", &format!("\"version\": {version}"));
            std::fs::write(&path, &text).unwrap();
            let error = GlobalLock::read(&path).unwrap_err();
            assert!(matches!(error, LockError::Version { .. }), "{error}");
            assert_eq!(error.to_string().contains("add the skills again"), version < "3", "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
