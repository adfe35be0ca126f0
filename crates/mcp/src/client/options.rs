//! The options of a server: its label, its connection and its limits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use prowess_catalog::Digest;
use reqwest::Url;

use super::label::ServerLabel;
use super::pages::{DEFAULT_LIST_BYTES, DEFAULT_LIST_TIME, DEFAULT_PAGES};
use super::server::{DEFAULT_ANSWER_TIME, DEFAULT_CONNECT_TIME, DEFAULT_MESSAGE_BYTES};
use super::skill_list::DEFAULT_SKILLS;
use super::tool_list::{DEFAULT_TOOL_TIME, DEFAULT_TOOLS};

/// The configuration of one server.
///
/// ```
/// use prowess_mcp::client::{Connection, ServerOptions};
///
/// let docs = ServerOptions::new("docs".parse()?, Connection::command("docs-server", ["--stdio"]));
/// assert!(docs.grants.is_empty(), "the frontmatter of its skills grants no permissions");
/// # Ok::<(), prowess_mcp::client::LabelError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The name of the server in your program.
    pub label: ServerLabel,
    /// How to reach it.
    pub connection: Connection,
    /// The skills whose permissive fields, such as `allowed-tools`, the user accepted: by address, with the digest of all
    /// their files.
    pub grants: BTreeMap<String, Digest>,
    /// Its limits.
    pub limits: ServerLimits,
}

impl ServerOptions {
    /// A server with this label and connection, without grants and with the default limits.
    pub fn new(label: ServerLabel, connection: Connection) -> Self {
        Self { label, connection, grants: BTreeMap::new(), limits: ServerLimits::default() }
    }
}

/// How to reach a server.
///
/// ```
/// use prowess_mcp::client::Connection;
///
/// let remote = Connection::http("https://skills.example/mcp".parse()?, Some("secret".into()));
/// assert!(!format!("{remote:?}").contains("secret"));
/// # Ok::<(), prowess_mcp::client::UrlError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Connection {
    /// Start a program, and use its standard input and output.
    Command {
        /// The program.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// Further variables of its environment, besides `PATH`, `HOME` and the like. It gets no others of ours.
        env: BTreeMap<OsString, OsString>,
        /// Its working directory, if not the current one.
        directory: Option<PathBuf>,
    },
    /// Use streamable HTTP.
    Http {
        /// The address.
        url: ServerUrl,
        /// The token to send as `Authorization: Bearer`.
        token: Option<BearerToken>,
    },
}

impl Connection {
    /// A program with these arguments.
    pub fn command<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Command { program: program.into(), args, env: BTreeMap::new(), directory: None }
    }

    /// An address, and the token to send there.
    pub fn http(url: ServerUrl, token: Option<BearerToken>) -> Self {
        Self::Http { url, token }
    }
}

/// The address of a server: `https`, or `http` on this machine.
///
/// ```
/// use prowess_mcp::client::ServerUrl;
///
/// assert!("https://skills.example/mcp".parse::<ServerUrl>().is_ok());
/// assert!("http://127.0.0.1:8080/mcp".parse::<ServerUrl>().is_ok());
/// assert!("http://skills.example/mcp".parse::<ServerUrl>().is_err(), "anyone on the way could read it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl(Url);

impl ServerUrl {
    /// The address.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the address is on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Why a text is not a [`ServerUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a URL.
    #[error("the address of a server is not a URL: {0}")]
    Malformed(String),
    /// The scheme is neither `https` nor `http` on this machine.
    #[error("the address of a server must begin with https, or with http if it is on this machine")]
    Insecure,
    /// The address contains a user name or a password.
    #[error("the address of a server must not contain a user name or password; use a token")]
    Credentials,
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url: Url = text.parse().map_err(|error| UrlError::Malformed(format!("{error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        let url = Self(url);
        match url.0.scheme() {
            "https" => Ok(url),
            "http" if url.is_loopback() => Ok(url),
            _ => Err(UrlError::Insecure),
        }
    }
}

/// A secret that the client sends to a server. It appears in no error, no log and no `Debug` output.
///
/// ```
/// let token = prowess_mcp::client::BearerToken::from("secret");
/// assert_eq!(format!("{token:?}"), "BearerToken(…)");
/// ```
#[derive(Clone)]
pub struct BearerToken(String);

impl BearerToken {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for BearerToken {
    fn from(token: &str) -> Self {
        Self(token.to_owned())
    }
}

impl From<String> for BearerToken {
    fn from(token: String) -> Self {
        Self(token)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// How much time a server may take, and how much it may send.
///
/// ```
/// use std::time::Duration;
/// use prowess_mcp::client::ServerLimits;
///
/// let mut limits = ServerLimits::default();
/// limits.answer = Duration::from_secs(5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The time to connect.
    pub connect: Duration,
    /// The time for an answer, except a tool's.
    pub answer: Duration,
    /// The time for all pages of a list.
    pub list: Duration,
    /// The time for a tool call.
    pub tool: Duration,
    /// The most bytes of a message.
    pub message_bytes: usize,
    /// The most pages of a list.
    pub pages: usize,
    /// The most skills of a list.
    pub skills: usize,
    /// The most bytes of all entries of a list.
    pub list_bytes: usize,
    /// The most tools.
    pub tools: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connect: DEFAULT_CONNECT_TIME,
            answer: DEFAULT_ANSWER_TIME,
            list: DEFAULT_LIST_TIME,
            tool: DEFAULT_TOOL_TIME,
            message_bytes: DEFAULT_MESSAGE_BYTES,
            pages: DEFAULT_PAGES,
            skills: DEFAULT_SKILLS,
            list_bytes: DEFAULT_LIST_BYTES,
            tools: DEFAULT_TOOLS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_over_the_network_is_encrypted() {
        for fine in [
            "https://a.example",
            "http://localhost:1/x",
            "http://127.9.9.9/",
            "http://[::1]:8/",
            "HTTP://LOCALHOST/",
        ] {
            assert!(fine.parse::<ServerUrl>().is_ok(), "{fine}");
        }
        for insecure in [
            "http://a.example",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "ws://localhost/",
        ] {
            assert_eq!(insecure.parse::<ServerUrl>(), Err(UrlError::Insecure), "{insecure}");
        }
        assert_eq!("https://me:secret@a.example".parse::<ServerUrl>(), Err(UrlError::Credentials));
        assert!(matches!("no address".parse::<ServerUrl>(), Err(UrlError::Malformed(_))));
    }
}
