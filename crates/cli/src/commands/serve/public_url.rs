//! The address at which browsers reach a server.

/// Parses an address: a scheme and a host, and perhaps a port. The page and the API are at the top of their host.
pub(super) fn public_url(text: &str) -> Result<String, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("write a URL such as https://agent.example.com")?;
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err("the scheme must be http or https");
    }
    if rest.contains(['?', '#']) {
        return Err("it must have no query and no fragment");
    }
    let host = rest.strip_suffix('/').unwrap_or(rest);
    if host.contains('/') {
        return Err("it must have no path: the page is at the top of its host");
    }
    if host.contains('@') {
        return Err("it must have no user name and no password");
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_name = |c: char| c.is_alphanumeric() || "-._[]:".contains(c);
    let is_address = name.starts_with('[') && name.ends_with(']');
    let is_host =
        !name.is_empty() && name.chars().all(is_name) && (is_address || !name.contains([':', '[', ']']));
    if !is_host || !port.is_none_or(is_port) {
        return Err("the host or the port is not valid");
    }
    Ok(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        for (text, url) in [
            ("https://agent.example.com/", "https://agent.example.com"),
            ("HTTP://127.0.0.1:8930", "http://127.0.0.1:8930"),
            ("https://[::1]:8930", "https://[::1]:8930"),
            ("https://[::1]", "https://[::1]"),
            ("https://büro.example", "https://büro.example"),
        ] {
            assert_eq!(public_url(text).as_deref(), Ok(url));
        }
        for wrong in [
            "agent.example.com",
            "javascript://x",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://a#b",
            "https://a b",
            "https://me:secret@a",
            "https://a:b",
            "https://a:99999",
            "https://a:+1",
            "https://::1",
            "https://a\n",
        ] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
    }
}
