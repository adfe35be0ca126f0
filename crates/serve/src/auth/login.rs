//! Signing in and out in a browser: with a token, or by a link that works once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use prowess_store::serve::{Accounts, NewToken, Scope, Scopes, TokenKind, User};
use serde::Deserialize;

use super::AccessSecret;
use super::caller::{check_same_site, session_secret};
use crate::agents::BoxError;
use crate::api::{ApiError, ApiJson, ApiPath};
use crate::app::App;

/// The cookie of a session.
pub(crate) const SESSION_COOKIE: &str = "prowess_session";
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(14 * 24 * 3600);
/// How long a login link works.
pub(crate) const LOGIN: Duration = Duration::from_secs(15 * 60);

/// A link path that signs a user in, once.
pub(crate) async fn login_link(accounts: &Accounts, user: &str) -> Result<String, BoxError> {
    let secret = AccessSecret::random()?;
    let token = NewToken {
        kind: TokenKind::Login,
        name: "login link".to_owned(),
        scopes: Scopes::default(),
        digest: secret.digest(),
        expires: Some(LOGIN),
    };
    accounts.add_token(user, token).await?;
    Ok(format!("/login/{}", secret.expose()))
}

/// The routes.
pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/login/{code}", get(follow_link))
        .route("/api/v1/login", post(with_token))
        .route("/api/v1/logout", post(log_out))
}

/// Signs a user in by a link, and leads to the page.
async fn follow_link(
    State(app): State<Arc<App>>,
    ApiPath(code): ApiPath<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // A page that is loaded ahead of a click must not use the link up.
    if headers.get("sec-purpose").is_some_and(|purpose| purpose.as_bytes().starts_with(b"prefetch")) {
        return Err(ApiError::bad_request("A login link cannot be loaded ahead."));
    }
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
    headers: HeaderMap,
    ApiJson(WithToken { token }): ApiJson<WithToken>,
) -> Result<Response, ApiError> {
    check_same_site(&headers)?;
    let secret = token.trim();
    let found = app.accounts.who(&AccessSecret::digest_of(secret)).await?;
    let (_, token) = found.ok_or_else(ApiError::unauthorized)?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    // The cookie is the token itself, so it ends with the token.
    let left = token.expires.map_or(SESSION, |at| at.duration_since(SystemTime::now()).unwrap_or_default());
    set_cookie(&mut response, secret, left.min(SESSION), is_encrypted(&headers));
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
    set_cookie(&mut response, "", Duration::ZERO, is_encrypted(&headers));
    Ok(response)
}

async fn begin(app: &App, user: &User, headers: &HeaderMap, response: &mut Response) -> Result<(), ApiError> {
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
    let secret = AccessSecret::random().map_err(|error| ApiError::internal(&error))?;
    let token = NewToken {
        kind: TokenKind::Session,
        name: "browser".to_owned(),
        scopes,
        digest: secret.digest(),
        expires: Some(SESSION),
    };
    app.accounts.add_token(&user.id, token).await?;
    set_cookie(response, secret.expose(), SESSION, is_encrypted(headers));
    Ok(())
}

/// Whether the browser speaks https: to a proxy, which says so.
fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

fn set_cookie(response: &mut Response, secret: &str, lasts: Duration, is_encrypted: bool) {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let cookie = format!(
        "{SESSION_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        lasts.as_secs()
    );
    let headers = response.headers_mut();
    // A secret is hexadecimal.
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        headers.insert(SET_COOKIE, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}
