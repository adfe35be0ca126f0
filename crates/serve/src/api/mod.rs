//! The HTTP API, with its description.

mod accounts;
mod agents;
mod described;
mod error;
mod events;
mod extract;
mod files;
mod log;
mod own_skills;
mod page_of;
mod questions;
mod queue;
mod skills;
mod threads;
mod turns;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::described::describe_errors;
pub(crate) use self::error::{ApiError, ApiErrorBody, ErrorCode};
pub(crate) use self::events::{StreamPlace, Streamed, Watching};
pub(crate) use self::extract::{ApiBytes, ApiJson, ApiPath, ApiQuery};
pub(crate) use self::files::files_of;
pub(crate) use self::page_of::{Items, Page};
pub(crate) use self::questions::{NewReply, Replied, ReplyKind, answer, no_question};
pub(crate) use self::threads::{create_thread as create, fork_thread as fork, owned};
pub(crate) use self::turns::{Unsaid, WhileWorking, check_allowance, say};
use crate::app::App;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "prowess",
        description = "Threads of an agent with skills: turns, events, questions, skills and files.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(
        crate::view::LoggedEvent,
        crate::view::EventView,
        threads::ExportFormat,
        ApiErrorBody,
        crate::openai::OpenAiErrorBody
    )),
    security(("token" = [])),
    modifiers(&TokenScheme)
)]
struct Document;

struct TokenScheme;

impl utoipa::Modify for TokenScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", scheme);
    }
}

/// The routes of the API, and its description.
pub(crate) fn router(app: &Arc<App>) -> (Router<Arc<App>>, utoipa::openapi::OpenApi) {
    let (files, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(files::read, files::write, files::delete))
        .layer(DefaultBodyLimit::max(app.limits.upload_bytes))
        .split_for_parts();
    let (archives, more) = OpenApiRouter::new()
        .routes(routes!(own_skills::list, own_skills::add))
        .layer(DefaultBodyLimit::max(app.limits.skill_bytes))
        .split_for_parts();
    document.merge(more);
    let (rest, more) = OpenApiRouter::new()
        .routes(routes!(accounts::me))
        .routes(routes!(accounts::tokens, accounts::add_token))
        .routes(routes!(accounts::revoke))
        .routes(routes!(accounts::users, accounts::add_user))
        .routes(routes!(accounts::change_user))
        .routes(routes!(accounts::add_login))
        .routes(routes!(accounts::audit))
        .routes(routes!(queue::list))
        .routes(routes!(queue::retry))
        .routes(routes!(queue::drop_work))
        .routes(routes!(agents::list))
        .routes(routes!(threads::list, threads::create))
        .routes(routes!(threads::read, threads::change, threads::delete))
        .routes(routes!(threads::fork))
        .routes(routes!(threads::export))
        .routes(routes!(turns::start))
        .routes(routes!(turns::cancel))
        .routes(routes!(events::stream))
        .routes(routes!(log::page))
        .routes(routes!(questions::all))
        .routes(routes!(questions::reply))
        .routes(routes!(skills::list))
        .routes(routes!(skills::read))
        .routes(routes!(skills::loaded))
        .routes(routes!(skills::load, skills::unload))
        .routes(routes!(own_skills::look, own_skills::remove))
        .routes(routes!(own_skills::trust, own_skills::distrust))
        .routes(routes!(own_skills::waiting))
        .routes(routes!(own_skills::look_as_admin, own_skills::refuse_as_admin))
        .routes(routes!(own_skills::trust_as_admin))
        .routes(routes!(files::list))
        .routes(routes!(files::artifacts))
        .routes(routes!(files::artifact))
        .routes(routes!(usage::context))
        .routes(routes!(usage::of_thread))
        .routes(routes!(usage::of_user))
        .layer(DefaultBodyLimit::max(app.limits.body_bytes))
        .split_for_parts();
    document.merge(more);
    (files.merge(archives).merge(rest), document)
}
