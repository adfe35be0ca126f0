//! Signing in with OpenID Connect: the authorization code flow, with PKCE.
//!
//! ```text
//! page ── /oidc/login ──▶ issuer ── code, state ──▶ /oidc/callback ── code, verifier ──▶ issuer
//!          sets a cookie                            needs the cookie   ID token, checked ◀──┘
//!          (`attempt`)                              (`attempt`)        (`issuer`)
//!                                                        │ whose is it? (`account`)
//!                                                        ▼
//!                                                   a session, as by a login link
//! ```
//!
//! A person is known by the issuer and by the subject that the issuer gave them. Names and e-mail addresses decide nothing
//! about who somebody is.

mod account;
mod attempt;
mod http;
mod issuer;
mod options;
mod refusal;
mod routes;

pub use self::options::{Admits, OidcError, OidcOptions};
pub(in crate::auth) use self::routes::router;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use prowess_store::serve::{Accounts, TokenKind};

use self::attempt::Attempts;
use self::issuer::Issuer;
use self::refusal::Refusals;
use super::login::one_time;
use super::rate::RateLimits;
use super::ways::OidcWay;
use crate::agents::BoxError;

/// How often people may begin to sign in, and how often the issuer is asked about them, in a second, over some seconds. They
/// share this: nobody is known yet.
const BEGINS_PER_SECOND: u32 = 100;
const ENDS_PER_SECOND: u32 = 5;
/// How long a link works by which a person is linked to a user.
const LINK: Duration = Duration::from_secs(24 * 3600);

/// Signing in with OpenID Connect.
///
/// ```
/// use prowess_serve::{Oidc, OidcOptions};
///
/// let options = OidcOptions::new("https://login.example.com", "prowess", "https://agent.example.com");
/// let oidc = Oidc::new(options)?;
/// # Ok::<(), prowess_serve::OidcError>(())
/// ```
#[derive(Debug)]
pub struct Oidc {
    options: OidcOptions,
    issuer: Issuer,
    attempts: Attempts,
    refusals: Refusals,
    begins: RateLimits,
    ends: RateLimits,
}

impl Oidc {
    /// Signing in with these options. This asks the issuer nothing yet.
    ///
    /// # Errors
    ///
    /// An option cannot be used, or the system has no random numbers or no certificates.
    pub fn new(options: OidcOptions) -> Result<Self, OidcError> {
        let options = options.checked()?;
        let mut keys = [[0; 32]; 2];
        for key in &mut keys {
            getrandom::fill(key).map_err(|error| OidcError::System(error.to_string()))?;
        }
        Ok(Self {
            issuer: Issuer::new(&options)?,
            attempts: Attempts::new(keys[0]),
            refusals: Refusals::new(keys[1]),
            begins: RateLimits::new(BEGINS_PER_SECOND),
            ends: RateLimits::new(ENDS_PER_SECOND),
            options,
        })
    }

    /// Asks the issuer for its addresses and keys, which signing in does anyway.
    ///
    /// # Errors
    ///
    /// Why the issuer cannot be used now.
    pub async fn check(&self) -> Result<(), String> {
        self.issuer.metadata().await.map(drop)
    }

    /// What the page shows.
    pub(in crate::auth) fn way(&self) -> OidcWay {
        OidcWay { label: self.options.label.clone(), url: self.options.begin_url() }
    }

    /// Why the last attempt of a browser failed, with the cookie that makes it forget that.
    pub(in crate::auth) fn refusal(&self, headers: &HeaderMap) -> (Option<String>, Option<String>) {
        self.refusals.take(headers, self.options.is_encrypted())
    }
}

/// The path of a link by which a person of the issuer is linked to a user. It works once, within a day.
///
/// # Errors
///
/// There is no such user, or the database failed.
pub async fn identity_link(accounts: &Accounts, user: &str) -> Result<String, BoxError> {
    let secret = one_time(accounts, user, TokenKind::Identity, "identity link", LINK).await?;
    Ok(format!("/oidc/link/{}", secret.expose()))
}

/// The part of [`crate::app::App`] for signing in with OpenID Connect.
pub(crate) type OidcPart = std::sync::OnceLock<Arc<Oidc>>;
