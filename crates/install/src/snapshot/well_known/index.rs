//! Reads the index of a site: version 0.2.0, and the older 0.1.0.

use std::collections::BTreeSet;

use prowess_base::text::{cut, escaped_start};
use prowess_catalog::Digest;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::WellKnownError;
use crate::snapshot::check_path;
use crate::snapshot::entries::Notices;
use crate::snapshot::http::{Download, NamedBy, shown};

/// The most bytes of an index.
pub const MAX_INDEX_BYTES: u64 = 4 * 1024 * 1024;
/// The most skills of an index.
pub const MAX_SKILLS: usize = 2_000;
/// The most characters of a description.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The most characters of a name.
const MAX_NAME_CHARS: usize = 64;
/// The schema of version 0.2.0. Version 0.1.0 names none.
pub(crate) const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";

/// The index of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteIndex {
    /// Where it is, after redirects.
    pub url: Url,
    /// Who names the URLs in it: a stranger, if a redirect led to another host.
    pub named_by: NamedBy,
    /// Its skills.
    pub skills: Vec<IndexedSkill>,
    /// The entries that cannot be used, and why.
    pub notices: Vec<String>,
}

/// A skill in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedSkill {
    /// Its name. It can be the name of a directory.
    pub name: String,
    /// What it is for, in the site's words.
    pub description: String,
    /// How it is published.
    pub published: Published,
}

/// How a skill is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// As one file: a SKILL.md or an archive.
    Artifact {
        /// Where it is.
        url: Url,
        /// The digest of its bytes.
        digest: Digest,
    },
    /// As single files without digests, below the directory of the index (version 0.1.0).
    Files(Vec<String>),
}

impl Published {
    /// How many files are downloaded for it.
    pub(super) fn downloads(&self) -> usize {
        match self {
            Self::Artifact { .. } => 1,
            Self::Files(paths) => paths.len(),
        }
    }
}

impl SiteIndex {
    /// Where a file of a skill is in version 0.1.0.
    pub(super) fn file_url(&self, skill: &str, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        if let Ok(mut segments) = url.path_segments_mut() {
            // Each name is escaped, so that no path can lead elsewhere.
            segments.pop().push(skill).extend(path.split('/'));
        }
        url
    }
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(rename = "$schema")]
    schema: Option<String>,
    skills: Vec<Value>,
}

#[derive(Deserialize)]
struct RawSkill {
    name: String,
    #[serde(default)]
    description: String,
    url: Option<String>,
    digest: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    files: Option<Vec<String>>,
}

/// Whether the bytes are an object in JSON, or mean to be one.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start().starts_with(b"{")
}

pub(super) fn read(download: &Download) -> Result<SiteIndex, WellKnownError> {
    let refused = |reason: String| WellKnownError::Index { url: shown(&download.url), reason };
    let bytes = download.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&download.bytes);
    let raw: RawIndex = serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))?;
    if let Some(schema) = raw.schema.filter(|schema| schema != SCHEMA) {
        return Err(refused(format!("it has the schema {:?}", escaped_start(&schema))));
    }
    if raw.skills.len() > MAX_SKILLS {
        return Err(refused(format!("it has more than {MAX_SKILLS} skills")));
    }
    let (mut skills, mut notices) = (Vec::new(), Notices::default());
    let mut names = BTreeSet::new();
    for (number, raw) in raw.skills.into_iter().enumerate() {
        let skill = serde_json::from_value::<RawSkill>(raw).map_err(|error| error.to_string());
        match skill.and_then(|skill| indexed(&download.url, skill)) {
            Ok(skill) if names.insert(skill.name.to_ascii_lowercase()) => skills.push(skill),
            Ok(skill) => notices.push(format!("{}: left out: the index has it twice", skill.name)),
            Err(reason) => {
                let reason = escaped_start(&reason);
                notices.push(format!("entry {} of the index: left out: {reason}", number + 1));
            }
        }
    }
    let (url, named_by) = (download.url.clone(), download.named_by);
    Ok(SiteIndex { url, named_by, skills, notices: notices.finish() })
}

/// Whether an index can have a skill with this name. The name becomes the name of a directory.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_NAME_CHARS
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with('.')
}

