//! Where a session reads skills from.

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

use crate::step::{Fed, Want};

/// Reads the files of skills.
///
/// A session asks for nothing that is not in its catalog, and has passed the permission gate before
/// a text reaches a model.
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
    /// The skill's document.
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError>;

    /// The files that it brings along, `depth` levels of directories deep. What cannot be listed is
    /// left out, with a diagnostic.
    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources;

    /// Both, which is what a load needs.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        let text = self.text(entry).await?;
        Ok((text, self.resources(entry, depth).await))
    }

    /// Its documents other than SKILL.md.
    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents;

    /// One of its documents.
    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError>;

    /// The catalog with the skill that a model calls `name` in it, when it is one that a server has and does not list; `None`
    /// when there is none.
    async fn look_up(&self, _name: &str, _catalog: &Catalog) -> Option<Catalog> {
        None
    }

    /// What an operation wants.
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

    /// Where its files are taken from to run its commands; `None` for a skill whose files cannot be had. A skill
    /// of the local disk is its directory.
    #[cfg(feature = "run")]
    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        let is_local = entry.root.place == Storage::Local;
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
/// // What a session uses unless it is told otherwise.
/// let session = SkillSession::builder(catalog).files(Arc::new(LocalFiles)).start().await;
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
        apart(move || entry.read_text()).await
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        let entry = Arc::clone(entry);
        apart(move || entry.resources(depth)).await
    }

    /// Handing work to another thread costs as much as reading a short document does: what can be had at
    /// once is read right here.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        if let Some(read) = entry.read_at_once(depth) {
            return read;
        }
        let entry = Arc::clone(entry);
        apart(move || entry.read_text_and_resources(depth)).await
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        let entry = Arc::clone(entry);
        apart(move || entry.documents()).await
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        let (entry, path) = (Arc::clone(entry), path.to_owned());
        apart(move || entry.read_document(&path)).await
    }
}

/// Does `work` where it may block: on Tokio's threads for that, or right here without a runtime.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is going away, and so is whoever waits for this.
        Err(_) => std::future::pending().await,
    }
}

/// Skills in a backend, beside those on the local disk.
///
/// With the feature `run` their commands can be run like others. A backend knows no modes, so the files below
/// `scripts/` may be started by their names, and all others through their interpreter.
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
/// let session = SkillSession::builder(catalog).files(Arc::new(BackendFiles::new(backend))).start().await;
/// assert!(session.load("greet", None).await?.text.contains("Wave."));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "backend")]
#[derive(Clone, Debug)]
pub struct BackendFiles {
    backend: Arc<dyn Backend>,
    /// What tells its stamps from those of other backends.
    #[cfg(feature = "run")]
    identity: crate::secret::Secret,
}

#[cfg(feature = "backend")]
impl BackendFiles {
    /// Reads skills whose root is in a backend from `backend`, and the others from the local disk.
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
        match entry.root.place {
            Storage::Backend => entry.read_text_in(&*self.backend).await,
            Storage::Local | Storage::Server => LocalFiles.text(entry).await,
        }
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        match entry.root.place {
            Storage::Backend => entry.resources_in(&*self.backend, depth).await,
            Storage::Local | Storage::Server => LocalFiles.resources(entry, depth).await,
        }
    }

    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        match entry.root.place {
            Storage::Backend => {
                let text = self.text(entry).await?;
                Ok((text, self.resources(entry, depth).await))
            }
            Storage::Local | Storage::Server => LocalFiles.text_and_resources(entry, depth).await,
        }
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        match entry.root.place {
            Storage::Backend => entry.documents_in(&*self.backend).await,
            Storage::Local | Storage::Server => LocalFiles.documents(entry).await,
        }
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        match entry.root.place {
            Storage::Backend => entry.read_document_in(&*self.backend, path).await,
            Storage::Local | Storage::Server => LocalFiles.document(entry, path).await,
        }
    }

    #[cfg(feature = "run")]
    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        match entry.root.place {
            Storage::Backend => {
                let (backend, identity) = (Arc::clone(&self.backend), self.identity.to_hex());
                let skill =
                    crate::stage::BackendSkill::new(backend, entry.skill.location.directory(), identity)?;
                Some(StageSource::Files(Arc::new(skill)))
            }
            Storage::Local | Storage::Server => LocalFiles.stage_source(entry),
        }
    }
}
