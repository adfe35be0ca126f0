//! Fetches a Git repository with the installed `git`, and never checks anything out.
//!
//! `git fetch` puts the objects of one commit into a new bare repository in a temporary directory. `git ls-tree` lists them
//! and `git cat-file` reads them. Without a working tree, nothing of the repository can act: no hook, filter, submodule, LFS
//! file or link. The person's own Git configuration counts: proxies, credentials, SSH commands and URL rewrites.

mod command;
mod error;
mod listing;
mod objects;
mod redirects;
mod url;

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

pub use error::GitError;
pub use url::{MAX_REFERENCE_BYTES, Transport, check_reference, transport};

use super::entries::Collected;
use super::http::{self, NamedBy};
use super::{Entry, MAX_ENTRIES, MAX_FILE_BYTES, Snapshot, SnapshotError};
use command::{Git, Scratch};
use listing::ObjectId;
use objects::Objects;

/// How long fetching a repository may take.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(300);
/// The most bytes that fetching a repository may write, which are the compressed files of one commit.
pub const MAX_FETCH_BYTES: u64 = 1024 * 1024 * 1024;
/// The most bytes of the list of entries.
pub const MAX_LISTING_BYTES: usize = 64 * 1024 * 1024;
/// The ref that the fetched commit gets.
const FETCHED: &str = "refs/prowess/fetched";
/// The most bytes of a `.gitattributes` file that is looked at.
const MAX_ATTRIBUTES_BYTES: u64 = 64 * 1024;

/// How much of a repository is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GitLimits {
    /// How long it may take.
    pub timeout: Duration,
    /// The most bytes that Git may write to the disk.
    pub fetch_bytes: u64,
    /// The most entries, directories included.
    pub entries: usize,
    /// The most bytes of one file.
    pub file_bytes: u64,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self {
            timeout: FETCH_TIMEOUT,
            fetch_bytes: MAX_FETCH_BYTES,
            entries: MAX_ENTRIES,
            file_bytes: MAX_FILE_BYTES,
        }
    }
}

/// Which repository to fetch, and how.
#[derive(Clone, Debug)]
pub struct GitRequest {
    /// The repository: an `https`, `http`, `ssh`, `git` or `file` URL, `user@host:path`, or an absolute path.
    pub url: String,
    /// A branch, a tag or a commit id with 40 digits. `None` is the default branch.
    pub reference: Option<String>,
    /// Who named the repository. Only a person may name one on this machine.
    pub named_by: NamedBy,
    /// Variables for `git` beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// How much is fetched.
    pub limits: GitLimits,
}

impl GitRequest {
    /// A request for the default branch of a repository that a person typed.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            reference: None,
            named_by: NamedBy::Typed,
            environment: Vec::new(),
            limits: GitLimits::default(),
        }
    }
}

/// One commit of a Git repository.
#[derive(Debug)]
pub struct GitSnapshot {
    // Ends before the directory of the repository is removed.
    objects: Objects,
    collected: Collected<Option<ObjectId>>,
    trees: HashMap<String, ObjectId>,
    commit: String,
    file_bytes: u64,
    _scratch: Scratch,
}

