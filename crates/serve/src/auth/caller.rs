//! Finds out who makes a request.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::stream;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt as _;
use prowess_store::serve::{Scope, TokenInfo, User};

use super::{AccessSecret, cookies, session_cookie};
use crate::api::ApiError;
use crate::app::{App, Counted, lock};

/// The header that a page sends and a form of another site cannot send.
const OWN_HEADER: &str = "x-prowess";

/// The most bytes of a body that wait for a client at once.
const CHUNK: usize = 64 << 10;

/// How a caller proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// With a token in a header.
    Token,
    /// With a cookie, which a browser also sends for other sites.
    Cookie,
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) token: TokenInfo,
    /// The digest by which the token is checked again.
    pub(crate) digest: [u8; 32],
    /// What the request takes until the client has the whole answer: a place among those in progress, for one.
    places: Arc<Mutex<Vec<Counted>>>,
}

/// Lets a request pass if it proves who makes it.
pub(crate) async fn authenticate(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (secret, via) = presented(request.headers()).ok_or_else(ApiError::unauthorized)?;
    let digest = AccessSecret::digest_of(&secret);
    let (user, token) = app.accounts.who(&digest).await?.ok_or_else(ApiError::unauthorized)?;
    if via == Via::Cookie && !matches!(*request.method(), Method::GET | Method::HEAD) {
        check_same_site(request.headers())?;
    }
    if !app.rates.take(&user.id) {
        return Err(ApiError::too_many("You make too many requests. Wait a second."));
    }
    let place = app.requests.take(&user.id, app.limits.requests_per_user, usize::MAX);
    let place = place.ok_or_else(|| {
        ApiError::too_many("Too many of your requests are in progress. Let some end.").retry_after(1)
    })?;
    app.accounts.note_use(&token.id).await?;
    let places = Arc::new(Mutex::new(vec![place]));
    request.extensions_mut().insert(Caller { user, token, digest, places: Arc::clone(&places) });
    let mut response = next.run(request).await;
    match response.body().size_hint().exact() {
        Some(0) => return Ok(response),
        Some(length) => drop(response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into())),
        None => {}
    }
    Ok(response.map(|body| in_chunks(body, places)))
}

/// The same body in small chunks, with places that are given back when the client has the last one, or is gone. The next chunk
/// waits until the client has taken some, so a body must not be one chunk that waits as a whole.
fn in_chunks(body: Body, places: Arc<Mutex<Vec<Counted>>>) -> Body {
    let chunks = stream::unfold((body, Bytes::new(), places), async |(mut body, mut rest, places)| {
        while rest.is_empty() {
            match body.frame().await? {
                Ok(frame) => rest = frame.into_data().unwrap_or_default(),
                Err(error) => return Some((Err(error), (body, rest, places))),
            }
        }
        let chunk = rest.split_to(CHUNK.min(rest.len()));
        Some((Ok(chunk), (body, rest, places)))
    });
    Body::from_stream(chunks)
}

/// The secret in a request.
fn presented(headers: &HeaderMap) -> Option<(String, Via)> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        // A request that names a token never falls back to the cookie.
        let value = value.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| (token.trim().to_owned(), Via::Token));
    }
    session_secret(headers).map(|secret| (secret, Via::Cookie))
}

/// The secret in the cookie of a session.
pub(super) fn session_secret(headers: &HeaderMap) -> Option<String> {
    cookies::value(&session_cookie(headers), headers)
}

/// Refuses what a page of another site made a browser send.
pub(super) fn check_same_site(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(OWN_HEADER) {
        return Err(ApiError::forbidden("Requests with a cookie need the header `X-Prowess: 1`."));
    }
    if headers.get(ORIGIN).is_some_and(|origin| !is_own_origin(origin, headers)) {
        return Err(ApiError::forbidden("This request comes from another site."));
    }
    Ok(())
}

/// Whether an origin is this server, as the browser knows it.
pub(super) fn is_own_origin(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let of_origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    host.is_some() && of_origin == host
}

/// A request that no other site made a browser send. It is checked before the body is read.
pub(super) struct SameSite;

impl<S: Send + Sync> FromRequestParts<S> for SameSite {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        check_same_site(&parts.headers).map(|()| Self)
    }
}

impl Caller {
    /// Gives back what the request takes before it ends: it has another place now.
    pub(crate) fn give_places_back(&self) {
        lock(&self.places).clear();
    }

