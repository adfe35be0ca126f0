//! What a search for skills left out.

use std::fmt;

use prowess_base::text::escaped_start;

/// Something that a search for skills left out, and why. Its text is printable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Another skill that was found first has the same directory name.
    Duplicate {
        /// The directory name.
        name: String,
        /// The SKILL.md that is used.
        first: String,
        /// The SKILL.md that is left out.
        path: String,
    },
    /// The skill is marked as internal.
    Internal {
        /// Its SKILL.md.
        path: String,
    },
    /// The source installed this skill from elsewhere, as its own lock says.
    Foreign {
        /// Its SKILL.md.
        path: String,
    },
    /// A SKILL.md or a plugin manifest cannot be used.
    Unusable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A SKILL.md is a link or a device. Links are not followed.
    NotAFile {
        /// Its path.
        path: String,
    },
    /// A file is larger than prowess reads.
    TooLarge {
        /// The file.
        path: String,
    },
    /// The directory of a skill has more files than a skill may have.
    TooManyFiles {
        /// Its SKILL.md.
        path: String,
        /// The most files of a skill.
        most: usize,
    },
    /// The source has more skills than prowess looks at.
    TooMany {
        /// How many are looked at.
        most: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name, first, path } => {
                write!(
                    f,
                    "{} is left out: {} is also called {name}",
                    escaped_start(path),
                    escaped_start(first)
                )
            }
            Self::Internal { path } => {
                write!(f, "{} is left out: it is internal; name it with --skill", escaped_start(path))
            }
            Self::Foreign { path } => {
                write!(f, "{} is left out: the source got it from elsewhere", escaped_start(path))
            }
            Self::Unusable { path, reason } => {
                write!(f, "{} is left out: {}", escaped_start(path), escaped_start(reason))
            }
            Self::NotAFile { path } => {
                write!(f, "{} is left out: it is not a regular file", escaped_start(path))
            }
            Self::TooLarge { path } => write!(f, "{} is left out: it is too large", escaped_start(path)),
            Self::TooManyFiles { path, most } => {
                write!(
                    f,
                    "{} is left out: its directory has too many files; {most} are allowed",
                    escaped_start(path)
                )
            }
            Self::TooMany { most } => write!(f, "only the first {most} skills of the source were looked at"),
        }
    }
}
