//! The server: routes, connections, workers, and how it stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prowess_store::Database;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::agents::ServedAgents;
use crate::api::{self, ApiError};
use crate::app::App;
use crate::limits::ServeLimits;
use crate::process::Process;
use crate::stalls::Unstalled;
use crate::{agui, auth, metrics, openai, page, relay, worker};

/// How long the server pauses after the system could not open another connection.
const PAUSE: Duration = Duration::from_millis(100);
/// How long open connections may take to end when the server stops.
const LAST: Duration = Duration::from_secs(2);

/// A server of agents.
pub struct Server {
    app: Arc<App>,
}

impl Server {
    /// A server of these agents, with threads, users and the queue in this database. It is one process.
    pub fn new(agents: Arc<dyn ServedAgents>, database: &Database, limits: ServeLimits) -> Self {
        Self::of(agents, database, limits, Process::alone())
    }

    /// The same as one of several processes.
    pub fn of(
        agents: Arc<dyn ServedAgents>,
        database: &Database,
        limits: ServeLimits,
        process: Process,
    ) -> Self {
        Self { app: Arc::new(App::new(agents, database, limits, process)) }
    }

    /// Lets people sign in with OpenID Connect, too. The first call counts.
    #[cfg(feature = "oidc")]
    pub fn sign_in_with(self, oidc: Arc<crate::Oidc>) -> Self {
        // A second one has no effect.
        let _ = self.app.oidc.set(oidc);
        self
    }

    /// The description of the API, in the form `OpenAPI` 3.1.
    pub fn openapi(&self) -> String {
        let (_, document) = api::router(&self.app);
        let (_, faces) = faces(&self.app);
        openapi_text(document, faces)
    }

    fn router(&self) -> Router {
        let app = &self.app;
        if !app.role.is_web() {
            let nothing = async || ApiError::not_found("such page: this process only runs turns");
            let count = from_fn_with_state(Arc::clone(app), metrics::count);
            return own_routes().fallback(nothing).layer(count).with_state(Arc::clone(app));
        }
        let (api, document) = api::router(app);
        let (faces, more) = faces(app);
        let document: Arc<str> = openapi_text(document, more).into();
        let openapi = move || {
            let document = Arc::clone(&document);
            async move { ([("content-type", "application/json")], document.to_string()).into_response() }
        };
        let api = api
            .route_layer(from_fn_with_state(Arc::clone(app), auth::authenticate))
            .fallback(async || ApiError::not_found("such address in the API"));
        Router::new()
            .nest("/api/v1", api)
            .merge(faces)
            .merge(auth::router())
            .route("/openapi.json", get(openapi))
            .merge(own_routes())
            .layer(from_fn(private))
            .route("/", get(page::index))
            .route("/app.js", get(page::script))
            .route("/app.css", get(page::style))
            .route("/licences.txt", get(page::licences))
            .fallback(async || ApiError::not_found("such page"))
            .layer(RequestBodyTimeoutLayer::new(app.limits.body_time))
            .layer(from_fn_with_state(Arc::clone(app), metrics::count))
            .with_state(Arc::clone(app))
    }

    /// Serves until `until` is done. Then it takes no new requests, lets running turns rest, and returns.
    pub async fn serve(&self, listener: TcpListener, until: impl Future<Output = ()>) {
        let app = &self.app;
        let working = app.role.is_worker().then(|| tokio::spawn(worker::run(Arc::clone(app))));
        let hearing = tokio::spawn(relay::run(Arc::clone(app)));
        let checking = tokio::spawn(app.tokens.clone().check(app.accounts.clone(), app.stop.subscribe()));
        let router = self.router();
        let room = Arc::new(Semaphore::new(app.limits.connections));
        let mut connections = JoinSet::new();
        tokio::pin!(until);
        loop {
            let accepted = tokio::select! {
                () = &mut until => break,
                accepted = accept(&listener, &room) => accepted,
            };
            while connections.try_join_next().is_some() {}
            let (stream, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Could not accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let stream = Unstalled::new(stream, app.limits.stall);
            let service = TowerToHyperService::new(router.clone());
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(app.limits.header_time).max_buf_size(64 << 10);
            let mut stop = app.stop.subscribe();
            connections.spawn(async move {
                let connection = http.serve_connection(TokioIo::new(stream), service);
                tokio::pin!(connection);
                let ended = tokio::select! {
                    ended = &mut connection => ended,
                    () = stopped(&mut stop) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!(%error, "A connection ended");
                }
                drop(place);
            });
        }
        drop(listener);
        app.stop.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST, all).await;
        connections.abort_all();
        if let Some(working) = working {
            let _ = working.await;
        }
        hearing.abort();
        checking.abort();
    }
}

/// The routes about the process itself.
fn own_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(metrics::healthy))
        .route("/readyz", get(metrics::ready))
        .route("/metrics", get(metrics::text))
}

/// Waits until the server stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a server, nothing is left to wait for.
    let _ = stop.wait_for(|stops| *stops).await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    let place = Arc::clone(room).acquire_owned().await.ok();
    Ok((listener.accept().await?.0, place))
}

/// The routes for clients that speak other protocols, and their description.
fn faces(app: &Arc<App>) -> (Router<Arc<App>>, utoipa::openapi::OpenApi) {
    let (agui, mut document) = agui::router().split_for_parts();
    let (openai, more) = openai::router().split_for_parts();
    document.merge(more);
    let authenticated = from_fn_with_state(Arc::clone(app), auth::authenticate);
    let limit = DefaultBodyLimit::max(app.limits.conversation_bytes);
    let agui = agui.route_layer(authenticated.clone()).layer(limit);
    let openai = openai.route_layer(authenticated).layer(limit).layer(map_response(openai::in_their_form));
    (agui.merge(openai), document)
}

fn openapi_text(mut document: utoipa::openapi::OpenApi, faces: utoipa::openapi::OpenApi) -> String {
    // The routes are described as they are reached.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (format!("/api/v1{path}"), item)).collect();
    document.merge(faces);
    api::describe_errors(&mut document);
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.to_pretty_json().unwrap_or_default()
}

/// Keeps answers out of caches.
async fn private(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        return ApiError::bad_request("This address does not take this method.")
            .with_status(StatusCode::METHOD_NOT_ALLOWED);
    }
    response
}
