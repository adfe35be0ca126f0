//! Staging: copies a skill's files into a workspace, read-only, when they have changed.

mod copy;
mod error;
mod local;
mod source;
mod staged_index;
mod versions;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use bytes::Bytes;
use tracing::field::Empty;

use crate::blocking::blocking;
use crate::dir::Dir;
use crate::error::WorkspaceError;
use crate::path::InnerPath;
use crate::span::step;
use crate::warning::RunWarning;
use crate::workspace::{RunGuard, Workspace};
use copy::ReadFile;
pub(crate) use copy::{SHORTCUT_DIR, SHORTCUTS};
use error::{CHANGED, StageError};
use staged_index::StagedIndex;

pub use source::{SkillListing, StageFile, StageFiles, StageSource};
pub(crate) use versions::skill_of;

/// The most files of a skill that can be staged.
pub const MAX_SKILL_FILES: usize = 10_000;
/// The most bytes of a skill that can be staged.
pub const MAX_SKILL_BYTES: u64 = 256 << 20;
/// The most files, directories and links of a skill that can be staged. The target of a link counts once for each link.
pub const MAX_SKILL_ENTRIES: usize = 2 * MAX_SKILL_FILES;
/// The most bytes of all paths of a skill together.
pub const MAX_SKILL_PATHS: usize = 4 << 20;
/// How many warnings name a path; more are only counted.
const MAX_WARNINGS: usize = 50;

/// How often staging is tried while the skill changes.
const MAX_ATTEMPTS: u32 = 3;
/// How often staging is tried for a local directory, which is quick to read.
const MAX_LOCAL_ATTEMPTS: u32 = 10;

/// A skill that is staged in a workspace.
///
/// This version stays in its directory until the value is dropped, even if a newer one is staged.
#[derive(Debug)]
#[non_exhaustive]
pub struct StagedSkill {
    /// Its name.
    pub name: String,
    /// Its directory, relative to the workspace.
    pub directory: String,
    /// The digest of all its files.
    pub digest: String,
    /// How many files were copied; 0 if the skill was staged already.
    pub copied: usize,
    /// Warnings about files that were left out, and about directories that hide those of the workspace.
    pub warnings: Vec<RunWarning>,
    _guard: RunGuard,
}

impl StagedSkill {
    /// The name of its directory in `skills/`.
    pub(crate) fn directory_name(&self) -> &str {
        self.directory.trim_start_matches("skills/")
    }
}

impl Workspace {
    /// Copies the skill `name` to `skills/<name>`, unless the same version is there already.
    ///
    /// Staged versions stay in place while commands run, and while a [`StagedSkill`] is held. A newer version then
    /// gets its own directory ([`StagedSkill::directory`]), and replaces the old one when nothing runs. So the version
    /// that was approved is the one that runs.
    ///
    /// An unchanged directory costs one `stat` per file. A changed one is copied and replaces the old copy in one
    /// step. Files keep only their executable bit, so nothing is set-uid. Links inside the skill become what they
    /// lead to. Links that lead out of it, FIFOs, sockets and devices are left out with a warning. `out`, `work` and
    /// `inputs` are links to the workspace's directories, unless the skill has its own.
    ///
    /// # Errors
    ///
    /// The name cannot be a directory's name, the source cannot be read, or the skill is larger than
    /// [`MAX_SKILL_FILES`], [`MAX_SKILL_BYTES`], [`MAX_SKILL_ENTRIES`] or [`MAX_SKILL_PATHS`] allow.
    pub async fn stage(&self, name: &str, source: &StageSource) -> Result<StagedSkill, WorkspaceError> {
        check_name(name)?;
        let span = tracing::info_span!("workspace.stage.skill", otel.status_code = Empty);
        let (workspace, skill) = (self.clone(), name.to_owned());
        let staged = async {
            match source {
                StageSource::Directory(path) => {
                    let path = path.clone();
                    blocking(move || stage_directory(&workspace, &skill, &path, &local::read)).await?
                }
                StageSource::Files(files) => stage_files(&workspace, &skill, files.as_ref()).await,
            }
        };
        step(&span, staged).await.map_err(|error| error.for_skill(name))
    }
}

/// Reads a file of a local directory.
type ReadIn<'a> = &'a dyn Fn(&Dir, &InnerPath, u64) -> io::Result<Option<Bytes>>;