    /// Takes a place among the answers with a whole log, which are in memory until the client has them.
    pub(crate) fn read_whole(&self, app: &App) -> Result<(), ApiError> {
        let place = app.reads.take(&self.user.id, app.limits.reads_per_user, usize::MAX);
        let busy = || ApiError::too_many("You read too many threads at once. Try again.").retry_after(1);
        self.keep(place.ok_or_else(busy)?);
        Ok(())
    }

    /// Takes a place among the files that are read, which are in memory until the client has them.
    pub(crate) fn read_file(&self, app: &App) -> Result<(), ApiError> {
        let limits = &app.limits;
        let place = app.downloads.take(&self.user.id, limits.downloads_per_user, limits.downloads);
        let busy = || ApiError::too_many("Too many files are read at once. Try again.").retry_after(1);
        self.keep(place.ok_or_else(busy)?);
        Ok(())
    }

    /// Keeps a place until the client has the whole answer.
    fn keep(&self, place: Counted) {
        lock(&self.places).push(place);
    }

    fn may(&self, scope: Scope) -> Result<(), ApiError> {
        if self.token.scopes.contains(scope) {
            return Ok(());
        }
        Err(ApiError::forbidden(format!("This token has no right to do that: it needs the scope `{scope}`.")))
    }
}

async fn caller<S: Sync>(parts: &mut Parts, _: &S) -> Result<Caller, ApiError> {
    parts.extensions.get::<Caller>().cloned().ok_or_else(ApiError::unauthorized)
}

/// A caller who may read.
pub(crate) struct Reader(pub(crate) Caller);
/// A caller who may converse and change files.
pub(crate) struct Writer(pub(crate) Caller);
/// A caller who may reply to questions.
pub(crate) struct Approver(pub(crate) Caller);
/// A caller who is an administrator.
pub(crate) struct AdminCaller(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = caller(parts, state).await?;
        caller.may(Scope::Read)?;
        Ok(Self(caller))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Writer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = caller(parts, state).await?;
        caller.may(Scope::Write)?;
        Ok(Self(caller))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Approver {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = caller(parts, state).await?;
        caller.may(Scope::Approve)?;
        Ok(Self(caller))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AdminCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = caller(parts, state).await?;
        caller.may(Scope::Admin)?;
        if !caller.user.is_admin {
            return Err(ApiError::forbidden("Only an administrator may do that."));
        }
        Ok(Self(caller))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_secret_is_found_and_a_header_wins() {
        let found = |pairs: &[(&'static str, &str)]| presented(&headers(pairs));
        assert_eq!(found(&[("authorization", "Bearer a")]), Some(("a".to_owned(), Via::Token)));
        assert_eq!(found(&[("authorization", "Basic a"), ("cookie", "prowess_session=b")]), None);
        let cookie = found(&[("cookie", "other=1; prowess_session=b; more=2")]);
        assert_eq!(cookie, Some(("b".to_owned(), Via::Cookie)));
        // Browsers send the cookies of all servers on a machine to each of them.
        let both = ("cookie", "prowess_session=a; prowess_session_8930=b; prowess_session_8931=c");
        let on = |host| found(&[("host", host), both]).map(|(secret, _)| secret);
        assert_eq!(on("127.0.0.1:8931").as_deref(), Some("c"));
        assert_eq!(on("[::1]:8930").as_deref(), Some("b"));
        assert_eq!(on("agent.example.com").as_deref(), Some("a"));
        assert_eq!(on("127.0.0.1:8932"), None);
        assert_eq!(found(&[]), None);
        // Another server on the same machine can set a second one.
        assert_eq!(found(&[("cookie", "prowess_session=a; prowess_session=b")]), None);
        let encrypted = ("x-forwarded-proto", "https");
        let cookies = ("cookie", "prowess_session=a; __Host-prowess_session=b");
        assert_eq!(found(&[encrypted, cookies]).map(|(secret, _)| secret).as_deref(), Some("b"));
    }

    #[test]
    fn another_site_cannot_use_the_cookie() {
        let may = |pairs: &[(&'static str, &str)]| check_same_site(&headers(pairs)).is_ok();
        assert!(may(&[("x-prowess", "1"), ("host", "a:1"), ("origin", "http://a:1")]));
        assert!(may(&[("x-prowess", "1"), ("host", "a:1")]));
        assert!(!may(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(!may(&[("x-prowess", "1"), ("host", "a:1"), ("origin", "http://b")]));
        assert!(!may(&[("x-prowess", "1"), ("host", "a:1"), ("origin", "null")]));
    }
}
