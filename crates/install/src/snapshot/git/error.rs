//! Why a repository was not fetched.

use std::io;

use thiserror::Error;

use super::url::Wanted;
use crate::snapshot::http::HttpError;

/// Why a repository was not fetched. No message has a password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GitError {
    /// The URL could make Git run a program, or is none.
    #[error("{url:?} is refused as a Git URL: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// The reference is no name of a branch or tag, and no commit id.
    #[error("{0:?} is not a branch, a tag or a commit id with 40 digits")]
    Reference(String),
    /// Somebody else than the person named a repository on this machine.
    #[error("{url} is on this machine; only you may name such a source")]
    FileFromStranger {
        /// The URL.
        url: String,
    },
    /// Git is not installed.
    #[error("`git` is not installed, or not in PATH; install it to add skills from repositories")]
    NotInstalled,
    /// Git cannot be started, or its temporary directory cannot be used.
    #[error("cannot run git {command}: {source}")]
    Io {
        /// The Git command.
        command: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// Git failed.
    #[error("git {command} failed for {url}: {reason}")]
    Failed {
        /// The Git command.
        command: &'static str,
        /// The repository.
        url: String,
        /// What Git says.
        reason: String,
    },
    /// The repository does not exist, or the person may not read it.
    #[error("cannot read {url}: check its name and your Git credentials; git says: {reason}")]
    Denied {
        /// The repository.
        url: String,
        /// What Git says.
        reason: String,
    },
    /// The repository has no such branch or tag.
    #[error("{url} has no branch or tag {reference:?}; a commit needs all 40 digits of its id")]
    NoSuchReference {
        /// The repository.
        url: String,
        /// The name.
        reference: String,
    },
    /// The repository has no commit.
    #[error("{url} has no default branch; name a branch with #BRANCH")]
    NoDefaultBranch {
        /// The repository.
        url: String,
    },
    /// The server does not have the commit, or gives out no commits by id.
    #[error("{url} does not give out commit {commit}; name a branch or tag that has it")]
    CommitRefused {
        /// The repository.
        url: String,
        /// The commit id.
        commit: String,
    },
    /// The reference is a tag of something else than a commit.
    #[error("the reference does not name a commit; name a branch or another tag")]
    NotACommit,
    /// Fetching takes too long.
    #[error("git {command} takes longer than {seconds} seconds for {url} (SKILLS_CLONE_TIMEOUT_MS)")]
    TimedOut {
        /// The Git command.
        command: &'static str,
        /// The repository.
        url: String,
        /// The limit.
        seconds: u64,
    },
    /// The repository is too large.
    #[error("{url} has more than {most} compressed bytes; too large for a source of skills")]
    TooLarge {
        /// The repository.
        url: String,
        /// The limit.
        most: u64,
    },
    /// The commit has too many files.
    #[error("the commit has more than {most} files and directories; too many for a source of skills")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// Git printed something unexpected.
    #[error("git {command} printed something unexpected; is your git older than 2.29?")]
    Garbled {
        /// The Git command.
        command: &'static str,
    },
    /// The server redirects somewhere else.
    #[error(transparent)]
    Redirect(HttpError),
}

impl GitError {
    /// Finds out from Git's own words why it could not fetch.
    pub(super) fn explain(self, wanted: &Wanted) -> Self {
        let Self::Failed { command, url, reason } = self else { return self };
        let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        if says(&["couldn't find remote ref"]) {
            return match wanted {
                Wanted::Default => Self::NoDefaultBranch { url },
                Wanted::Name(name) => Self::NoSuchReference { url, reference: name.clone() },
                Wanted::Commit(commit) => Self::CommitRefused { url, commit: commit.clone() },
            };
        }
        if let Wanted::Commit(commit) = wanted
            && says(&["not our ref", "unadvertised object", "no such remote ref"])
        {
            return Self::CommitRefused { url, commit: commit.clone() };
        }
        if says(&[
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "terminal prompts disabled",
            "Permission denied",
            "Host key verification failed",
            "not found",
            "does not appear to be a git repository",
            "Could not read from remote repository",
        ]) {
            return Self::Denied { url, reason };
        }
        Self::Failed { command, url, reason }
    }
}
