//! All files of a skill on the disk, for packaging and serving the whole skill.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::catalog::SkillEntry;
use crate::local::{self, EntryKind, Follow, OpenError};
use crate::scan::join;

/// How many levels deep the files of a skill may be.
const MAX_DEPTH: usize = 32;
/// Entries that never belong to a skill.
const LEFT_OUT: [&str; 6] = ["__pycache__", "node_modules", ".git", ".venv", ".DS_Store", "Thumbs.db"];

/// All files of a skill: those that [`package`](crate::package::package) packs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The files, by path.
    pub files: Vec<ContentFile>,
    /// Its directories, by path, including empty ones.
    pub directories: Vec<String>,
    /// The entries that were left out, and why.
    pub left_out: Vec<String>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentFile {
    /// Its path in the skill, such as `scripts/fib.py`.
    pub path: String,
    /// Its size in bytes when it was listed.
    pub size: u64,
}

/// How much a skill may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentLimits {
    /// The most files.
    pub files: usize,
    /// The most bytes of all files.
    pub bytes: u64,
}

/// Why the files of a skill cannot be listed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContentsError {
    /// The skill exceeds the limits, or is too deep.
    TooMuch(String),
    /// The directory cannot be read.
    Io(io::Error),
}

impl fmt::Display for ContentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch(what) => f.write_str(what),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ContentsError {}

impl From<io::Error> for ContentsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a file of a skill cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The skill has no such file. A link, for example, does not belong to a skill.
    NotThere,
    /// The file is larger than the caller allowed.
    TooLarge,
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str("the skill has no such file"),
            Self::TooLarge => f.write_str("the file is too large"),
            Self::Io(error) => write!(f, "cannot read the file: {error}"),
        }
    }
}

impl std::error::Error for FileError {}

impl SkillEntry {
    /// Lists all files of the skill on the local disk. Follows no links, not even if SKILL.md is one.
    ///
    /// # Errors
    ///
    /// The skill exceeds `limits`, or cannot be listed.
    pub fn contents(&self, limits: ContentLimits) -> Result<Contents, ContentsError> {
        contents_of(&self.open_own_directory()?, limits)
    }

    /// Reads a file that [`SkillEntry::contents`] lists, up to `most` bytes.
    ///
    /// # Errors
    ///
    /// The file does not exist, is longer, or cannot be read.
    pub fn read_file(&self, path: &str, most: u64) -> Result<Vec<u8>, FileError> {
        let is_part = |name: &str| !matches!(name, "" | "." | "..") && !is_left_out(name);
        if !path.split('/').all(is_part) || path.starts_with("evals/") || path.contains('\0') {
            return Err(FileError::NotThere);
        }
        if path.split('/').count() > MAX_DEPTH {
            return Err(FileError::NotThere);
        }
        let directory = self.open_own_directory().map_err(FileError::Io)?;
        let opened = local::open_file(directory.as_fd(), path, Follow::Never);
        let (file, stamp) = opened.map_err(|error| match error {
            OpenError::Io(error) => FileError::Io(error),
            OpenError::Absent | OpenError::Link | OpenError::Outside | OpenError::NotAFile(_) => {
                FileError::NotThere
            }
        })?;
        if stamp.size > most {
            return Err(FileError::TooLarge);
        }
        // The file may have grown since.
        let bytes = local::read_first(file, stamp.size, most.saturating_add(1)).map_err(FileError::Io)?;
        if bytes.len() as u64 > most { Err(FileError::TooLarge) } else { Ok(bytes) }
    }
}

/// Whether an entry with this name never belongs to a skill.
fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || name.ends_with(".pyc")
}

