//! Reads a skill's manifest when it is needed, and checks it again.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use crate::catalog::SkillEntry;
use crate::diagnostic::Severity;
use crate::digest::Digest;
use crate::given::GivenStamp;
use crate::local::{self, Follow, OpenError, WholeFile};
use crate::resource::{ListingOptions, Resources};
use crate::root::Storage;
use crate::scan::{Links, Stamp, join};
use crate::skill::{Location, MANIFEST, MAX_MANIFEST, MissingName, Skill};

/// The most bytes of a manifest, and the most entries of a skill's directories, that are read at once.
const AT_ONCE_BYTES: u64 = 64 * 1024;
const AT_ONCE_ENTRIES: usize = 256;

/// A skill's whole manifest.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// std::fs::create_dir(root.join("greet"))?;
/// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hi.\n---\nBow.\n")?;
/// let text = catalog.get("greet").unwrap().read_text()?;
/// assert_eq!(text.body(), "Bow.");
/// assert!(text.changed, "since the scan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillText {
    /// The current metadata.
    pub skill: Skill,
    /// The digest of the whole manifest.
    pub digest: Digest,
    /// Whether the manifest changed since the scan.
    pub changed: bool,
    manifest: String,
    body: Range<usize>,
}

impl SkillText {
    /// The whole manifest, including the frontmatter.
    pub fn manifest(&self) -> &str {
        &self.manifest
    }

    /// The instructions: the trimmed text after the frontmatter.
    pub fn body(&self) -> &str {
        self.manifest[self.body.clone()].trim()
    }

    /// The two parts of the manifest: the frontmatter with its delimiters, and the instructions as written.
    pub fn parts(&self) -> (&str, &str) {
        self.manifest.split_at(self.body.start)
    }

    /// The identity to which an approval of this skill is bound. A changed or a shadowing skill has another one.
    pub fn identity(&self) -> SkillIdentity {
        SkillIdentity { location: self.skill.location.clone(), digest: self.digest }
    }
}

/// The location and the digest of a skill's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SkillIdentity {
    /// The location of the manifest.
    pub location: Location,
    /// The digest of the manifest.
    pub digest: Digest,
}

/// Why a skill's manifest cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The manifest cannot be read.
    Io {
        /// The manifest.
        location: Location,
        /// What happened.
        error: io::Error,
    },
    /// The manifest has more than 10 MiB.
    TooLarge {
        /// The manifest.
        location: Location,
    },
    /// The manifest is not UTF-8.
    Encoding {
        /// The manifest.
        location: Location,
        /// Where the invalid bytes are.
        error: std::str::Utf8Error,
    },
    /// The manifest is in a backend or at a server, which only your program can read.
    NotLocal {
        /// The manifest.
        location: Location,
    },
    /// The manifest is no longer a regular file in its directory.
    NotAFile {
        /// The manifest.
        location: Location,
    },
    /// The manifest can no longer be loaded as a skill.
    NoLongerASkill {
        /// The manifest.
        location: Location,
        /// Why not.
        reason: String,
    },
    /// The manifest now has another name.
    Renamed {
        /// The manifest.
        location: Location,
        /// The name in the catalog.
        indexed: String,
        /// The name in the manifest.
        found: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { location, error } => write!(f, "Failed to read skill file at {location}: {error}"),
            Self::TooLarge { location } => {
                write!(f, "Skill file at {location} exceeds maximum size ({MAX_MANIFEST} bytes)")
            }
            Self::Encoding { error, .. } => write!(f, "Failed to decode skill file: {error}"),
            Self::NotLocal { location } => {
                write!(
                    f,
                    "Failed to read skill file at {location}: it is in a backend or at a server, not on the local disk"
                )
            }
            Self::NotAFile { location } => {
                write!(
                    f,
                    "Failed to read skill file at {location}: it is no longer a regular file; refresh the catalog"
                )
            }
            Self::NoLongerASkill { location, reason } => {
                write!(f, "Failed to read skill file at {location}: {reason}; fix it and refresh the catalog")
            }
            Self::Renamed { location, indexed, found } => write!(
                f,
                "Failed to read skill file at {location}: it now names `{found}`, not `{indexed}`; refresh the catalog"
            ),
        }
    }
}

