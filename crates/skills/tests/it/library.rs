//! A library of skills on the disk, and sessions over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Listing, MemoryBackend, ReadRange, VirtualPath,
    WriteMode,
};
use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::{
    Catalog, Documents, ReadError, Resources, Root, ScanOptions, SkillEntry, SkillText, scan_backend,
};
use prowess_permission::{NoAsker, Permissions, Policy};
use prowess_skills::secret::Secret;
use prowess_skills::{
    BackendFiles, Budgets, Dialect, LocalFiles, Operation, Outcome, PreparedCall, SessionOptions, SkillError,
    SkillFiles, SkillSession, SkillSessionBuilder,
};

use serde_json::Value;

/// A directory of skills that is gone when it is dropped.
pub(crate) struct Library(tempfile::TempDir);

impl Library {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Skills without files of their own.
    pub(crate) fn of(names: &[&str]) -> Self {
        names.iter().fold(Self::new(), |library, name| library.skill(name, "", "Do it."))
    }

    /// A skill with more frontmatter than a name and a description, and with a body.
    pub(crate) fn skill(self, name: &str, fields: &str, body: &str) -> Self {
        let text = format!("---\nname: {name}\ndescription: Looks after {name}.\n{fields}---\n{body}\n");
        self.file(&format!("{name}/SKILL.md"), text)
    }

    /// The skill that most tests are about: with scripts and references, and with documents.
    pub(crate) fn web_research(self) -> Self {
        let text = "---\nname: web-research\ndescription: Research topics using web search\nallowed-tools: search read_file\n---\n\n# Web Research\n\nSearch, then read.\n";
        self.file("web-research/SKILL.md", text)
            .file("web-research/scripts/fetch.py", "print()\n")
            .file("web-research/scripts/rank.py", "print()\n")
            .file("web-research/references/sources.md", "# Sources\n\nUse two.\n")
    }

    pub(crate) fn file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.write(path, contents);
        self
    }

    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.join(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::discover(&[Root::explicit(self.path())], &ScanOptions::default())
    }

    /// A session's builder with a secret that is no secret, so that answers are always the same.
    pub(crate) fn builder(&self) -> SkillSessionBuilder {
        SkillSession::builder(self.catalog()).secret(Secret::from_bytes([7; 16]))
    }

    pub(crate) async fn session(&self) -> SkillSession {
        self.builder().build().await
    }

    pub(crate) async fn session_in(&self, dialect: Dialect) -> SkillSession {
        self.session_with(dialect, |_| {}).await
    }

    pub(crate) async fn session_with(
        &self,
        dialect: Dialect,
        change: impl FnOnce(&mut SessionOptions),
    ) -> SkillSession {
        let mut options = SessionOptions::new(dialect);
        change(&mut options);
        self.builder().options(options).build().await
    }

    pub(crate) async fn session_of(&self, max_loaded_skills: usize) -> SkillSession {
        self.session_with(Dialect::DeepAgents, |options| {
            options.budgets = Budgets::new(max_loaded_skills, None)
        })
        .await
    }

    pub(crate) async fn session_under(&self, policy: Policy) -> SkillSession {
        self.builder().permissions(Permissions::unattended(policy)).build().await
    }

    /// `text` with the library's directory called `/skills`.
    pub(crate) fn told(&self, text: &str) -> String {
        text.replace(&*self.path().to_string_lossy(), "/skills")
    }
}

/// The names of what is loaded, in order.
pub(crate) fn loaded(session: &SkillSession) -> Vec<String> {
    session.state().names().map(str::to_owned).collect()
}

/// All of an operation but the change of state. Nobody is asked.
pub(crate) async fn prepared<T: Send + 'static>(
    session: &SkillSession,
    operation: Operation<T>,
) -> Result<T, SkillError> {
    settled(operation.drive(session.service().files(), &NoAsker).await)
}

/// All of a tool call but the change of state. Nobody is asked.
pub(crate) async fn prepared_call(session: &SkillSession, tool: &str, arguments: Value) -> PreparedCall {
    settled(session.service().call(&session.view(), tool, arguments, &NoAsker).await).unwrap()
}

fn settled<T>(outcome: Outcome<T>) -> Result<T, SkillError> {
    match outcome {
        Outcome::Done(done) => Ok(done),
        Outcome::Refused(error) => Err(error),
        Outcome::Asks(question) => panic!("nobody keeps this question: {question:?}"),
    }
}

/// `value` with the keys of its objects sorted: what another crate asks of `serde_json` decides their order.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(object) => {
            let by_key: BTreeMap<&String, &Value> = object.iter().collect();
            Value::Object(by_key.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        other => other.clone(),
    }
}

/// The local disk, counting what is asked of it.
#[derive(Debug, Default)]
pub(crate) struct CountedFiles {
    pub(crate) texts: AtomicUsize,
    pub(crate) listings: AtomicUsize,
}

impl CountedFiles {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn count(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl SkillFiles for CountedFiles {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        self.texts.fetch_add(1, Ordering::SeqCst);
        LocalFiles.text(entry).await
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        self.listings.fetch_add(1, Ordering::SeqCst);
        LocalFiles.resources(entry, depth).await
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        LocalFiles.documents(entry).await
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        LocalFiles.document(entry, path).await
    }
}

/// A session over skills in a backend that cannot list some directories.
pub(crate) async fn session_in_backend(files: &[(&str, &str)], unlisted: &[&str]) -> SkillSession {
    let backend = MemoryBackend::new();
    for (path, text) in files {
        let path = VirtualPath::parse(path).unwrap();
        backend.write(&path, text.as_bytes().to_vec().into(), WriteMode::CreateNew).await.unwrap();
    }
    let root = Arc::new(Root::explicit("/skills").in_backend());
    let scan = scan_backend(&backend, &root, &ScanOptions::default(), None).await;
    let catalog = Catalog::empty().assembled([scan]);
    let unlisted = unlisted.iter().map(|&path| path.to_owned()).collect();
    let files = BackendFiles::new(Arc::new(PartlyUnlisted { backend, unlisted }));
    SkillSession::builder(catalog).secret(Secret::from_bytes([7; 16])).files(Arc::new(files)).build().await
}

/// A backend that fails to list some of its directories.
#[derive(Debug)]
struct PartlyUnlisted {
    backend: MemoryBackend,
    unlisted: Vec<String>,
}

#[async_trait]
impl Backend for PartlyUnlisted {
    async fn ls(&self, path: &VirtualPath) -> prowess_backend::Result<Listing> {
        if self.unlisted.iter().any(|unlisted| unlisted == path.as_str()) {
            return Err(BackendError::Unsupported { path: path.clone(), operation: "listing" });
        }
        self.backend.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> prowess_backend::Result<Entry> {
        self.backend.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> prowess_backend::Result<Contents> {
        self.backend.read(path, range).await
    }

    async fn write(
        &self,
        path: &VirtualPath,
        bytes: Bytes,
        mode: WriteMode,
    ) -> prowess_backend::Result<Entry> {
        self.backend.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> prowess_backend::Result<Entry> {
        self.backend.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> prowess_backend::Result<Edited> {
        self.backend.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> prowess_backend::Result<()> {
        self.backend.delete(path).await
    }
}
