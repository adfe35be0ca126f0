//! The files of all skills, each in a directory of its name.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Listing, LocalBackend, ReadRange, VirtualPath,
    WriteMode,
};
use prowess_catalog::{Catalog, Storage};

/// The local files of all skills of a catalog, read-only, each skill in a directory of its name.
///
/// It has every skill of the catalog. The file tools hide the skills that an agent may not see.
///
/// ```
/// use prowess_agent::tree_files::SkillDirectories;
/// use prowess_backend::{Backend, VirtualPath};
/// use prowess_catalog::{Catalog, Root, ScanOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let skills = SkillDirectories::new(move || catalog.clone());
/// assert!(skills.stat(&VirtualPath::parse("/greet/SKILL.md")?).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct SkillDirectories {
    catalog: Box<dyn Fn() -> Catalog + Send + Sync>,
}

impl SkillDirectories {
    /// The files of the skills in the catalog that the function returns. It is called often.
    pub fn new(catalog: impl Fn() -> Catalog + Send + Sync + 'static) -> Self {
        Self { catalog: Box::new(catalog) }
    }

    /// The directory of a skill, and the path in it.
    fn find(&self, path: &VirtualPath) -> Result<(Skill, VirtualPath), BackendError> {
        let not_found = || BackendError::NotFound { path: path.clone() };
        let name = path.components().next().ok_or_else(|| is_directory(path))?;
        let catalog = (self.catalog)();
        let entry =
            catalog.get(name).filter(|entry| entry.root.storage == Storage::Local).ok_or_else(not_found)?;
        let at = VirtualPath::root().join(name)?;
        let rest = path.strip_prefix(&at).unwrap_or_default();
        let inside = if rest.is_empty() { VirtualPath::root() } else { VirtualPath::root().join(rest)? };
        let files = LocalBackend::open(entry.skill.location.directory()).map_err(|_| not_found())?;
        Ok((Skill { at, files }, inside))
    }
}

/// One skill.
struct Skill {
    at: VirtualPath,
    files: LocalBackend,
}

impl Skill {
    fn entry(&self, mut entry: Entry) -> Result<Entry, BackendError> {
        entry.path = entry.path.rebase(&self.at)?;
        Ok(entry)
    }

    fn error(&self) -> impl Fn(BackendError) -> BackendError {
        |error| error.rebase(&self.at)
    }

    /// Entries with the paths of this backend. One whose path is too long is left out.
    fn entries(&self, entries: Vec<Entry>) -> Vec<Entry> {
        entries.into_iter().filter_map(|entry| self.entry(entry).ok()).collect()
    }

    fn errors(&self, errors: Vec<BackendError>) -> Vec<BackendError> {
        errors.into_iter().map(self.error()).collect()
    }
}

fn is_directory(path: &VirtualPath) -> BackendError {
    BackendError::IsDirectory { path: path.clone() }
}

fn read_only(path: &VirtualPath) -> BackendError {
    let reason = "skills are read-only".to_owned();
    BackendError::PermissionDenied { path: path.clone(), reason }
}

impl fmt::Debug for SkillDirectories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillDirectories").finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for SkillDirectories {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        if path.is_root() {
            let mut listing = Listing::default();
            let catalog = (self.catalog)();
            for entry in catalog.entries().iter().filter(|entry| entry.root.storage == Storage::Local) {
                listing.entries.push(Entry::directory(path.join(entry.skill.name.as_str())?));
            }
            return Ok(listing);
        }
        let (skill, inside) = self.find(path)?;
        let mut listing = skill.files.ls(&inside).await.map_err(skill.error())?;
        listing.entries = skill.entries(listing.entries);
        listing.skipped = skill.errors(listing.skipped);
        Ok(listing)
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        if path.is_root() {
            return Ok(Entry::directory(path.clone()));
        }
        let (skill, inside) = self.find(path)?;
        skill.entry(skill.files.stat(&inside).await.map_err(skill.error())?)
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        let (skill, inside) = self.find(path)?;
        let mut contents = skill.files.read(&inside, range).await.map_err(skill.error())?;
        contents.path = contents.path.rebase(&skill.at)?;
        Ok(contents)
    }

    async fn write(&self, path: &VirtualPath, _: Bytes, _: WriteMode) -> Result<Entry, BackendError> {
        Err(read_only(path))
    }

    async fn append(&self, path: &VirtualPath, _: Bytes) -> Result<Entry, BackendError> {
        Err(read_only(path))
    }

    async fn edit(&self, path: &VirtualPath, _: &Edit) -> Result<Edited, BackendError> {
        Err(read_only(path))
    }

    async fn swap(&self, path: &VirtualPath, _: Bytes, _: Bytes) -> Result<Entry, BackendError> {
        Err(read_only(path))
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        Err(read_only(path))
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        Err(read_only(path))
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        let Ok((skill, inside)) = self.find(path) else { return Target::itself(path) };
        let target = skill.files.target(&inside).await;
        let rebased = target.path.rebase(&skill.at).unwrap_or_else(|_| path.clone());
        Target { path: rebased, ..target }
    }
}
