//! The events of a thread, page by page.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::threads::owned;
use super::{ApiError, ApiPath, ApiQuery};
use crate::app::App;
use crate::auth::Reader;
use crate::view::LoggedEvent;

/// The most events of one answer.
const MOST: usize = 1000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct LogPage {
    /// The number of the event before the first one.
    after: u64,
    /// The most events, up to 1,000.
    limit: Option<usize>,
}

/// A part of a log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LogPart {
    items: Vec<LoggedEvent>,
    /// The number of the last event of the thread.
    last: u64,
}

/// Reads the events of a thread.
#[utoipa::path(get, path = "/threads/{thread}/log", tag = "events", params(("thread" = String, Path), LogPage), responses((status = 200, body = LogPart)))]
pub(super) async fn page(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(LogPage { after, limit }): ApiQuery<LogPage>,
) -> Result<Json<LogPart>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    caller.read_whole(&app)?;
    let (mut replay, last) = app.look_at(&thread, |known| (known.light(after), known.last)).await?;
    let limit = limit.unwrap_or(MOST).clamp(1, MOST);
    let mut items = Vec::new();
    while items.len() < limit && replay.last < last {
        let page = app.log_of(&thread.owner).events(&thread.id, replay.last, limit).await?;
        if page.is_empty() {
            break;
        }
        let logged = page.iter().map(|stored| replay.read(stored)).filter(|event| event.number > after);
        items.extend(logged);
    }
    items.truncate(limit);
    Ok(Json(LogPart { items, last }))
}
