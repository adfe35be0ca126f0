//! `skills-lock.json` beside a project: the lock that `skills` reads and writes, version 1.
//!
//! prowess writes it so that both tools can be used on one project. It pins nothing. Keys that prowess does not know are
//! kept. (`skills` itself drops them.)

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::LockError;
use super::key_order::Ordered;
use super::{UnreadableEntry, check_entry, file, read_entries};
use crate::source::SourceType;

/// The name of the file.
pub const FILE: &str = "skills-lock.json";
/// The version that prowess reads and writes.
pub const VERSION: u64 = 1;
/// The most bytes of the file.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A `skills-lock.json`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SharedLock {
    /// The skills by name.
    pub skills: BTreeMap<String, SharedEntry>,
    /// Entries that prowess cannot use. They are written back as they were.
    pub unreadable: BTreeMap<String, UnreadableEntry>,
    /// Other keys of the file.
    pub extra: BTreeMap<String, Value>,
}

/// A skill in a `skills-lock.json`. The fields are in the order in which `skills` writes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedEntry {
    /// Where it came from: `owner/repo`, a URL, a host, or a path relative to the lock.
    pub source: String,
    /// The URL, if `source` is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// The branch, tag or commit that was asked for. It is not what was resolved.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The kind of the source.
    pub source_type: SourceType,
    /// The path of its SKILL.md in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_path: Option<String>,
    /// See [`computed_hash`](crate::folder_hash::computed_hash).
    pub computed_hash: String,
    /// The digest that a web site's index gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub well_known_digest: Option<String>,
    /// Other keys, such as `version`, `via` and `subagents`.
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
    Usable(&'a SharedEntry),
    Unreadable(&'a Value),
}

impl SharedLock {
    /// The path of the lock of a project.
    pub fn path(project: &Path) -> PathBuf {
        project.join(FILE)
    }

    /// Reads the lock at `path`. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no lock, or has another version.
    pub fn read(path: &Path) -> Result<Option<Self>, LockError> {
        let Some(bytes) = file::read(path, MAX_BYTES)? else { return Ok(None) };
        let json = |source| LockError::Json { path: path.to_owned(), source };
        let read: Read = serde_json::from_slice(&bytes).map_err(json)?;
        if read.version.as_u64() != Some(VERSION) {
            return Err(LockError::Version {
                path: path.to_owned(),
                found: read.version.to_string(),
                known: VERSION,
                advice: "update prowess, or move the file away",
            });
        }
        let (skills, unreadable) = read_entries(read.skills, |name, entry: &SharedEntry| {
            let texts = [&entry.source, entry.source_url.as_deref().unwrap_or_default()];
            let reference = entry.reference.as_deref().unwrap_or_default();
            check_entry(name, &[texts[0], texts[1], reference], entry.skill_path.as_deref())
        });
        Ok(Some(Self { skills, unreadable, extra: read.extra }))
    }

    /// Writes the lock to `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        file::write(path, &self.to_bytes())
    }

    /// The text of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let usable = self.skills.iter().map(|(name, entry)| (name.as_str(), Entry::Usable(entry)));
        let others =
            self.unreadable.iter().map(|(name, entry)| (name.as_str(), Entry::Unreadable(&entry.value)));
        let skills: BTreeMap<&str, Entry<'_>> = others.chain(usable).collect();
        let write = Write { version: VERSION, skills: Ordered(&skills), extra: &self.extra };
        // Maps with text keys always have a JSON form.
        let mut bytes = serde_json::to_vec_pretty(&write).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The name and entry of the skill that is installed in a directory of this name.
    pub fn find(&self, directory_name: &str) -> Option<(&str, &SharedEntry)> {
        let is_same = |name: &str| crate::discover::directory_name(name) == directory_name;
        self.skills.iter().find(|(name, _)| is_same(name)).map(|(name, entry)| (name.as_str(), entry))
    }
}

