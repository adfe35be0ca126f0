//! Roots: the places in which prowess looks for skills.

use std::fmt;
#[cfg(feature = "serde")]
use std::path::Path;
use std::path::PathBuf;

/// The kind of a root. Later kinds take precedence over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RootKind {
    /// An MCP server.
    Server,
    /// Shipped with your program.
    BuiltIn,
    /// The user's directory of another client.
    UserCompatibility,
    /// The user's directory of prowess.
    User,
    /// The project's directory of another client.
    ProjectCompatibility,
    /// The project's directory of prowess.
    Project,
    /// Named by an option, by `SKILLS_ROOT` or through the library.
    Explicit,
}

impl RootKind {
    /// The word for this kind in lists and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::BuiltIn => "built-in",
            Self::UserCompatibility | Self::User => "user",
            Self::ProjectCompatibility | Self::Project => "project",
            Self::Explicit => "explicit",
        }
    }

    /// Whether the root belongs to a project, in any client's directory.
    pub fn belongs_to_project(self) -> bool {
        matches!(self, Self::ProjectCompatibility | Self::Project)
    }
}

/// Whether a model may see a root's skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Trust {
    /// A model may see them.
    Trusted,
    /// A model sees only those that are trusted one by one. The others are listed for people, and shadow nothing.
    Untrusted,
}

/// Where the files of a root are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Storage {
    /// On the local disk.
    #[default]
    Local,
    /// In a backend, which only your program can read.
    Backend,
    /// At an MCP server, which only your program can ask.
    Server,
}

/// A place to look for skills.
///
/// ```
/// use prowess_catalog::{Root, RootKind, Trust};
///
/// let mine = Root::new("/home/ada/.prowess/skills", RootKind::User, "User");
/// let cloned = Root::new("/src/repo/.prowess/skills", RootKind::Project, "Project").untrusted();
/// assert_eq!((mine.trust, cloned.trust), (Trust::Trusted, Trust::Untrusted));
/// assert!(cloned.kind > mine.kind, "a project's skill shadows the user's once it is trusted");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Root {
    /// The directory.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_path"))]
    pub path: PathBuf,
    /// Where its files are.
    #[cfg_attr(feature = "serde", serde(rename = "place"))]
    pub storage: Storage,
    /// A directory that must contain the root after links are resolved. So a project's root cannot make a scan walk the
    /// rest of the disk.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub within: Option<PathBuf>,
    /// Its kind.
    pub kind: RootKind,
    /// Its name for people and models, such as `Project` or `Claude`.
    pub label: String,
    /// Whether a model may see its skills.
    pub trust: Trust,
}

impl Root {
    /// A root that the user named. It is trusted, and takes precedence over all others.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        Self::new(path, RootKind::Explicit, "Explicit")
    }

    /// A trusted root of this kind.
    pub fn new(path: impl Into<PathBuf>, kind: RootKind, label: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            storage: Storage::Local,
            within: None,
            kind,
            label: label.into(),
            trust: Trust::Trusted,
        }
    }

    /// The root of an MCP server with this configured label.
    ///
    /// ```
    /// use prowess_catalog::{Storage, Root};
    ///
    /// let root = Root::server("docs");
    /// assert_eq!((root.storage, root.label.as_str()), (Storage::Server, "MCP server docs"));
    /// ```
    pub fn server(label: &str) -> Self {
        let root = Self::new(format!("{label}:"), RootKind::Server, format!("MCP server {label}"));
        Self { storage: Storage::Server, ..root }
    }

    /// The same root, in a backend.
    pub fn in_backend(mut self) -> Self {
        self.storage = Storage::Backend;
        self
    }

    /// Sets whether a model may see its skills.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// The same root, not trusted.
    pub fn untrusted(mut self) -> Self {
        self.trust = Trust::Untrusted;
        self
    }
}

/// Serialises a path as text, with replacement characters if it is not UTF-8.
#[cfg(feature = "serde")]
fn serialize_path<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ({:?}, {:?})", self.label, self.path, self.kind, self.trust)
    }
}
