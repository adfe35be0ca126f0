//! Fetches a source, whatever it is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use prowess_base::text::escaped_start;
use reqwest::Url;
use thiserror::Error;

use super::Snapshot;
use super::archive::{ArchiveError, ArchiveKind, ArchiveLimits, unpack};
use super::git::{self, GitError, GitLimits, GitRequest};
use super::http::{HttpClient, HttpError, NamedBy, shown};
use super::local::{LocalError, LocalSnapshot};
use super::memory::{MemoryFile, MemorySnapshot};
use super::token::LazyToken;
use super::well_known::{self, SiteSkill, WellKnownError};
use crate::source::{LocalSource, Source, SourceUrl};

/// How to fetch a source.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Who named the source. [`NamedBy::Stranger`] is for sources from somebody else's list, such as a lock of a project or a
    /// marketplace: they cannot name files of this machine, or private addresses.
    pub named_by: NamedBy,
    /// Whose word the lock of a project is.
    pub locks: LockSources,
    /// Tokens for downloads, by host. Git uses its own credentials.
    pub tokens: HashMap<String, LazyToken>,
    /// How large downloads and archives may be.
    pub archive: ArchiveLimits,
    /// How much of a repository is fetched.
    pub git: GitLimits,
    /// Variables for `git` beside those of this process.
    pub git_environment: Vec<(OsString, OsString)>,
    /// The skills to download from a web site. All, if empty.
    pub skills: Vec<String>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            named_by: NamedBy::Typed,
            locks: LockSources::Checked,
            tokens: HashMap::new(),
            archive: ArchiveLimits::default(),
            git: GitLimits::default(),
            git_environment: Vec::new(),
            skills: Vec::new(),
        }
    }
}

/// Whose word the lock of a project is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockSources {
    /// A stranger's, except for sources that the user named on this machine.
    #[default]
    Checked,
    /// The user's: the lock may name private sources.
    Typed,
}

/// A source that was fetched.
pub struct Fetched {
    /// Its entries and files.
    pub snapshot: Box<dyn Snapshot>,
    /// The skills of a web site with an index. Each has a directory of its name in the snapshot.
    pub site: Option<Site>,
}

/// What the index of a web site said.
#[derive(Debug)]
pub struct Site {
    /// The URL of the index, without a user and password.
    pub index: String,
    /// The skills that were downloaded.
    pub skills: Vec<SiteSkill>,
    /// The skills that were left out, and why.
    pub refused: Vec<(String, WellKnownError)>,
}

impl std::fmt::Debug for Fetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.snapshot.entries().len();
        f.debug_struct("Fetched").field("entries", &entries).field("site", &self.site).finish()
    }
}

/// Why a source was not fetched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A directory cannot be listed.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A download failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A web site's skills cannot be used.
    #[error(transparent)]
    WellKnown(#[from] WellKnownError),
    /// An archive was refused.
    #[error("{place}: {source}")]
    Archive {
        /// The archive.
        place: String,
        /// The reason.
        source: ArchiveError,
    },
    /// A local archive cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    File {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A local archive is too large.
    #[error("{path} has more than {most} bytes (SKILLS_DOWNLOAD_MAX_BYTES)", path = path.display())]
    FileTooLarge {
        /// The archive.
        path: PathBuf,
        /// The most bytes.
        most: u64,
    },
    /// Somebody else than the person named a source on this machine.
    #[error("{0} is on this machine; only you may name such a source")]
    LocalFromStranger(String),
    /// There is a token for the host, but it cannot be looked up.
    #[error("{0}")]
    NoToken(String),
    /// The URL is no URL.
    #[error("{0} is not a URL")]
    NotAUrl(String),
    /// The URL has neither an index nor a skill nor an archive.
    #[error("{0} is neither a SKILL.md nor an archive, and the site has no index of skills there")]
    NothingThere(String),
}

impl FetchError {
    /// Whether the source was refused only because a stranger named it.
    pub fn is_about_a_stranger(&self) -> bool {
        let is_private =
            |error: &HttpError| matches!(error, HttpError::Private { .. } | HttpError::LocalName(_));
        match self {
            Self::LocalFromStranger(_) | Self::Git(GitError::FileFromStranger { .. }) => true,
            Self::Git(GitError::Redirect(error))
            | Self::Http(error)
            | Self::WellKnown(WellKnownError::Http(error)) => is_private(error),
            _ => false,
        }
    }
}

