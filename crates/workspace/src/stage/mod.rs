//! Putting a skill's files into a workspace, read-only, and only when they have changed.

mod local;
mod manifest;
mod source;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{FileType, RenameFlags, renameat_with, symlinkat};
use rustix::io::Errno;
use tracing::field::Empty;

use crate::blocking::blocking;
use crate::dir::{Dir, OWN_PREFIX};
use crate::error::WorkspaceError;
use crate::path::InnerPath;
use crate::span::step;
use crate::warning::RunWarning;
use crate::workspace::{RunGuard, Workspace};
use manifest::{Manifest, Staged};

pub use source::{SkillListing, StageFile, StageFiles, StageSource};

/// The most files that a skill may have to be staged.
pub const MAX_SKILL_FILES: usize = 10_000;
/// The most bytes that a skill may have to be staged.
pub const MAX_SKILL_BYTES: u64 = 256 << 20;
/// The most files, directories, links and others that a skill may have to be staged. What a link leads to counts each
/// time that a link leads there.
pub const MAX_SKILL_ENTRIES: usize = 2 * MAX_SKILL_FILES;
/// The most bytes that the paths of all these may have.
pub const MAX_SKILL_PATHS: usize = 4 << 20;
/// So many things that are left out are named; the others are counted.
const MAX_WARNINGS: usize = 50;

/// How often it is tried to stage a skill that is written meanwhile.
const MAX_ATTEMPTS: u32 = 3;
/// The same for a directory of the local disk, which is read in no time.
const MAX_LOCAL_ATTEMPTS: u32 = 10;

/// What stands between a skill's name and the number of a version that came beside another. No name has it.
const BESIDE: &str = "@";

/// What stands in a staged skill for the workspace's own directories: so that `out/` in a skill's text is
/// where outputs are collected.
const LINKS: [(&str, &str); 3] =
    [("out", "../../out"), ("work", "../../work"), ("inputs", "../../work/inputs")];

/// A skill in a workspace.
///
/// While it is held, this version of it stays in its directory, also when a newer one is staged.
#[derive(Debug)]
#[non_exhaustive]
pub struct StagedSkill {
    /// Its name.
    pub name: String,
    /// Its directory, relative to the workspace.
    pub directory: String,
    /// The digest of all its files.
    pub digest: String,
    /// How many files were copied; none when it was there already.
    pub copied: usize,
    /// What was left out, and what a reader of the skill's text should know.
    pub warnings: Vec<RunWarning>,
    _guard: RunGuard,
}

impl StagedSkill {
    /// The name of its directory in `skills/`.
    pub(crate) fn place(&self) -> &str {
        self.directory.trim_start_matches("skills/")
    }
}

/// Why staging ended early.
#[derive(Debug)]
enum StageLimit {
    Files,
    Bytes,
    Entries,
    Paths,
    /// The skill was written while it was copied.
    Moved,
    Io(io::Error),
}

impl From<io::Error> for StageLimit {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl StageLimit {
    fn of(self, skill: &str) -> WorkspaceError {
        let skill = skill.to_owned();
        match self {
            Self::Files => {
                WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_FILES as u64, of: "files" }
            }
            Self::Bytes => WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_BYTES, of: "bytes" },
            Self::Entries => WorkspaceError::SkillTooLarge {
                skill,
                limit: MAX_SKILL_ENTRIES as u64,
                of: "files, directories and links",
            },
            Self::Paths => {
                WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_PATHS as u64, of: "bytes of paths" }
            }
            Self::Moved => {
                let error = io::Error::other("the skill changes while it is staged; try again");
                WorkspaceError::SkillFiles { skill, error }
            }
            Self::Io(error) => WorkspaceError::SkillFiles { skill, error },
        }
    }
}

/// Reads a file of the source: at most so many bytes, `None` when there are more.
type Read<'a> = &'a dyn Fn(&StageFile, u64) -> io::Result<Option<Bytes>>;

