//! The head of a request to the proxy, read strictly. Nothing here touches the system.
//!
//! Two readers of one request must not find different ones in it. So a head that a lenient reader could understand in
//! another way is refused. `httparse` refuses folded lines, blanks before a colon and odd names. It takes bare line
//! feeds and empty lines before a request; those are refused here, and so are two lengths and two hosts.

use httparse::{EMPTY_HEADER, Error, Header, Request, Status};

use crate::host_rule::{Host, split_port};

/// The longest head, in bytes.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// The most fields in a head.
const MAX_FIELDS: usize = 100;

/// Fields that are about one connection and not about the request, and those that only a proxy reads.
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

/// What a client asks of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) what: What,
}

/// The two kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A way to the host, for bytes that nobody looks at.
    Tunnel,
    /// One request: its head as the host gets it, and the length of its body.
    Plain { head: Vec<u8>, body: u64 },
}

/// Why a head is refused: the status of the answer, and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) status: &'static str,
    pub(super) why: &'static str,
}

const fn bad(why: &'static str) -> Bad {
    Bad { status: "400 Bad Request", why }
}

/// The length of the head at the beginning of these bytes, its empty line included, once it is there.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|end| end + 4)
}

/// Reads a whole head.
pub(super) fn parse(head: &[u8]) -> Result<Asked, Bad> {
    check_lines(head)?;
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(Status::Complete(_)) => return Err(bad("a field has no colon")),
        Ok(Status::Partial) => return Err(bad("the head has no end")),
        Err(error) => return Err(refusal(error, head)),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(bad("a request is a method, a target and a version"));
    };
    let version = format!("HTTP/1.{version}");
    let fields: Vec<(String, &str)> = request.headers.iter().map(field).collect::<Result<_, _>>()?;
    let named = only(&fields, "host").map_err(|()| bad("there are two Host fields"))?;
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or(bad("CONNECT needs a port"))?;
        agrees(named, &host, port, port)?;
        if fields.iter().any(|(name, _)| matches!(name.as_str(), "content-length" | "transfer-encoding")) {
            return Err(bad("CONNECT has no body"));
        }
        return Ok(Asked { host, port, what: What::Tunnel });
    }
    let (authority_part, path) = absolute(target)?;
    let (host, port) = authority(authority_part)?;
    let port = port.unwrap_or(80);
    if named.is_none() && version == "HTTP/1.1" {
        return Err(bad("there is no Host field"));
    }
    agrees(named, &host, port, 80)?;
    let length = content_length(&fields)?;
    let head = forwarded(&format!("{method} {path} {version}"), &host, port, &fields, length);
    Ok(Asked { host, port, what: What::Plain { head, body: length.unwrap_or(0) } })
}

/// Refuses heads that `httparse` takes and others may read differently. Only CR and LF together end a line, neither
/// stands alone, and the first line is the request.
fn check_lines(head: &[u8]) -> Result<(), Bad> {
    let text = std::str::from_utf8(head).map_err(|_| bad("the head is no text"))?;
    if !text.ends_with("\r\n\r\n") {
        return Err(bad("the head has no end"));
    }
    if text.starts_with("\r\n") {
        return Err(bad("there is no request"));
    }
    let is_control = |c: char| c.is_ascii_control() && c != '\t';
    if text.split("\r\n").any(|line| line.contains(is_control)) {
        return Err(bad("a line has control characters"));
    }
    Ok(())
}

/// What is said of a head that `httparse` does not take.
fn refusal(error: Error, head: &[u8]) -> Bad {
    let first = head.iter().take_while(|byte| **byte != b'\r');
    let has_three_parts = first.filter(|byte| **byte == b' ').count() == 2;
    match error {
        Error::TooManyHeaders => {
            Bad { status: "431 Request Header Fields Too Large", why: "there are too many fields" }
        }
        Error::Version if has_three_parts => {
            Bad { status: "505 HTTP Version Not Supported", why: "this proxy speaks HTTP/1.1" }
        }
        Error::HeaderName => bad("a field has no proper name"),
        Error::HeaderValue => bad("a field has no proper value"),
        _ if has_three_parts => bad("the method or the target has characters that none has"),
        _ => bad("a request is a method, a target and a version"),
    }
}

