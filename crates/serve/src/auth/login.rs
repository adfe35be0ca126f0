//! Signing in and out in a browser: with a token, or by a link that works once.
//!
//! A link shows a page with a button. Only the button uses the link up, because programs that look at links open them too.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, ORIGIN, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use prowess_base::text::escape_unprintable;
use prowess_store::serve::{Accounts, NewToken, Scope, Scopes, TokenKind, User};
use serde::Deserialize;
use serde_json::json;

use super::caller::{SameSite, check_same_site, is_own_origin, session_secret};
use super::{AccessSecret, cookies, ways};
use crate::agents::BoxError;
use crate::api::{ApiError, ApiJson, ApiPath};
use crate::app::App;
use crate::page::html;

/// The most bytes of a request to sign in. Anybody can send one.
const MAX_LOGIN_BYTES: usize = 4096;
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(14 * 24 * 3600);
/// The most sessions of one user. The oldest one ends if another one begins.
const MAX_SESSIONS: usize = 50;
/// How long a login link works.
const LOGIN: Duration = Duration::from_secs(15 * 60);

/// The name of the cookie of a session.
pub(crate) fn session_cookie(headers: &HeaderMap) -> String {
    // A browser lets nobody else on the same domain set a cookie with this prefix, but only with TLS.
    let prefix = if cookies::is_encrypted(headers) { "__Host-" } else { "" };
    cookies::name(&format!("{prefix}prowess_session"), headers)
}

/// The path of a link that signs a user in. It works once, within 15 minutes.
///
/// # Errors
///
/// There is no such user, or the database failed.
pub async fn login_link(accounts: &Accounts, user: &str) -> Result<String, BoxError> {
    let secret = one_time(accounts, user, TokenKind::Login, "login link", LOGIN).await?;
    Ok(format!("/login/{}", secret.expose()))
}

/// The secret of a link that works once.
pub(super) async fn one_time(
    accounts: &Accounts,
    user: &str,
    kind: TokenKind,
    name: &str,
    lasts: Duration,
) -> Result<AccessSecret, BoxError> {
    let secret = AccessSecret::random()?;
    let (name, scopes, digest) = (name.to_owned(), Scopes::default(), secret.digest());
    accounts.add_token(user, NewToken { kind, name, scopes, digest, expires: Some(lasts) }).await?;
    Ok(secret)
}

/// The routes.
pub(crate) fn router() -> Router<Arc<App>> {
    let router = Router::new();
    #[cfg(feature = "oidc")]
    let router = router.merge(super::oidc::router());
    router
        .route("/login/{code}", get(show_link).post(follow_link))
        .route("/api/v1/login", post(with_token))
        .route("/api/v1/logout", post(log_out))
        .route("/api/v1/ways", get(ways::list))
        .layer(DefaultBodyLimit::max(MAX_LOGIN_BYTES))
}

/// Refuses a one-time link that no person opened. The link to an identity is used up by opening it.
#[cfg(feature = "oidc")]
pub(super) fn check_opened(method: &http::Method, headers: &HeaderMap) -> Result<(), ApiError> {
    // Programs that look at links in mail must not use the link up.
    if *method != http::Method::GET {
        return Err(ApiError::bad_request("Open the link in a browser."));
    }
    // Another site must not sign a person in as somebody else.
    if headers.get("sec-fetch-site").is_some_and(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"))
    {
        return Err(ApiError::bad_request("Copy the link into the address bar of your browser."));
    }
    // A page that is loaded ahead of a click must not use the link up.
    if headers.get("sec-purpose").is_some_and(|purpose| purpose.as_bytes().starts_with(b"prefetch")) {
        return Err(ApiError::bad_request("A login link cannot be loaded ahead."));
    }
    Ok(())
}

/// Shows a page with a button. It uses nothing up, so anybody may open it, from anywhere.
async fn show_link(
    State(app): State<Arc<App>>,
    ApiPath(code): ApiPath<String>,
) -> Result<Response, ApiError> {
    // Only somebody who has the link learns the name. A code that somebody guesses is nobody's.
    match app.accounts.whose_login(&AccessSecret::digest_of(&code)).await? {
        Some(user) => Ok(confirmation(StatusCode::OK, &user)),
        None => Ok(no_longer()),
    }
}

/// Signs a user in by a link, and leads to the page.
async fn follow_link(
    State(app): State<Arc<App>>,
    ApiPath(code): ApiPath<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let digest = AccessSecret::digest_of(&code);
    // Another site must not sign a person in as somebody else. The person can still press the button of this page.
    if !is_from_own_page(&headers) {
        let user = app.accounts.whose_login(&digest).await?;
        return Ok(user.map_or_else(no_longer, |user| confirmation(StatusCode::FORBIDDEN, &user)));
    }
    let Some(user) = app.accounts.use_login(&digest).await? else { return Ok(no_longer()) };
    let mut response = Redirect::to("/").into_response();
    begin(&app, &user, &headers, &mut response).await?;
    app.audit.note(&user.id, "sign in", None, &json!({"with": "login link"})).await?;
    Ok(response)
}

/// What a link shows that was used, has expired, or never existed.
fn no_longer() -> Response {
    let mut response = Redirect::to("/?login=used").into_response();
    keep_secret(response.headers_mut());
    response
}

/// The page that asks whether to sign in. It needs no script.
fn confirmation(status: StatusCode, user: &User) -> Response {
    let name = escaped(&user.name);
    let mut response = html(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\"><title>prowess</title>\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/app.css\"></head><body><main class=\"centre\">\
         <form class=\"sign-in\" method=\"post\"><h1>prowess</h1><p>Sign in to prowess as <strong><bdi>{name}</bdi></strong>?</p>\
         <button type=\"submit\" class=\"primary\">Sign in</button>\
         <p class=\"hint\">This link works once. Sign in only if you asked for it.</p></form></main></body></html>\n"
    ));
    *response.status_mut() = status;
    keep_secret(response.headers_mut());
    // With `no-referrer`, browsers send no origin with the form. This policy never sends the path, which is the secret.
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    response
}