fn indexed(index: &Url, raw: RawSkill) -> Result<IndexedSkill, String> {
    let RawSkill { name, description, url, digest, kind, files } = raw;
    if !is_name(&name) {
        return Err(format!("{name:?} cannot be the name of a skill"));
    }
    let published = match (url, files) {
        (Some(url), _) => {
            if !matches!(kind.as_deref(), Some("skill-md" | "archive")) {
                return Err(format!("{name} has the unknown type {:?}", kind.unwrap_or_default()));
            }
            let url = index.join(&url).map_err(|error| format!("{name}: its URL is invalid: {error}"))?;
            if !matches!(url.scheme(), "http" | "https") {
                return Err(format!("{name}: its URL has the scheme {}", url.scheme()));
            }
            if index.scheme() == "https" && url.scheme() == "http" {
                return Err(format!("{name}: its URL leads from https to plain http"));
            }
            let digest = digest.ok_or_else(|| format!("{name} has no digest"))?.to_ascii_lowercase();
            let digest = digest.parse().map_err(|error| format!("{name}: {error}"))?;
            Published::Artifact { url, digest }
        }
        (None, Some(files)) => {
            for file in &files {
                check_path(file).map_err(|error| format!("{name}: {file:?}: {error}"))?;
            }
            Published::Files(files.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
        }
        (None, None) => return Err(format!("{name} has neither a URL nor files")),
    };
    let description = cut(&description, MAX_DESCRIPTION_CHARS).into_owned();
    Ok(IndexedSkill { name, description, published })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &str) -> Result<SiteIndex, WellKnownError> {
        let url = Url::parse("https://example.com/a/.well-known/agent-skills/index.json").unwrap();
        read(&Download { url, named_by: NamedBy::Typed, bytes: text.as_bytes().to_vec() })
    }

    #[test]
    fn both_versions_are_read() {
        let digest = Digest::of(b"x");
        let found = index(&format!(
            r#"{{"$schema":"{SCHEMA}","skills":[
                {{"name":"tide","type":"archive","description":"d","url":"tide.zip","digest":"{digest}"}},
                {{"name":"moon","type":"skill-md","description":"d","url":"/m/SKILL.md","digest":"{digest}"}}]}}"#
        ))
        .unwrap();
        let urls: Vec<&str> = found
            .skills
            .iter()
            .map(|skill| match &skill.published {
                Published::Artifact { url, .. } => url.as_str(),
                Published::Files(_) => "",
            })
            .collect();
        assert_eq!(
            urls,
            ["https://example.com/a/.well-known/agent-skills/tide.zip", "https://example.com/m/SKILL.md"]
        );
        let found =
            index(r#"{"skills":[{"name":"tide","description":"d","files":["SKILL.md","a b/c?.md"]}]}"#)
                .unwrap();
        assert_eq!(
            found.file_url("tide", "a b/c?.md").as_str(),
            "https://example.com/a/.well-known/agent-skills/tide/a%20b/c%3F.md"
        );
    }

    #[test]
    fn entries_that_could_lead_elsewhere_are_left_out() {
        let digest = Digest::of(b"x");
        for (entry, reason) in [
            (
                format!(r#"{{"name":"a","type":"archive","url":"file:///etc/passwd","digest":"{digest}"}}"#),
                "scheme file",
            ),
            (
                format!(r#"{{"name":"a","type":"archive","url":"http://x.org/a","digest":"{digest}"}}"#),
                "plain http",
            ),
            (format!(r#"{{"name":"a","type":"exe","url":"a","digest":"{digest}"}}"#), "unknown type"),
            (
                format!(r#"{{"name":"../a","type":"archive","url":"a","digest":"{digest}"}}"#),
                "name of a skill",
            ),
            (
                format!(r#"{{"name":".git","type":"archive","url":"a","digest":"{digest}"}}"#),
                "name of a skill",
            ),
            (r#"{"name":"a","type":"archive","url":"a"}"#.to_owned(), "no digest"),
            (r#"{"name":"a","type":"archive","url":"a","digest":"md5:00"}"#.to_owned(), "sha256"),
            (r#"{"name":"a","files":["../x"]}"#.to_owned(), "`..`"),
            (r#"{"name":"a"}"#.to_owned(), "neither"),
            ("7".to_owned(), "invalid type"),
        ] {
            let found = index(&format!(r#"{{"skills":[{entry}]}}"#)).unwrap();
            assert!(found.skills.is_empty(), "{entry}");
            assert!(found.notices[0].contains(reason), "{:?} for {entry}", found.notices);
        }
        let twice = r#"{"skills":[{"name":"a","files":["SKILL.md"]},{"name":"A","files":["SKILL.md"]}]}"#;
        assert_eq!(index(twice).unwrap().skills.len(), 1);
    }

    #[test]
    fn an_index_that_is_none_is_refused() {
        let many = format!(r#"{{"skills":[{}]}}"#, vec!["1"; MAX_SKILLS + 1].join(","));
        for text in ["{}", "{", r#"{"$schema":"https://x/0.9.0","skills":[]}"#, many.as_str()] {
            assert!(matches!(index(text), Err(WellKnownError::Index { .. })));
        }
    }
}
