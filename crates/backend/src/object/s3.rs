//! Amazon S3 and compatible object stores.

use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};

use crate::{BackendError, ObjectBackend, Result, VirtualPath};

/// The address of a bucket and the keys for it.
///
/// Without keys, requests are signed with the keys of the instance or the task. `Debug` does not show the keys.
///
/// ```
/// use prowess_backend::object::S3Config;
/// use prowess_backend::{ObjectBackend, VirtualPath};
///
/// let mut config = S3Config::new("artifacts");
/// config.endpoint = Some("http://localhost:9000".to_owned());
/// config.access_key_id = Some("example".to_owned());
/// config.secret_access_key = Some("not to be shown".to_owned());
/// assert!(!format!("{config:?}").contains("not to be shown"));
/// let backend = ObjectBackend::s3(config)?;
/// assert!(!format!("{backend:?}").contains("not to be shown"));
/// # Ok::<(), prowess_backend::BackendError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct S3Config {
    /// The bucket's name.
    pub bucket: String,
    /// The region of the bucket. Default: `us-east-1`.
    pub region: Option<String>,
    /// Where to send requests, if not to Amazon. An `http://` address is used without encryption.
    pub endpoint: Option<String>,
    /// The id of the key that signs requests.
    pub access_key_id: Option<String>,
    /// The secret key.
    pub secret_access_key: Option<String>,
    /// The token of a temporary session.
    pub session_token: Option<String>,
    /// The backend has only the objects below this path; `/` is the whole bucket.
    pub prefix: VirtualPath,
}

impl S3Config {
    /// The whole of `bucket`, with defaults for all other settings.
    #[must_use]
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            region: None,
            endpoint: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            prefix: VirtualPath::root(),
        }
    }
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "(hidden)");
        f.debug_struct("S3Config")
            .field("bucket", &self.bucket)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("access_key_id", &hidden(&self.access_key_id))
            .field("secret_access_key", &hidden(&self.secret_access_key))
            .field("session_token", &hidden(&self.session_token))
            .field("prefix", &self.prefix)
            .finish()
    }
}

/// The source of the settings that an [`S3Config`] does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3Defaults {
    /// No source. Requests are signed with the keys of the instance or the task.
    Instance,
    /// The environment variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` and
    /// `AWS_ENDPOINT_URL`. Without them it is the same as [`S3Defaults::Instance`].
    Environment,
}

impl S3Config {
    /// Opens the bucket as an object store. It sends no request yet, and the caller has to apply the prefix.
    ///
    /// ```
    /// use prowess_backend::object::{S3Config, S3Defaults};
    ///
    /// let store = S3Config::new("artifacts").store(S3Defaults::Instance)?;
    /// assert!(store.to_string().contains("artifacts"));
    /// # Ok::<(), object_store::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The settings contradict each other or are not a valid address.
    pub fn store(self, defaults: S3Defaults) -> object_store::Result<Arc<dyn ObjectStore>> {
        let builder = match defaults {
            S3Defaults::Instance => AmazonS3Builder::new(),
            S3Defaults::Environment => AmazonS3Builder::from_env(),
        };
        // Appends, edits and versions depend on conditional requests.
        let mut builder =
            builder.with_bucket_name(self.bucket).with_conditional_put(S3ConditionalPut::ETagMatch);
        if let Some(region) = self.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = self.endpoint {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        }
        if let Some(id) = self.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(key) = self.secret_access_key {
            builder = builder.with_secret_access_key(key);
        }
        if let Some(token) = self.session_token {
            builder = builder.with_token(token);
        }
        Ok(Arc::new(builder.build()?))
    }
}

impl ObjectBackend {
    /// The objects of an S3 bucket. The first request is sent with the first operation.
    ///
    /// # Errors
    ///
    /// [`BackendError::Io`] if the settings contradict each other or are not a valid address.
    pub fn s3(config: S3Config) -> Result<Self> {
        let prefix = config.prefix.clone();
        match config.store(S3Defaults::Instance) {
            Ok(store) => Ok(Self::new(store, prefix)),
            Err(error) => Err(BackendError::io(&prefix, "opening", error)),
        }
    }
}
