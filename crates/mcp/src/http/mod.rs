//! Serves many clients at once over streamable HTTP.

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

/// Who may use a server over HTTP, and how much.
///
/// ```
/// use prowess_mcp::{HttpServerOptions, Token};
///
/// let mut options = HttpServerOptions::new(Token::new("a-secret-that-clients-know")?);
/// options.hosts.push("mcp.example.com".to_owned()); // behind a proxy of this name
/// # Ok::<(), prowess_mcp::TokenError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpServerOptions {
    /// The token that clients send as `Authorization: Bearer`.
    pub token: Token,
    /// Further host names of the server, besides its address and `localhost`. Add a port to allow only that port.
    pub hosts: Vec<String>,
    /// Further origins whose pages may use the server, besides those of this machine: `https://app.example.com`.
    pub origins: Vec<String>,
    /// How much clients may use.
    pub limits: HttpLimits,
}

impl HttpServerOptions {
    /// Options with this token and the default limits. Only the server's address and pages of this machine are allowed.
    pub fn new(token: Token) -> Self {
        Self { token, hosts: Vec::new(), origins: Vec::new(), limits: HttpLimits::default() }
    }
}
