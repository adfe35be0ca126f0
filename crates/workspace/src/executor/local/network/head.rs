//! Parses the head of a request to the proxy strictly, without I/O.
//!
//! The proxy and the host must understand a request in the same way. So the parser refuses heads that another parser could
//! read differently. `httparse` refuses folded lines, blanks before a colon and invalid names. It accepts bare line feeds
//! and empty lines before a request. This file refuses those, and also two lengths or two hosts.

use httparse::{EMPTY_HEADER, Error, Header, Request, Status};

use crate::host_rule::{Host, split_port};

/// The longest head, in bytes.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// The most fields in a head.
const MAX_FIELDS: usize = 100;

/// Fields about one connection, which are not part of the request, and fields for proxies.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) kind: RequestKind,
}

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tunnel to the host. The proxy does not read its bytes.
    Tunnel,
    /// One request: the head that the host gets, and the length of the body.
    Plain { head: Vec<u8>, body: u64 },
}

/// Why a head is refused: the HTTP status and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadError {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
}

const fn bad_request(reason: &'static str) -> HeadError {
    HeadError { status: "400 Bad Request", reason }
}

/// The length of the head at the start of these bytes, including its empty line. `None` if it is not complete.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|end| end + 4)
}

/// Parses a whole head.
pub(super) fn parse(head: &[u8]) -> Result<ProxyRequest, HeadError> {
    check_lines(head)?;
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(Status::Complete(_)) => return Err(bad_request("there is an empty line within the head")),
        Ok(Status::Partial) => return Err(bad_request("the head has no empty line at its end")),
        Err(error) => return Err(refusal(error, head)),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(bad_request("the first line must be a method, a target and a version"));
    };
    let version = format!("HTTP/1.{version}");
    let fields: Vec<(String, &str)> = request.headers.iter().map(field).collect::<Result<_, _>>()?;
    let named = only(&fields, "host").map_err(|()| bad_request("there are two Host fields"))?;
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or(bad_request("CONNECT needs a port"))?;
        agrees(named, &host, port, port)?;
        if fields.iter().any(|(name, _)| matches!(name.as_str(), "content-length" | "transfer-encoding")) {
            return Err(bad_request("CONNECT has no body"));
        }
        return Ok(ProxyRequest { host, port, kind: RequestKind::Tunnel });
    }
    let (authority_part, path) = absolute(target)?;
    let (host, port) = authority(authority_part)?;
    let port = port.unwrap_or(80);
    if named.is_none() && version == "HTTP/1.1" {
        return Err(bad_request("there is no Host field"));
    }
    agrees(named, &host, port, 80)?;
    let length = content_length(&fields)?;
    let head = forwarded(&format!("{method} {path} {version}"), &host, port, &fields, length);
    Ok(ProxyRequest { host, port, kind: RequestKind::Plain { head, body: length.unwrap_or(0) } })
}

/// Refuses heads that `httparse` accepts but other parsers may read differently. Every line ends with CR and LF, neither
/// occurs alone, and the first line is the request.
fn check_lines(head: &[u8]) -> Result<(), HeadError> {
    let text = std::str::from_utf8(head).map_err(|_| bad_request("the head is not UTF-8"))?;
    if !text.ends_with("\r\n\r\n") {
        return Err(bad_request("the head has no empty line at its end"));
    }
    if text.starts_with("\r\n") {
        return Err(bad_request("the first line is empty"));
    }
    let is_control = |c: char| c.is_ascii_control() && c != '\t';
    if text.split("\r\n").any(|line| line.contains(is_control)) {
        return Err(bad_request("a line has control characters"));
    }
    Ok(())
}

/// The error for a head that `httparse` refuses.
fn refusal(error: Error, head: &[u8]) -> HeadError {
    let first = head.iter().take_while(|byte| **byte != b'\r');
    let has_three_parts = first.filter(|byte| **byte == b' ').count() == 2;
    match error {
        Error::TooManyHeaders => {
            HeadError { status: "431 Request Header Fields Too Large", reason: "there are too many fields" }
        }
        Error::Version if has_three_parts => HeadError {
            status: "505 HTTP Version Not Supported",
            reason: "this proxy supports HTTP/1.0 and HTTP/1.1",
        },
        Error::HeaderName => bad_request("a field has an invalid name"),
        Error::HeaderValue => bad_request("a field has an invalid value"),
        _ if has_three_parts => bad_request("the method or the target has invalid characters"),
        _ => bad_request("the first line must be a method, a target and a version"),
    }
}

/// The lowercase name and the value of a field.
fn field<'a>(field: &Header<'a>) -> Result<(String, &'a str), HeadError> {
    let value = std::str::from_utf8(field.value).map_err(|_| bad_request("the head is not UTF-8"))?;
    Ok((field.name.to_ascii_lowercase(), value))
}

