//! A skill's documents: the text files beside its SKILL.md that a model can read.

#[cfg(feature = "backend")]
mod backend;
mod path;
mod walk;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::catalog::SkillEntry;
use crate::diagnostic::Diagnostic;
use crate::given::{self, RefusedPaths, TWICE};
use crate::local::{self, Follow, OpenError};
use crate::skill::MANIFEST;
use crate::untrusted::{escaped_start, one_line};
pub(crate) use path::MAX_PART_BYTES;
pub use path::PathRefusal;
use walk::{DocumentLevel, DocumentWalk};

/// How many documents of one skill are listed. [`Documents::capped`] says if there are more.
pub const MAX_DOCUMENTS: usize = 500;

/// How many bytes of one document are read. [`DocumentText::truncated`] says if there are more.
pub const MAX_DOCUMENT_BYTES: u64 = 256 * 1024;

/// How many directories deep a document may be.
pub const DOCUMENT_DEPTH: usize = 4;

/// A document of a skill: a regular `.md` or `.txt` file in its directory that is not a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Document {
    /// Its path in the skill, such as `references/tides.md`, for [`SkillEntry::read_document`].
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The documents of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Documents {
    /// The documents, sorted by path.
    pub files: Vec<Document>,
    /// Whether there may be more: because of [`MAX_DOCUMENTS`], or because not all directories were searched.
    pub capped: bool,
    /// Directories that could not be listed, names that cannot be used, and limits of the search.
    pub diagnostics: Vec<Diagnostic>,
}

/// The text of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentText {
    /// Its path in the skill.
    pub path: String,
    /// The text, without a byte-order mark and with the original line endings.
    pub text: String,
    /// The size of the whole document in bytes.
    pub size: u64,
    /// Whether the document continues after `text`. Then `text` ends with a whole character.
    pub truncated: bool,
}

/// Why a document cannot be read.
///
/// Paths are those that the caller asked for, on one line and shortened.
#[derive(Debug)]
#[non_exhaustive]
pub enum DocumentError {
    /// The path cannot be the path of a document.
    Refused {
        /// The requested path.
        path: String,
        /// Why it is refused.
        why: PathRefusal,
    },
    /// The skill has no such file.
    NotFound {
        /// The requested path.
        path: String,
    },
    /// The path leads to a directory, a FIFO or a link, or passes a link.
    NotAFile {
        /// The requested path.
        path: String,
    },
    /// The file has a NUL byte or is not UTF-8.
    Binary {
        /// The requested path.
        path: String,
    },
    /// The file cannot be read.
    Io {
        /// The requested path.
        path: String,
        /// What happened.
        error: io::Error,
    },
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { path, why } => write!(f, "`{path}` is refused: {why}; {}", why.advice()),
            Self::NotFound { path } => {
                write!(f, "`{path}` is not in the skill; list the documents of the skill")
            }
            Self::NotAFile { path } => write!(
                f,
                "`{path}` is not a regular file, or is behind a link; put the file itself into the skill"
            ),
            Self::Binary { path } => {
                write!(f, "`{path}` is not text: it has a NUL byte or is not UTF-8; save it as UTF-8")
            }
            Self::Io { path, error } => {
                let error = error.to_string();
                write!(
                    f,
                    "`{path}` cannot be read: {}; fix that, or continue without it",
                    one_line(&error).trim_end_matches('.')
                )
            }
        }
    }
}

impl std::error::Error for DocumentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl DocumentError {
    fn refused(path: &str, why: PathRefusal) -> Self {
        Self::Refused { path: escaped_start(path), why }
    }

    fn not_found(path: &str) -> Self {
        Self::NotFound { path: escaped_start(path) }
    }

    fn not_a_file(path: &str) -> Self {
        Self::NotAFile { path: escaped_start(path) }
    }

    fn io(path: &str, error: impl Into<io::Error>) -> Self {
        Self::Io { path: escaped_start(path), error: error.into() }
    }
}

