//! Skills that a web site publishes with an index at `/.well-known/agent-skills/index.json`.
//!
//! All skills of a site become one snapshot with a directory for each, called as in the index. A skill whose download fails,
//! or does not have the digest that the index promises, is left out as a whole and named in [`SiteSkills::refused`].

mod index;

use std::collections::BTreeSet;

use prowess_base::text::escaped_start;
use prowess_catalog::Digest;
use prowess_catalog::digest::Digester;
use reqwest::Url;
use thiserror::Error;

pub use index::{IndexedSkill, MAX_DESCRIPTION_CHARS, MAX_INDEX_BYTES, MAX_SKILLS, Published, SiteIndex};
pub(crate) use index::{SCHEMA, is_name};

use super::archive::{ArchiveError, ArchiveKind, ArchiveLimits, unpack_files};
use super::entries::Notices;
use super::http::{Download, HttpClient, HttpError, NamedBy, shown};
use super::memory::{MemoryFile, MemorySnapshot};

/// Where a site keeps its index, newest first.
pub const INDEX_PATHS: [&str; 2] = ["/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"];
/// The most bytes of all skills that one command downloads from a site.
pub const MAX_SITE_BYTES: u64 = 256 * 1024 * 1024;
/// The most downloads of one command from a site.
pub const MAX_SITE_DOWNLOADS: usize = 10_000;

/// Why the skills of a site cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WellKnownError {
    /// A download failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An archive was refused.
    #[error("{skill}: {source}")]
    Archive {
        /// The skill.
        skill: String,
        /// The reason.
        source: ArchiveError,
    },
    /// The index is no index, or one of a version that prowess does not know.
    #[error("{url} is not an index of skills that prowess can read: {reason}")]
    Index {
        /// The URL of the index.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The bytes are not those that the index promises.
    #[error(
        "{skill}: {url} does not have the digest of the index: {expected} was promised, {found} was sent"
    )]
    Digest {
        /// The skill.
        skill: String,
        /// The URL.
        url: String,
        /// The digest in the index.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// A skill has no SKILL.md.
    #[error("{0}: has no SKILL.md at its root")]
    NoManifest(String),
    /// The skills have too many bytes.
    #[error("the skills of the site have more than {MAX_SITE_BYTES} bytes; choose some with --skill")]
    TooLarge,
    /// The skills have too many files.
    #[error("the skills of the site need more than {MAX_SITE_DOWNLOADS} downloads; choose some with --skill")]
    TooManyDownloads,
    /// The site has none of the wanted skills.
    #[error("{url} has no skill {name:?}; it has: {known}")]
    NoSuchSkill {
        /// The URL of the index.
        url: String,
        /// The wanted skill.
        name: String,
        /// The skills of the site.
        known: String,
    },
}

/// A skill of a site that was downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSkill {
    /// Its name in the index, which is also its directory in the snapshot.
    pub name: String,
    /// Where it was downloaded from: the artifact, or the SKILL.md of a skill with single files.
    pub url: String,
    /// The digest of the artifact. Without an artifact, the one that `skills` computes over all files.
    pub digest: Digest,
}

/// The skills of a site.
#[derive(Debug)]
pub struct SiteSkills {
    /// One directory for each skill.
    pub snapshot: MemorySnapshot,
    /// The skills in it, as in the index.
    pub skills: Vec<SiteSkill>,
    /// The skills that were left out, and why.
    pub refused: Vec<(String, WellKnownError)>,
}