impl Workspace {
    /// Puts the skill `name` at `skills/<name>`, unless it is there as it is at its source.
    ///
    /// While something runs in the workspace, or is held to be run, the versions that are there stay where they are:
    /// a newer one comes beside them, at [`StagedSkill::directory`], and takes its place when all is quiet. So what
    /// was looked at is what runs.
    ///
    /// A directory that has not changed costs a `stat` per file. One that has is copied beside the old one
    /// and takes its place in one step. Files keep their executable bit and lose every other: nothing is
    /// set-uid. Links within the skill become what they lead to; those that lead out of it, FIFOs, sockets
    /// and devices are left out with a warning. `out`, `work` and `inputs` are links to the workspace's,
    /// unless the skill has its own.
    ///
    /// # Errors
    ///
    /// The name is no directory's name, the source cannot be read, or the skill is larger than [`MAX_SKILL_FILES`],
    /// [`MAX_SKILL_BYTES`], [`MAX_SKILL_ENTRIES`] or [`MAX_SKILL_PATHS`] allow.
    pub async fn stage(&self, name: &str, source: &StageSource) -> Result<StagedSkill, WorkspaceError> {
        check_name(name)?;
        let span = tracing::info_span!("workspace.stage.skill", skill = name, otel.status_code = Empty);
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
        step(&span, staged).await.map_err(|limit| limit.of(name))
    }
}

/// Reads a file of a directory.
type ReadIn<'a> = &'a dyn Fn(&Dir, &InnerPath, u64) -> io::Result<Option<Bytes>>;

/// Stages a directory; anew when it was written meanwhile, so that no mix of two versions is staged.
fn stage_directory(
    workspace: &Workspace,
    name: &str,
    path: &Path,
    read: ReadIn<'_>,
) -> Result<StagedSkill, StageLimit> {
    let mut last = StageLimit::Moved;
    for _ in 0..MAX_LOCAL_ATTEMPTS {
        let root = Dir::open(path)?;
        let listed = local::list(&root)?;
        let read = |file: &StageFile, max| read(&root, &file.path, max);
        let is_settled = || Ok(listed.is_same(&local::list(&root)?));
        match stage(workspace, name, &listed.files, &read, &is_settled) {
            Err(StageLimit::Moved) => last = StageLimit::Moved,
            // Removed after it was listed.
            Err(StageLimit::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                last = StageLimit::Io(error);
            }
            staged => return staged,
        }
    }
    Err(last)
}

/// Stages files from elsewhere; likewise.
async fn stage_files(
    workspace: &Workspace,
    name: &str,
    files: &dyn StageFiles,
) -> Result<StagedSkill, StageLimit> {
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
                // Staged by somebody else meanwhile, from another version.
                None => Err(io::Error::other("the skill changes while it is staged; try again")),
            };
            stage(&workspace, &name, &listing, &read, &|| Ok(true))
        });
        return staged.await?;
    }
    Err(StageLimit::Moved)
}

/// Refuses a listing that is larger than that of a local directory can be.
fn check_size(listing: &SkillListing) -> Result<(), StageLimit> {
    let (files, directories) = (&listing.files, &listing.directories);
    if files.len() > MAX_SKILL_FILES {
        return Err(StageLimit::Files);
    }
    if files.len().saturating_add(directories.len()) > MAX_SKILL_ENTRIES {
        return Err(StageLimit::Entries);
    }
    let paths = files.iter().map(|file| &file.path).chain(directories);
    if paths.map(|path| path.as_str().len()).sum::<usize>() > MAX_SKILL_PATHS {
        return Err(StageLimit::Paths);
    }
    Ok(())
}

/// The contents that staging will ask for: of all files, or of those that may be as they were.
async fn fetch(
    workspace: &Workspace,
    name: &str,
    listing: &SkillListing,
    files: &dyn StageFiles,
) -> Result<HashMap<String, Bytes>, StageLimit> {
    let (place, skill) = (workspace.clone(), name.to_owned());
    let before = blocking(move || -> io::Result<_> { current(&place, &skill) }).await??;
    if let Some(before) = &before
        && before.has_same_paths(listing)
        && listing.files.iter().all(|file| before.files[file.path.as_str()].is(file))
    {
        return Ok(HashMap::new());
    }
    let mut fetched = HashMap::new();
    let mut left = MAX_SKILL_BYTES;
    for file in &listing.files {
        let bytes = files.read(&file.path, left).await?.ok_or(StageLimit::Bytes)?;
        left = left.checked_sub(bytes.len() as u64).ok_or(StageLimit::Bytes)?;
        fetched.insert(file.path.as_str().to_owned(), bytes);
    }
    Ok(fetched)
}