impl SkillEntry {
    /// Lists the skill's documents, up to [`DOCUMENT_DEPTH`] directories deep: from the local disk, or as its server lists them.
    ///
    /// Leaves out hidden entries, links, and the directories of skills inside this one. A directory that cannot be listed is
    /// skipped, with a diagnostic.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let root = scratch.path();
    /// std::fs::create_dir_all(root.join("greet/references")).unwrap();
    /// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\n").unwrap();
    /// std::fs::write(root.join("greet/references/manners.md"), "Wave first.").unwrap();
    ///
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let greet = catalog.get("greet").unwrap();
    /// let documents = greet.documents();
    /// assert_eq!(documents.files[0].path, "references/manners.md");
    ///
    /// let manners = greet.read_document("references/manners.md").unwrap();
    /// assert_eq!(manners.text, "Wave first.");
    /// assert!(greet.read_document("../../secrets.md").is_err());
    /// ```
    pub fn documents(&self) -> Documents {
        if let Some(published) = self.published() {
            return self.documents_from(published.files.iter().map(|file| (&file.path, file.size)));
        }
        let mut walk = DocumentWalk::new(self.skill.location.directory());
        match self.open_own_directory() {
            Ok(directory) => {
                while let Some((path, depth)) = walk.next_directory() {
                    match list(&directory, &path) {
                        Ok(level) => walk.enter(&path, depth, level),
                        Err(error) => walk.skip(&path, &error),
                    }
                }
            }
            Err(error) => walk.skip("", &error),
        }
        walk.finish()
    }

    /// Like [`SkillEntry::documents`], among these files with their paths in the skill and their sizes. Does no I/O.
    ///
    /// Give every file, including the SKILL.md of skills inside this one: their documents do not belong to this skill. A path
    /// that no file can have is left out, with a diagnostic, and so is a path that was given before.
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
    /// let documents = greet.documents_from([("SKILL.md", 51), ("manners.md", 11), ("wave.py", 12), ("../a.md", 1)]);
    /// assert_eq!((documents.files.len(), documents.diagnostics.len()), (1, 1));
    ///
    /// let manners = greet.document_from("manners.md", b"Wave first.".to_vec(), 11)?;
    /// assert_eq!(manners.text, "Wave first.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn documents_from<P: AsRef<str>>(&self, files: impl IntoIterator<Item = (P, u64)>) -> Documents {
        let shown = self.skill.location.directory();
        let mut walk = DocumentWalk::new(shown);
        let (mut all, refused) = directories(files);
        while let Some((path, depth)) = walk.next_directory() {
            walk.enter(&path, depth, level_of(all.remove(&path).unwrap_or_default()));
        }
        let mut documents = walk.finish();
        documents.diagnostics.extend(refused.into_diagnostics(shown));
        documents
    }

    /// The text of the document at `path`, from bytes that a caller has just read. Does no I/O.
    ///
    /// `bytes` are the document or its beginning; more than [`MAX_DOCUMENT_BYTES`] are not needed. `size` is the size of the
    /// whole document. This checks the path like [`SkillEntry::read_document`], but only the caller knows that the path
    /// passes no link and no other skill. A file that a server does not list is not found.
    pub fn document_from(
        &self,
        path: &str,
        bytes: Vec<u8>,
        size: u64,
    ) -> Result<DocumentText, DocumentError> {
        path::check(path).map_err(|why| DocumentError::refused(path, why))?;
        if self.published().is_some_and(|published| published.file(path).is_none()) {
            return Err(DocumentError::not_found(path));
        }
        text_of(path, bytes, size)
    }

    /// Reads a document that [`SkillEntry::documents`] lists from the local disk.
    ///
    /// This checks the path before it opens anything. Then it opens each directory beneath the one before, from the skill's
    /// directory down, and follows no link. It reads at most [`MAX_DOCUMENT_BYTES`].
    pub fn read_document(&self, path: &str) -> Result<DocumentText, DocumentError> {
        path::check(path).map_err(|why| DocumentError::refused(path, why))?;
        let failed = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR => DocumentError::not_found(path),
            Errno::LOOP | Errno::XDEV => DocumentError::not_a_file(path),
            error => DocumentError::io(path, error),
        };
        let mut directory =
            self.open_own_directory().map_err(|error| match Errno::from_io_error(&error) {
                Some(error) => failed(error),
                None => DocumentError::io(path, error),
            })?;
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
            directory = local::open_directory_at(directory.as_fd(), parent, Follow::Never).map_err(failed)?;
            if local::has_entry(&directory, MANIFEST) {
                return Err(DocumentError::refused(path, PathRefusal::OtherSkill));
            }
        }
        let opened = local::open_file(directory.as_fd(), name, Follow::Never);
        let (file, stamp) = opened.map_err(|error| match error {
            OpenError::Absent => DocumentError::not_found(path),
            OpenError::Link | OpenError::Outside | OpenError::NotAFile(_) => DocumentError::not_a_file(path),
            OpenError::Io(error) => DocumentError::io(path, error),
        })?;
        let bytes = local::read_first(file, stamp.size, MAX_DOCUMENT_BYTES + 1)
            .map_err(|error| DocumentError::io(path, error))?;
        // If the whole document was read, its size is certain. Otherwise it may have changed since.
        let size = if bytes.len() as u64 > MAX_DOCUMENT_BYTES { stamp.size } else { bytes.len() as u64 };
        self.document_from(path, bytes, size)
    }
}

