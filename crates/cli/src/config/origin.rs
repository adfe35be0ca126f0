//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// The user's file, at a line.
    User(PathBuf, usize),
    /// The project's file, at a line.
    Project(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// An option of the command.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path, line) | Self::Project(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A path of keys as one writes it in a file.
pub(crate) fn key(path: &[String]) -> String {
    let bare = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let parts = path.iter().map(|part| if bare(part) { part.clone() } else { format!("{part:?}") });
    parts.collect::<Vec<_>>().join(".")
}
