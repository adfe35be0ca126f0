//! A bucket of Amazon S3 or of a compatible object store.

use std::sync::Arc;

use object_store::ObjectStore;
use prowess_backend::object::{S3Config, S3Defaults};
use secrecy::{ExposeSecret as _, SecretString};

use super::ArtifactError;

/// The address of a bucket and the keys for it.
///
/// Missing settings come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
/// `AWS_REGION` and `AWS_ENDPOINT_URL`. If there are no keys, the instance or the task provides them.
///
/// ```
/// use prowess_workspace::artifact::S3Bucket;
/// use prowess_workspace::Artifacts;
///
/// let mut bucket = S3Bucket::new("reports");
/// bucket.endpoint = Some("http://localhost:9000".to_owned());
/// bucket.access_key_id = Some("example".to_owned());
/// bucket.secret_access_key = Some("not to be shown".into());
/// assert!(!format!("{bucket:?}").contains("not to be shown"));
/// let artifacts = Artifacts::in_s3(bucket)?;
/// assert!(!format!("{artifacts:?}").contains("not to be shown"));
/// # Ok::<(), prowess_workspace::ArtifactError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct S3Bucket {
    /// The bucket's name.
    pub bucket: String,
    /// The prefix of the keys of all objects. Default: none.
    pub prefix: String,
    /// The region of the bucket.
    pub region: Option<String>,
    /// Where to send requests, if not to Amazon. An `http://` address is used without encryption.
    pub endpoint: Option<String>,
    /// The id of the key that signs requests.
    pub access_key_id: Option<String>,
    /// The secret key.
    pub secret_access_key: Option<SecretString>,
    /// The token of a temporary session.
    pub session_token: Option<SecretString>,
}

impl S3Bucket {
    /// The whole of a bucket, with all other settings from the environment.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: String::new(),
            region: None,
            endpoint: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
        }
    }

    pub(super) fn open(self) -> Result<Arc<dyn ObjectStore>, ArtifactError> {
        let revealed = |secret: Option<SecretString>| secret.map(|secret| secret.expose_secret().to_owned());
        let mut config = S3Config::new(self.bucket);
        config.region = self.region;
        config.endpoint = self.endpoint;
        config.access_key_id = self.access_key_id;
        config.secret_access_key = revealed(self.secret_access_key);
        config.session_token = revealed(self.session_token);
        let store = config.store(S3Defaults::Environment);
        store.map_err(|error| ArtifactError::store("opening the bucket", error))
    }
}
