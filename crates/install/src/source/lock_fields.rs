//! What the lock files say about a source, and a source from what they say.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SourceError;
use super::{GitHost, GitSource, Source, SourceEnvironment, text};

/// The kind of a source, as lock files spell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum SourceType {
    /// A repository on `github.com`, over https.
    GitHub,
    /// A repository on GitLab, over https.
    GitLab,
    /// Another Git repository.
    Git,
    /// A web site with an index of skills.
    WellKnown,
    /// A directory or an archive on this machine.
    Local,
    /// An npm package that another tool installed.
    NodeModules,
    /// An archive or a SKILL.md at a URL.
    Download,
    /// A kind that prowess does not know.
    Other(String),
}

impl SourceType {
    /// The spelling in lock files.
    pub fn as_str(&self) -> &str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Git => "git",
            Self::WellKnown => "well-known",
            Self::Local => "local",
            Self::NodeModules => "node_modules",
            Self::Download => "download",
            Self::Other(text) => text,
        }
    }
}

impl From<String> for SourceType {
    fn from(text: String) -> Self {
        match text.as_str() {
            "github" => Self::GitHub,
            "gitlab" => Self::GitLab,
            "git" => Self::Git,
            "well-known" => Self::WellKnown,
            "local" => Self::Local,
            "node_modules" => Self::NodeModules,
            "download" => Self::Download,
            _ => Self::Other(text),
        }
    }
}

impl From<SourceType> for String {
    fn from(kind: SourceType) -> Self {
        kind.as_str().to_owned()
    }
}

/// What the lock files say about a source. No field has a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFields {
    /// `source`: `owner/repo` for GitHub, the host for a web site, else the URL or path.
    pub source: String,
    /// `sourceUrl`: the whole URL or path. The lock of a project has it only for some kinds: see
    /// [`LockFields::project_url`].
    pub url: String,
    /// `sourceType`.
    pub source_type: SourceType,
    /// `ref`: the branch, tag or commit that was asked for.
    pub reference: Option<String>,
}

impl LockFields {
    /// The `sourceUrl` of a project's lock. `skills` writes it only if `source` is not enough.
    pub fn project_url(&self) -> Option<&str> {
        matches!(self.source_type, SourceType::Git | SourceType::GitLab | SourceType::WellKnown)
            .then_some(self.url.as_str())
    }
}

impl Source {
    /// The kind of this source in lock files.
    pub fn source_type(&self) -> SourceType {
        match self {
            Self::Local(_) => SourceType::Local,
            Self::Download(_) => SourceType::Download,
            Self::WellKnown(_) => SourceType::WellKnown,
            Self::Git(git) if git.url.as_str().starts_with("https://") && git.host == GitHost::GitHub => {
                SourceType::GitHub
            }
            Self::Git(git) if git.url.as_str().starts_with("http") && git.host == GitHost::GitLab => {
                SourceType::GitLab
            }
            Self::Git(_) => SourceType::Git,
        }
    }

    /// The URL or path without passwords. With [`Source::source_type`] it is enough for [`Source::from_lock`].
    pub fn location(&self) -> String {
        match self {
            Self::Local(local) => local.path.to_string_lossy().into_owned(),
            Self::Git(git) => git.url.without_secrets(),
            Self::Download(url) | Self::WellKnown(url) => url.without_secrets(),
        }
    }

    /// What the lock files say about this source.
    ///
    /// ```
    /// use prowess_install::source::{Source, SourceEnvironment, SourceType};
    ///
    /// let source = Source::parse("https://github.com/o/r/tree/main/skills", &SourceEnvironment::default())?;
    /// let fields = source.lock_fields();
    /// assert_eq!((fields.source.as_str(), fields.source_type), ("o/r", SourceType::GitHub));
    /// assert_eq!(fields.reference.as_deref(), Some("main"));
    /// # Ok::<(), prowess_install::source::SourceError>(())
    /// ```
    pub fn lock_fields(&self) -> LockFields {
        let (url, source_type) = (self.location(), self.source_type());
        let short = match (self, &source_type) {
            (Self::Git(git), SourceType::GitHub) => git
                .url
                .parsed()
                .map(|url| url.path().trim_start_matches('/').trim_end_matches(".git").to_owned()),
            (Self::WellKnown(url), _) => {
                url.host().map(|host| host.strip_prefix("www.").unwrap_or(&host).to_owned())
            }
            _ => None,
        };
        let reference = match self {
            Self::Git(git) => git.reference.clone(),
            Self::Local(_) | Self::Download(_) | Self::WellKnown(_) => None,
        };
        LockFields { source: short.unwrap_or_else(|| url.clone()), url, source_type, reference }
    }

    /// The source that a lock names: its kind, its location and the reference that was asked for. A relative local path is
    /// taken from `directory`, which has the lock.
    ///
    /// A lock may come from a stranger, so everything is checked as if a person had typed it.
    ///
    /// # Errors
    ///
    /// The location is no source of this kind, or has something that is refused.
    pub fn from_lock(
        kind: &SourceType,
        location: &str,
        reference: Option<&str>,
        directory: &Path,
    ) -> Result<Self, SourceError> {
        if *kind == SourceType::Local {
            if let Some(c) = location.chars().find(|c| c.is_control()) {
                return Err(SourceError::Unprintable(c));
            }
            if location.is_empty() {
                return Err(SourceError::Empty);
            }
            let path = location.strip_prefix("./").unwrap_or(location);
            return Ok(Self::local(&directory.join(path)));
        }
        // The text of a lock means the same on every machine, so `GH_HOST` does not count.
        let parsed = Self::parse(location, &SourceEnvironment::default())?;
        let unknown = || SourceError::Unknown(parsed.to_string());
        let url = match (&parsed, kind) {
            (Self::Git(git), SourceType::GitHub | SourceType::GitLab | SourceType::Git) => {
                let reference = reference.map(plain_reference).transpose()?;
                let host = if *kind == SourceType::GitLab { GitHost::GitLab } else { git.host };
                return Ok(Self::Git(GitSource { reference, host, ..git.clone() }));
            }
            // A URL without `.git` can be a repository, if the lock says so.
            (Self::WellKnown(url), SourceType::Git | SourceType::GitLab) => {
                let reference = reference.map(plain_reference).transpose()?;
                let host = if *kind == SourceType::GitLab { GitHost::GitLab } else { GitHost::Other };
                return Ok(Self::Git(GitSource {
                    url: url.clone(),
                    reference,
                    subpath: None,
                    skill: None,
                    host,
                }));
            }
            (Self::Download(url) | Self::WellKnown(url), SourceType::Download | SourceType::WellKnown) => {
                url.clone()
            }
            _ => return Err(unknown()),
        };
        Ok(if *kind == SourceType::Download { Self::Download(url) } else { Self::WellKnown(url) })
    }
}

/// A reference that is not percent-encoded.
fn plain_reference(name: &str) -> Result<String, SourceError> {
    text::reference(&name.replace('%', "%25"))
}
