//! An API that clients of OpenAI's API can use: models, chat completions and responses.

mod chat;
mod error;
mod input;
mod responses;
mod turn;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::error::{OpenAiErrorBody, in_their_form};
use crate::api::{ApiError, ApiPath};
use crate::app::App;
use crate::auth::Reader;

/// The routes.
pub(crate) fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(models))
        .routes(routes!(model))
        .routes(routes!(chat::complete))
        .routes(routes!(responses::respond))
}

/// The agents, as models.
#[derive(Debug, Serialize, ToSchema)]
struct Models {
    /// `list`.
    object: &'static str,
    /// The agents.
    data: Vec<Model>,
}

/// An agent, as a model.
#[derive(Debug, Serialize, ToSchema)]
struct Model {
    /// The name of the agent.
    id: String,
    /// `model`.
    object: &'static str,
    /// 0: an agent has no such time.
    created: u64,
    /// `prowess`.
    owned_by: &'static str,
}

impl Model {
    fn of(app: &App) -> Self {
        Self { id: app.agent.clone(), object: "model", created: 0, owned_by: "prowess" }
    }
}

/// Lists the agents, in the form of OpenAI's models.
#[utoipa::path(get, path = "/v1/models", tag = "openai", responses((status = 200, body = Models)))]
async fn models(State(app): State<Arc<App>>, _: Reader) -> Json<Models> {
    Json(Models { object: "list", data: vec![Model::of(&app)] })
}

/// Reads an agent, in the form of OpenAI's models.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "openai", params(("model" = String, Path)), responses((status = 200, body = Model)))]
async fn model(
    State(app): State<Arc<App>>,
    _: Reader,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<Model>, ApiError> {
    checked_agent(&app, &name)?;
    Ok(Json(Model::of(&app)))
}

/// The agent of a request.
fn checked_agent(app: &App, name: &str) -> Result<String, ApiError> {
    let known = &app.agent;
    if name == known {
        return Ok(known.clone());
    }
    let name = prowess_base::text::escaped_start(name);
    Err(ApiError::not_found(format_args!("model `{name}`; there is `{known}`")))
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn events(stream: impl Stream<Item = Result<SseEvent, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(stream).keep_alive(KeepAlive::new()).into_response();
    let headers = response.headers_mut();
    headers.insert("cache-control", http::HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    response
}
