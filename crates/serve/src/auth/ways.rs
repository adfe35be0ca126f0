//! The ways to sign in, for a page that is not signed in yet.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Serialize;

use crate::app::App;

/// The ways to sign in, besides a token and a one-time link.
#[derive(Debug, Default, Serialize)]
struct Ways {
    /// With an account of somebody else.
    oidc: Option<OidcWay>,
    /// Why the last attempt of this browser failed.
    refused: Option<String>,
}

/// Sign in with an account of an OpenID Connect issuer.
#[derive(Debug, Serialize)]
#[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "one form of the answer for all builds"))]
pub(super) struct OidcWay {
    /// What the issuer is called.
    pub(super) label: String,
    /// Where signing in begins.
    pub(super) url: String,
}

/// Lists the ways to sign in.
pub(super) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    #[cfg(feature = "oidc")]
    if let Some(oidc) = app.oidc.get() {
        let (refused, cookie) = oidc.refusal(&headers);
        let mut response = Json(Ways { oidc: Some(oidc.way()), refused }).into_response();
        if let Some(cookie) = cookie {
            super::cookies::add(response.headers_mut(), &cookie);
        }
        return response;
    }
    let _ = (app, headers);
    Json(Ways::default()).into_response()
}
