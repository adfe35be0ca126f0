//! Why a text is not a source.

use thiserror::Error;

/// Why a text is not a source. Parts of the text are shown escaped, and never with a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing was typed.
    #[error("the source is empty: give OWNER/REPO, a URL or a path such as ./skills")]
    Empty,
    /// The text is longer than [`MAX_SOURCE_BYTES`](super::MAX_SOURCE_BYTES).
    #[error("the source has more than {most} bytes", most = super::MAX_SOURCE_BYTES)]
    TooLong,
    /// The text has a control, invisible or direction-changing character.
    #[error("the source has the invisible or control character U+{:04X}", u32::from(*.0))]
    Unprintable(char),
    /// The text, or a part of it that Git sees, begins with `-`, so that a program could take it for an option.
    #[error("{0:?} begins with `-`, like an option")]
    LooksLikeOption(String),
    /// The form `<transport>::…`, with which Git runs a program that the URL names.
    #[error("{0:?} makes Git run a helper program: use https, ssh, git or file")]
    Transport(String),
    /// The URL has a scheme that prowess does not fetch.
    #[error("the scheme {0:?} is not supported: use https, http, ssh, git or file")]
    Scheme(String),
    /// The text looks like a URL and is none.
    #[error("{url:?} is not a usable URL: {reason}")]
    Url {
        /// The URL without a password.
        url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The path inside of the source could lead out of it.
    #[error("the path {0:?} in the source is not relative and plain: remove `..` and backslashes")]
    Subpath(String),
    /// Git could not take this as the name of a branch, tag or commit.
    #[error("{0:?} cannot be the name of a branch, tag or commit")]
    Reference(String),
    /// No skill can have this name.
    #[error("{0:?} cannot be the name of a skill")]
    SkillName(String),
    /// A page of a Git host that is neither a repository nor a directory in one.
    #[error("{0:?} names no repository: use OWNER/REPO or …/tree/REF/PATH")]
    NotARepository(String),
    /// An npm package.
    #[error("npm packages are not supported ({0:?}): give the package's Git repository or a directory")]
    Npm(String),
    /// A page of Notion.
    #[error("Notion pages are not supported: export the skill as a directory or a .zip file")]
    Notion,
    /// No form of a source fits.
    #[error("{0:?} is no source: use ./{0} for a directory, OWNER/REPO for GitHub, or a URL")]
    Unknown(String),
}