/// The name, in small letters, and the value of a field.
fn field<'a>(field: &Header<'a>) -> Result<(String, &'a str), Bad> {
    let value = std::str::from_utf8(field.value).map_err(|_| bad("the head is no text"))?;
    Ok((field.name.to_ascii_lowercase(), value))
}

/// The value of a field that there may be one of.
fn only<'a>(fields: &[(String, &'a str)], name: &str) -> Result<Option<&'a str>, ()> {
    let mut found = fields.iter().filter(|(own, _)| own == name).map(|(_, value)| *value);
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        _ => Err(()),
    }
}

fn authority(text: &str) -> Result<(Host, Option<u16>), Bad> {
    let (host, port) = split_port(text).map_err(bad)?;
    // An address of version 6 stands in brackets here.
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad("an IPv6 address stands in brackets"));
    }
    Ok((Host::parse(host).map_err(bad)?, port))
}

/// The host and the path of `http://host/path`.
fn absolute(target: &str) -> Result<(&str, String), Bad> {
    let split = target.split_at_checked("http://".len());
    let (scheme, rest) =
        split.ok_or(bad("this is a proxy: ask for http://host/path, or CONNECT host:port"))?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(bad("this is a proxy: ask for http://host/path, or CONNECT host:port"));
    }
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '\\']) {
        return Err(bad("the target has characters that no target has"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    Ok((host, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

/// A Host field, if there is one, has to name the same host and port as the target.
fn agrees(named: Option<&str>, host: &Host, port: u16, usual: u16) -> Result<(), Bad> {
    let Some(named) = named else { return Ok(()) };
    let (its_host, its_port) = authority(named)?;
    if its_host != *host || its_port.unwrap_or(usual) != port {
        return Err(bad("the Host field and the target do not agree"));
    }
    Ok(())
}

/// The length of the body, if one is told. A body without a length could hide a second request.
fn content_length(fields: &[(String, &str)]) -> Result<Option<u64>, Bad> {
    if fields.iter().any(|(name, _)| name == "transfer-encoding") {
        return Err(Bad { status: "411 Length Required", why: "tell the length of the body, in one piece" });
    }
    let Some(length) = only(fields, "content-length").map_err(|()| bad("there are two lengths"))? else {
        return Ok(None);
    };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_number);
    length.map(Some).ok_or(bad("the length is no number"))
}

/// The head as the host gets it: no field about this connection, the host and the length as they were understood
/// here, and the end of the connection after the answer.
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

    fn ask(head: &str) -> Result<Asked, Bad> {
        parse(head.replace('\n', "\r\n").as_bytes())
    }

    fn sent(head: &str) -> String {
        match ask(head).unwrap().what {
            What::Plain { head, .. } => String::from_utf8(head).unwrap().replace("\r\n", "\n"),
            What::Tunnel => panic!("a tunnel"),
        }
    }

    #[test]
    fn a_tunnel() {
        let asked =
            ask("CONNECT Example.com:443 HTTP/1.1\nHost: example.com:443\nUser-Agent: x\n\n").unwrap();
        assert_eq!(
            (asked.host.to_string().as_str(), asked.port, asked.what),
            ("example.com", 443, What::Tunnel)
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

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let get = |fields: &str| ask(&format!("GET http://a.com/ HTTP/1.1\n{fields}\n\n"));
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
        assert_eq!(parse(latin).unwrap_err().why, "the head is no text");
        let version = ask("GET http://a.com/ HTTP/1.2\nHost: a.com\n\n").unwrap_err();
        assert_eq!(version.status, "505 HTTP Version Not Supported");
        let blank = ask("GET http://a.com/ x HTTP/1.1\nHost: a.com\n\n").unwrap_err();
        assert_eq!(blank.status, "400 Bad Request");
        let many = "X: y\n".repeat(MAX_FIELDS);
        assert_eq!(
            get(&format!("Host: a.com\n{many}X: y")).unwrap_err().status,
            "431 Request Header Fields Too Large"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        /// What is sent on is one head that is read in one way, to the host that was asked for.
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
            if let Ok(Asked { host, port, what: What::Plain { head, body } }) = parse(head.as_bytes()) {
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
