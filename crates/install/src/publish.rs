//! Publishes skills as a static web site that `prowess add` and `skills add` can use.
//!
//! The site gets `.well-known/agent-skills/index.json` and one artifact for each skill beside it: an archive, or the SKILL.md
//! of a skill that has nothing else. The name of an artifact has the digest of its bytes. So new artifacts never replace old
//! ones, and until the new index is in place, the old index names files that are there.

mod artifact;
mod error;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use prowess_catalog::check::{CheckReport, Profile};
use prowess_catalog::{Code, Digest, ScanOptions};
use serde::Serialize;

pub use artifact::ArtifactKind;
pub use error::PublishError;

use crate::snapshot::archive::ArchiveLimits;
use crate::snapshot::well_known::{MAX_DESCRIPTION_CHARS, MAX_INDEX_BYTES, MAX_SKILLS, SCHEMA, is_name};
use artifact::Artifact;
use site::SiteDirectory;

/// How many invalid skills keep their text, so that messages can quote it.
const MAX_QUOTED: usize = 100;

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedSite {
    /// The path of the index.
    pub index: PathBuf,
    /// The skills in the index, by name.
    pub skills: Vec<PublishedSkill>,
    /// The skills that only the earlier index had.
    pub dropped: Vec<String>,
    /// The artifacts of earlier indexes that were removed.
    pub removed: Vec<String>,
}

/// A skill that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedSkill {
    /// Its name.
    pub name: String,
    /// Its description as in the index.
    pub description: String,
    /// What the artifact is.
    pub kind: ArtifactKind,
    /// The name of the artifact, which is its URL from the index.
    pub url: String,
    /// The digest of the artifact.
    pub digest: Digest,
    /// The bytes of the artifact.
    pub bytes: u64,
    /// The number of files of the skill.
    pub files: usize,
    /// The entries of the skill's directory that were left out, and why.
    pub left_out: Vec<String>,
    /// The limits of `prowess add` and `skills add` that the skill exceeds. People must raise them to install it.
    pub exceeded: Vec<String>,
    /// Whether the site did not have this artifact yet.
    pub is_new: bool,
}

/// Publishes the skill at `source`, or all skills below it, to the directory `site`.
///
/// A skill must follow the rules of `profile`. Nothing is written if one does not. The same skills give the same bytes. Other
/// files of the site stay as they are. If this fails or the process is killed, the earlier index and its artifacts are there.
///
/// ```
/// use prowess_catalog::check::Profile;
/// use prowess_install::publish::publish;
///
/// # let scratch = tempfile::tempdir()?;
/// let (skills, site) = (scratch.path().join("skills"), scratch.path().join("site"));
/// std::fs::create_dir_all(skills.join("tide"))?;
/// let text = "---\nname: tide\ndescription: Looks up tides. Use at sea.\n---\nLook it up.\n";
/// std::fs::write(skills.join("tide/SKILL.md"), text)?;
/// let published = publish(&skills, &site, Profile::Spec)?;
/// assert_eq!(published.skills[0].name, "tide");
/// assert!(site.join(".well-known/agent-skills/index.json").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// There is no skill, a skill cannot be published, or the site cannot be written.
pub fn publish(source: &Path, site: &Path, profile: Profile) -> Result<PublishedSite, PublishError> {
    let directories = valid_skills(source, profile)?;
    if let Some(around) = directories.values().find(|directory| site::is_below(site, directory)) {
        return Err(PublishError::SiteInSkill(around.clone()));
    }
    let site = SiteDirectory::open(site)?;
    let mut written = Vec::new();
    let published = publish_all(&directories, &site, profile, &mut written);
    if published.is_err() {
        // The index does not name them. If this fails too, the next publication removes them.
        written.iter().for_each(|name| site.discard(name));
    }
    published
}

