//! Where skills are read from: the local disk or a backend.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "backend")]
use prowess_backend::Backend;
#[cfg(any(feature = "backend", feature = "run"))]
use prowess_catalog::Storage;
use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::{Catalog, Documents, ReadError, Resources, SkillEntry, SkillText};
#[cfg(feature = "run")]
use prowess_workspace::stage::StageSource;

use crate::operation::{Fed, Want};

/// Reads the files of skills.
///
/// A session reads only what its catalog lists. A text reaches a model only after the session has passed the gate.
///
/// ```
/// use prowess_skills::{LocalFiles, SkillFiles};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let entry = catalog.get("greet").unwrap();
/// let (text, resources) = LocalFiles.text_and_resources(entry, 1).await?;
/// assert_eq!(text.body(), "Wave.");
/// assert!(resources.files.is_empty());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait SkillFiles: Send + Sync + Debug {
    /// The skill's manifest.
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError>;

    /// The skill's resources, `depth` levels of directories deep. Those that cannot be listed are left out, with a
    /// diagnostic.
    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources;

    /// Both, which a load needs.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        let text = self.text(entry).await?;
        Ok((text, self.resources(entry, depth).await))
    }

    /// The list of the skill's documents.
    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents;

    /// One document of the skill.
    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError>;

    /// Asks a server for a skill that it does not list, and returns the catalog with this skill; `None` if there is no such
    /// skill.
    async fn look_up(&self, _name: &str, _catalog: &Catalog) -> Option<Catalog> {
        None
    }

    /// Reads what an operation wants.
    async fn feed(&self, want: &Want) -> Fed {
        match want {
            Want::Text { entry } => Fed::Text(self.text(entry).await),
            Want::Resources { entry, depth } => Fed::Resources(self.resources(entry, *depth).await),
            Want::TextAndResources { entry, depth } => {
                Fed::TextAndResources(self.text_and_resources(entry, *depth).await)
            }
            Want::Documents { entry } => Fed::Documents(self.documents(entry).await),
            Want::Document { entry, path } => Fed::Document(self.document(entry, path).await),
            Want::LookUp { name, catalog } => Fed::LookUp(self.look_up(name, catalog).await),
        }
    }

    /// The source of the skill's files for a run; `None` if there is none. For a local skill it is the skill's directory.
    #[cfg(feature = "run")]
    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        let is_local = entry.root.storage == Storage::Local;
        is_local.then(|| StageSource::Directory(entry.skill.location.directory().into()))
    }
}

/// Skills on the local disk.
///
/// ```
/// use std::sync::Arc;
/// use prowess_skills::{LocalFiles, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// // This is the default.
/// let session = SkillSession::builder(catalog).files(Arc::new(LocalFiles)).build().await;
/// assert!(session.load("greet", None).await?.text.contains("Wave."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

#[async_trait]
impl SkillFiles for LocalFiles {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        let entry = Arc::clone(entry);
        on_blocking_thread(move || entry.read_text()).await
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        let entry = Arc::clone(entry);
        on_blocking_thread(move || entry.resources(depth)).await
    }

    /// Another thread costs as much as reading a short manifest, so a short manifest is read on this thread.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        if let Some(read) = entry.read_at_once(depth) {
            return read;
        }
        let entry = Arc::clone(entry);
        on_blocking_thread(move || entry.read_text_and_resources(depth)).await
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        let entry = Arc::clone(entry);
        on_blocking_thread(move || entry.documents()).await
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        let (entry, path) = (Arc::clone(entry), path.to_owned());
        on_blocking_thread(move || entry.read_document(&path)).await
    }
}

/// Does blocking work on a thread of Tokio for that, or on this thread if there is no runtime.
pub(crate) async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime shuts down, and so does the caller.
        Err(_) => std::future::pending().await,
    }
}

/// Skills in a backend and on the local disk.
///
/// With the feature `run`, commands of these skills can run. A backend stores no file modes, so files in `scripts/` are
/// executable, and others need their interpreter.
///
/// ```
/// use std::sync::Arc;
/// use prowess_backend::{Backend, MemoryBackend, VirtualPath, WriteMode};
/// use prowess_catalog::{Catalog, Root, ScanOptions, scan_backend};
/// use prowess_skills::{BackendFiles, SkillSession};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let backend = Arc::new(MemoryBackend::new());
/// let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// let path = VirtualPath::parse("/skills/greet/SKILL.md")?;
/// backend.write(&path, manifest.into(), WriteMode::CreateNew).await?;
///
/// let root = Arc::new(Root::explicit("/skills").in_backend());
/// let scan = scan_backend(&*backend, &root, &ScanOptions::default(), None).await;
/// let catalog = Catalog::empty().assembled([scan]);
/// let session = SkillSession::builder(catalog).files(Arc::new(BackendFiles::new(backend))).build().await;
/// assert!(session.load("greet", None).await?.text.contains("Wave."));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "backend")]
#[derive(Clone, Debug)]
pub struct BackendFiles {
    backend: Arc<dyn Backend>,
    /// Makes its stamps differ from those of other backends.
    #[cfg(feature = "run")]
    identity: crate::secret::Secret,
}

#[cfg(feature = "backend")]
impl BackendFiles {
    /// Reads the skills of backend roots from `backend`, and all others from the local disk.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            #[cfg(feature = "run")]
            identity: crate::secret::Secret::random(),
        }
    }
}

#[cfg(feature = "backend")]
#[async_trait]
impl SkillFiles for BackendFiles {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        match entry.root.storage {
            Storage::Backend => entry.read_text_in(&*self.backend).await,
            Storage::Local | Storage::Server => LocalFiles.text(entry).await,
        }
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        match entry.root.storage {
            Storage::Backend => entry.resources_in(&*self.backend, depth).await,
            Storage::Local | Storage::Server => LocalFiles.resources(entry, depth).await,
        }
    }

    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        match entry.root.storage {
            Storage::Backend => {
                let text = self.text(entry).await?;
                Ok((text, self.resources(entry, depth).await))
            }
            Storage::Local | Storage::Server => LocalFiles.text_and_resources(entry, depth).await,
        }
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        match entry.root.storage {
            Storage::Backend => entry.documents_in(&*self.backend).await,
            Storage::Local | Storage::Server => LocalFiles.documents(entry).await,
        }
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        match entry.root.storage {
            Storage::Backend => entry.read_document_in(&*self.backend, path).await,
            Storage::Local | Storage::Server => LocalFiles.document(entry, path).await,
        }
    }

    #[cfg(feature = "run")]
    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        match entry.root.storage {
            Storage::Backend => {
                let (backend, identity) = (Arc::clone(&self.backend), self.identity.to_hex());
                let skill = crate::run::backend_stage::BackendSkill::new(
                    backend,
                    entry.skill.location.directory(),
                    identity,
                )?;
                Some(StageSource::Files(Arc::new(skill)))
            }
            Storage::Local | Storage::Server => LocalFiles.stage_source(entry),
        }
    }
}