/// The files of the skill in an open directory.
pub(crate) fn contents_of(handle: &OwnedFd, limits: ContentLimits) -> Result<Contents, ContentsError> {
    let mut contents = Contents::default();
    let mut bytes = 0_u64;
    let mut pending = vec![String::new()];
    while let Some(directory) = pending.pop() {
        if directory.split('/').count() > MAX_DEPTH {
            return Err(ContentsError::TooMuch(format!("more than {MAX_DEPTH} levels of directories")));
        }
        let opened =
            local::open_directory_at(handle.as_fd(), &directory, Follow::Never).map_err(io::Error::from)?;
        local::list(&opened, |name, kind| {
            let Ok(name) = std::str::from_utf8(name) else {
                let path = join(&directory, &String::from_utf8_lossy(name));
                return contents.left_out.push(format!("{path} (its name is not UTF-8)"));
            };
            let path = join(&directory, name);
            if is_left_out(name) || path == "evals" {
                return contents.left_out.push(format!("{path} (not part of a skill)"));
            }
            match kind {
                EntryKind::Directory => {
                    contents.directories.push(path.clone());
                    pending.push(path);
                }
                EntryKind::File => {
                    let size = local::size(&opened, name);
                    bytes = bytes.saturating_add(size);
                    contents.files.push(ContentFile { path, size });
                }
                EntryKind::Link => contents.left_out.push(format!("{path} (a link)")),
                EntryKind::Other => contents.left_out.push(format!("{path} (not a regular file)")),
            }
        })?;
        if contents.files.len() > limits.files || contents.directories.len() > 2 * limits.files {
            return Err(ContentsError::TooMuch(format!("more than {} files", limits.files)));
        }
        if bytes > limits.bytes {
            return Err(ContentsError::TooMuch(format!("more than {} bytes", limits.bytes)));
        }
    }
    contents.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    contents.directories.sort_unstable();
    contents.left_out.sort_unstable();
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Root, ScanOptions};
    use std::os::unix::fs::symlink;

    const LIMITS: ContentLimits = ContentLimits { files: 8, bytes: 1000 };

    fn skill() -> (tempfile::TempDir, std::path::PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("kit");
        std::fs::create_dir_all(skill.join("scripts/deep")).unwrap();
        std::fs::create_dir_all(skill.join("empty")).unwrap();
        std::fs::create_dir_all(skill.join(".git")).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: kit\ndescription: D. Use it.\n---\n").unwrap();
        std::fs::write(skill.join("scripts/deep/a b.py"), "1").unwrap();
        std::fs::write(skill.join(".git/config"), "secret").unwrap();
        std::fs::write(place.path().join("outside"), "secret").unwrap();
        symlink(place.path().join("outside"), skill.join("link")).unwrap();
        symlink(place.path(), skill.join("up")).unwrap();
        (place, skill)
    }

    fn entry(place: &std::path::Path) -> std::sync::Arc<SkillEntry> {
        let catalog = Catalog::discover(&[Root::explicit(place)], &ScanOptions::default());
        std::sync::Arc::clone(catalog.get("kit").unwrap())
    }

    #[test]
    fn every_file_is_listed_and_no_link_is_followed() {
        let (place, _) = skill();
        let contents = entry(place.path()).contents(LIMITS).unwrap();
        let paths: Vec<_> = contents.files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        assert_eq!(paths, [("SKILL.md", 42), ("scripts/deep/a b.py", 1)]);
        assert_eq!(contents.directories, ["empty", "scripts", "scripts/deep"]);
        assert_eq!(contents.left_out, [".git (not part of a skill)", "link (a link)", "up (a link)"]);
    }

    #[test]
    fn what_is_not_listed_is_not_read() {
        let (place, _) = skill();
        let entry = entry(place.path());
        assert_eq!(entry.read_file("scripts/deep/a b.py", 1).unwrap(), b"1");
        for path in [
            "",
            ".",
            "..",
            "../outside",
            "scripts",
            "scripts/../SKILL.md",
            "link",
            "up/outside",
            ".git/config",
            "/etc/passwd",
            "SKILL.md/",
            "SKILL.md\0",
            "gone",
        ] {
            assert!(matches!(entry.read_file(path, 1000), Err(FileError::NotThere)), "{path}");
        }
        assert!(matches!(entry.read_file("SKILL.md", 41), Err(FileError::TooLarge)));
    }

    #[test]
    fn too_much_is_said() {
        let (place, skill) = skill();
        let entry = entry(place.path());
        std::fs::write(skill.join("large"), vec![0; 1000]).unwrap();
        assert_eq!(entry.contents(LIMITS).unwrap_err().to_string(), "more than 1000 bytes");
        std::fs::remove_file(skill.join("large")).unwrap();
        for number in 0..7 {
            std::fs::write(skill.join(number.to_string()), "").unwrap();
        }
        assert_eq!(entry.contents(LIMITS).unwrap_err().to_string(), "more than 8 files");
    }
}
