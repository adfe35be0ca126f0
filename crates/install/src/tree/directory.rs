//! Reads the tree of a directory on the disk, and its files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow, NotOpened};
use prowess_catalog::digest::Digester;
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use super::{SkillTree, TreeFile};
use crate::disk;
use crate::snapshot::{MAX_SKILL_BYTES, MAX_SKILL_FILES};

/// How many names the path of a skill's file may have, as for a package.
pub const MAX_DEPTH: usize = 32;
/// The most directories of a skill. Empty ones are no part of the tree, but listing them takes time.
const MAX_DIRECTORIES: usize = 2 * MAX_SKILL_FILES;
/// The memory for reading a file. Most files of skills are smaller, and then take one read.
const BUFFER_BYTES: usize = 64 * 1024;
/// The permission of the owner to execute a file.
const OWNER_EXECUTES: u32 = 0o100;

/// Why a directory is not the tree of a skill.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// An entry is a symbolic link. Nothing here follows one.
    #[error("{0:?} is a link; a skill has only regular files")]
    Link(String),
    /// The skill itself is a link, a file or something else.
    #[error("the skill is no directory of its own; it is a link or a file")]
    NotADirectory,
    /// An entry is a FIFO, a device or a socket.
    #[error("{0:?} is neither a file nor a directory; a skill has only regular files")]
    NotAFile(String),
    /// The name of an entry is not UTF-8.
    #[error("the name of {0:?} is not UTF-8; rename it")]
    NotUtf8(String),
    /// There are too many files or directories.
    #[error("the skill has more than {MAX_SKILL_FILES} files or twice as many directories")]
    TooManyFiles,
    /// All files together have too many bytes, or one file has more than the caller allowed.
    #[error("{path:?} exceeds the limit of {most} bytes")]
    TooLarge {
        /// The file at which the limit was reached.
        path: String,
        /// The limit.
        most: u64,
    },
    /// A directory is too deep.
    #[error("{0:?} is more than {MAX_DEPTH} levels deep")]
    TooDeep(String),
    /// The tree has no such file.
    #[error("the skill has no file {0:?}")]
    Absent(String),
    /// An entry cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Io {
        /// The entry. Empty for the directory of the skill.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl TreeError {
    fn io(path: &str, error: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), source: error.into() }
    }

    /// Whether the directory of the skill does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { path, source } if path.is_empty() && source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the files of a tree by path.
pub trait ReadFiles {
    /// Reads the file at `path`, up to `most` bytes.
    ///
    /// # Errors
    ///
    /// There is no such regular file, it is longer, or it cannot be read.
    fn read_file(&self, path: &str, most: u64) -> Result<Vec<u8>, TreeError>;

    /// Reads the first bytes of the file at `path`: at most `most`.
    ///
    /// # Errors
    ///
    /// There is no such regular file, or it cannot be read.
    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, TreeError>;
}

/// An open directory with the files of one skill.
///
/// ```
/// use prowess_install::tree::{ReadFiles as _, TreeDirectory};
///
/// # let scratch = tempfile::tempdir()?;
/// std::fs::create_dir(scratch.path().join("docs"))?;
/// std::fs::write(scratch.path().join("docs/tides.md"), "Twice a day.")?;
/// let directory = TreeDirectory::open(scratch.path())?;
/// assert_eq!(directory.tree()?.files["docs/tides.md"].size, 12);
/// assert_eq!(directory.read_file("docs/tides.md", 100)?, b"Twice a day.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TreeDirectory {
    handle: OwnedFd,
}

impl TreeDirectory {
    /// Opens the directory at `path`. The directory itself must not be a link; links before it are followed.
    ///
    /// # Errors
    ///
    /// It is a link or no directory, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        Self::opened(fs::open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()))
    }

    /// Opens the directory `relative` below an open directory, and follows no link.
    ///
    /// # Errors
    ///
    /// There is a link on the way or no directory, or it cannot be opened.
    pub fn open_at(directory: impl AsFd, relative: &str) -> Result<Self, TreeError> {
        Self::opened(beneath::open(directory, relative, DIRECTORY, Follow::Never))
    }

    fn opened(result: Result<OwnedFd, Errno>) -> Result<Self, TreeError> {
        match result {
            Ok(handle) => Ok(Self { handle }),
            // With O_DIRECTORY, Linux answers either for a link.
            Err(Errno::LOOP | Errno::NOTDIR) => Err(TreeError::NotADirectory),
            Err(error) => Err(TreeError::io("", error)),
        }
    }

    /// The descriptor.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// Reads all files and computes their digests. Every regular file counts; an empty directory does not.
    ///
    /// # Errors
    ///
    /// The directory has something that no skill may have, exceeds a limit, or cannot be read.
    pub fn tree(&self) -> Result<SkillTree, TreeError> {
        let mut walk =
            Walk { files: BTreeMap::new(), bytes: 0, directories: 0, buffer: vec![0; BUFFER_BYTES] };
        // A descriptor lists its entries once, so each walk takes a new one.
        let handle = disk::open_directory(&self.handle, ".").map_err(|error| TreeError::io("", error))?;
        walk.enter(&handle, "", 1)?;
        Ok(SkillTree { files: walk.files })
    }
}