fn stage(
    workspace: &Workspace,
    name: &str,
    listing: &SkillListing,
    read: Read<'_>,
    is_settled: &dyn Fn() -> Result<bool, StageLimit>,
) -> Result<StagedSkill, StageLimit> {
    let _staging = workspace.lock_staging()?;
    let skills = workspace.dir().dir("skills").map_err(io::Error::from)?;
    let manifests = workspace.manifests()?;
    // Held until the new version is in its place: nobody begins to run anything meanwhile.
    let idle = workspace.lock_idle()?;
    if idle.is_some() {
        sweep(&skills, &manifests)?;
    }
    let mut found = None;
    for place in places(&skills, name)? {
        if let Some((manifest, renewed)) = unchanged(current(workspace, &place)?, listing, read)? {
            if renewed {
                manifest.write(&manifests, &place)?;
            }
            found = Some((place, manifest, 0));
            break;
        }
    }
    let (place, manifest, copied) = match found {
        Some(found) => found,
        None => {
            let (temporary, directory) = skills.temporary_dir()?;
            let files = fill(&directory, listing, read)
                .and_then(|files| if is_settled()? { Ok(files) } else { Err(StageLimit::Moved) });
            let files = files.inspect_err(|_| drop(skills.remove_tree(temporary.as_ref())))?;
            let manifest = Manifest::new(identity(&directory.stat()?), files, listing);
            let place = if idle.is_some() || skills.entry(name)?.is_none() {
                put_in_place(&skills, &temporary, name)?;
                name.to_owned()
            } else {
                // What others run, or were allowed to run, stays where it is.
                let place = format!("{name}{BESIDE}{}", temporary.trim_start_matches(OWN_PREFIX));
                skills.rename(&temporary, &place)?;
                place
            };
            manifest.write(&manifests, &place)?;
            if idle.is_some() {
                sweep(&skills, &manifests)?;
            }
            let copied = manifest.files.len();
            (place, manifest, copied)
        }
    };
    drop(idle);
    let mut warnings = listing.warnings.clone();
    for (own, link) in LINKS.iter().filter(|(own, _)| ships(listing, own)) {
        let place = link.trim_start_matches("../");
        warnings.push(RunWarning::OwnDirectory { own, place });
    }
    Ok(StagedSkill {
        name: name.to_owned(),
        directory: format!("skills/{place}"),
        digest: manifest.digest(),
        copied,
        warnings,
        _guard: workspace.lock_running()?,
    })
}

/// The manifest of what is staged now, if it is still what the manifest describes.
fn current(workspace: &Workspace, name: &str) -> io::Result<Option<Manifest>> {
    let Some(manifest) = Manifest::read(&workspace.manifests()?, name) else { return Ok(None) };
    let found = workspace.dir().dir("skills")?.entry(name)?;
    Ok(found.filter(|found| identity(found) == manifest.directory).map(|_| manifest))
}

/// The manifest, if the source has not changed; and whether only its stamps are new.
fn unchanged(
    before: Option<Manifest>,
    listing: &SkillListing,
    read: Read<'_>,
) -> Result<Option<(Manifest, bool)>, StageLimit> {
    let Some(mut manifest) = before.filter(|before| before.has_same_paths(listing)) else { return Ok(None) };
    let mut renewed = false;
    for file in &listing.files {
        let staged = &manifest.files[file.path.as_str()];
        if staged.is(file) {
            continue;
        }
        if staged.differs(file) {
            return Ok(None);
        }
        let bytes = read(file, MAX_SKILL_BYTES)?.ok_or(StageLimit::Bytes)?;
        let again = Staged::new(file, &bytes);
        if again.digest != staged.digest {
            return Ok(None);
        }
        renewed |= again != *staged;
        manifest.files.insert(file.path.as_str().to_owned(), again);
    }
    Ok(Some((manifest, renewed)))
}

