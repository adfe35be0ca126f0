//! The cookies of the server. Each port of a machine has its own, because a browser sends a machine's cookies to all ports.

use http::header::{COOKIE, HOST, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

/// The name of a cookie, for the port that a request came to.
pub(crate) fn name(word: &str, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{word}_{port}")
        }
        _ => word.to_owned(),
    }
}

/// The value of a cookie in a request. Of two with the same name, another server on this machine may have set one: neither
/// counts.
pub(crate) fn value(name: &str, headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies =
        cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, found) = cookies.find(|(known, _)| *known == name)?;
    cookies.all(|(known, _)| known != name).then(|| found.to_owned())
}

/// Whether the browser speaks https: to a proxy, which says so.
pub(crate) fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

/// Adds a cookie to a response.
pub(crate) fn add(headers: &mut HeaderMap, cookie: &str) {
    // Names and values are made of letters and digits.
    if let Ok(value) = HeaderValue::from_str(cookie) {
        headers.append(SET_COOKIE, value);
    }
}
