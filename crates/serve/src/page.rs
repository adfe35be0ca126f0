//! The page: files that are part of the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use prowess_base::hex;

use crate::api::ApiError;

/// What the page may do. It has no inline script or style, and talks to its own server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
    font-src 'self'; frame-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A file of the page: its name, its type and its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

const INDEX: Asset = ("index.html", "text/html; charset=utf-8", include_bytes!("../assets/index.html"));

const ASSETS: [Asset; 3] = [
    ("app.js", "text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
    ("app.css", "text/css; charset=utf-8", include_bytes!("../assets/app.css")),
    ("licences.txt", "text/plain; charset=utf-8", include_bytes!("../assets/licences.txt")),
];

/// The page itself, for every path that it knows.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    asset(&INDEX, &headers)
}

/// A file of the page.
pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let found = ASSETS.iter().find(|(known, ..)| *known == name);
    found.map(|found| asset(found, &headers)).ok_or_else(|| ApiError::not_found("such page"))
}

fn asset((_, mime, bytes): &Asset, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", hex::encode(&hmac_sha256::Hash::hash(bytes)[..16]));
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { (*bytes).into_response() };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = tag.parse() {
        headers.insert(ETAG, tag);
    }
    response
}
