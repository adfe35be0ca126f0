//! Artifacts that MCP clients reach: those that they saved themselves, and others by an unguessable name.

#[cfg(feature = "run")]
use async_trait::async_trait;
#[cfg(feature = "run")]
use bytes::Bytes;
#[cfg(feature = "run")]
use prowess_workspace::artifact::{ArtifactRecord, LoadedArtifact};
#[cfg(feature = "run")]
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore, Artifacts, Scope};

use crate::outputs::OutputScope;
use crate::server::SkillServer;

impl SkillServer {
    /// The scope in which the runs of this client save artifacts.
    #[cfg(feature = "run")]
    pub(crate) fn scope(&self) -> Option<&OutputScope> {
        self.client_artifacts().map(Artifacts::scope)
    }

    #[cfg(not(feature = "run"))]
    pub(crate) fn scope(&self) -> Option<&OutputScope> {
        None
    }

    /// Reads the bytes of an artifact.
    #[cfg(feature = "run")]
    pub(crate) async fn artifact(
        &self,
        scope: Option<OutputScope>,
        name: &str,
        version: u64,
    ) -> Result<Vec<u8>, String> {
        let store = self.client_artifacts().ok_or(NO_STORE)?;
        let store = scope.map_or_else(|| store.clone(), |scope| store.in_scope(scope));
        let name = ArtifactName::parse(name).map_err(|error| error.to_string())?;
        let size = store.size(&name, version).await.map_err(|error| error.to_string())?;
        if size > crate::answer_size::MAX_FILE {
            let scope = store.scope();
            return Err(format!(
                "{name} has {size} bytes, but an answer can hold only {} of a file; get it on the server's machine: \
                 `prowess artifacts get {name}@{version} --scope {scope}`",
                crate::answer_size::MAX_FILE
            ));
        }
        let loaded = store.load(&name, Some(version)).await.map_err(|error| error.to_string())?;
        Ok(loaded.bytes.to_vec())
    }

    #[cfg(not(feature = "run"))]
    #[expect(clippy::unused_async, reason = "with the feature `run` there is something to wait for")]
    pub(crate) async fn artifact(&self, _: Option<OutputScope>, _: &str, _: u64) -> Result<Vec<u8>, String> {
        Err(NO_STORE.to_owned())
    }
}

const NO_STORE: &str = "this server has no store of artifacts";

/// How many hexadecimal digits an unguessable key has.
#[cfg(feature = "run")]
const RANDOM_DIGITS: usize = 32;

/// The artifacts of an MCP session, for its runs. They save in the scope of the session, and read from it.
///
/// Each sessionless request has its own scope. It reads an artifact of an earlier request as `artifact://KEY/NAME`. The
/// answer of that earlier request contained the key: 128 random bits that nobody can guess. No other scope can be
/// reached.
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
#[cfg(feature = "run")]
#[derive(Clone, Debug)]
pub struct AddressedArtifacts(Artifacts);

#[cfg(feature = "run")]
impl AddressedArtifacts {
    /// The artifacts of this scope, and of other scopes by their keys.
    pub fn new(artifacts: Artifacts) -> Self {
        Self(artifacts)
    }

    /// Splits a name that begins with a key into the artifacts of that scope and the name there.
    fn addressed(&self, name: &ArtifactName) -> Option<(Artifacts, ArtifactName)> {
        let (key, rest) = name.as_str().split_once('/')?;
        let is_random = key.len() == RANDOM_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let scope = Scope::session(key).ok().filter(|_| is_random)?;
        Some((self.0.in_scope(scope), ArtifactName::parse(rest).ok()?))
    }
}

#[cfg(feature = "run")]
#[async_trait]
impl ArtifactStore for AddressedArtifacts {
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError> {
        self.0.save(name, bytes, mime_type).await
    }

    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError> {
        match (self.0.load(name, version).await, self.addressed(name)) {
            (Err(error @ ArtifactError::NotFound { .. }), Some((other, there))) => {
                match other.load(&there, version).await {
                    // The error names what the caller asked for.
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
