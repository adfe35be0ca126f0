//! Signing in and out in a browser: with a token, or by a link that works once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use prowess_store::serve::{Accounts, NewToken, Scope, Scopes, TokenKind, User};
use serde::Deserialize;

use super::caller::{SameSite, check_same_site, session_secret};
use super::{AccessSecret, cookies, ways};
use crate::agents::BoxError;
use crate::api::{ApiError, ApiJson, ApiPath};
use crate::app::App;

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
    cookies::name("prowess_session", headers)
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
        .route("/login/{code}", get(follow_link))
        .route("/api/v1/login", post(with_token))
        .route("/api/v1/logout", post(log_out))
        .route("/api/v1/ways", get(ways::list))
        .layer(DefaultBodyLimit::max(MAX_LOGIN_BYTES))
}

/// Refuses a one-time link that no person opened.
pub(super) fn check_opened(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    // Programs that look at links in mail must not use the link up.
    if *method != Method::GET {
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

/// Signs a user in by a link, and leads to the page.
async fn follow_link(
    State(app): State<Arc<App>>,
    method: Method,
    ApiPath(code): ApiPath<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_opened(&method, &headers)?;
    let user = app.accounts.use_login(&AccessSecret::digest_of(&code)).await?;
    let Some(user) = user else { return Ok(Redirect::to("/?login=used").into_response()) };
    let mut response = Redirect::to("/").into_response();
    begin(&app, &user, &headers, &mut response).await?;
    Ok(response)
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
    let (_, token) = found.ok_or_else(ApiError::unauthorized)?;
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
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}
