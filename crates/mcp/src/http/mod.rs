//! Many clients at once, over streamable HTTP.

mod admission;
mod connection;
mod guard;
mod limits;
mod mcp_sessions;
mod message;
mod reconnect;
mod response;
mod serve;
mod token;
mod unauthenticated;

pub use limits::HttpLimits;
pub use serve::serve_http;
pub use token::{Token, TokenError};

/// Who may talk to a server over HTTP, and how much they may use.
///
/// ```
/// use prowess_mcp::{HttpOptions, Token};
///
/// let mut options = HttpOptions::new(Token::new("a-secret-that-clients-know")?);
/// options.hosts.push("mcp.example.com".to_owned()); // behind a proxy of this name
/// # Ok::<(), prowess_mcp::TokenError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// What clients have to present as `Authorization: Bearer`.
    pub token: Token,
    /// Names that clients may call the server by, besides its address and `localhost`; with a port, if only that is to
    /// be allowed.
    pub hosts: Vec<String>,
    /// Origins whose pages may ask, besides those of this machine: `https://app.example.com`.
    pub origins: Vec<String>,
    /// How much clients may use.
    pub limits: HttpLimits,
}

impl HttpOptions {
    /// This token, no other names than the address served, no pages but those of this machine, and the usual limits.
    pub fn new(token: Token) -> Self {
        Self { token, hosts: Vec::new(), origins: Vec::new(), limits: HttpLimits::default() }
    }
}
