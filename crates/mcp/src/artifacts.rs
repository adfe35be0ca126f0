//! Artifacts that clients share by a name that nobody guesses.

use async_trait::async_trait;
use bytes::Bytes;
use prowess_workspace::artifact::{ArtifactRecord, LoadedArtifact};
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore, Artifacts, Scope};

/// How many hexadecimal digits an id has that nobody guesses.
const RANDOM_DIGITS: usize = 32;

/// The artifacts of a session, for its runs: they save in its scope, and read there.
///
/// Requests without a session have a scope each. They read what an earlier one saved as `artifact://KEY/NAME`, with the
/// key that its answer had: who knows 128 random bits was told of them. No other scope can be reached.
///
/// ```
/// use prowess_mcp::AddressedArtifacts;
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let all = Artifacts::in_memory();
/// let (first, later) = (Scope::new_session()?, Scope::new_session()?);
/// let key = first.session_id().unwrap().to_owned();
/// all.in_scope(first).save(&ArtifactName::parse("r.txt")?, "text".into(), "text/plain").await?;
/// let later = AddressedArtifacts::new(all.in_scope(later));
/// assert!(later.load(&ArtifactName::parse("r.txt")?, None).await.is_err());
/// assert!(later.load(&ArtifactName::parse(&format!("{key}/r.txt"))?, None).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AddressedArtifacts(Artifacts);

impl AddressedArtifacts {
    /// The artifacts of this scope, and of sessions by their keys.
    pub fn new(artifacts: Artifacts) -> Self {
        Self(artifacts)
    }

    /// The artifacts that a name with a key in front leads to, and the name there.
    fn addressed(&self, name: &ArtifactName) -> Option<(Artifacts, ArtifactName)> {
        let (key, rest) = name.as_str().split_once('/')?;
        let is_random = key.len() == RANDOM_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let scope = Scope::session(key).ok().filter(|_| is_random)?;
        Some((self.0.in_scope(scope), ArtifactName::parse(rest).ok()?))
    }
}

#[async_trait]
impl ArtifactStore for AddressedArtifacts {
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError> {
        self.0.save(name, bytes, mime_type).await
    }

    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError> {
        match (self.0.load(name, version).await, self.addressed(name)) {
            (Err(error @ ArtifactError::NotFound { .. }), Some((other, there))) => {
                match other.load(&there, version).await {
                    // About the name that the caller knows.
                    Err(ArtifactError::NotFound { .. }) => Err(error),
                    loaded => loaded,
                }
            }
            (loaded, _) => loaded,
        }
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        self.0.list().await
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError> {
        self.0.versions(name).await
    }

    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError> {
        self.0.delete(name).await
    }
}
