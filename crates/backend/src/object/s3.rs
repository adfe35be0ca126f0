//! Amazon S3 and compatible object stores.

use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{BackendError, ObjectBackend, Result, VirtualPath};

/// The address of a bucket and the keys for it.
///
/// `Debug` does not show the keys.
///
/// ```
/// use prowess_backend::ObjectBackend;
/// use prowess_backend::object::S3Config;
///
/// let mut config = S3Config::new("artifacts");
/// config.endpoint = Some("http://localhost:9000".to_owned());
/// config.access_key_id = Some("example".to_owned());
/// config.secret_access_key = Some("not to be shown".into());
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
    /// The path before the keys of all objects. Default: `/`, the whole bucket.
    pub prefix: VirtualPath,
    /// The region of the bucket. Default: `us-east-1`.
    pub region: Option<String>,
    /// The server, if it is not Amazon. Requests to an `http://` address are not encrypted.
    pub endpoint: Option<String>,
    /// The id of the key that signs requests. Without keys, requests use those of the instance or the task.
    pub access_key_id: Option<String>,
    /// The secret key.
    pub secret_access_key: Option<SecretString>,
    /// The token that belongs to temporary keys.
    pub session_token: Option<SecretString>,
}

impl S3Config {
    /// The whole of `bucket`, with defaults for all other settings.
    #[must_use]
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: VirtualPath::root(),
            region: None,
            endpoint: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
        }
    }
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("access_key_id", &self.access_key_id.as_ref().map(|_| "(hidden)"))
            .field("secret_access_key", &self.secret_access_key)
            .field("session_token", &self.session_token)
            .finish()
    }
}

/// Where settings come from that are missing in an [`S3Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3Defaults {
    /// From the instance or the task, which has keys for its requests.
    Instance,
    /// From the environment variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`
    /// and `AWS_ENDPOINT_URL`; then as [`S3Defaults::Instance`].
    Environment,
}

impl S3Config {
    /// Opens the bucket as an object store, without sending a request. The caller has to apply the prefix.
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
            builder = builder.with_secret_access_key(key.expose_secret());
        }
        if let Some(token) = self.session_token {
            builder = builder.with_token(token.expose_secret());
        }
        Ok(Arc::new(builder.build()?))
    }
}

impl ObjectBackend {
    /// Opens an S3 bucket. The first operation sends the first request.
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