/// The entries of one directory of a skill: directories by name, and files with their sizes.
type DirectoryFiles = (BTreeSet<String>, BTreeMap<String, u64>);

/// Groups files by directory, as deep as documents may be. The skill's own directory is the empty path.
fn directories<P: AsRef<str>>(
    files: impl IntoIterator<Item = (P, u64)>,
) -> (BTreeMap<String, DirectoryFiles>, RefusedPaths) {
    let mut all = BTreeMap::from([(String::new(), DirectoryFiles::default())]);
    let mut refused = RefusedPaths::default();
    for (path, size) in files {
        let path = path.as_ref();
        if let Err(why) = given::check(path) {
            refused.add(path, &why);
            continue;
        }
        let (mut directory, mut rest) = ("", path);
        for _ in 0..=DOCUMENT_DEPTH {
            let level = match all.get_mut(directory) {
                Some(level) => level,
                None => all.entry(directory.to_owned()).or_default(),
            };
            let Some((name, below)) = rest.split_once('/') else {
                match level.1.entry(rest.to_owned()) {
                    Entry::Vacant(vacant) => drop(vacant.insert(size)),
                    Entry::Occupied(_) => refused.add(path, &TWICE),
                }
                break;
            };
            if !level.0.contains(name) {
                level.0.insert(name.to_owned());
            }
            (directory, rest) = (&path[..path.len() - below.len() - 1], below);
        }
    }
    (all, refused)
}

fn level_of((directories, files): DirectoryFiles) -> DocumentLevel {
    let mut level = DocumentLevel::default();
    for (name, size) in files {
        level.add(name.as_bytes(), local::EntryKind::File, size);
    }
    for name in directories {
        level.add(name.as_bytes(), local::EntryKind::Directory, 0);
    }
    level
}

fn list(skill: &OwnedFd, path: &str) -> io::Result<DocumentLevel> {
    let mut level = DocumentLevel::default();
    let directory = local::open_directory_at(skill.as_fd(), path, Follow::Never)?;
    local::list(&directory, |name, kind| level.add(name, kind, 0))?;
    for (name, size) in &mut level.documents {
        *size = local::size(&directory, name);
    }
    Ok(level)
}

/// The text in `bytes`, which are all of the `size` bytes of a document, or its beginning.
fn text_of(path: &str, mut bytes: Vec<u8>, size: u64) -> Result<DocumentText, DocumentError> {
    let limit = usize::try_from(MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX);
    let size = size.max(bytes.len() as u64);
    let truncated = size > bytes.len().min(limit) as u64;
    bytes.truncate(limit);
    let binary = || DocumentError::Binary { path: escaped_start(path) };
    if memchr::memchr(0, &bytes).is_some() {
        return Err(binary());
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        // The beginning may end inside a character.
        if !truncated || error.error_len().is_some() {
            return Err(binary());
        }
        bytes.truncate(error.valid_up_to());
    }
    let mut text = String::from_utf8(bytes).map_err(|_| binary())?;
    if text.starts_with('\u{FEFF}') {
        text.drain(..'\u{FEFF}'.len_utf8());
    }
    Ok(DocumentText { path: path.to_owned(), text, size, truncated })
}
