//! The HTTP client for downloads and indexes.
//!
//! A person types one host. That host may have any address, even a private one, and only that host gets the token. Every
//! other host comes from a stranger, by a redirect or an index. It must have public addresses only, and the connection goes
//! to exactly the addresses that were checked.

mod error;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prowess_base::text::escaped_start;
use reqwest::header::{AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url, redirect};

pub use error::HttpError;

use super::address::is_private;

/// The most redirects of one download.
pub const MAX_REDIRECTS: usize = 5;
/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server may send nothing.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one download may take in all.
pub const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// The most addresses of one host that are tried.
const MAX_ADDRESSES: usize = 16;

/// A secret that only the typed host gets. Its text appears in no message.
#[derive(Clone)]
pub struct BearerToken(String);

impl BearerToken {
    /// A token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// Who named a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The person, or the host that the person typed.
    Typed,
    /// Another host. The typed host has no privilege then.
    Stranger,
}

/// A file that was downloaded.
#[derive(Debug)]
pub struct Download {
    /// The URL after all redirects.
    pub url: Url,
    /// Who named that URL: [`NamedBy::Typed`] unless a redirect led away from the typed host.
    pub named_by: NamedBy,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A client for the host that a person typed, and for public hosts.
#[derive(Debug)]
pub struct HttpClient {
    typed: Url,
    token: Option<HeaderValue>,
    /// Which addresses a stranger cannot name. Tests have only private addresses.
    is_refused: fn(IpAddr) -> bool,
    /// One client for each host, bound to addresses that were checked.
    clients: Mutex<HashMap<String, Client>>,
}

impl HttpClient {
    /// A client for the URL that a person typed. `token` is for its host.
    ///
    /// # Errors
    ///
    /// The URL is not http or https, or the token cannot be sent to it safely.
    pub fn new(typed: &Url, token: Option<&BearerToken>) -> Result<Self, HttpError> {
        check_scheme(typed)?;
        let token = token.map(|token| header(typed, token)).transpose()?;
        Ok(Self { typed: typed.clone(), token, is_refused: is_private, clients: Mutex::default() })
    }

    /// Downloads at most `most` bytes, and follows redirects.
    ///
    /// # Errors
    ///
    /// A redirect is refused, the server fails, or the answer is too long.
    pub async fn get(&self, url: &Url, named_by: NamedBy, most: u64) -> Result<Download, HttpError> {
        match tokio::time::timeout(DOWNLOAD_TIMEOUT, self.follow(url, named_by, most)).await {
            Ok(result) => result,
            Err(_) => Err(HttpError::TimedOut(shown(url))),
        }
    }

    async fn follow(&self, url: &Url, named_by: NamedBy, most: u64) -> Result<Download, HttpError> {
        if self.typed.scheme() == "https" && url.scheme() == "http" {
            return Err(HttpError::Downgrade { from: shown(&self.typed), to: shown(url) });
        }
        let mut at = url.clone();
        let mut named_by = named_by;
        for _ in 0..=MAX_REDIRECTS {
            match self.step(&at, named_by).await? {
                Step::Answer(response) => {
                    let bytes = body(response, &at, most).await?;
                    return Ok(Download { url: at, named_by, bytes });
                }
                Step::Redirect(next) => {
                    // A host that somebody else named could steer us to private places of the typed host.
                    if !self.is_typed(&next) {
                        named_by = NamedBy::Stranger;
                    }
                    at = next;
                }
            }
        }
        Err(HttpError::Redirects(shown(url)))
    }

