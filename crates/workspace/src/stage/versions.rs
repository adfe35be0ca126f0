//! The staged versions of a skill: finding one that is still right, and replacing one that is not.

use std::io;

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::MAX_SKILL_BYTES;
use super::copy::ReadFile;
use super::error::StageError;
use super::source::SkillListing;
use super::staged_index::{StagedFile, StagedIndex};
use crate::dir::{Dir, OWN_PREFIX};
use crate::workspace::Workspace;

/// Separates a skill's name from the number of a second version beside the first. No skill name contains it.
const BESIDE: &str = "@";

/// The name of the skill in a directory of staged skills.
pub(crate) fn skill_of(directory: &str) -> &str {
    directory.split_once(BESIDE).map_or(directory, |(name, _)| name)
}

/// The index of the staged directory `name`, if the directory is still the one that the index describes.
pub(super) fn current(workspace: &Workspace, name: &str) -> io::Result<Option<StagedIndex>> {
    let Some(index) = StagedIndex::read(&workspace.staged_indexes()?, name) else { return Ok(None) };
    let found = workspace.dir().dir("skills")?.entry(name)?;
    Ok(found.filter(|found| identity(found) == index.directory).map(|_| index))
}

/// Returns the index if the source has not changed, and whether its stamps are new.
pub(super) fn unchanged(
    before: Option<StagedIndex>,
    listing: &SkillListing,
    read: ReadFile<'_>,
) -> Result<Option<(StagedIndex, bool)>, StageError> {
    let Some(mut index) = before.filter(|before| before.has_same_paths(listing)) else { return Ok(None) };
    let mut renewed = false;
    for file in &listing.files {
        let staged = &index.files[file.path.as_str()];
        if staged.is(file) {
            continue;
        }
        if staged.differs(file) {
            return Ok(None);
        }
        let bytes = read(file, MAX_SKILL_BYTES)?.ok_or(StageError::Bytes)?;
        let again = StagedFile::new(file, &bytes);
        if again.digest != staged.digest {
            return Ok(None);
        }
        renewed |= again != *staged;
        index.files.insert(file.path.as_str().to_owned(), again);
    }
    Ok(Some((index, renewed)))
}

/// Exchanges the new directory and the old one in one step. The old one keeps the other name, for commands that still
/// use it.
pub(super) fn put_in_place(skills: &Dir, new: &str, name: &str) -> io::Result<()> {
    match renameat_with(skills, new, skills, name, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => skills.rename(new, name),
        // Some file systems cannot exchange.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let (aside, _) = skills.temporary_dir()?;
            skills.rename(name, &aside)?;
            skills.rename(new, name)
        }
        Err(error) => Err(error.into()),
    }
}

/// The directories with versions of a skill, its main one first.
pub(super) fn directories_of(skills: &Dir, name: &str) -> io::Result<Vec<String>> {
    let beside = format!("{name}{BESIDE}");
    let (entries, _) = skills.entries(usize::MAX)?;
    let others = entries.iter().filter_map(|(entry, _)| entry.to_str());
    Ok(std::iter::once(name)
        .chain(others.filter(|entry| entry.starts_with(&beside)))
        .map(str::to_owned)
        .collect())
}

/// The name for a version beside the one that others still use.
pub(super) fn beside(name: &str, temporary: &str) -> String {
    format!("{name}{BESIDE}{}", temporary.trim_start_matches(OWN_PREFIX))
}

/// Removes replaced versions, and versions beside others. The caller makes sure that nothing runs.
pub(super) fn sweep(skills: &Dir, indexes: &Dir) -> io::Result<()> {
    for (name, _) in skills.entries(usize::MAX)?.0 {
        let text = name.to_string_lossy();
        if text.starts_with(OWN_PREFIX) {
            skills.remove_tree(&name)?;
        } else if text.contains(BESIDE) {
            skills.remove_tree(&name)?;
            StagedIndex::forget(indexes, &text);
        }
    }
    Ok(())
}

/// The device and inode of a directory.
pub(super) fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
