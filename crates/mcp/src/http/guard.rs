//! Decides who may send requests to the server at all.
//!
//! It checks the `Host` first: a page whose name was made to point to this machine (DNS rebinding) sends its own name.
//! Then it checks the `Origin`, which names the page that makes the request, and then the token. A refused sender learns
//! nothing else, not even which paths exist.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
    WWW_AUTHENTICATE,
};
use http::uri::Authority;
use http::{Method, Request, StatusCode, Uri};

use super::response::{HttpRefusal, HttpResponse, empty, refused, with};
use super::token::Token;

/// The headers that a page may send, and those that it may read in a response.
const SENT: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
const READ: &str = "mcp-session-id";

/// Which requests the server accepts.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) token: Token,
    /// Further names that `Host` may be, with or without a port, besides the server's address.
    pub(crate) hosts: Vec<String>,
    /// Further origins, besides those of this machine.
    pub(crate) origins: Vec<String>,
}

impl Guard {
    /// Checks a request. Returns the origin of the page that made it, if there is one, or the response that refuses it.
    pub(crate) fn admit<B>(
        &self,
        local: SocketAddr,
        request: &Request<B>,
    ) -> Result<Option<HeaderValue>, HttpRefusal> {
        if !self.is_for(local, request) {
            return Err(refused(
                StatusCode::FORBIDDEN,
                "This server does not allow the host in the Host header",
            ));
        }
        let origin = self.origin(request.headers())?;
        if let (&Method::OPTIONS, Some(origin)) = (request.method(), &origin) {
            return Err(Box::new(preflight(origin)));
        }
        if !self.has_token(request.headers()) {
            let response = refused(
                StatusCode::UNAUTHORIZED,
                "The token is missing or wrong; send it as Authorization: Bearer TOKEN",
            );
            return Err(Box::new(readable_by(with(*response, WWW_AUTHENTICATE, "Bearer"), origin.as_ref())));
        }
        Ok(origin)
    }

    /// Whether the request names the address that it came to, or an allowed name.
    fn is_for<B>(&self, local: SocketAddr, request: &Request<B>) -> bool {
        let Some(Ok(host)) = only(request.headers(), &HOST).map(HeaderValue::to_str) else { return false };
        // A request line can also name a host.
        let named = request.uri().authority().map(Authority::as_str);
        named.into_iter().chain([host]).all(|host| self.is_served(local, host))
    }

    fn is_served(&self, local: SocketAddr, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let (name, port) = (authority.host(), authority.port_u16());
        let is_allowed =
            |allowed: &String| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name);
        if self.hosts.iter().any(is_allowed) {
            return true;
        }
        port.unwrap_or(80) == local.port()
            && (address(name).is_some_and(|address| address == local.ip().to_canonical())
                || (is_this_machine(name) && local.ip().to_canonical().is_loopback()))
    }

    /// The origin of the page that made the request, if a page made it.
    fn origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, HttpRefusal> {
        if !headers.contains_key(ORIGIN) {
            return Ok(None);
        }
        let origin = only(headers, &ORIGIN);
        let text = origin.and_then(|origin| origin.to_str().ok()).unwrap_or_default();
        let is_allowed = self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text));
        let is_local = || {
            let uri =
                text.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            uri.and_then(|uri| uri.host().map(is_this_machine)) == Some(true)
        };
        match origin {
            Some(origin) if is_allowed || is_local() => Ok(Some(origin.clone())),
            _ => Err(refused(StatusCode::FORBIDDEN, "This server does not allow pages of this origin")),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let presented = only(headers, &AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, secret)) = presented.and_then(|value| value.split_once(' ')) else { return false };
        scheme.eq_ignore_ascii_case("bearer") && self.token.is(secret.trim())
    }
}

/// The value of a header that appears exactly once.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn address(name: &str) -> Option<IpAddr> {
    name.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_this_machine(name: &str) -> bool {
    let address = address(name);
    name.eq_ignore_ascii_case("localhost")
        || address == Some(Ipv4Addr::LOCALHOST.into())
        || address == Some(Ipv6Addr::LOCALHOST.into())
}

/// The response to a browser that asks what a page may send.
fn preflight(origin: &HeaderValue) -> HttpResponse {
    let response = with(empty(StatusCode::NO_CONTENT), ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE");
    readable_by(with(response, ACCESS_CONTROL_ALLOW_HEADERS, SENT), Some(origin))
}

/// Lets the page that made the request read the response.
pub(crate) fn readable_by(response: HttpResponse, origin: Option<&HeaderValue>) -> HttpResponse {
    let Some(origin) = origin else { return response };
    let mut response = with(response, ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    with(response, VARY, "origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            token: Token::new("0123456789abcdef").unwrap(),
            hosts: vec!["mcp.example.com".to_owned(), "only.example.com:8443".to_owned()],
            origins: vec!["https://app.example.com".to_owned()],
        }
    }

    #[test]
    fn hosts_are_the_address_served_or_named() {
        let guard = guard();
        let v4: SocketAddr = "127.0.0.1:8931".parse().unwrap();
        let v6: SocketAddr = "[::1]:8931".parse().unwrap();
        let remote: SocketAddr = "192.0.2.7:8931".parse().unwrap();
        for (local, host, is_served) in [
            (v4, "127.0.0.1:8931", true),
            (v4, "localhost:8931", true),
            (v4, "LOCALHOST:8931", true),
            (v4, "[::1]:8931", true),
            (v6, "[::1]:8931", true),
            (v6, "localhost:8931", true),
            (v4, "mcp.example.com", true),
            (v4, "mcp.example.com:443", true),
            (v4, "only.example.com:8443", true),
            (remote, "192.0.2.7:8931", true),
            (v4, "localhost", false),
            (v4, "127.0.0.1:80", false),
            (v4, "only.example.com", false),
            (v4, "only.example.com:1", false),
            (v4, "evil.example.com:8931", false),
            (v4, "localhost.evil.example.com:8931", false),
            (v4, "127.0.0.1.nip.io:8931", false),
            (v4, "evil@localhost:8931", false),
            (v4, "192.0.2.7:8931", false),
            (v4, "", false),
            (remote, "localhost:8931", false),
            (remote, "evil.example.com:8931", false),
        ] {
            assert_eq!(guard.is_served(local, host), is_served, "{host} at {local}");
        }
    }

    #[test]
    fn origins_are_of_this_machine_or_named() {
        let guard = guard();
        let origin = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, text.parse().unwrap());
            guard.origin(&headers)
        };
        for passes in
            ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:1", "https://app.example.com"]
        {
            assert!(origin(passes).is_ok(), "{passes}");
        }
        for not in [
            "null",
            "",
            "http://evil.example.com",
            "https://app.example.com.evil.org",
            "file://localhost",
            "localhost",
        ] {
            assert!(origin(not).is_err(), "{not}");
        }
        assert!(matches!(guard.origin(&HeaderMap::new()), Ok(None)));
    }
}
