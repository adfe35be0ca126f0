//! Copies a skill's files into its staged directory, read-only.

use std::collections::{BTreeMap, HashMap};
use std::io;

use bytes::Bytes;
use rustix::fs::{FileType, symlinkat};

use super::MAX_SKILL_BYTES;
use super::error::StageError;
use super::source::{SkillListing, StageFile};
use super::staged_index::StagedFile;
use crate::dir::Dir;
use crate::path::InnerPath;
use crate::warning::RunWarning;

/// Directories of the workspace that a staged skill has links to, so that a skill can write to `out/`: the name of the
/// link, and the directory.
pub(crate) const SHORTCUTS: [(&str, &str); 3] = [("out", "out"), ("work", "work"), ("inputs", "work/inputs")];
/// The directory that these links lead through. In the workspace and in a sandbox, the same directories have different
/// places, and each of the two has its own links here.
pub(crate) const SHORTCUT_DIR: &str = ".places";

/// How many open directories are kept while files are copied.
const MAX_OPEN_DIRECTORIES: usize = 64;

/// Reads a file of the source, at most this many bytes; `None` if it has more.
pub(super) type ReadFile<'a> = &'a dyn Fn(&StageFile, u64) -> io::Result<Option<Bytes>>;

/// Copies the files into an empty directory and makes it read-only.
pub(super) fn copy_files(
    directory: &Dir,
    listing: &SkillListing,
    read: ReadFile<'_>,
) -> Result<BTreeMap<String, StagedFile>, StageError> {
    let mut staged = BTreeMap::new();
    let mut left = MAX_SKILL_BYTES;
    let mut parents: HashMap<&str, Dir> = HashMap::new();
    for path in &listing.directories {
        directory.make_dirs(path.as_str(), 0o755, None)?;
    }
    for file in &listing.files {
        let bytes = read(file, left)?.ok_or(StageError::Bytes)?;
        left = left.checked_sub(bytes.len() as u64).ok_or(StageError::Bytes)?;
        let (parent, name) = file.path.split();
        let parent = match parents.entry(parent) {
            std::collections::hash_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(directory.make_dirs(parent, 0o755, None)?)
            }
        };
        write_new(parent, name, &bytes, if file.executable { 0o555 } else { 0o444 })?;
        staged.insert(file.path.as_str().to_owned(), StagedFile::new(file, &bytes));
        // Descriptors are scarce, and a wide skill would need many.
        if parents.len() > MAX_OPEN_DIRECTORIES {
            parents.clear();
        }
    }
    for (name, _) in SHORTCUTS {
        if !ships(listing, name) {
            symlinkat(format!("../../{SHORTCUT_DIR}/{name}"), directory, name).map_err(io::Error::from)?;
        }
    }
    make_read_only(directory)?;
    Ok(staged)
}

/// Writes a new file. Nobody sees it before the whole directory is in place.
fn write_new(parent: &Dir, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::File::from(prowess_base::beneath::create_file(parent, name, 0o600)?);
    io::Write::write_all(&mut file, bytes)?;
    crate::dir::finish(&file, mode, None)
}

/// Makes a directory and those below it read-only.
fn make_read_only(directory: &Dir) -> io::Result<()> {
    for (name, kind) in directory.entries(usize::MAX)?.0 {
        if kind == FileType::Directory {
            make_read_only(&directory.dir(&name)?)?;
        }
    }
    directory.hand_over(0o555, None)
}

/// Whether the skill has its own file or directory `name`.
fn ships(listing: &SkillListing, name: &str) -> bool {
    let is_own = |path: &InnerPath| path.top() == name;
    listing.files.iter().map(|file| &file.path).any(is_own) || listing.directories.iter().any(is_own)
}

/// A warning for each directory of the workspace that the skill's own directory hides.
pub(super) fn own_directory_warnings(listing: &SkillListing) -> impl Iterator<Item = RunWarning> {
    SHORTCUTS
        .iter()
        .filter(|(own, _)| ships(listing, own))
        .map(|(own, place)| RunWarning::OwnDirectory { own, place })
}