/// Stages a local directory. If it changes meanwhile, staging starts again, so that versions never mix.
fn stage_directory(
    workspace: &Workspace,
    name: &str,
    path: &Path,
    read: ReadIn<'_>,
) -> Result<StagedSkill, StageError> {
    let mut last = StageError::Changed;
    for _ in 0..MAX_LOCAL_ATTEMPTS {
        let root = Dir::open(path)?;
        let listed = local::list(&root)?;
        let read = |file: &StageFile, max| read(&root, &file.path, max);
        let is_settled = || Ok(listed.is_same(&local::list(&root)?));
        match stage(workspace, name, &listed.files, &read, &is_settled) {
            Err(StageError::Changed) => last = StageError::Changed,
            // A file was removed after it was listed.
            Err(StageError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                last = StageError::Io(error);
            }
            staged => return staged,
        }
    }
    Err(last)
}

/// Stages files from elsewhere. If they change meanwhile, staging starts again.
async fn stage_files(
    workspace: &Workspace,
    name: &str,
    files: &dyn StageFiles,
) -> Result<StagedSkill, StageError> {
    for _ in 0..MAX_ATTEMPTS {
        let listing = files.list().await?;
        check_size(&listing)?;
        let fetched = fetch(workspace, name, &listing, files).await?;
        if !fetched.is_empty() && files.list().await? != listing {
            continue;
        }
        let (workspace, name) = (workspace.clone(), name.to_owned());
        let staged = blocking(move || {
            let read = |file: &StageFile, _| match fetched.get(file.path.as_str()) {
                Some(bytes) => Ok(Some(bytes.clone())),
                // Another process staged a different version meanwhile.
                None => Err(io::Error::other(CHANGED)),
            };
            stage(&workspace, &name, &listing, &read, &|| Ok(true))
        });
        return staged.await?;
    }
    Err(StageError::Changed)
}

/// Refuses a listing that is larger than the limits.
fn check_size(listing: &SkillListing) -> Result<(), StageError> {
    let (files, directories) = (&listing.files, &listing.directories);
    if files.len() > MAX_SKILL_FILES {
        return Err(StageError::Files);
    }
    if files.len().saturating_add(directories.len()) > MAX_SKILL_ENTRIES {
        return Err(StageError::Entries);
    }
    let paths = files.iter().map(|file| &file.path).chain(directories);
    if paths.map(|path| path.as_str().len()).sum::<usize>() > MAX_SKILL_PATHS {
        return Err(StageError::Paths);
    }
    Ok(())
}

/// Reads the files that staging needs; none if the staged version is certainly the same.
async fn fetch(
    workspace: &Workspace,
    name: &str,
    listing: &SkillListing,
    files: &dyn StageFiles,
) -> Result<HashMap<String, Bytes>, StageError> {
    let (place, skill) = (workspace.clone(), name.to_owned());
    let before = blocking(move || -> io::Result<_> { versions::current(&place, &skill) }).await??;
    if let Some(before) = &before
        && before.has_same_paths(listing)
        && listing.files.iter().all(|file| before.files[file.path.as_str()].is(file))
    {
        return Ok(HashMap::new());
    }
    let mut fetched = HashMap::new();
    let mut left = MAX_SKILL_BYTES;
    for file in &listing.files {
        let bytes = files.read(&file.path, left).await?.ok_or(StageError::Bytes)?;
        left = left.checked_sub(bytes.len() as u64).ok_or(StageError::Bytes)?;
        fetched.insert(file.path.as_str().to_owned(), bytes);
    }
    Ok(fetched)
}

/// Stages a skill unless a staged version is still right.
fn stage(
    workspace: &Workspace,
    name: &str,
    listing: &SkillListing,
    read: ReadFile<'_>,
    is_settled: &dyn Fn() -> Result<bool, StageError>,
) -> Result<StagedSkill, StageError> {
    let _staging = workspace.lock_staging()?;
    let skills = workspace.dir().dir("skills").map_err(io::Error::from)?;
    let indexes = workspace.staged_indexes()?;
    // Held until the new version is in place, so that no command starts meanwhile.
    let idle = workspace.lock_idle()?;
    if idle.is_some() {
        versions::sweep(&skills, &indexes)?;
    }
    let found = find_staged(workspace, name, listing, read)?;
    let (directory, index, copied) = match found {
        Some((directory, index)) => (directory, index, 0),
        None => {
            let (directory, index) =
                stage_new(&skills, &indexes, name, listing, read, is_settled, idle.is_some())?;
            if idle.is_some() {
                versions::sweep(&skills, &indexes)?;
            }
            let copied = index.files.len();
            (directory, index, copied)
        }
    };
    drop(idle);
    let mut warnings = listing.warnings.clone();
    warnings.extend(copy::own_directory_warnings(listing));
    Ok(StagedSkill {
        name: name.to_owned(),
        directory: format!("skills/{directory}"),
        digest: index.digest(),
        copied,
        warnings,
        _guard: workspace.lock_running()?,
    })
}

