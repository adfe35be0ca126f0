//! Who makes a request, and what they may do.

mod caller;
mod login;
mod rate;
mod secret;

pub(crate) use self::caller::{AdminCaller, Approver, Caller, Reader, Writer, authenticate};
pub use self::login::login_link;
pub(crate) use self::login::{router, session_cookie};
pub(crate) use self::rate::RateLimits;
pub use self::secret::AccessSecret;