    /// Sends one request.
    pub(super) async fn step(&self, url: &Url, named_by: NamedBy) -> Result<Step, HttpError> {
        check_scheme(url)?;
        let is_typed = named_by == NamedBy::Typed && self.is_typed(url);
        let client = self.client(url, is_typed).await?;
        let mut request = client.get(url.clone());
        if let Some(token) = self.token.as_ref().filter(|_| is_typed) {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let response = request.send().await.map_err(|error| failed(url, error))?;
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(Step::Answer(response));
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let mut next = location
            .and_then(|location| url.join(location).ok())
            .ok_or_else(|| HttpError::BadRedirect(shown(url)))?;
        check_scheme(&next)?;
        if url.scheme() == "https" && next.scheme() == "http" {
            return Err(HttpError::Downgrade { from: shown(url), to: shown(&next) });
        }
        // A redirect must not choose who we say that we are. Both fail only for URLs without a host.
        let _ = next.set_username("");
        let _ = next.set_password(None);
        Ok(Step::Redirect(next))
    }

    /// Whether the person typed the host of this URL. The port must be the same too, or a default one.
    fn is_typed(&self, url: &Url) -> bool {
        url.host_str() == self.typed.host_str()
            && (url.port_or_known_default() == self.typed.port_or_known_default() || url.port().is_none())
    }

    async fn client(&self, url: &Url, is_typed: bool) -> Result<Client, HttpError> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(443);
        let key = if is_typed { String::new() } else { format!("{host}:{port}") };
        if let Some(client) = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .user_agent(concat!("prowess/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(IDLE_TIMEOUT)
            .referer(false)
            .redirect(redirect::Policy::none());
        if is_typed && is_this_machine(host) {
            builder = builder.no_proxy();
        }
        if !is_typed {
            let addresses = public_addresses(url, self.is_refused).await?;
            builder = builder.resolve_to_addrs(host, &addresses);
        }
        let client = builder.build().map_err(|error| failed(url, error))?;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(key, client.clone());
        Ok(client)
    }
}

/// What a server answers to one request.
#[derive(Debug)]
pub(super) enum Step {
    /// Something other than a redirect, perhaps an error.
    Answer(Response),
    /// A redirect to an http or https URL.
    Redirect(Url),
}

/// The URL without password, query and fragment.
pub fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    escaped_start(&format!("{}://{host}{port}{}", url.scheme(), url.path()))
}

fn check_scheme(url: &Url) -> Result<(), HttpError> {
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        return Ok(());
    }
    Err(HttpError::NotHttp(escaped_start(&format!("{}:{}", url.scheme(), url.path()))))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || literal(host).is_some_and(|address| address.is_loopback())
}

/// The address that a host is, if it is no name.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn header(typed: &Url, BearerToken(token): &BearerToken) -> Result<HeaderValue, HttpError> {
    let host = typed.host_str().unwrap_or_default();
    if typed.scheme() != "https" && !is_this_machine(host) {
        return Err(HttpError::PlainToken(host.to_owned()));
    }
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| HttpError::BadToken(host.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Checks that a host that a stranger named has public addresses only, for programs that connect by themselves. A host with a
/// domain that cannot be found passes: they will not find it either, or ask a proxy. A name without a domain can be one of the
/// user's SSH configuration.
pub(super) async fn check_public(host: &str) -> Result<(), HttpError> {
    let Ok(url) = Url::parse(&format!("https://{host}/")) else {
        return Err(HttpError::LocalName(escaped_start(host)));
    };
    match public_addresses(&url, is_private).await {
        Err(HttpError::Address { host, .. }) if !host.contains('.') => Err(HttpError::LocalName(host)),
        Ok(_) | Err(HttpError::Address { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The addresses of a host that a stranger named. All of them must be public: which one is used is up to chance.
async fn public_addresses(url: &Url, is_refused: fn(IpAddr) -> bool) -> Result<Vec<SocketAddr>, HttpError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let found: Vec<SocketAddr> = if let Some(address) = literal(&host) {
        vec![SocketAddr::new(address, port)]
    } else {
        let name = host.clone();
        let failed = |reason: String| HttpError::Address { host: host.clone(), reason };
        let lookup = tokio::task::spawn_blocking(move || {
            let addresses = (name.as_str(), port).to_socket_addrs()?;
            Ok::<_, std::io::Error>(addresses.take(MAX_ADDRESSES).collect())
        });
        let found: Vec<SocketAddr> = lookup
            .await
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))?;
        if found.is_empty() {
            return Err(failed("it has none".to_owned()));
        }
        found
    };
    match found.iter().find(|address| is_refused(address.ip())) {
        Some(address) => Err(HttpError::Private { url: shown(url), address: address.ip() }),
        None => Ok(found),
    }
}

/// The bytes of an answer.
async fn body(mut response: Response, url: &Url, most: u64) -> Result<Vec<u8>, HttpError> {
    if !response.status().is_success() {
        return Err(HttpError::Status { url: shown(url), status: response.status().as_u16() });
    }
    let too_large = || HttpError::TooLarge { url: shown(url), most };
    if response.content_length().is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
        if (bytes.len() + chunk.len()) as u64 > most {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The error, with its causes: reqwest's own text says little. It has no URL, which may have a password.
fn failed(url: &Url, error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        reason = cause.to_string();
        source = cause.source();
    }
    HttpError::Failed { url: shown(url), reason: escaped_start(&reason) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Serves `answers` at an address of this machine, and tells the first line and the token of each request.
    fn serve(last: u8, answers: Vec<String>) -> (Url, mpsc::Receiver<String>) {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let token = lines.iter().find(|line| line.starts_with("authorization:"));
                let seen = format!("{} {}", lines[0], token.map_or("", String::as_str));
                sender.send(seen).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, requests)
    }

    fn answer(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn redirect(to: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn case_132_a_token_goes_to_the_typed_host_only() {
        let (other, other_requests) = serve(2, vec![answer("from another host")]);
        let (typed, requests) = serve(1, vec![redirect("/b"), redirect(other.as_str())]);
        let mut client = HttpClient::new(&typed, Some(&BearerToken::new("s3cret"))).unwrap();
        // Both hosts have private addresses, so the other one must pass for a public one.
        client.is_refused = |_| false;
        let download = run(client.get(&typed, NamedBy::Typed, 100)).unwrap();
        assert_eq!((download.bytes, download.named_by), (b"from another host".to_vec(), NamedBy::Stranger));
        assert_eq!(download.url, other);
        assert_eq!(requests.iter().take(2).filter(|seen| seen.ends_with("Bearer s3cret")).count(), 2);
        let seen = other_requests.recv().unwrap();
        assert!(!seen.contains("s3cret"), "{seen}");
        assert!(!format!("{client:?}").contains("s3cret"));
    }

    #[test]
    fn case_132_a_stranger_cannot_name_private_places_of_the_typed_host() {
        let (typed, _requests) = serve(1, Vec::new());
        let client = HttpClient::new(&typed, Some(&BearerToken::new("s3cret"))).unwrap();
        // The typed host is private. A stranger's words do not open it.
        let error = run(client.get(&typed, NamedBy::Stranger, 100)).unwrap_err();
        assert!(matches!(error, HttpError::Private { .. }), "{error}");
    }

    #[test]
    fn case_132_redirects_to_files_and_private_addresses_are_refused() {
        for (to, expected) in [
            ("file:///etc/passwd", "not an http or https URL"),
            ("gopher://example.com/", "not an http or https URL"),
            ("http://127.0.0.9:1/", "private address 127.0.0.9"),
            ("http://2130706433:1/", "private address 127.0.0.1"),
            ("http://[::ffff:10.0.0.1]/", "private address ::ffff:10.0.0.1"),
            ("http://169.254.169.254/latest/meta-data", "private address 169.254.169.254"),
            ("http://localhost:1/", "private address"),
            ("http://", "not a URL"),
        ] {
            let (typed, _requests) = serve(1, vec![redirect(to)]);
            let client = HttpClient::new(&typed, None).unwrap();
            let error = run(client.get(&typed, NamedBy::Typed, 100)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let (typed, _requests) = serve(1, vec![redirect("/again"); MAX_REDIRECTS + 1]);
        let client = HttpClient::new(&typed, None).unwrap();
        let error = run(client.get(&typed, NamedBy::Typed, 100)).unwrap_err();
        assert!(matches!(error, HttpError::Redirects(_)), "{error}");
    }

    #[test]
    fn answers_are_bounded_and_errors_name_no_secret() {
        let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n0123456789".to_owned();
        for long in [answer("0123456789"), endless] {
            let (typed, _requests) = serve(1, vec![long]);
            let client = HttpClient::new(&typed, None).unwrap();
            let error = run(client.get(&typed, NamedBy::Typed, 9)).unwrap_err();
            assert!(matches!(error, HttpError::TooLarge { most: 9, .. }), "{error}");
        }
        let (mut typed, _requests) = serve(1, vec!["HTTP/1.1 404 Gone\r\n\r\n".to_owned()]);
        typed.set_username("ada").unwrap();
        typed.set_password(Some("hunter2")).unwrap();
        typed.set_query(Some("token=hunter2"));
        let client = HttpClient::new(&typed, None).unwrap();
        let error = run(client.get(&typed, NamedBy::Typed, 9)).unwrap_err();
        assert!(error.is_missing() && !error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn tokens_need_encryption() {
        let url = Url::parse("http://example.com/").unwrap();
        let error = HttpClient::new(&url, Some(&BearerToken::new("s3cret"))).unwrap_err();
        assert!(matches!(error, HttpError::PlainToken(_)), "{error}");
        let url = Url::parse("https://example.com/").unwrap();
        assert!(HttpClient::new(&url, Some(&BearerToken::new("a\nb"))).is_err());
        let client = HttpClient::new(&url, None).unwrap();
        let plain = Url::parse("http://example.com/x").unwrap();
        let error = run(client.get(&plain, NamedBy::Typed, 9)).unwrap_err();
        assert!(matches!(error, HttpError::Downgrade { .. }), "{error}");
    }
}