/// The directories of the skills at `source`, by name.
fn valid_skills(source: &Path, profile: Profile) -> Result<BTreeMap<String, PathBuf>, PublishError> {
    let (mut invalid, mut valid) = (Vec::new(), Vec::new());
    let mut each = |mut report: CheckReport| match &report.skill {
        Some(skill) if report.is_valid() => {
            let directory = report.file.parent().unwrap_or(Path::new(".")).to_owned();
            valid.push((skill.name.to_string(), directory));
        }
        _ => {
            if invalid.len() >= MAX_QUOTED {
                report.source = Vec::new();
            }
            invalid.push(report);
        }
    };
    let found = prowess_catalog::check(source, profile, &ScanOptions::default(), &mut each);
    let found = found.map_err(|error| PublishError::io("read", source, error))?;
    let is_missing = |report: &CheckReport| {
        report.diagnostics.iter().any(|diagnostic| diagnostic.code == Code::MissingSkillMd)
    };
    if valid.is_empty() && invalid.iter().all(is_missing) {
        return Err(PublishError::NoSkill(source.to_owned()));
    }
    if !invalid.is_empty() {
        return Err(PublishError::Invalid(invalid));
    }
    // An index of some skills would look like one of all.
    if let Some(skipped) = found.into_iter().find(|diagnostic| diagnostic.code.leaves_out()) {
        return Err(PublishError::Skipped(Box::new(skipped)));
    }
    if valid.len() > MAX_SKILLS {
        return Err(PublishError::TooManySkills(valid.len()));
    }
    let mut directories: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, directory) in valid {
        if !is_name(&name) {
            return Err(PublishError::Name(name));
        }
        if let Some(first) = directories.get(&name) {
            return Err(PublishError::Twice { name, first: first.clone(), second: directory });
        }
        directories.insert(name, directory);
    }
    Ok(directories)
}

/// Writes all artifacts, then the index, and then removes what no index names any more. `written` tells the new artifacts,
/// until the index names them.
fn publish_all(
    directories: &BTreeMap<String, PathBuf>,
    site: &SiteDirectory,
    profile: Profile,
    written: &mut Vec<String>,
) -> Result<PublishedSite, PublishError> {
    let mut skills = Vec::new();
    for (name, directory) in directories {
        let artifact = Artifact::pack(directory, profile)?;
        if artifact.name != *name {
            return Err(PublishError::Changed(directory.clone()));
        }
        let url = artifact.file_name();
        let is_new = site.keep(&url, artifact.digest, &artifact.bytes)?;
        if is_new {
            written.push(url.clone());
        }
        skills.push(published(artifact, url, is_new));
    }
    let index = index_text(&skills)?;
    let dropped = site.earlier_skills().into_iter().filter(|name| !directories.contains_key(name));
    let dropped = dropped.collect();
    site.write_index(index.as_bytes())?;
    written.clear();
    let current: BTreeSet<&str> = skills.iter().map(|skill| skill.url.as_str()).collect();
    let removed = site.remove_stale(&current)?;
    Ok(PublishedSite { index: site.index_path(), skills, dropped, removed })
}

fn published(artifact: Artifact, url: String, is_new: bool) -> PublishedSkill {
    let usual = ArchiveLimits::default();
    let bytes = artifact.bytes.len() as u64;
    let limits = [
        ("SKILLS_DOWNLOAD_MAX_BYTES", bytes, usual.download_bytes),
        ("SKILLS_EXTRACT_MAX_BYTES", artifact.unpacked_bytes, usual.extract_bytes),
        ("SKILLS_EXTRACT_MAX_FILES", artifact.files as u64, usual.files as u64),
    ];
    let exceeded = limits.iter().filter(|(_, needed, most)| needed > most);
    PublishedSkill {
        exceeded: exceeded.map(|(variable, needed, _)| format!("{variable}={needed}")).collect(),
        description: short(&artifact.description),
        name: artifact.name,
        kind: artifact.kind,
        url,
        digest: artifact.digest,
        bytes,
        files: artifact.files,
        left_out: artifact.left_out,
        is_new,
    }
}

/// The description, cut to the length that an index may have.
fn short(description: &str) -> String {
    if description.chars().nth(MAX_DESCRIPTION_CHARS).is_none() {
        return description.to_owned();
    }
    description.chars().take(MAX_DESCRIPTION_CHARS - 1).chain(['…']).collect()
}

/// An index, version 0.2.0.
#[derive(Serialize)]
struct Index<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    skills: Vec<IndexEntry<'a>>,
}

/// A skill in an index.
#[derive(Serialize)]
struct IndexEntry<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: ArtifactKind,
    description: &'a str,
    url: &'a str,
    digest: Digest,
}

fn index_text(skills: &[PublishedSkill]) -> Result<String, PublishError> {
    let entries = skills.iter().map(|PublishedSkill { name, kind, description, url, digest, .. }| {
        IndexEntry { name, kind: *kind, description, url, digest: *digest }
    });
    let index = Index { schema: SCHEMA, skills: entries.collect() };
    let text =
        serde_json::to_string_pretty(&index).map_err(|error| PublishError::Index(error.to_string()))?;
    if text.len() as u64 >= MAX_INDEX_BYTES {
        return Err(PublishError::Index(format!("it would have more than {MAX_INDEX_BYTES} bytes")));
    }
    Ok(text + "\n")
}

#[cfg(test)]
mod tests;