/// A text of somebody in HTML.
fn escaped(text: &str) -> String {
    let text = escape_unprintable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Whether a form was sent by a page of this server. Browsers say so in one of two headers, which no page can change. Without
/// both, nobody knows.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        (Some(site), _) => site.as_bytes() == b"same-origin",
        (None, Some(origin)) => is_own_origin(origin, headers),
        (None, None) => false,
    }
}

#[derive(Deserialize)]
struct WithToken {
    token: String,
}

/// Signs a user in with a token.
async fn with_token(
    State(app): State<Arc<App>>,
    _: SameSite,
    headers: HeaderMap,
    ApiJson(WithToken { token }): ApiJson<WithToken>,
) -> Result<Response, ApiError> {
    let secret = token.trim();
    let found = app.accounts.who(&AccessSecret::digest_of(secret)).await?;
    let (user, token) = found.ok_or_else(ApiError::unauthorized)?;
    // Each time adds to the audit log.
    if !app.rates.take(&user.id) {
        return Err(ApiError::too_many("You make too many requests. Wait a second."));
    }
    let detail = json!({"with": "token", "token": token.id, "name": token.name});
    app.audit.note(&user.id, "sign in", None, &detail).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    // The cookie is the token itself, so it ends with the token.
    let left = token.expires.map_or(SESSION, |at| at.duration_since(SystemTime::now()).unwrap_or_default());
    set_cookie(&mut response, secret, left.min(SESSION), &headers);
    Ok(response)
}

/// Ends the session of the cookie.
async fn log_out(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    check_same_site(&headers)?;
    if let Some(secret) = session_secret(&headers)
        && let Some((user, token)) = app.accounts.who(&AccessSecret::digest_of(&secret)).await?
    {
        // A token that somebody signed in with stays.
        if token.kind == TokenKind::Session {
            app.accounts.revoke(&user.id, &token.id).await?;
        }
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, "", Duration::ZERO, &headers);
    Ok(response)
}

/// Begins a session with all rights of a user.
pub(super) async fn begin(
    app: &App,
    user: &User,
    headers: &HeaderMap,
    response: &mut Response,
) -> Result<(), ApiError> {
    let scopes =
        if user.is_admin { Scopes::all() } else { Scopes::from([Scope::Read, Scope::Write, Scope::Approve]) };
    begin_with(app, user, scopes, headers, response).await
}

/// Begins a session with these rights.
async fn begin_with(
    app: &App,
    user: &User,
    scopes: Scopes,
    headers: &HeaderMap,
    response: &mut Response,
) -> Result<(), ApiError> {
    let mut sessions = app.accounts.tokens(&user.id).await?;
    sessions.retain(|token| token.kind == TokenKind::Session);
    for oldest in sessions.iter().rev().skip(MAX_SESSIONS - 1) {
        app.accounts.revoke(&user.id, &oldest.id).await?;
    }
    let secret = AccessSecret::random().map_err(|error| ApiError::internal(&error))?;
    let token = NewToken {
        kind: TokenKind::Session,
        name: "browser".to_owned(),
        scopes,
        digest: secret.digest(),
        expires: Some(SESSION),
    };
    app.accounts.add_token(&user.id, token).await?;
    set_cookie(response, secret.expose(), SESSION, headers);
    Ok(())
}

fn set_cookie(response: &mut Response, secret: &str, lasts: Duration, request: &HeaderMap) {
    let secure = if cookies::is_encrypted(request) { "; Secure" } else { "" };
    let (name, age) = (session_cookie(request), lasts.as_secs());
    let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
    let headers = response.headers_mut();
    cookies::add(headers, &cookie);
    keep_secret(headers);
}

/// Nobody stores the response, and no other site learns the address.
fn keep_secret(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_this_server_signs_in() {
        let is_own = |pairs: &[(&'static str, &'static str)]| {
            let all = [&[("host", "a:1")], pairs].concat().into_iter();
            let headers = all
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_from_own_page(&headers.collect())
        };
        assert!(is_own(&[("sec-fetch-site", "same-origin")]));
        assert!(is_own(&[("origin", "http://a:1")]));
        // A browser that says where a request comes from is believed before a page without an origin.
        assert!(is_own(&[("sec-fetch-site", "same-origin"), ("origin", "null")]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!is_own(&[("sec-fetch-site", site), ("origin", "http://a:1")]), "{site}");
        }
        assert!(!is_own(&[("origin", "http://b:1")]) && !is_own(&[("origin", "null")]) && !is_own(&[]));
    }

    #[test]
    fn a_name_is_a_text() {
        assert_eq!(
            escaped("<b onclick='x'>\"a\" & \u{202e}b"),
            "&lt;b onclick=&#39;x&#39;&gt;&quot;a&quot; &amp; \\u{202e}b"
        );
    }
}