/// Fetches a source. Nothing of it runs, and nothing is written except below a temporary directory.
///
/// # Errors
///
/// The source is refused, cannot be reached, or exceeds a limit.
pub async fn fetch(source: &Source, options: &FetchOptions) -> Result<Fetched, FetchError> {
    match source {
        Source::Local(local) => fetch_local(local, options),
        Source::Git(git) => {
            let request = GitRequest {
                url: git.url.as_str().to_owned(),
                reference: git.reference.clone(),
                named_by: options.named_by,
                environment: options.git_environment.clone(),
                limits: options.git,
            };
            Ok(plain(git::fetch(&request).await?))
        }
        Source::Download(url) => {
            let (client, url) = client(url, options)?;
            fetch_direct(&client, &url, options).await
        }
        Source::WellKnown(url) => {
            let (client, url) = client(url, options)?;
            // A file has no index below it.
            let index = if is_file(&url) {
                None
            } else {
                well_known::find_index(&client, &url, options.named_by).await?
            };
            let Some(index) = index else { return fetch_direct(&client, &url, options).await };
            let found = well_known::download(&client, &index, &options.skills, &options.archive).await?;
            let site = Site { index: shown(&index.url), skills: found.skills, refused: found.refused };
            Ok(Fetched { snapshot: Box::new(found.snapshot), site: Some(site) })
        }
    }
}

fn plain(snapshot: impl Snapshot + 'static) -> Fetched {
    Fetched { snapshot: Box::new(snapshot), site: None }
}

fn fetch_local(local: &LocalSource, options: &FetchOptions) -> Result<Fetched, FetchError> {
    let path = &local.path;
    if options.named_by == NamedBy::Stranger {
        return Err(FetchError::LocalFromStranger(escaped_start(&path.to_string_lossy())));
    }
    // A directory may be called `tide.skill`, and an archive anything.
    if !path.is_file() {
        return Ok(plain(LocalSnapshot::open(path)?));
    }
    let bytes = read_file(path, options.archive.download_bytes)?;
    let unpacked = unpack(&bytes, &options.archive);
    let place = || escaped_start(&path.to_string_lossy());
    Ok(plain(unpacked.map_err(|source| FetchError::Archive { place: place(), source })?))
}

fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, FetchError> {
    let failed = |source| FetchError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(FetchError::FileTooLarge { path: path.to_owned(), most });
    }
    Ok(bytes)
}

fn client(source: &SourceUrl, options: &FetchOptions) -> Result<(HttpClient, Url), FetchError> {
    let url = source.parsed().ok_or_else(|| FetchError::NotAUrl(source.to_string()))?;
    // The client would not send it to a host that a stranger names.
    let is_typed = options.named_by == NamedBy::Typed;
    let token = source.host().filter(|_| is_typed).and_then(|host| options.tokens.get(&host));
    let token = token.map(LazyToken::get).transpose();
    let client = HttpClient::new(&url, token.map_err(|reason| FetchError::NoToken(reason.to_owned()))?)?;
    Ok((client, url))
}

fn is_file(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    [".md", ".zip", ".skill", ".tar", ".tar.gz", ".tgz"].iter().any(|suffix| path.ends_with(suffix))
}

/// Downloads a SKILL.md or an archive.
async fn fetch_direct(client: &HttpClient, url: &Url, options: &FetchOptions) -> Result<Fetched, FetchError> {
    let download = client.get(url, options.named_by, options.archive.download_bytes).await?;
    if ArchiveKind::of(&download.bytes).is_some() {
        let unpacked = unpack(&download.bytes, &options.archive);
        return Ok(plain(unpacked.map_err(|source| FetchError::Archive { place: shown(url), source })?));
    }
    // A page of a web site is no skill. A SKILL.md begins with its frontmatter.
    let text = download.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&download.bytes);
    if !text.starts_with(b"---") {
        return Err(FetchError::NothingThere(shown(url)));
    }
    let file = MemoryFile { path: "SKILL.md".to_owned(), bytes: download.bytes, is_executable: false };
    Ok(plain(MemorySnapshot::new([file], [])))
}
