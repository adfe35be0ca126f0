//! Tokens that are looked up when they are needed.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::http::BearerToken;

type LookUp = Box<dyn FnOnce() -> Result<BearerToken, String> + Send>;

/// A token that is looked up once, and only if something is downloaded from its host: the program that prints it may ask
/// the person.
///
/// ```
/// use prowess_install::snapshot::http::BearerToken;
/// use prowess_install::snapshot::token::LazyToken;
///
/// let token = LazyToken::new(|| Err("set TIDE_TOKEN".to_owned()));
/// assert_eq!(token.get().unwrap_err(), "set TIDE_TOKEN");
/// assert!(LazyToken::from(BearerToken::new("s3cret")).get().is_ok());
/// ```
#[derive(Clone)]
pub struct LazyToken(Arc<LazyLock<Result<BearerToken, String>, LookUp>>);

impl LazyToken {
    /// A token that `look_up` gives, or why there is none.
    pub fn new(look_up: impl FnOnce() -> Result<BearerToken, String> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(look_up))))
    }

    /// The token.
    ///
    /// # Errors
    ///
    /// Looking it up failed.
    pub fn get(&self) -> Result<&BearerToken, &str> {
        self.0.as_ref().as_ref().map_err(String::as_str)
    }
}

impl From<BearerToken> for LazyToken {
    fn from(token: BearerToken) -> Self {
        Self::new(|| Ok(token))
    }
}

impl fmt::Debug for LazyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyToken(…)")
    }
}
