//! Parses what a person typed into a source of skills.
//!
//! The syntax is that of `skills` 1.7.4, plus `.skill` files. Parsing is pure: it looks at no file and no host. It refuses
//! everything that could make Git run a program or take a name for an option.

mod error;
mod hosted;
mod lock_fields;
mod parse;
mod text;
mod url;

use std::fmt;
use std::path::{Path, PathBuf};

pub use error::SourceError;
pub use lock_fields::{LockFields, SourceType};
pub use url::SourceUrl;

/// The most bytes of a source that a person types.
pub const MAX_SOURCE_BYTES: usize = 4096;

/// The host of GitHub, unless `GH_HOST` names another.
const GITHUB: &str = "github.com";

/// The part of the environment that changes what a source means.
///
/// ```
/// use prowess_install::source::SourceEnvironment;
///
/// assert_eq!(SourceEnvironment::new(Some("git.example.com")).github_host(), "git.example.com");
/// assert_eq!(SourceEnvironment::new(Some("not/a/host")).github_host(), "github.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEnvironment {
    github_host: String,
}

impl SourceEnvironment {
    /// An environment with this value of `GH_HOST`. A value that is not a plain host name is ignored.
    pub fn new(gh_host: Option<&str>) -> Self {
        let host = gh_host.map(|host| host.trim().to_ascii_lowercase()).filter(|host| url::is_host(host));
        Self { github_host: host.unwrap_or_else(|| GITHUB.to_owned()) }
    }

    /// The host of `OWNER/REPO`.
    pub fn github_host(&self) -> &str {
        &self.github_host
    }
}

impl Default for SourceEnvironment {
    fn default() -> Self {
        Self::new(None)
    }
}

/// Where skills come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A directory or an archive on this machine.
    Local(LocalSource),
    /// A Git repository.
    Git(GitSource),
    /// An archive or a SKILL.md at a URL.
    Download(SourceUrl),
    /// A web site: look for `/.well-known/agent-skills/index.json` first, then download the URL itself.
    WellKnown(SourceUrl),
}

/// A directory or an archive on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalSource {
    /// The path, as typed.
    pub path: PathBuf,
    /// What the name of the path promises. A directory may be called `tide.skill`, so look before you open it.
    pub kind: LocalKind,
}

/// What the name of a local path promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// A directory.
    Directory,
    /// A `.skill`, `.zip`, `.tar`, `.tar.gz` or `.tgz` file.
    Archive,
}

/// A Git repository, and which part of it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GitSource {
    /// The repository: https, http, ssh, git or file, or `user@host:path`.
    pub url: SourceUrl,
    /// The branch, tag or commit that was asked for. `None` is the default branch.
    pub reference: Option<String>,
    /// The directory in which skills are looked for. `None` is the root.
    pub subpath: Option<String>,
    /// The only skill that is wanted, from `@SKILL`.
    pub skill: Option<String>,
    /// Who hosts it.
    pub host: GitHost,
}

/// Who hosts a Git repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GitHost {
    /// `github.com`. A GitHub Enterprise host is [`GitHost::Other`], as for `skills`.
    GitHub,
    /// `gitlab.com`, or a host with GitLab's URLs.
    GitLab,
    /// Azure DevOps.
    Azure,
    /// Any other host, or this machine.
    Other,
}

impl GitHost {
    /// `github`, `gitlab`, `azure` or `other`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Azure => "azure",
            Self::Other => "other",
        }
    }
}

impl Source {
    /// Parses what a person typed.
    ///
    /// ```
    /// use prowess_install::source::{Source, SourceEnvironment};
    ///
    /// let environment = SourceEnvironment::default();
    /// let source = Source::parse("vercel-labs/agent-skills#main@pdf", &environment)?;
    /// let Source::Git(git) = &source else { panic!("a Git repository") };
    /// assert_eq!(git.url.as_str(), "https://github.com/vercel-labs/agent-skills.git");
    /// assert_eq!(git.reference.as_deref(), Some("main"));
    /// assert_eq!(git.skill.as_deref(), Some("pdf"));
    /// assert!(Source::parse("ext::sh -c id", &environment).is_err());
    /// # Ok::<(), prowess_install::source::SourceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No form fits, or the text has something that is refused.
    pub fn parse(text: &str, environment: &SourceEnvironment) -> Result<Self, SourceError> {
        parse::parse(text, environment)
    }

    /// The only skill that is wanted, from `@SKILL`.
    pub fn skill(&self) -> Option<&str> {
        match self {
            Self::Git(git) => git.skill.as_deref(),
            Self::Local(_) | Self::Download(_) | Self::WellKnown(_) => None,
        }
    }

    /// The directory in which skills are looked for. `None` is the root.
    pub fn subpath(&self) -> Option<&str> {
        match self {
            Self::Git(git) => git.subpath.as_deref(),
            Self::Local(_) | Self::Download(_) | Self::WellKnown(_) => None,
        }
    }

    /// A local source at this path.
    pub fn local(path: &Path) -> Self {
        let is_archive = text::is_archive(&path.to_string_lossy());
        let kind = if is_archive { LocalKind::Archive } else { LocalKind::Directory };
        Self::Local(LocalSource { path: path.to_owned(), kind })
    }
}

impl fmt::Display for Source {
    /// The source for a message, without passwords and on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(local) => {
                f.write_str(&prowess_base::text::escape_unprintable(&local.path.to_string_lossy()))
            }
            Self::Git(git) => git.fmt(f),
            Self::Download(url) | Self::WellKnown(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for GitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)?;
        if let Some(reference) = &self.reference {
            write!(f, " at {reference}")?;
        }
        if let Some(subpath) = &self.subpath {
            write!(f, " in {subpath}/")?;
        }
        match &self.skill {
            Some(skill) => write!(f, ", only {skill}"),
            None => Ok(()),
        }
    }
}
