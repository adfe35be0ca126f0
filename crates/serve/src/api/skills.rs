//! Skills: list, search, read, load and unload.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_agent::Message;
use prowess_agent::middleware::Skills;
use prowess_agent::queue::Post;
use prowess_agent::queue::Priority;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::threads::owned;
use super::turns::{WhileWorking, post_one_more, say};
use super::{ApiError, ApiPath, ApiQuery, Items, Page};
use crate::agents::{SkillCard, SkillDetail, SkillList, SkillsPart};
use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::view::{LoadedSkillView, Replay};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct SkillSearch {
    /// Words that say what the skill should do.
    search: Option<String>,
}

/// Lists the skills that your agents may see, or searches them.
#[utoipa::path(get, path = "/skills", tag = "skills", params(Page, SkillSearch), responses((status = 200, body = Items<SkillCard>)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiQuery(page): ApiQuery<Page>,
    ApiQuery(SkillSearch { search }): ApiQuery<SkillSearch>,
) -> Result<Json<Items<SkillCard>>, ApiError> {
    let search = search.as_deref().map(str::trim).filter(|search| !search.is_empty());
    let part = SkillsPart { after: page.after.as_deref(), limit: page.limit() };
    let SkillList { skills: items, has_more } = app.agents.skills(&caller.user.id, search, part).await;
    let next = items.last().filter(|_| has_more).map(|last| last.name.clone());
    Ok(Json(Items { items, next }))
}

/// Reads a skill.
#[utoipa::path(get, path = "/skills/{name}", tag = "skills", params(("name" = String, Path)), responses((status = 200, body = SkillDetail)))]
pub(super) async fn read(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<SkillDetail>, ApiError> {
    let skill = app.agents.skill(&caller.user.id, &name).await;
    skill.map(Json).ok_or_else(|| no_skill(&name))
}

fn no_skill(name: &str) -> ApiError {
    ApiError::not_found(format_args!("skill `{}`", prowess_base::text::escaped_start(name)))
}

/// Lists the skills that are loaded in a thread.
#[utoipa::path(get, path = "/threads/{thread}/skills", tag = "skills", params(("thread" = String, Path)), responses((status = 200, body = Items<LoadedSkillView>)))]
pub(super) async fn loaded(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<Items<LoadedSkillView>>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    Ok(Json(app.look_at(&thread, |replay| replay.skills.clone()).await?.into()))
}

/// Starts a skill, as `/NAME` in a message does.
#[utoipa::path(post, path = "/threads/{thread}/skills/{name}", tag = "skills", params(("thread" = String, Path), ("name" = String, Path)), responses((status = 202)))]
pub(super) async fn load(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath((id, name)): ApiPath<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let skill = app.agents.skill(&caller.user.id, &name).await.ok_or_else(|| no_skill(&name))?;
    if !skill.card.startable {
        return Err(ApiError::conflict(
            "Only the model can start this skill. Ask it to do the skill's task.",
        ));
    }
    let message = Message::user(format!("/{}", skill.card.name));
    let said = say(&app, &caller, &thread, message, WhileWorking::Queue, Priority::Normal).await;
    said.map_err(|unsaid| unsaid.with_advice("Wait for its end.", "Reply to it."))?;
    Ok(StatusCode::ACCEPTED)
}

/// Takes a skill out of the conversation.
#[utoipa::path(delete, path = "/threads/{thread}/skills/{name}", tag = "skills", params(("thread" = String, Path), ("name" = String, Path)), responses((status = 202)))]
pub(super) async fn unload(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath((id, name)): ApiPath<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let is_loaded = |replay: &Replay| replay.skills.iter().any(|skill| skill.name == name);
    if !app.look_at(&thread, is_loaded).await? {
        return Err(ApiError::not_found(format_args!(
            "loaded skill `{}`",
            prowess_base::text::escaped_start(&name)
        )));
    }
    let post = Post::Change { id: Uuid::now_v7().simple().to_string(), change: Skills::unload(&name) };
    post_one_more(&app, &thread, &post).await?;
    Ok(StatusCode::ACCEPTED)
}