/// A staged version that is the same as the source, by its directory in `skills/`.
fn find_staged(
    workspace: &Workspace,
    name: &str,
    listing: &SkillListing,
    read: ReadFile<'_>,
) -> Result<Option<(String, StagedIndex)>, StageError> {
    let skills = workspace.dir().dir("skills").map_err(io::Error::from)?;
    for directory in versions::directories_of(&skills, name)? {
        let current = versions::current(workspace, &directory)?;
        if let Some((index, renewed)) = versions::unchanged(current, listing, read)? {
            if renewed {
                index.write(&workspace.staged_indexes()?, &directory)?;
            }
            return Ok(Some((directory, index)));
        }
    }
    Ok(None)
}

/// Copies the source into a new directory of `skills/`. It replaces the old version if nothing runs, and else lies
/// beside it: commands that run, or were approved, keep the version they have.
fn stage_new(
    skills: &Dir,
    indexes: &Dir,
    name: &str,
    listing: &SkillListing,
    read: ReadFile<'_>,
    is_settled: &dyn Fn() -> Result<bool, StageError>,
    is_idle: bool,
) -> Result<(String, StagedIndex), StageError> {
    let (temporary, directory) = skills.temporary_dir()?;
    let files = copy::copy_files(&directory, listing, read)
        .and_then(|files| if is_settled()? { Ok(files) } else { Err(StageError::Changed) });
    let files = files.inspect_err(|_| drop(skills.remove_tree(temporary.as_ref())))?;
    let index = StagedIndex::new(versions::identity(&directory.stat()?), files, listing);
    let directory = if is_idle || skills.entry(name)?.is_none() {
        versions::put_in_place(skills, &temporary, name)?;
        name.to_owned()
    } else {
        let beside = versions::beside(name, &temporary);
        skills.rename(&temporary, &beside)?;
        beside
    };
    index.write(indexes, &directory)?;
    Ok((directory, index))
}

/// Checks that `name` can be the name of a skill's directory.
pub(crate) fn check_name(name: &str) -> Result<(), WorkspaceError> {
    const MAX_CHARACTERS: usize = 64;
    const MAX_BYTES: usize = 240;
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.');
    // Many scripts combine letters with marks.
    let is_mark =
        |character: char| !character.is_ascii() && !character.is_whitespace() && !character.is_control();
    let fits = name.chars().count() <= MAX_CHARACTERS && name.len() <= MAX_BYTES;
    if fits
        && !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|character| is_plain(character) || is_mark(character))
    {
        Ok(())
    } else {
        Err(WorkspaceError::SkillName(crate::path::escaped_name(name.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::workspace::Workspaces;

    #[test]
    fn a_directory_that_is_written_while_it_is_staged_is_staged_anew() {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("skill");
        std::fs::create_dir(&skill).unwrap();
        let write = |version: u32| {
            for name in ["a", "b"] {
                std::fs::write(skill.join(name), version.to_string()).unwrap();
                // The clock of a file system may be too slow to tell the versions apart.
                let file = std::fs::File::open(skill.join(name)).unwrap();
                file.set_modified(UNIX_EPOCH + Duration::from_secs(version.into())).unwrap();
            }
        };
        let workspaces = Workspaces::open(place.path().join("workspaces")).unwrap();
        let workspace = workspaces.workspace("test").unwrap();
        let copies = Cell::new(0);
        // Changes the second file after the first was read, this many times.
        let stage = |times: u32| {
            copies.set(0);
            write(0);
            stage_directory(&workspace, &format!("demo-{times}"), &skill, &|root, path, max| {
                let bytes = local::read(root, path, max);
                if path.as_str() == "a" {
                    copies.set(copies.get() + 1);
                    if copies.get() <= times {
                        write(copies.get());
                    }
                }
                bytes
            })
        };
        let skills = workspace.path().join("skills");
        for times in [0, 1, 2] {
            drop(stage(times).unwrap());
            let at = skills.join(format!("demo-{times}"));
            let staged = ["a", "b"].map(|name| std::fs::read_to_string(at.join(name)).unwrap());
            assert_eq!(staged, [times.to_string(), times.to_string()]);
            assert_eq!(copies.get(), times + 1);
        }
        assert!(matches!(stage(MAX_LOCAL_ATTEMPTS), Err(StageError::Changed)));
        assert_eq!(std::fs::read_dir(skills).unwrap().count(), 3, "nothing half is left");
        // Staged skills are read-only, so a plain user cannot remove the whole directory.
        for times in [0, 1, 2] {
            workspace.dir().dir("skills").unwrap().remove_tree(format!("demo-{times}").as_ref()).unwrap();
        }
    }
}