/// The value of a field that must not be repeated.
fn only<'a>(fields: &[(String, &'a str)], name: &str) -> Result<Option<&'a str>, ()> {
    let mut found = fields.iter().filter(|(own, _)| own == name).map(|(_, value)| *value);
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        _ => Err(()),
    }
}

fn authority(text: &str) -> Result<(Host, Option<u16>), HeadError> {
    let (host, port) = split_port(text).map_err(bad_request)?;
    // Without brackets, the port would be ambiguous.
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad_request("an IPv6 address must be in brackets"));
    }
    Ok((Host::parse(host).map_err(bad_request)?, port))
}

/// The host and the path of `http://host/path`.
fn absolute(target: &str) -> Result<(&str, String), HeadError> {
    let split = target.split_at_checked("http://".len());
    let (scheme, rest) =
        split.ok_or(bad_request("this is a proxy: request http://host/path or CONNECT host:port"))?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(bad_request("this is a proxy: request http://host/path or CONNECT host:port"));
    }
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '\\']) {
        return Err(bad_request("the target has invalid characters"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    Ok((host, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

/// Checks that a Host field has the same host and port as the target.
fn agrees(named: Option<&str>, host: &Host, port: u16, usual: u16) -> Result<(), HeadError> {
    let Some(named) = named else { return Ok(()) };
    let (its_host, its_port) = authority(named)?;
    if its_host != *host || its_port.unwrap_or(usual) != port {
        return Err(bad_request("the Host field and the target differ"));
    }
    Ok(())
}

/// The length of the body, if the head has one. A body without a length could hide a second request.
fn content_length(fields: &[(String, &str)]) -> Result<Option<u64>, HeadError> {
    if fields.iter().any(|(name, _)| name == "transfer-encoding") {
        return Err(HeadError {
            status: "411 Length Required",
            reason: "send the body with a Content-Length",
        });
    }
    let Some(length) =
        only(fields, "content-length").map_err(|()| bad_request("there are two Content-Length fields"))?
    else {
        return Ok(None);
    };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_number);
    length.map(Some).ok_or(bad_request("the Content-Length is not a number"))
}

/// The head that the host gets. It has no fields about this connection. The proxy writes the host and the length itself,
/// and closes the connection after the response.
fn forwarded(first: &str, host: &Host, port: u16, fields: &[(String, &str)], length: Option<u64>) -> Vec<u8> {
    let named: Vec<String> = fields
        .iter()
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, value)| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let is_ours = |name: &str| matches!(name, "host" | "content-length") || HOP_BY_HOP.contains(&name);
    let host = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    let port = if port == 80 { String::new() } else { format!(":{port}") };
    let mut head = format!("{first}\r\nHost: {host}{port}\r\n");
    for (name, value) in fields.iter().filter(|(name, _)| !is_ours(name) && !named.contains(name)) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(head: &str) -> Result<ProxyRequest, HeadError> {
        parse(head.replace('\n', "\r\n").as_bytes())
    }

    fn sent(head: &str) -> String {
        match ask(head).unwrap().kind {
            RequestKind::Plain { head, .. } => String::from_utf8(head).unwrap().replace("\r\n", "\n"),
            RequestKind::Tunnel => panic!("a tunnel"),
        }
    }

    #[test]
    fn a_tunnel() {
        let asked =
            ask("CONNECT Example.com:443 HTTP/1.1\nHost: example.com:443\nUser-Agent: x\n\n").unwrap();
        assert_eq!(
            (asked.host.to_string().as_str(), asked.port, asked.kind),
            ("example.com", 443, RequestKind::Tunnel)
        );
        assert!(ask("CONNECT [::1]:8080 HTTP/1.0\n\n").is_ok());
    }

    #[test]
    fn a_plain_request_is_sent_on_without_what_is_between_us() {
        let head = "GET HTTP://Example.com/a?b=c HTTP/1.1\nHost: EXAMPLE.com:80\nAccept: */*\nProxy-Connection: keep-alive\n\
            Connection: keep-alive, X-Secret, Content-Length\nX-Secret: 1\nProxy-Authorization: Basic eA==\nContent-Length: 3\n\n";
        assert_eq!(
            sent(head),
            "GET /a?b=c HTTP/1.1\nHost: example.com\naccept: */*\nContent-Length: 3\nConnection: close\n\n"
        );
        assert_eq!(
            sent("GET http://127.0.0.1:81?x HTTP/1.0\n\n"),
            "GET /?x HTTP/1.0\nHost: 127.0.0.1:81\nConnection: close\n\n"
        );
    }

    fn get(fields: &str) -> Result<ProxyRequest, HeadError> {
        ask(&format!("GET http://a.com/ HTTP/1.1\n{fields}\n\n"))
    }

    #[test]
    fn fields_that_could_be_read_in_two_ways_are_refused() {
        assert!(get("Host: a.com").is_ok());
        for fields in [
            "X: y",
            "Host: b.com",
            "Host: a.com:81",
            "Host: a.com\nHost: a.com",
            "Host: a.com\nContent-Length: 1\nContent-Length: 1",
            "Host: a.com\nContent-Length: 1, 1",
            "Host: a.com\nContent-Length: +1",
            "Host: a.com\nContent-Length: 18446744073709551616",
            "Host: a.com\nTransfer-Encoding: chunked",
            "Host: a.com\nContent-Length: 1\nTransfer-Encoding: chunked",
            "Host: a.com\nTransfer-Encoding : chunked",
            "Host: a.com\n folded: x",
            "Host: a.com\nX\0: y",
            "Host: a.com\nno colon",
            "Host: a.com\n: empty",
            "Host : a.com",
        ] {
            assert!(get(fields).is_err(), "{fields}");
        }
        let many = "X: y\n".repeat(MAX_FIELDS);
        assert_eq!(
            get(&format!("Host: a.com\n{many}X: y")).unwrap_err().status,
            "431 Request Header Fields Too Large"
        );
    }

    #[test]
    fn request_lines_that_could_be_read_in_two_ways_are_refused() {
        for head in [
            "GET / HTTP/1.1\nHost: a.com\n\n",
            "GET https://a.com/ HTTP/1.1\nHost: a.com\n\n",
            "GET http://u@a.com/ HTTP/1.1\nHost: a.com\n\n",
            "GET http://a.com@b.com/ HTTP/1.1\nHost: a.com\n\n",
            "GET http://a.com\\.b.com/ HTTP/1.1\nHost: a.com\n\n",
            "GET http://a.com/#x HTTP/1.1\nHost: a.com\n\n",
            "GET  http://a.com/ HTTP/1.1\nHost: a.com\n\n",
            "GET http://a.com/ HTTP/2.0\nHost: a.com\n\n",
            "GET http://a.com/\tx HTTP/1.1\nHost: a.com\n\n",
            "G(T http://a.com/ HTTP/1.1\nHost: a.com\n\n",
            "CONNECT a.com HTTP/1.1\n\n",
            "CONNECT a.com:443 HTTP/1.1\nHost: b.com\n\n",
            "CONNECT a.com:443 HTTP/1.1\nContent-Length: 3\n\n",
            "CONNECT ::1:443 HTTP/1.1\n\n",
            "\n\n",
        ] {
            assert!(ask(head).is_err(), "{head:?}");
        }
        let version = ask("GET http://a.com/ HTTP/1.2\nHost: a.com\n\n").unwrap_err();
        assert_eq!(version.status, "505 HTTP Version Not Supported");
        let blank = ask("GET http://a.com/ x HTTP/1.1\nHost: a.com\n\n").unwrap_err();
        assert_eq!(blank.status, "400 Bad Request");
    }

    #[test]
    fn bytes_that_could_be_read_in_two_ways_are_refused() {
        for raw in [
            "GET http://a.com/ HTTP/1.1\nHost: a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\rX: y\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\nX: y\r\n\r\n",
            "\r\nGET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "\nGET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\nGET http://b.com/ HTTP/1.1\r\nHost: b.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n",
            "GET http://a.com/é HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nX: \u{7f}\r\n\r\n",
        ] {
            assert!(parse(raw.as_bytes()).is_err(), "{raw:?}");
        }
        let latin = b"GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nX: \xe9\r\n\r\n";
        assert_eq!(parse(latin).unwrap_err().reason, "the head is not UTF-8");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        /// The proxy sends one unambiguous head, to the host of the request.
        #[test]
        fn what_is_sent_on_is_one_request_to_the_host_that_was_asked_for(
            target in r"(http://)?[ab./:@?#%\\\\ ]{0,12}",
            fields in prop::collection::vec((r"(Host|Connection|Content-Length|Transfer-Encoding|X) ?", r"[ab.,:01 \t]{0,8}"), 0..5),
            end in prop::sample::select(vec!["\r\n", "\n", "\r"]),
        ) {
            let mut head = format!("POST {target} HTTP/1.1{end}Host: a.b\r\n");
            for (name, value) in fields {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            if let Ok(ProxyRequest { host, port, kind: RequestKind::Plain { head, body } }) = parse(head.as_bytes()) {
                let text = String::from_utf8(head).unwrap();
                prop_assert_eq!(length(text.as_bytes()), Some(text.len()));
                prop_assert_eq!(text.matches("Host: ").count(), 1);
                let expected = if port == 80 { format!("\r\nHost: {host}\r\n") } else { format!("\r\nHost: {host}:{port}\r\n") };
                prop_assert!(text.contains(&expected), "{text}");
                let lengths: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Content-Length: ")).collect();
                prop_assert!(lengths.len() <= 1 && lengths.iter().all(|told| *told == body.to_string()));
                prop_assert!(!text.to_ascii_lowercase().contains("transfer-encoding"));
                prop_assert!(text.ends_with("\r\nConnection: close\r\n\r\n"));
            }
        }
    }
}
