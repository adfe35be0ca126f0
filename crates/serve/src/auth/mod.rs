//! Who makes a request, and what they may do.

mod caller;
mod cookies;
mod login;
#[cfg(feature = "oidc")]
mod oidc;
mod rate;
mod secret;
mod ways;

pub(crate) use self::caller::{AdminCaller, Approver, Caller, Reader, Writer, authenticate};
pub use self::login::login_link;
pub(crate) use self::login::{router, session_cookie};
#[cfg(feature = "oidc")]
pub(crate) use self::oidc::OidcPart;
#[cfg(feature = "oidc")]
pub use self::oidc::{Admits, Oidc, OidcError, OidcOptions, identity_link};
pub(crate) use self::rate::RateLimits;
pub use self::secret::AccessSecret;