impl TreeDirectory {
    fn open_file(&self, path: &str) -> Result<(File, fs::Stat), TreeError> {
        let (file, stat) =
            beneath::open_file(&self.handle, path, Follow::Never).map_err(|refused| match refused {
                NotOpened::Refused(Errno::NOENT | Errno::NOTDIR) => TreeError::Absent(path.to_owned()),
                refused => refusal(path, refused),
            })?;
        Ok((File::from(file), stat))
    }
}

impl ReadFiles for TreeDirectory {
    fn read_file(&self, path: &str, most: u64) -> Result<Vec<u8>, TreeError> {
        let (file, stat) = self.open_file(path)?;
        let too_large = || TreeError::TooLarge { path: path.to_owned(), most };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > most {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The file may have grown since it was opened.
        let mut limited = file.take(most.saturating_add(1));
        limited.read_to_end(&mut bytes).map_err(|error| TreeError::io(path, error))?;
        if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
    }

    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, TreeError> {
        let (file, _) = self.open_file(path)?;
        let mut bytes = Vec::with_capacity(most);
        let mut limited = file.take(most as u64);
        limited.read_to_end(&mut bytes).map_err(|error| TreeError::io(path, error))?;
        Ok(bytes)
    }
}

impl SkillTree {
    /// Reads the tree of the directory at `path`, as [`TreeDirectory::tree`] does.
    ///
    /// ```
    /// use prowess_install::tree::SkillTree;
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// std::fs::write(scratch.path().join("SKILL.md"), "Twice a day.")?;
    /// let before = SkillTree::read(scratch.path())?;
    /// std::fs::write(scratch.path().join("SKILL.md"), "Four times a day.")?;
    /// let after = SkillTree::read(scratch.path())?;
    /// assert_ne!(before.digest(), after.digest());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`TreeDirectory::open`] and [`TreeDirectory::tree`].
    pub fn read(path: &Path) -> Result<Self, TreeError> {
        TreeDirectory::open(path)?.tree()
    }
}

/// What a walk has found so far.
struct Walk {
    files: BTreeMap<String, TreeFile>,
    bytes: u64,
    directories: usize,
    buffer: Vec<u8>,
}

impl Walk {
    /// Reads everything below `directory`, whose names are the `depth`-th in their paths.
    fn enter(&mut self, directory: &OwnedFd, prefix: &str, depth: usize) -> Result<(), TreeError> {
        let mut names: Vec<(String, FileType)> = Vec::new();
        let mut found = Ok(());
        let room = MAX_SKILL_FILES + MAX_DIRECTORIES - self.files.len();
        beneath::list(directory, |name, kind| {
            found = match name.to_str() {
                None => Err(TreeError::NotUtf8(format!("{prefix}{}", name.to_string_lossy()))),
                Some(_) if names.len() >= room => Err(TreeError::TooManyFiles),
                Some(name) => {
                    names.push((name.to_owned(), kind));
                    Ok(())
                }
            };
            if found.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(|error| TreeError::io(prefix, error))?;
        found?;
        // Otherwise the error for a tree with two problems depends on the file system.
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            let path = format!("{prefix}{name}");
            match kind {
                FileType::Directory => {
                    self.directories += 1;
                    if self.directories > MAX_DIRECTORIES {
                        return Err(TreeError::TooManyFiles);
                    }
                    if depth >= MAX_DEPTH {
                        return Err(TreeError::TooDeep(path));
                    }
                    let inner = disk::open_directory(directory, &name)
                        .map_err(|error| refusal(&path, NotOpened::Refused(error)))?;
                    self.enter(&inner, &format!("{path}/"), depth + 1)?;
                }
                FileType::RegularFile => {
                    let file = self.hash(directory, &name, &path)?;
                    self.files.insert(path, file);
                    if self.files.len() > MAX_SKILL_FILES {
                        return Err(TreeError::TooManyFiles);
                    }
                }
                FileType::Symlink => return Err(TreeError::Link(path)),
                _ => return Err(TreeError::NotAFile(path)),
            }
        }
        Ok(())
    }

    fn hash(&mut self, directory: &OwnedFd, name: &str, path: &str) -> Result<TreeFile, TreeError> {
        let (file, stat) =
            beneath::open_file(directory, name, Follow::Never).map_err(|refused| refusal(path, refused))?;
        let expected = u64::try_from(stat.st_size).unwrap_or(0);
        let too_large = || TreeError::TooLarge { path: path.to_owned(), most: MAX_SKILL_BYTES };
        if self.bytes.saturating_add(expected) > MAX_SKILL_BYTES {
            return Err(too_large());
        }
        let mut digester = Digester::default();
        let mut size = 0;
        loop {
            let count = match rustix::io::read(&file, &mut self.buffer) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(TreeError::io(path, error)),
            };
            digester.update(&self.buffer[..count]);
            size += count as u64;
            self.bytes += count as u64;
            // The file may have grown since it was opened.
            if self.bytes > MAX_SKILL_BYTES {
                return Err(too_large());
            }
            // At the size that the file had, no further read looks for the end.
            if count == 0 || size == expected {
                break;
            }
        }
        Ok(TreeFile { digest: digester.digest(), size, is_executable: stat.st_mode & OWNER_EXECUTES != 0 })
    }
}

fn refusal(path: &str, refused: NotOpened) -> TreeError {
    match refused {
        NotOpened::Refused(Errno::LOOP) => TreeError::Link(path.to_owned()),
        // A socket, or a device without a driver; or something was replaced since it was listed.
        NotOpened::NotAFile(_) | NotOpened::Refused(Errno::NXIO | Errno::NOTDIR) => {
            TreeError::NotAFile(path.to_owned())
        }
        NotOpened::Refused(error) => TreeError::io(path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use prowess_catalog::Digest;

    use super::*;

    #[test]
    fn every_regular_file_counts_with_its_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        std::fs::create_dir_all(at(".git/empty")).unwrap();
        std::fs::write(at("run"), "").unwrap();
        std::fs::write(at(".git/HEAD"), "main").unwrap();
        std::fs::set_permissions(at("run"), PermissionsExt::from_mode(0o711)).unwrap();
        std::fs::write(at("large"), vec![7; 3 * BUFFER_BYTES + 1]).unwrap();
        let directory = TreeDirectory::open(scratch.path()).unwrap();
        let tree = directory.tree().unwrap();
        assert_eq!(directory.tree().unwrap(), tree, "it can be read twice");
        let paths: Vec<_> =
            tree.files.iter().map(|(path, file)| (path.as_str(), file.size, file.is_executable)).collect();
        assert_eq!(paths, [(".git/HEAD", 4, false), ("large", 196_609, false), ("run", 0, true)]);
        assert_eq!(tree.files["large"].digest, Digest::of(&vec![7; 3 * BUFFER_BYTES + 1]));
    }

    #[test]
    fn links_fifos_and_bad_names_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let bad = |make: &dyn Fn(&Path)| {
            let directory = tempfile::tempdir_in(scratch.path()).unwrap();
            std::fs::create_dir(directory.path().join("d")).unwrap();
            make(&directory.path().join("d/x"));
            SkillTree::read(directory.path()).unwrap_err().to_string()
        };
        let link = bad(&|path| symlink("/etc/passwd", path).unwrap());
        assert_eq!(link, "\"d/x\" is a link; a skill has only regular files");
        let fifo = bad(&|path| fs::mkfifoat(fs::CWD, path, Mode::RUSR).unwrap());
        assert_eq!(fifo, "\"d/x\" is neither a file nor a directory; a skill has only regular files");
        let name = bad(&|path| {
            use std::os::unix::ffi::OsStrExt as _;
            std::fs::write(path.with_file_name(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        });
        assert_eq!(name, "the name of \"d/\u{fffd}\" is not UTF-8; rename it");
        let deep = bad(&|path| std::fs::create_dir_all(path.join("x/".repeat(MAX_DEPTH))).unwrap());
        assert!(deep.ends_with("is more than 32 levels deep"), "{deep}");

        symlink(scratch.path(), scratch.path().join("itself")).unwrap();
        assert!(matches!(SkillTree::read(&scratch.path().join("itself")), Err(TreeError::NotADirectory)));
        assert!(SkillTree::read(&scratch.path().join("gone")).unwrap_err().is_absent());
    }

    #[test]
    fn case_129_too_many_files_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        for number in 0..=MAX_SKILL_FILES {
            std::fs::write(scratch.path().join(number.to_string()), "").unwrap();
        }
        assert!(matches!(SkillTree::read(scratch.path()), Err(TreeError::TooManyFiles)));
        std::fs::remove_file(scratch.path().join("0")).unwrap();
        assert!(SkillTree::read(scratch.path()).is_ok());
        // A sparse file is large without taking room. It is refused before it is read.
        let huge = File::create(scratch.path().join("0")).unwrap();
        huge.set_len(MAX_SKILL_BYTES + 1).unwrap();
        assert!(matches!(SkillTree::read(scratch.path()), Err(TreeError::TooLarge { .. })));
    }

    #[test]
    fn only_files_of_the_tree_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("file"), "text").unwrap();
        symlink("file", scratch.path().join("link")).unwrap();
        let directory = TreeDirectory::open(scratch.path()).unwrap();
        assert_eq!(directory.read_file("file", 4).unwrap(), b"text");
        assert!(matches!(directory.read_file("file", 3), Err(TreeError::TooLarge { most: 3, .. })));
        for path in ["link", "gone", "file/x", "../x", "/etc/passwd", ""] {
            assert!(directory.read_file(path, 100).is_err(), "{path}");
        }
    }
}
