//! The page: files that are part of the program.

use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use prowess_base::hex;

/// What the page may do. It has no inline script or style, and talks to its own server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
    font-src 'self'; frame-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A file of the page: its type and its bytes.
type Asset = (&'static str, &'static [u8]);

const INDEX: Asset = ("text/html; charset=utf-8", include_bytes!("../assets/index.html"));

const SCRIPT: Asset = ("text/javascript; charset=utf-8", include_bytes!("../assets/app.js"));
const STYLE: Asset = ("text/css; charset=utf-8", include_bytes!("../assets/app.css"));
const LICENCES: Asset = ("text/plain; charset=utf-8", include_bytes!("../assets/licences.txt"));

/// The page itself, for every path that it knows.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    asset(&INDEX, &headers)
}

/// The script of the page.
pub(crate) async fn script(headers: HeaderMap) -> Response {
    asset(&SCRIPT, &headers)
}

/// The style of the page.
pub(crate) async fn style(headers: HeaderMap) -> Response {
    asset(&STYLE, &headers)
}

/// The licences of what the page contains.
pub(crate) async fn licences(headers: HeaderMap) -> Response {
    asset(&LICENCES, &headers)
}

/// A page that the server writes, with the policy of the page.
pub(crate) fn html(text: String) -> Response {
    let mut response = text.into_response();
    guard(response.headers_mut(), INDEX.0);
    response
}

/// What a browser may do with a file of the page.
fn guard(headers: &mut HeaderMap, mime: &'static str) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

fn asset((mime, bytes): &Asset, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", hex::encode(&hmac_sha256::Hash::hash(bytes)[..16]));
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { (*bytes).into_response() };
    let headers = response.headers_mut();
    guard(headers, mime);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = tag.parse() {
        headers.insert(ETAG, tag);
    }
    response
}