/// A local source as locks have it: relative to the directory of the lock, with `/`, and beginning with `./` or `../`.
///
/// ```
/// use std::path::Path;
/// use prowess_install::lock::shared::portable_path;
///
/// assert_eq!(portable_path(Path::new("/home/ada/skills/tide"), Path::new("/home/ada/project")), "../skills/tide");
/// assert_eq!(portable_path(Path::new("/home/ada/project/tide"), Path::new("/home/ada/project")), "./tide");
/// ```
pub fn portable_path(path: &Path, directory: &Path) -> String {
    let path = plain(&directory.join(path));
    let directory = plain(directory);
    let common = path.iter().zip(&directory).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", directory.len() - common);
    let names: Vec<&str> = up.chain(path.iter().skip(common).map(String::as_str)).collect();
    match names.first() {
        None => ".".to_owned(),
        Some(&"..") => names.join("/"),
        Some(_) => format!("./{}", names.join("/")),
    }
}

/// The names of a path, without `.` and without a name before `..`.
fn plain(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(names.pop()),
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `skills` 1.7.4 writes it, with a key that nobody knows.
    const LOCK: &str = r#"{
  "version": 1,
  "skills": {
    "2048": {
      "source": "./games",
      "sourceType": "local",
      "computedHash": "00"
    },
    "My Skill": {
      "source": "https://git.example.com/r.git",
      "sourceUrl": "https://git.example.com/r.git",
      "ref": "main",
      "sourceType": "git",
      "skillPath": "skills/my skill/SKILL.md",
      "computedHash": "ab",
      "future": {
        "a": [
          1,
          2.5
        ]
      },
      "subagents": [
        ""
      ]
    },
    "site": {
      "source": "example.com",
      "sourceUrl": "https://example.com/",
      "sourceType": "well-known",
      "computedHash": "cd",
      "wellKnownDigest": "sha256:ef",
      "via": "x"
    }
  },
  "later": true
}
"#;

    fn lock(text: &str) -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = SharedLock::path(scratch.path());
        std::fs::write(&path, text).unwrap();
        (scratch, path)
    }

    #[test]
    fn a_lock_of_skills_comes_back_byte_by_byte() {
        let (_scratch, path) = lock(LOCK);
        let read = SharedLock::read(&path).unwrap().unwrap();
        assert!(read.unreadable.is_empty());
        assert_eq!(read.find("my-skill").unwrap().0, "My Skill");
        assert_eq!(read.skills["My Skill"].reference.as_deref(), Some("main"));
        read.write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), LOCK);
    }

    #[test]
    fn other_versions_are_refused_and_never_emptied() {
        for version in ["0", "2", "1.5", "null", "\"1\"", "-1"] {
            let text = format!(r#"{{"version": {version}, "skills": {{"a": {{}}}}}}"#);
            let (_scratch, path) = lock(&text);
            assert!(matches!(SharedLock::read(&path), Err(LockError::Version { .. })), "{version}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        for text in
            ["", "[]", "{}", r#"{"version": 1}"#, r#"{"version": 1, "skills": []}"#, &"[".repeat(10_000)]
        {
            let (_scratch, path) = lock(text);
            assert!(matches!(SharedLock::read(&path), Err(LockError::Json { .. })), "{text}");
        }
        assert!(SharedLock::read(Path::new("/nonexistent/skills-lock.json")).unwrap().is_none());
    }

    #[test]
    fn bad_entries_are_kept_and_not_used() {
        let text = r#"{"version": 1, "skills": {
            "list": [1], "no source": {"sourceType": "git", "computedHash": ""},
            "out": {"source": "o/r", "sourceType": "github", "computedHash": "", "skillPath": "../../x/SKILL.md"},
            "bell": {"source": "o/r\u0007", "sourceType": "github", "computedHash": ""},
            "a\u202eb": {"source": "o/r", "sourceType": "github", "computedHash": ""},
            "good": {"source": "o/r", "sourceType": "new-kind", "computedHash": ""}}}"#;
        let (_scratch, path) = lock(text);
        let read = SharedLock::read(&path).unwrap().unwrap();
        assert_eq!(read.skills.keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!(read.unreadable.len(), 5);
        read.write(&path).unwrap();
        assert_eq!(SharedLock::read(&path).unwrap().unwrap(), read);
    }

    #[test]
    fn local_sources_are_relative_to_the_lock() {
        let relative = |path: &str| portable_path(Path::new(path), Path::new("/a/b"));
        for (path, expected) in [
            ("/a/b", "."),
            ("/a/b/c", "./c"),
            ("/a/c", "../c"),
            ("/", "../.."),
            ("/a", ".."),
            ("./x", "./x"),
            ("../x", "../x"),
            ("x/../y", "./y"),
        ] {
            assert_eq!(relative(path), expected, "{path}");
        }
    }
}
