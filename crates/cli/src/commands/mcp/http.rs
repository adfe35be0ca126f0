//! `prowess mcp --http`: the address and the token.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_mcp::{HttpServerOptions, Token};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::config::MCP_TOKEN;
use crate::directories;
use crate::terminal::printable;

/// The variable with the token, if there is no file.
pub(crate) const VARIABLE: &str = MCP_TOKEN;
/// The file in the state directory with the generated token.
const FILE: &str = "mcp-token";
/// The longest token file, in bytes.
const MAX_BYTES: u64 = 4096;
/// How many open files and connections a server wants.
const OPEN_FILES: u64 = 8192;

/// Serving over HTTP.
#[derive(Args, Debug)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct Http {
    /// Serve many clients over streamable HTTP at http://ADDR/mcp, instead of one on standard input and output. ADDR is an address and a port, such as 127.0.0.1:8931; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    http: Option<SocketAddr>,
    /// Listen on an address that other machines can reach. Traffic and token are not encrypted: put a TLS proxy in front, and name it with --allow-name
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// Read the token that clients must send from this file, which only you may read [default: PROWESS_MCP_TOKEN, else a file in the state directory, created if missing]
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// A name that clients may use for the server in the Host header, such as your proxy's; can be repeated
    #[arg(long, value_name = "NAME[:PORT]", requires = "http")]
    allow_name: Vec<String>,
    /// A web origin whose pages may use the server, such as `https://app.example.com`; can be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
}

/// Parses an address as people write it.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')) {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    whole.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:8931".to_owned())
}

impl Http {
    /// The address to listen on, if one was given.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Starts to listen, and says on standard error where, and which token is needed.
    pub(crate) async fn open(&self, address: SocketAddr) -> Result<(TcpListener, HttpServerOptions)> {
        if !address.ip().is_loopback() && !self.allow_remote {
            bail!(
                "other machines can reach `{}`: listen on 127.0.0.1, or add --allow-remote if a TLS proxy is in front",
                address.ip()
            );
        }
        let (token, kept) = self.token()?;
        let mut options = HttpServerOptions::new(token);
        options.hosts.clone_from(&self.allow_name);
        options.origins =
            self.allow_origin.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        raise_open_files();
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let mut err = anstream::stderr();
        writeln!(err, "serving at {}", url(listener.local_addr()?))?;
        writeln!(err, "clients must send the token in {}", printable(&kept))?;
        Ok((listener, options))
    }

    /// The token, and where the user finds it.
    fn token(&self) -> Result<(Token, String)> {
        let of = |secret: &str, place: String| {
            let token = Token::new(secret.trim()).map_err(|error| anyhow!("{place}: {error}"))?;
            anyhow::Ok((token, place))
        };
        if let Some(file) = &self.token_file {
            return of(&read(file)?, file.display().to_string());
        }
        if let Some(secret) = std::env::var_os(VARIABLE) {
            return of(&secret.to_string_lossy(), VARIABLE.to_owned());
        }
        let state = directories::state();
        let state = state
            .with_context(|| format!("there is no home directory for a token: set {VARIABLE}, or HOME"))?;
        let file = state.join(FILE);
        let place = file.display().to_string();
        let failed = || format!("cannot create {place}; set {VARIABLE}, or use --token-file FILE");
        directories::make_directory(&state).with_context(failed)?;
        let (token, secret) = Token::random()?;
        let new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        match new {
            Ok(mut new) => {
                writeln!(new, "{secret}").with_context(failed)?;
                Ok((token, place))
            }
            // The token of an earlier start, which clients already know.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => of(&read(&file)?, place),
            Err(error) => Err(error).with_context(failed),
        }
    }
}

/// Reads a file that only its owner may read.
fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let unread = || format!("{name} cannot be read");
    if !std::fs::metadata(path).with_context(unread)?.is_file() {
        bail!("{name} is not a file");
    }
    let file = std::fs::File::open(path).with_context(unread)?;
    let found = file.metadata().with_context(unread)?;
    if found.mode() & 0o077 != 0 {
        bail!("others can read {name}: run `chmod 600 {name}`");
    }
    let mut secret = String::new();
    file.take(MAX_BYTES).read_to_string(&mut secret).with_context(unread)?;
    Ok(secret)
}

/// The URL of a server.
pub(crate) fn url(address: SocketAddr) -> String {
    // A client cannot connect to all addresses at once.
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    format!("http://{}/mcp", SocketAddr::new(ip, address.port()))
}

/// Raises the limit of open files: each connection is one.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        // With a lower limit, connections wait.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_people_write() {
        for (text, is) in [
            ("127.0.0.1:8931", "127.0.0.1:8931"),
            ("localhost:8931", "127.0.0.1:8931"),
            (":0", "127.0.0.1:0"),
            ("[::1]:8931", "[::1]:8931"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(address(text).unwrap(), is.parse().unwrap(), "{text}");
        }
        for not in ["", "8931", "127.0.0.1", "example.com:80", ":", ":99999"] {
            assert!(address(not).is_err(), "{not}");
        }
        assert_eq!(url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80/mcp");
        assert_eq!(url("[::1]:80".parse().unwrap()), "http://[::1]:80/mcp");
    }
}