/// Fetches one commit of a repository.
///
/// # Errors
///
/// The URL or the reference is refused, `git` fails, or the repository exceeds a limit.
pub async fn fetch(request: &GitRequest) -> Result<GitSnapshot, GitError> {
    let limits = &request.limits;
    let typed = transport(&request.url)?;
    if typed == Transport::File && request.named_by == NamedBy::Stranger {
        return Err(GitError::FileFromStranger { url: url::shown(&request.url) });
    }
    if let (NamedBy::Stranger, Some(host)) = (request.named_by, url::host(&request.url)) {
        http::check_public(host).await.map_err(GitError::Redirect)?;
    }
    let wanted = url::Wanted::parse(request.reference.as_deref())?;
    let scratch = Scratch::new()?;
    let mut git = Git::new(&scratch, &request.url, &request.environment, limits);
    git.allow(typed);
    git.run("init", &["init", "--bare", "--quiet", "--template=", "--object-format=sha1"], 0).await?;

    // The person's configuration may rewrite the URL, even to a directory.
    let rewritten = git.run("ls-remote", &["ls-remote", "--get-url", "--", &request.url], 8 * 1024).await?;
    let rewritten = String::from_utf8(rewritten).map_err(|_| GitError::Garbled { command: "ls-remote" })?;
    let rewritten = rewritten.trim_end_matches('\n');
    let used = transport(rewritten)?;
    git.allow(used);
    let moved = match used {
        Transport::Http => redirects::resolve(rewritten).await?,
        Transport::Ssh => {
            git.ask_nothing_over_ssh().await;
            None
        }
        Transport::Git | Transport::File => None,
    };
    let from = moved.as_deref().unwrap_or(&request.url);
    let refspec = format!("+{}:{FETCHED}", wanted.as_str());
    let fetch = [
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--no-prune",
        "--",
        from,
        &refspec,
    ];
    git.run("fetch", &fetch, 0).await.map_err(|error| error.explain(&wanted))?;
    let (commit, tree) = resolve(&git).await?;
    let list = ["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", tree.as_str()];
    let listed = git.run("ls-tree", &list, MAX_LISTING_BYTES).await?;
    let listing::Listing { collected, mut trees } = listing::parse(&listed, limits.entries)?;
    if let Some(root) = ObjectId::parse(tree.as_bytes()) {
        trees.insert(String::new(), root);
    }
    let objects = Objects::start(&git)?;
    let mut snapshot =
        GitSnapshot { objects, collected, trees, commit, file_bytes: limits.file_bytes, _scratch: scratch };
    snapshot.notice_lfs();
    Ok(snapshot)
}

/// The ids of the fetched commit and of its tree.
async fn resolve(git: &Git<'_>) -> Result<(String, String), GitError> {
    let (commit, tree) = (format!("{FETCHED}^{{commit}}"), format!("{FETCHED}^{{tree}}"));
    let ids = git.run("rev-parse", &["rev-parse", &commit, &tree], 1024).await;
    let ids = ids.map_err(|error| match error {
        GitError::Failed { .. } => GitError::NotACommit,
        error => error,
    })?;
    let text = String::from_utf8_lossy(&ids);
    let mut ids = text.lines().filter(|id| ObjectId::parse(id.as_bytes()).is_some());
    match (ids.next(), ids.next()) {
        (Some(commit), Some(tree)) => Ok((commit.to_owned(), tree.to_owned())),
        _ => Err(GitError::Garbled { command: "rev-parse" }),
    }
}

impl GitSnapshot {
    /// Says that files are kept in LFS: a person would otherwise wonder about their contents.
    fn notice_lfs(&mut self) {
        let is_small = |size: u64| size <= MAX_ATTRIBUTES_BYTES;
        if !self.collected.file(".gitattributes").is_some_and(|(size, _, _)| is_small(size)) {
            return;
        }
        let Ok(bytes) = self.read(".gitattributes") else { return };
        if String::from_utf8_lossy(&bytes).contains("filter=lfs") {
            let text = "the repository keeps files in Git LFS; prowess gets their pointers only";
            self.collected.notices.push(text.to_owned());
        }
    }
}

impl Snapshot for GitSnapshot {
    fn entries(&self) -> &[Entry] {
        &self.collected.entries
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        let Some((size, _, Some(id))) = self.collected.file(path) else {
            return Err(SnapshotError::NotAFile { path: path.to_owned() });
        };
        if size > self.file_bytes {
            return Err(SnapshotError::TooLarge { path: path.to_owned(), size, most: self.file_bytes });
        }
        let read = self.objects.read(id, size);
        read.map_err(|source| SnapshotError::Io { path: path.to_owned(), source })
    }

    fn commit(&self) -> Option<&str> {
        Some(&self.commit)
    }

    fn folder_sha1(&self, path: &str) -> Option<String> {
        self.trees.get(path).map(ToString::to_string)
    }

    fn notices(&self) -> &[String] {
        &self.collected.notices
    }
}