/// Finds the index of a site. `None` if the site has none.
///
/// A typed path is part of the place of the index: `https://example.com/docs` has it at
/// `/docs/.well-known/agent-skills/index.json`, and the index of the whole site is not used in its stead.
///
/// # Errors
///
/// There is an index, but it cannot be downloaded or read.
pub async fn find_index(
    client: &HttpClient,
    typed: &Url,
    named_by: NamedBy,
) -> Result<Option<SiteIndex>, WellKnownError> {
    for url in index_urls(typed) {
        match client.get(&url, named_by, MAX_INDEX_BYTES).await {
            Ok(download) if index::is_json(&download.bytes) => return index::read(&download).map(Some),
            // Many sites answer every path with a page.
            Ok(_) => {}
            // Sites also hide what they do not have.
            Err(HttpError::Status { status: 400..=499, .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn index_urls(typed: &Url) -> Vec<Url> {
    let mut base = typed.clone();
    base.set_query(None);
    base.set_fragment(None);
    if INDEX_PATHS.iter().any(|path| typed.path().ends_with(path)) {
        return vec![base];
    }
    let directory = typed.path().trim_end_matches('/').to_owned();
    let at = |path: &&str| {
        let mut url = base.clone();
        url.set_path(&format!("{directory}{path}"));
        url
    };
    INDEX_PATHS.iter().map(at).collect()
}

/// Downloads the skills with these names, or all skills of the index if there are no names.
///
/// # Errors
///
/// The site has no skill of a name, or no skill could be used.
pub async fn download(
    client: &HttpClient,
    index: &SiteIndex,
    names: &[String],
    limits: &ArchiveLimits,
) -> Result<SiteSkills, WellKnownError> {
    let known = || index.skills.iter().map(|skill| skill.name.as_str());
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    if let Some(missing) = wanted.iter().find(|name| !known().any(|one| one == **name)) {
        let mut list: Vec<&str> = known().take(20).collect();
        if index.skills.len() > list.len() {
            list.push("…");
        }
        let (url, name) = (shown(&index.url), escaped_start(missing));
        return Err(WellKnownError::NoSuchSkill { url, name, known: list.join(", ") });
    }
    let chosen: Vec<&IndexedSkill> = index
        .skills
        .iter()
        .filter(|skill| wanted.is_empty() || wanted.contains(skill.name.as_str()))
        .collect();
    if chosen.iter().map(|skill| skill.published.downloads()).sum::<usize>() > MAX_SITE_DOWNLOADS {
        return Err(WellKnownError::TooManyDownloads);
    }
    let mut notices = Notices::default();
    index.notices.iter().for_each(|notice| notices.push(notice.clone()));
    let (mut files, mut skills, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = MAX_SITE_BYTES;
    for skill in chosen {
        match one(client, index, skill, limits).await {
            Ok(got) => {
                let bytes = got.files.iter().map(|file| file.bytes.len() as u64).sum();
                left = left.checked_sub(bytes).ok_or(WellKnownError::TooLarge)?;
                got.notices.into_iter().for_each(|notice| notices.push(format!("{}/{notice}", skill.name)));
                files.extend(
                    got.files
                        .into_iter()
                        .map(|file| MemoryFile { path: format!("{}/{}", skill.name, file.path), ..file }),
                );
                skills.push(SiteSkill { name: skill.name.clone(), url: got.url, digest: got.digest });
            }
            Err(error) => {
                notices.push(format!("{}: left out: {}", skill.name, first_line(&error)));
                refused.push((skill.name.clone(), error));
            }
        }
    }
    if skills.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    Ok(SiteSkills { snapshot: MemorySnapshot::new(files, notices.finish()), skills, refused })
}

fn first_line(error: &WellKnownError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A skill that was downloaded and checked.
struct Got {
    files: Vec<MemoryFile>,
    notices: Vec<String>,
    url: String,
    digest: Digest,
}

async fn one(
    client: &HttpClient,
    index: &SiteIndex,
    skill: &IndexedSkill,
    limits: &ArchiveLimits,
) -> Result<Got, WellKnownError> {
    let got = match &skill.published {
        Published::Artifact { url, digest } => {
            let download = client.get(url, index.named_by, limits.download_bytes).await?;
            check_digest(skill, &download, *digest)?;
            let url = url_for_locks(url);
            if ArchiveKind::of(&download.bytes).is_some() {
                let unpacked = unpack_files(&download.bytes, limits)
                    .map_err(|source| WellKnownError::Archive { skill: skill.name.clone(), source })?;
                Got { files: unpacked.files, notices: unpacked.notices, url, digest: *digest }
            } else {
                let file =
                    MemoryFile { path: "SKILL.md".into(), bytes: download.bytes, is_executable: false };
                Got { files: vec![file], notices: Vec::new(), url, digest: *digest }
            }
        }
        Published::Files(paths) => single_files(client, index, skill, paths, limits).await?,
    };
    if got.files.iter().any(|file| file.path == "SKILL.md") {
        return Ok(got);
    }
    Err(WellKnownError::NoManifest(skill.name.clone()))
}

/// Nothing is unpacked before this.
fn check_digest(skill: &IndexedSkill, download: &Download, expected: Digest) -> Result<(), WellKnownError> {
    let found = Digest::of(&download.bytes);
    if found == expected {
        return Ok(());
    }
    let (skill, url) = (skill.name.clone(), shown(&download.url));
    Err(WellKnownError::Digest { skill, url, expected, found })
}

async fn single_files(
    client: &HttpClient,
    index: &SiteIndex,
    skill: &IndexedSkill,
    paths: &[String],
    limits: &ArchiveLimits,
) -> Result<Got, WellKnownError> {
    let archive = |source| WellKnownError::Archive { skill: skill.name.clone(), source };
    if paths.len() > limits.files {
        return Err(archive(ArchiveError::TooManyFiles(limits.files)));
    }
    let mut left = limits.extract_bytes;
    let mut files = Vec::new();
    for path in paths {
        let url = index.file_url(&skill.name, path);
        let download = client.get(&url, index.named_by, limits.download_bytes.min(left)).await?;
        left -= download.bytes.len() as u64;
        files.push(MemoryFile { path: path.clone(), bytes: download.bytes, is_executable: false });
    }
    // In the order of UTF-16 code units, as `skills` does.
    let mut ordered: Vec<&MemoryFile> = files.iter().collect();
    ordered.sort_by(|a, b| a.path.encode_utf16().cmp(b.path.encode_utf16()));
    let mut digester = Digester::default();
    for file in ordered {
        digester.update(file.path.as_bytes());
        digester.update(b"\0");
        digester.update(&file.bytes);
        digester.update(b"\0");
    }
    let url = url_for_locks(&index.file_url(&skill.name, "SKILL.md"));
    Ok(Got { files, notices: Vec::new(), url, digest: digester.digest() })
}

/// The URL without a user and password.
fn url_for_locks(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(typed: &str) -> Vec<String> {
        index_urls(&Url::parse(typed).unwrap()).into_iter().map(String::from).collect()
    }

    #[test]
    fn a_typed_path_is_part_of_the_place_of_the_index() {
        assert_eq!(
            urls("https://example.com"),
            [
                "https://example.com/.well-known/agent-skills/index.json",
                "https://example.com/.well-known/skills/index.json"
            ]
        );
        assert_eq!(
            urls("https://example.com/docs/?x=1#y"),
            [
                "https://example.com/docs/.well-known/agent-skills/index.json",
                "https://example.com/docs/.well-known/skills/index.json"
            ]
        );
        let whole = "https://example.com/a/.well-known/skills/index.json";
        assert_eq!(urls(whole), [whole]);
    }
}
