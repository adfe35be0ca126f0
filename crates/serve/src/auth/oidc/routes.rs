//! The addresses for signing in: where it begins, and where the issuer sends a browser back to.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, Method};
use prowess_base::text::cut;
use serde::Deserialize;
use serde_json::json;

use super::Oidc;
use super::account::{self, NotIn};
use super::attempt::{Attempt, LASTS};
use super::options::Admits;
use crate::api::{ApiError, ApiPath, ApiQuery};
use crate::app::App;
use crate::auth::login::{begin, check_opened};
use crate::auth::{AccessSecret, cookies};

/// The most characters of a text of the issuer that a person sees.
const MAX_SAID: usize = 200;
/// The longest code.
const MAX_CODE: usize = 4096;

/// The routes.
pub(in crate::auth) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/oidc/login", get(start))
        .route("/oidc/link/{code}", get(start_with_link))
        .route("/oidc/callback", get(finish))
}

fn configured(app: &App) -> Result<Arc<Oidc>, ApiError> {
    app.oidc.get().cloned().ok_or_else(|| ApiError::not_found("OpenID Connect on this server"))
}

/// Begins to sign in.
async fn start(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    configured(&app)?.start(&headers, None).await
}

/// Begins to sign in as a person who is to be linked to a user.
async fn start_with_link(
    State(app): State<Arc<App>>,
    method: Method,
    ApiPath(code): ApiPath<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let oidc = configured(&app)?;
    check_opened(&method, &headers)?;
    oidc.start(&headers, Some(AccessSecret::digest_of(&code))).await
}

/// What the issuer sends back with a browser.
#[derive(Deserialize)]
struct Returned {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
    iss: Option<String>,
}

/// Ends an attempt to sign in.
async fn finish(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    ApiQuery(returned): ApiQuery<Returned>,
) -> Result<Response, ApiError> {
    let oidc = configured(&app)?;
    let cookie = cookies::value(&oidc.cookie_name(&headers), &headers).unwrap_or_default();
    // The cookie stays, because another site can lead a browser here while a person signs in.
    let Some(attempt) = oidc.attempts.resume(&cookie, &returned.state) else {
        let why = "This sign-in took too long, or it began in another browser or tab. Sign in again.";
        return Ok(oidc.refused(why, &headers));
    };
    if !oidc.attempts.end(&attempt) {
        return Ok(oidc.refused("This sign-in has ended already. Sign in again.", &headers));
    }
    let mut response = match oidc.end(&app, &headers, &attempt, returned).await {
        Ok(response) => response,
        Err(NotIn::Refused(why)) => oidc.refused(&why, &headers),
        Err(NotIn::Failed(error)) => return Err(error),
    };
    cookies::add(response.headers_mut(), &oidc.cookie("", 0, &headers));
    Ok(response)
}

impl Oidc {
    async fn start(&self, headers: &HeaderMap, link: Option<[u8; 32]>) -> Result<Response, ApiError> {
        if !self.begins.take("everybody") {
            return Err(ApiError::too_many("Too many people sign in. Try again in a moment."));
        }
        let attempt = self.attempts.begin(link).map_err(|error| ApiError::internal(&error))?;
        let url = match self.issuer.sign_in_url(&attempt).await {
            Ok(url) => url,
            Err(why) => return Ok(self.refused(&self.unusable(&why), headers)),
        };
        let mut response = leading_to(url.as_str());
        cookies::add(response.headers_mut(), &self.cookie(&attempt.cookie, LASTS.as_secs(), headers));
        Ok(response)
    }

    async fn end(
        &self,
        app: &App,
        headers: &HeaderMap,
        attempt: &Attempt,
        returned: Returned,
    ) -> Result<Response, NotIn> {
        let refused = |why: String| Err(NotIn::Refused(why));
        if returned.iss.is_some_and(|issuer| issuer != self.options.issuer) {
            return refused("The answer comes from another issuer. Sign in again.".to_owned());
        }
        if let Some(error) = returned.error {
            let said = returned.error_description.unwrap_or(error);
            return refused(format!("{} refused: {}", self.options.label, cut(&said, MAX_SAID)));
        }
        let code = returned.code.filter(|code| (1..=MAX_CODE).contains(&code.len()));
        let Some(code) = code else { return refused("The issuer sent no code. Sign in again.".to_owned()) };
        if !self.ends.take("everybody") {
            return refused("Too many people sign in. Try again in a moment.".to_owned());
        }
        let person = self.issuer.person(code, attempt, &self.needed(attempt)).await;
        let person = person.map_err(|why| {
            tracing::warn!(issuer = self.options.issuer, error = why, "A sign-in failed");
            NotIn::Refused(self.unusable(&cut(&why, MAX_SAID)))
        })?;
        let user = account::user(app, &self.options, &person, attempt.link.as_ref()).await?;
        let mut response = leading_to("/");
        begin(app, &user, headers, &mut response).await.map_err(NotIn::Failed)?;
        let detail = json!({"issuer": self.options.issuer, "subject": person.subject});
        app.audit.note(&user.id, "sign in", None, &detail).await?;
        Ok(response)
    }

    /// The claims that decide about a new user.
    fn needed(&self, attempt: &Attempt) -> Vec<&str> {
        match &self.options.admits {
            _ if attempt.link.is_some() => Vec::new(),
            Admits::Linked => Vec::new(),
            Admits::Everybody => vec![&self.options.name_claim],
            Admits::Domains(_) => vec![&self.options.name_claim, "email", "email_verified"],
        }
    }

    fn unusable(&self, why: &str) -> String {
        format!("{} cannot be used now: {why}. Try again, or sign in another way.", self.options.label)
    }

    /// Leads to the page, which says why.
    fn refused(&self, why: &str, headers: &HeaderMap) -> Response {
        let mut response = leading_to("/");
        let cookie = self.refusals.cookie(why, headers, self.options.is_encrypted());
        cookies::add(response.headers_mut(), &cookie);
        response
    }

    /// The name of the cookie with an attempt. Over https, no other site can set a cookie of this name.
    fn cookie_name(&self, headers: &HeaderMap) -> String {
        let prefix = if self.options.is_encrypted() { "__Host-" } else { "" };
        cookies::name(&format!("{prefix}prowess_oidc"), headers)
    }

    /// The cookie with an attempt. A browser sends it along when the issuer leads back, so it is not `Strict`.
    fn cookie(&self, value: &str, lasts: u64, headers: &HeaderMap) -> String {
        let secure = if self.options.is_encrypted() { "; Secure" } else { "" };
        let name = self.cookie_name(headers);
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={lasts}{secure}")
    }
}

/// A redirect that leaves no trace of this address.
fn leading_to(url: &str) -> Response {
    let mut response = Redirect::to(url).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