/// Copies the files into an empty directory, and closes it against changes.
fn fill(
    directory: &Dir,
    listing: &SkillListing,
    read: Read<'_>,
) -> Result<BTreeMap<String, Staged>, StageLimit> {
    let mut staged = BTreeMap::new();
    let mut left = MAX_SKILL_BYTES;
    let mut parents: HashMap<&str, Dir> = HashMap::new();
    for path in &listing.directories {
        directory.make_dirs(path.as_str(), 0o755, None)?;
    }
    for file in &listing.files {
        let bytes = read(file, left)?.ok_or(StageLimit::Bytes)?;
        left = left.checked_sub(bytes.len() as u64).ok_or(StageLimit::Bytes)?;
        let (parent, name) = file.path.split();
        let parent = match parents.entry(parent) {
            std::collections::hash_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(directory.make_dirs(parent, 0o755, None)?)
            }
        };
        write_new(parent, name, &bytes, if file.executable { 0o555 } else { 0o444 })?;
        staged.insert(file.path.as_str().to_owned(), Staged::new(file, &bytes));
        // Descriptors are few: those of a wide skill are given back from time to time.
        if parents.len() > 64 {
            parents.clear();
        }
    }
    for (name, target) in LINKS {
        if !ships(listing, name) {
            symlinkat(target, directory, name).map_err(io::Error::from)?;
        }
    }
    close(directory)?;
    Ok(staged)
}

/// Writes a file that is not there yet. Nobody sees it before the whole directory is in its place.
fn write_new(parent: &Dir, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::File::from(prowess_base::beneath::create_file(parent, name, 0o600)?);
    io::Write::write_all(&mut file, bytes)?;
    crate::dir::finish(&file, mode, None)
}

/// Takes the right to write from a directory and those below.
fn close(directory: &Dir) -> io::Result<()> {
    for (name, kind) in directory.entries(usize::MAX)?.0 {
        if kind == FileType::Directory {
            close(&directory.dir(&name)?)?;
        }
    }
    directory.hand_over(0o555, None)
}

/// Whether the skill has something of its own at `name`.
fn ships(listing: &SkillListing, name: &str) -> bool {
    let is_own = |path: &InnerPath| path.top() == name;
    listing.files.iter().map(|file| &file.path).any(is_own) || listing.directories.iter().any(is_own)
}

/// Puts the new directory where the old one is, in one step. The old one stays under the other name, for
/// those who are in it.
fn put_in_place(skills: &Dir, new: &str, name: &str) -> io::Result<()> {
    match renameat_with(skills, new, skills, name, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => skills.rename(new, name),
        // Not every file system can exchange.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let (aside, _) = skills.temporary_dir()?;
            skills.rename(name, &aside)?;
            skills.rename(new, name)
        }
        Err(error) => Err(error.into()),
    }
}

/// Where versions of a skill are, its own place first.
fn places(skills: &Dir, name: &str) -> io::Result<Vec<String>> {
    let beside = format!("{name}{BESIDE}");
    let (entries, _) = skills.entries(usize::MAX)?;
    let others = entries.iter().filter_map(|(entry, _)| entry.to_str());
    Ok(std::iter::once(name)
        .chain(others.filter(|entry| entry.starts_with(&beside)))
        .map(str::to_owned)
        .collect())
}

/// Removes the versions of skills that were replaced or came beside others. Nothing runs that could need them.
fn sweep(skills: &Dir, manifests: &Dir) -> io::Result<()> {
    for (name, _) in skills.entries(usize::MAX)?.0 {
        let text = name.to_string_lossy();
        if text.starts_with(OWN_PREFIX) {
            skills.remove_tree(&name)?;
        } else if text.contains(BESIDE) {
            skills.remove_tree(&name)?;
            Manifest::forget(manifests, &text);
        }
    }
    Ok(())
}

fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Whether `name` can be the name of a skill's directory.
pub(crate) fn check_name(name: &str) -> Result<(), WorkspaceError> {
    const MAX_CHARACTERS: usize = 64;
    const MAX_BYTES: usize = 240;
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.');
    // Marks belong to the letters of many scripts.
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
        Err(WorkspaceError::SkillName(crate::path::shown(name.as_ref())))
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
        let workspace = workspaces.for_session("test").unwrap();
        let copies = Cell::new(0);
        // Between the first file and the second, as often as is said.
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
        assert!(matches!(stage(MAX_LOCAL_ATTEMPTS), Err(StageLimit::Moved)));
        assert_eq!(std::fs::read_dir(skills).unwrap().count(), 3, "nothing half is left");
        // Staged skills are read-only, which keeps a plain user from removing the whole place.
        for times in [0, 1, 2] {
            workspace.dir().dir("skills").unwrap().remove_tree(format!("demo-{times}").as_ref()).unwrap();
        }
    }
}