impl fmt::Display for SkillIdentity {
    /// The digest and the location, as an approval records them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.digest, self.location.as_str())
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Encoding { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl SkillEntry {
    /// The skill's text, from the bytes of its SKILL.md that a caller has just read. Does no I/O.
    ///
    /// Every reader uses this check: the manifest must be small enough, be UTF-8, and still be a skill with this name. If it
    /// changed since the scan, [`SkillText::changed`] says so. A server's skill keeps its name in the catalog.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// # std::fs::create_dir(root.join("greet"))?;
    /// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let greet = catalog.get("greet").unwrap();
    /// let text = greet.text_from(b"---\nname: greet\ndescription: Says hi.\n---\nBow.\n".to_vec())?;
    /// assert_eq!((text.body(), text.changed), ("Bow.", true));
    /// assert!(greet.text_from(b"---\nname: leave\ndescription: Says bye.\n---\n".to_vec()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text_from(&self, bytes: Vec<u8>) -> Result<SkillText, ReadError> {
        let location = &self.skill.location;
        if bytes.len() as u64 > MAX_MANIFEST {
            return Err(ReadError::TooLarge { location: location.clone() });
        }
        let digest = Digest::of(&bytes);
        let manifest = String::from_utf8(bytes)
            .map_err(|error| ReadError::Encoding { location: location.clone(), error: error.utf8_error() })?;
        let parsed = Skill::parse_with(manifest.as_bytes(), location, MissingName::UseDirectory);
        let Some(skill) = parsed.skill else {
            let mut found = parsed.diagnostics.iter();
            let error = found.find(|found| found.severity == Severity::Error);
            let reason = error.map(|error| error.message.clone()).unwrap_or_default();
            return Err(ReadError::NoLongerASkill { location: location.clone(), reason });
        };
        let skill = match self.published() {
            Some(_) => skill.into_published(self.skill.name.clone(), self.manifest.is_granted),
            None => skill,
        };
        if skill.name != self.skill.name {
            return Err(ReadError::Renamed {
                location: location.clone(),
                indexed: self.skill.name.to_string(),
                found: skill.name.to_string(),
            });
        }
        let is_other =
            matches!(&self.stamp, Some(Stamp::Given(known)) if *known != GivenStamp::of(manifest.as_bytes()));
        let changed = is_other || skill != *self.skill;
        Ok(SkillText { skill, digest, changed, manifest, body: parsed.body })
    }

    /// Reads the manifest from the local disk, with the same checks as the scan.
    pub fn read_text(&self) -> Result<SkillText, ReadError> {
        self.read_text_below(&self.open_base_to_read()?)
    }

    /// Both [`SkillEntry::read_text`] and [`SkillEntry::resources`], without opening the root twice.
    pub fn read_text_and_resources(&self, depth: usize) -> Result<(SkillText, Resources), ReadError> {
        let base = self.open_base_to_read()?;
        let text = self.read_text_below(&base)?;
        Ok((text, self.resources_below(&base, depth, &ListingOptions::whole())))
    }

    /// Like [`SkillEntry::read_text_and_resources`], but only if that takes microseconds: for a short manifest and few files
    /// on a file system of this machine that was just scanned. If it returns `None`, read on a blocking thread.
    pub fn read_at_once(&self, depth: usize) -> Option<Result<(SkillText, Resources), ReadError>> {
        match &self.stamp {
            Some(Stamp::File(stamp)) if stamp.size <= AT_ONCE_BYTES => {}
            _ => return None,
        }
        let base = self.open_base_to_read().ok().filter(local::is_of_this_machine)?;
        let text = match self.read_text_below(&base) {
            Ok(text) => text,
            Err(error) => return Some(Err(error)),
        };
        let listing = ListingOptions::of_at_most(AT_ONCE_ENTRIES);
        let resources = self.resources_below(&base, depth, &listing);
        (!listing.is_exhausted()).then_some(Ok((text, resources)))
    }

    fn open_base_to_read(&self) -> Result<OwnedFd, ReadError> {
        let location = &self.skill.location;
        match self.root.storage {
            Storage::Backend | Storage::Server => Err(ReadError::NotLocal { location: location.clone() }),
            Storage::Local => {
                self.open_base().map_err(|error| ReadError::Io { location: location.clone(), error })
            }
        }
    }

    fn read_text_below(&self, base: &OwnedFd) -> Result<SkillText, ReadError> {
        let location = &self.skill.location;
        let io_error = |error: io::Error| ReadError::Io { location: location.clone(), error };
        let path = join(self.below(), MANIFEST);
        let opened = match local::open_file(base.as_fd(), &path, Follow::Never) {
            Err(OpenError::Link) if self.links != Links::Never => {
                local::open_file(base.as_fd(), &path, Follow::Beneath)
            }
            opened => opened,
        };
        let (file, stamp) = opened.map_err(|error| match error {
            OpenError::Absent => io_error(rustix::io::Errno::NOENT.into()),
            OpenError::Io(error) => io_error(error),
            OpenError::Link | OpenError::Outside | OpenError::NotAFile(_) => {
                ReadError::NotAFile { location: location.clone() }
            }
        })?;
        match local::read_whole(file, stamp.size).map_err(io_error)? {
            WholeFile::TooLarge => Err(ReadError::TooLarge { location: location.clone() }),
            WholeFile::Bytes(bytes) => {
                let mut text = self.text_from(bytes)?;
                text.changed |= self.stamp.as_ref().is_some_and(|known| *known != Stamp::File(stamp));
                Ok(text)
            }
        }
    }

    /// Opens the directory beneath which the skill was found: its root, or the target of a link.
    pub(crate) fn open_base(&self) -> io::Result<OwnedFd> {
        let elsewhere = match self.root.storage {
            Storage::Local => None,
            Storage::Backend => Some("the skill is in a backend, not on the local disk"),
            Storage::Server => Some("the skill is at a server, not on the local disk"),
        };
        if let Some(elsewhere) = elsewhere {
            return Err(io::Error::new(io::ErrorKind::Unsupported, elsewhere));
        }
        let root = local::open_root(&self.root)?;
        match self.links {
            _ if self.link.is_empty() => Ok(root),
            Links::Anywhere => Ok(local::open_directory_anywhere(root.as_fd(), &self.link)?),
            Links::Never | Links::WithinRoot => {
                Ok(local::open_directory_at(root.as_fd(), &self.link, Follow::Beneath)?)
            }
        }
    }

    /// Opens the skill's own directory.
    pub(crate) fn open_own_directory(&self) -> io::Result<OwnedFd> {
        self.open_directory_below(&self.open_base()?)
    }

    /// Opens the skill's own directory below [`SkillEntry::open_base`].
    pub(crate) fn open_directory_below(&self, base: &OwnedFd) -> io::Result<OwnedFd> {
        Ok(local::open_directory_at(base.as_fd(), self.below(), Follow::Never)?)
    }

    /// The skill's directory below [`SkillEntry::open_base`].
    pub(crate) fn below(&self) -> &str {
        self.directory[self.link.len()..].trim_start_matches('/')
    }
}
