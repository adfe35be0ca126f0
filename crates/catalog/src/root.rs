//! Roots: the directories in which skills are looked for, and which of them comes first.

use std::fmt;
#[cfg(feature = "serde")]
use std::path::Path;
use std::path::PathBuf;

/// What a root is. Later kinds take precedence over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum RootKind {
    /// An MCP server's.
    Server,
    /// Shipped with the host.
    BuiltIn,
    /// The user's, in another client's directory.
    UserCompatibility,
    /// The user's own.
    User,
    /// The project's, in another client's directory.
    ProjectCompatibility,
    /// The project's own.
    Project,
    /// Named by a flag, by `SKILLS_ROOT` or through the library.
    Explicit,
}

impl RootKind {
    /// The word for it in lists and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::BuiltIn => "built-in",
            Self::UserCompatibility | Self::User => "user",
            Self::ProjectCompatibility | Self::Project => "project",
            Self::Explicit => "explicit",
        }
    }

    /// Whether it is a project's, in whoever's directory.
    pub fn belongs_to_project(self) -> bool {
        matches!(self, Self::ProjectCompatibility | Self::Project)
    }
}

/// Whether a root's skills may be shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Trust {
    /// Yes.
    Trusted,
    /// No, unless they are trusted by themselves: they are listed for people, and shadow nothing.
    Untrusted,
}

/// What a root's path is a path of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Storage {
    /// The local disk.
    #[default]
    Local,
    /// A backend, which only its host can read.
    Backend,
    /// An MCP server, which only its host can ask.
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
pub struct Root {
    /// The directory.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_path"))]
    pub path: PathBuf,
    /// What the directory is in.
    pub place: Storage,
    /// A directory that the root must lie in, whatever links say: a project's own cannot make a scan
    /// walk the rest of the disk.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub within: Option<PathBuf>,
    /// What it is.
    pub kind: RootKind,
    /// Its name for people and models, such as `Project` or `Claude`.
    pub label: String,
    /// Whether a model may see its skills.
    pub trust: Trust,
}

impl Root {
    /// A root that the user named: trusted, above all others.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        Self::new(path, RootKind::Explicit, "Explicit")
    }

    /// A trusted root of some kind.
    pub fn new(path: impl Into<PathBuf>, kind: RootKind, label: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            place: Storage::Local,
            within: None,
            kind,
            label: label.into(),
            trust: Trust::Trusted,
        }
    }

    /// The skills of an MCP server, by our label for it.
    ///
    /// ```
    /// use prowess_catalog::{Storage, Root};
    ///
    /// let root = Root::server("docs");
    /// assert_eq!((root.place, root.label.as_str()), (Storage::Server, "MCP server docs"));
    /// ```
    pub fn server(label: &str) -> Self {
        let root = Self::new(format!("{label}:"), RootKind::Server, format!("MCP server {label}"));
        Self { place: Storage::Server, ..root }
    }

    /// The same root, in a backend.
    pub fn in_backend(mut self) -> Self {
        self.place = Storage::Backend;
        self
    }

    /// The same root, not trusted.
    pub fn untrusted(mut self) -> Self {
        self.trust = Trust::Untrusted;
        self
    }
}

/// Paths that are not UTF-8 are shown as well as they can be.
#[cfg(feature = "serde")]
fn serialize_path<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ({:?}, {:?})", self.label, self.path, self.kind, self.trust)
    }
}
