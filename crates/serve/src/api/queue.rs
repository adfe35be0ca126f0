//! The queue of turns, for administrators.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_agent::ThreadId;
use prowess_base::text::escaped_start;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::{ApiError, ApiPath, ApiQuery, Page};
use crate::app::App;
use crate::auth::AdminCaller;
use crate::live::Piece;
use crate::queue::QueueAdminError;
use crate::view::QueueView;

/// How many of the threads in the queue are wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct FirstThreads {
    /// The most threads, up to 200.
    limit: Option<usize>,
}

impl From<QueueAdminError> for ApiError {
    fn from(error: QueueAdminError) -> Self {
        match error {
            QueueAdminError::NoThread(thread) => Self::not_found(format_args!("thread `{thread}`")),
            error @ QueueAdminError::NotDead { .. } => Self::conflict(sentence(&error.to_string())),
            QueueAdminError::Queue(error) => error.into(),
            QueueAdminError::Threads(error) => error.into(),
            QueueAdminError::Accounts(error) => error.into(),
            QueueAdminError::Audit(error) => error.into(),
        }
    }
}

/// A message of an error as a sentence.
fn sentence(error: &str) -> String {
    let mut letters = error.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn named(id: &str) -> Result<ThreadId, ApiError> {
    id.parse().map_err(|_| ApiError::not_found(format_args!("thread `{}`", escaped_start(id))))
}

/// Says how full the queue is, and lists threads in it: dead letters first.
#[utoipa::path(get, path = "/queue", tag = "queue", params(FirstThreads), responses((status = 200, body = QueueView), (status = 403, description = "Not an administrator", body = super::ApiErrorBody)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    _: AdminCaller,
    ApiQuery(FirstThreads { limit }): ApiQuery<FirstThreads>,
) -> Result<Json<QueueView>, ApiError> {
    let most = Page { limit, after: None }.limit();
    Ok(Json(app.queue_admin.list(most).await?))
}

/// Lets workers take a dead letter again.
#[utoipa::path(post, path = "/queue/{thread}/retry", tag = "queue", params(("thread" = String, Path)), responses((status = 202), (status = 403, description = "Not an administrator", body = super::ApiErrorBody), (status = 409, description = "The thread is no dead letter", body = super::ApiErrorBody)))]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let thread = named(&id)?;
    app.queue_admin.retry(&thread, &caller.user.id, json!({})).await?;
    tell(&app, &thread);
    Ok(StatusCode::ACCEPTED)
}

/// Drops the work of a dead letter: messages that no worker has taken are gone, and its turn ends. The thread stays.
#[utoipa::path(post, path = "/queue/{thread}/drop", tag = "queue", params(("thread" = String, Path)), responses((status = 202), (status = 403, description = "Not an administrator", body = super::ApiErrorBody), (status = 409, description = "The thread is no dead letter", body = super::ApiErrorBody)))]
pub(super) async fn drop_work(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let thread = named(&id)?;
    app.queue_admin.drop_work(&thread, &caller.user.id, json!({})).await?;
    tell(&app, &thread);
    Ok(StatusCode::ACCEPTED)
}

/// Tells workers, and those who watch the thread.
fn tell(app: &App, thread: &ThreadId) {
    app.tell_posted(thread);
    app.live.of(thread).tell(Piece::Status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sentence() {
        assert_eq!(sentence("the thread `t` rests"), "The thread `t` rests.");
        assert_eq!(sentence(""), "");
    }
}
