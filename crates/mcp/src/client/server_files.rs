//! Reads the files of skills for a session, if some of the skills are from servers.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Catalog, Documents, ReadError, Resources, SkillEntry, SkillText};
use prowess_skills::{LocalFiles, SkillFiles};
#[cfg(feature = "run")]
use prowess_workspace::stage::StageSource;

use super::held_entry::HeldEntry;
use super::servers::Servers;

/// Reads skills of servers from their servers, and all other skills from the local disk.
///
/// It verifies every file against the entry that the catalog holds, and requests no file that the entry does not list.
///
/// ```
/// use std::sync::Arc;
/// use prowess_catalog::Catalog;
/// use prowess_mcp::client::{ServerFiles, Servers};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (servers, _) = Servers::connect([], None).await;
/// let files = Arc::new(ServerFiles::new(servers));
/// let session = SkillSession::builder(Catalog::empty()).files(files).build().await;
/// assert!(session.load("docs:pdf", None).await.is_err(), "there is no such server");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServerFiles(Arc<Servers>);

impl ServerFiles {
    /// Reads from these servers.
    pub fn new(servers: Arc<Servers>) -> Self {
        Self(servers)
    }
}

#[async_trait]
impl SkillFiles for ServerFiles {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        let Some(held) = HeldEntry::of(entry) else { return LocalFiles.text(entry).await };
        let bytes = self.0.read(&held, MANIFEST).await.map_err(|error| ReadError::Io {
            location: entry.skill.location.clone(),
            error: io::Error::other(error),
        })?;
        entry.text_from(bytes)
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        match entry.published() {
            Some(_) => entry.resources(depth),
            None => LocalFiles.resources(entry, depth).await,
        }
    }

    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        depth: usize,
    ) -> Result<(SkillText, Resources), ReadError> {
        match entry.published() {
            Some(_) => Ok((self.text(entry).await?, entry.resources(depth))),
            None => LocalFiles.text_and_resources(entry, depth).await,
        }
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        match entry.published() {
            Some(_) => entry.documents(),
            None => LocalFiles.documents(entry).await,
        }
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        let Some(held) = HeldEntry::of(entry) else { return LocalFiles.document(entry, path).await };
        let bytes = self
            .0
            .read(&held, path)
            .await
            .map_err(|error| DocumentError::Io { path: path.to_owned(), error: io::Error::other(error) })?;
        let size = bytes.len() as u64;
        entry.document_from(path, bytes, size)
    }

    async fn look_up(&self, name: &str, catalog: &Catalog) -> Option<Catalog> {
        self.0.look_up(name, catalog).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "Cannot look up a server's skill");
            None
        })
    }

    #[cfg(feature = "run")]
    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        match HeldEntry::of(entry) {
            Some(held) => {
                let skill = super::stage::ServerSkill::new(Arc::clone(&self.0), held);
                Some(StageSource::Files(Arc::new(skill)))
            }
            None => LocalFiles.stage_source(entry),
        }
    }
}
