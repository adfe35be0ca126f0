//! Why skills were not published.

use std::io;
use std::path::{Path, PathBuf};

use prowess_base::text::escaped_start;
use prowess_catalog::Diagnostic;
use prowess_catalog::check::CheckReport;
use prowess_catalog::package::PackageError;
use thiserror::Error;

use crate::snapshot::archive::ArchiveError;
use crate::snapshot::well_known::{MAX_SITE_BYTES, MAX_SKILLS};

/// Why skills were not published.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// There is no skill.
    #[error("{} has no skill: name a skill, or a directory that contains skills", shown(.0))]
    NoSkill(PathBuf),
    /// Skills do not follow the rules.
    #[error("invalid: {}; `prowess check` says why", names(.0))]
    Invalid(Vec<CheckReport>),
    /// Some directories were not searched.
    #[error("some directories were not searched: {0}; publish their parts separately")]
    Skipped(Box<Diagnostic>),
    /// There are too many skills for one index.
    #[error("there are {0} skills, but an index can have {MAX_SKILLS} at most")]
    TooManySkills(usize),
    /// An index cannot have this name.
    #[error("{:?} cannot be in an index: use ASCII letters, digits and `-`", escaped_start(.0))]
    Name(String),
    /// Two skills have the same name.
    #[error("two skills are called {name}: {} and {}", shown(.first), shown(.second))]
    Twice {
        /// The name.
        name: String,
        /// The directory of the first.
        first: PathBuf,
        /// The directory of the second.
        second: PathBuf,
    },
    /// The site is in a skill. Each publication would then contain the one before.
    #[error("the site is in the skill {}; choose a directory outside of it", shown(.0))]
    SiteInSkill(PathBuf),
    /// A skill cannot be packed.
    #[error("{}: {source}", shown(.directory))]
    Package {
        /// The directory of the skill.
        directory: PathBuf,
        /// The reason.
        source: PackageError,
    },
    /// `prowess add` would refuse the archive of a skill.
    #[error("{}: nobody could install it: {source}", shown(.directory))]
    Refused {
        /// The directory of the skill.
        directory: PathBuf,
        /// The reason.
        source: ArchiveError,
    },
    /// A skill has too many bytes.
    #[error("{} has more than {MAX_SITE_BYTES} bytes; remove files that agents do not need", shown(.0))]
    TooLarge(PathBuf),
    /// A skill was changed while it was published.
    #[error("{} was changed while it was published; try again", shown(.0))]
    Changed(PathBuf),
    /// The index cannot be written.
    #[error("cannot make the index: {0}; publish fewer skills")]
    Index(String),
    /// Another process publishes to the same site.
    #[error("another process publishes to {}; try again when it is done", shown(.0))]
    Busy(PathBuf),
    /// A directory of the site is a link or a file.
    #[error("{} is a link or a file; a site has its own directory there", shown(.0))]
    NotADirectory(PathBuf),
    /// The disk failed.
    #[error("cannot {action} {}: {source}", shown(.path))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl PublishError {
    pub(super) fn io(action: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: error.into() }
    }
}

fn shown(path: &Path) -> String {
    escaped_start(&path.to_string_lossy())
}

/// The names of the first skills of a list.
fn names(reports: &[CheckReport]) -> String {
    const MOST: usize = 10;
    let mut names: Vec<String> = reports.iter().take(MOST).map(|report| escaped_start(&report.id)).collect();
    let more = reports.len().saturating_sub(MOST);
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}
