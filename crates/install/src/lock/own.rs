//! `prowess-lock.json`: the lock that pins. It has the commit, the digest of each skill, and the digest of each file.
//!
//! It has nothing that changes from run to run, such as times, and its keys are sorted. So merges stay easy. A lock may come
//! from a stranger: names, paths, sources and digests are checked when it is read, and one bad entry refuses the whole lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Digest, SkillName};
use serde::{Deserialize, Serialize};

use super::error::LockError;
use super::file;
use crate::discover::directory_name;
use crate::snapshot::{MAX_SKILL_FILES, check_path};
use crate::source::{Source, SourceError, SourceType};
use crate::tree::{SkillTree, TreeFile};

/// The name of the file.
pub const FILE: &str = "prowess-lock.json";
/// The version that prowess reads and writes.
pub const VERSION: u64 = 1;
/// The most bytes of the file. A thousand skills with twenty files each have about three million.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A `prowess-lock.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnLock {
    /// The skills by the name of the directory in which they are installed.
    pub skills: BTreeMap<String, LockedSkill>,
}

/// A skill that is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedSkill {
    /// The name in its manifest. `skills-lock.json` has it as key.
    pub name: SkillName,
    /// The kind of its source.
    pub source_type: SourceType,
    /// The URL of its source without passwords, or a path relative to the lock.
    pub source: String,
    /// The branch, tag or commit that was asked for.
    pub reference: Option<String>,
    /// The Git commit that was fetched, in full.
    pub commit: Option<String>,
    /// The path of its SKILL.md in the source.
    pub skill_path: String,
    /// The `computedHash` that prowess wrote to `skills-lock.json`. Another value there means that another tool changed it.
    pub computed_hash: String,
    /// Its files.
    pub tree: SkillTree,
}

impl LockedSkill {
    /// The source, at the reference that was asked for. `directory` has the lock.
    ///
    /// # Errors
    ///
    /// The source is refused, as if a person had typed it.
    pub fn source(&self, directory: &Path) -> Result<Source, SourceError> {
        Source::from_lock(&self.source_type, &self.source, self.reference.as_deref(), directory)
    }

    /// Its directory in the source. The root is empty.
    pub fn source_directory(&self) -> &str {
        self.skill_path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u64,
    skills: BTreeMap<String, StoredSkill>,
}

#[derive(Deserialize)]
struct Version {
    version: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredSkill {
    name: SkillName,
    source: String,
    source_type: SourceType,
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    skill_path: String,
    computed_hash: String,
    digest: Digest,
    files: BTreeMap<String, StoredFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredFile {
    digest: Digest,
    size: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
}

impl OwnLock {
    /// The path of the lock in a directory: a project, or `.agents` in the home directory.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// Reads the lock at `path`. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no lock, has another version, or has an entry that is refused.
    pub fn read(path: &Path) -> Result<Option<Self>, LockError> {
        match file::read(path, MAX_BYTES)? {
            None => Ok(None),
            Some(bytes) => Self::parse(&bytes, path).map(Some),
        }
    }

    /// Parses the bytes of a lock. `path` is for messages, and relative local sources start at its directory.
    ///
    /// # Errors
    ///
    /// As for [`OwnLock::read`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, LockError> {
        let json = |source| LockError::Json { path: path.to_owned(), source };
        let Version { version } = serde_json::from_slice(bytes).map_err(json)?;
        if version.as_u64() != Some(VERSION) {
            return Err(LockError::Version {
                path: path.to_owned(),
                found: version.to_string(),
                known: VERSION,
                advice: "update prowess",
            });
        }
        let stored: Stored = serde_json::from_slice(bytes).map_err(json)?;
        let mut skills = BTreeMap::new();
        for (name, skill) in stored.skills {
            let skill = check(&name, skill, path.parent().unwrap_or(Path::new("/")))
                .map_err(|reason| LockError::Entry { path: path.to_owned(), name: name.clone(), reason })?;
            skills.insert(name, skill);
        }
        Ok(Self { skills })
    }

    /// The bytes of the lock: JSON with sorted keys, two spaces and a final line break.
    pub fn to_bytes(&self) -> Vec<u8> {
        let skills = self.skills.iter().map(|(name, skill)| (name.clone(), store(skill))).collect();
        let stored = Stored { version: VERSION, skills };
        // Maps with text keys always have a JSON form.
        let mut bytes = serde_json::to_vec_pretty(&stored).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Writes the lock to `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or has an entry that [`OwnLock::read`] would refuse.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let bytes = self.to_bytes();
        Self::parse(&bytes, path)?;
        file::write(path, &bytes)
    }
}

fn store(skill: &LockedSkill) -> StoredSkill {
    let files = skill.tree.files.iter().map(|(path, file)| {
        (path.clone(), StoredFile { digest: file.digest, size: file.size, executable: file.is_executable })
    });
    StoredSkill {
        name: skill.name.clone(),
        source: skill.source.clone(),
        source_type: skill.source_type.clone(),
        reference: skill.reference.clone(),
        commit: skill.commit.clone(),
        skill_path: skill.skill_path.clone(),
        computed_hash: skill.computed_hash.clone(),
        digest: skill.tree.digest(),
        files: files.collect(),
    }
}

/// Checks an entry. A lock is not trusted: everything that leads to a path or a program is looked at.
fn check(key: &str, stored: StoredSkill, directory: &Path) -> Result<LockedSkill, String> {
    if directory_name(key) != key || directory_name(stored.name.as_str()) != key {
        return Err(format!(
            "the directory of {:?} must be {:?}",
            stored.name,
            directory_name(stored.name.as_str())
        ));
    }
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if stored.commit.as_deref().is_some_and(|commit| !matches!(commit.len(), 40 | 64) || !is_hex(commit)) {
        return Err("its commit is not a full Git commit id".to_owned());
    }
    if stored.computed_hash.len() != 64 || !is_hex(&stored.computed_hash) {
        return Err("its computedHash is not a SHA-256".to_owned());
    }
    let is_manifest = stored.skill_path == MANIFEST || stored.skill_path.ends_with("/SKILL.md");
    if !is_manifest || check_path(&stored.skill_path).is_err() {
        return Err("its skillPath is not the path of a SKILL.md in the source".to_owned());
    }
    if stored.files.len() > MAX_SKILL_FILES {
        return Err(format!("it has more than {MAX_SKILL_FILES} files"));
    }
    for path in stored.files.keys() {
        check_path(path).map_err(|error| format!("the file {path:?} cannot be installed: {error}"))?;
        let mut parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        if let Some(parent) = parents.find(|parent| stored.files.contains_key(*parent)) {
            return Err(format!("{parent:?} is both a file and a directory"));
        }
    }
    if !stored.files.contains_key(MANIFEST) {
        return Err("it has no SKILL.md".to_owned());
    }
    let files = stored.files.into_iter().map(|(path, file)| {
        (path, TreeFile { digest: file.digest, size: file.size, is_executable: file.executable })
    });
    let skill = LockedSkill {
        name: stored.name,
        source_type: stored.source_type,
        source: stored.source,
        reference: stored.reference,
        commit: stored.commit,
        skill_path: stored.skill_path,
        computed_hash: stored.computed_hash,
        tree: SkillTree { files: files.collect() },
    };
    if skill.tree.digest() != stored.digest {
        return Err("its digest does not fit its files: a merge or an edit broke it".to_owned());
    }
    skill.source(directory).map_err(|error| error.to_string())?;
    Ok(skill)
}
