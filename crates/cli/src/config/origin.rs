//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// A line of the user's file.
    User(PathBuf, usize),
    /// A line of the project's file.
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

/// A path of keys as it is written in a file: `provider.local.api`.
pub(crate) fn key<S: AsRef<str>>(path: &[S]) -> String {
    let bare = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let parts = path.iter().map(AsRef::as_ref);
    let parts = parts.map(|part| if bare(part) { part.to_owned() } else { format!("{part:?}") });
    parts.collect::<Vec<_>>().join(".")
}
