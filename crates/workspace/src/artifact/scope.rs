//! A part of a store, for one session or one user.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    ArtifactError, ArtifactName, ArtifactNameProblem, ArtifactRecord, ArtifactStore, LoadedArtifact,
};

/// The artifacts of a store whose names begin with a prefix, under their names without it.
///
/// A store is shared by all who have it: what one session saves, another finds. Who wants to keep sessions apart gives
/// each its own part.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts, ScopedArtifacts};
///
/// let all = Arc::new(Artifacts::in_memory());
/// let own = ScopedArtifacts::new(all.clone(), "session-1")?;
/// own.save(&ArtifactName::parse("a.txt")?, "text".into(), "text/plain").await?;
/// assert_eq!(own.list().await?[0].name, "a.txt");
/// assert_eq!(all.list().await?[0].name, "session-1/a.txt");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScopedArtifacts {
    store: Arc<dyn ArtifactStore>,
    /// With the slash at its end.
    prefix: String,
}

impl ScopedArtifacts {
    /// The part of `store` below `prefix`.
    ///
    /// # Errors
    ///
    /// `prefix` can be no part of a name.
    pub fn new(store: Arc<dyn ArtifactStore>, prefix: &str) -> Result<Self, ArtifactNameProblem> {
        let prefix = ArtifactName::parse(prefix)?;
        Ok(Self { store, prefix: format!("{prefix}/") })
    }

    fn outer(&self, name: &ArtifactName) -> Result<ArtifactName, ArtifactError> {
        let outer = ArtifactName::parse(&format!("{}{name}", self.prefix));
        outer.map_err(|problem| ArtifactError::store(format!("naming the artifact `{name}`"), problem))
    }

    /// The same error about the name that the caller knows.
    fn inner(&self, error: ArtifactError) -> ArtifactError {
        let cut = |name: String| name.strip_prefix(&self.prefix).map_or(name.clone(), str::to_owned);
        match error {
            ArtifactError::NotFound { name, version } => ArtifactError::NotFound { name: cut(name), version },
            error => error,
        }
    }
}

#[async_trait]
impl ArtifactStore for ScopedArtifacts {
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError> {
        self.store.save(&self.outer(name)?, bytes, mime_type).await
    }

    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError> {
        let loaded = self.store.load(&self.outer(name)?, version).await;
        loaded.map_err(|error| self.inner(error))
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = self.store.list().await?;
        records.retain_mut(|record| match record.name.strip_prefix(&self.prefix) {
            Some(inner) => {
                record.name = inner.to_owned();
                true
            }
            None => false,
        });
        Ok(records)
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError> {
        self.store.versions(&self.outer(name)?).await
    }

    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError> {
        self.store.delete(&self.outer(name)?).await.map_err(|error| self.inner(error))
    }
}
