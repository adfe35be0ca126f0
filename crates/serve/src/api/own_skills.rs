//! Skills that users upload: add, look, trust, remove.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use http::StatusCode;
use prowess_base::text::escaped_start;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::{ApiBytes, ApiError, ApiPath, ApiQuery, Items, Page};
use crate::app::{App, Counted};
use crate::auth::{AdminCaller, Approver, Caller, Reader, Writer};
use crate::own_skills::{OwnSkillCard, OwnSkillLook, OwnSkillRefusal, OwnSkills, OwnSkillsDecider};

/// The skills that you uploaded.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnSkillList {
    /// Who decides whether models see them: `user` (you), `admin` (an administrator), or `off` (nobody can upload skills).
    decider: OwnSkillsDecider,
    /// The skills. The trusted version of a skill and a newer one are two entries.
    items: Vec<OwnSkillCard>,
}

/// A skill that waits for an administrator.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WaitingSkill {
    /// The id of the user who uploaded it.
    owner: String,
    /// The name of the user.
    owner_name: String,
    #[serde(flatten)]
    skill: OwnSkillCard,
}

impl From<OwnSkillRefusal> for ApiError {
    fn from(refusal: OwnSkillRefusal) -> Self {
        match refusal {
            OwnSkillRefusal::NotFound => Self::not_found("such skill of yours"),
            OwnSkillRefusal::Unusable(why) => Self::bad_request(why),
            OwnSkillRefusal::Conflict(why) => Self::conflict(why),
            OwnSkillRefusal::Failed(error) => error.into(),
        }
    }
}

/// The skills that users uploaded, unless the server takes none.
fn own_skills(app: &App) -> Result<Arc<dyn OwnSkills>, ApiError> {
    let skills = app.agents.own_skills().filter(|skills| skills.decider() != OwnSkillsDecider::Off);
    skills.ok_or_else(|| ApiError::forbidden("This server takes no skills of users (`--own-skills off`)."))
}

/// The same for administrators, if they decide. Otherwise the skills of users are their own affair.
fn decided_by_admins(app: &App) -> Result<Arc<dyn OwnSkills>, ApiError> {
    let skills = own_skills(app)?;
    if skills.decider() != OwnSkillsDecider::Admin {
        return Err(ApiError::forbidden("Users of this server decide about their own skills."));
    }
    Ok(skills)
}

/// A place among the archives that are in memory. Each is unpacked there.
fn place(app: &App, caller: &Caller) -> Result<Counted, ApiError> {
    let place = app.uploads.take(&caller.user.id, app.limits.uploads_per_user, app.limits.uploads);
    place.ok_or_else(|| ApiError::too_many("Too many files are looked at or arrive at once. Try again."))
}

async fn note(
    app: &App,
    caller: &Caller,
    action: &str,
    owner: &str,
    skill: &OwnSkillCard,
) -> Result<(), ApiError> {
    let detail = json!({"skill": skill.name, "digest": skill.digest, "owner": owner});
    Ok(app.audit.note(&caller.user.id, action, None, &detail).await?)
}

/// Lists the skills that you uploaded.
#[utoipa::path(get, path = "/own-skills", tag = "skills", responses((status = 200, body = OwnSkillList)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
) -> Result<Json<OwnSkillList>, ApiError> {
    let decider = app.agents.own_skills().map_or(OwnSkillsDecider::Off, |skills| skills.decider());
    let items = match own_skills(&app) {
        Ok(skills) => skills.list(&caller.user.id).await?,
        Err(_) => Vec::new(),
    };
    Ok(Json(OwnSkillList { decider, items }))
}

/// Uploads a skill. The body is an archive of one skill: `.skill`, `.zip`, `.tar` or `.tar.gz`. Models do not see it before it is
/// trusted. It replaces an upload of the same name that is not trusted.
#[utoipa::path(post, path = "/own-skills", tag = "skills", request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = OwnSkillLook), (status = 413, description = "The archive is too large", body = super::error::ApiErrorBody)))]
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    request: Request,
) -> Result<(StatusCode, Json<OwnSkillLook>), ApiError> {
    let skills = own_skills(&app)?;
    let ApiBytes(body) = ApiBytes::from_request(request, &app).await?;
    let _place = place(&app, &caller)?;
    let look = skills.add(&caller.user.id, body).await?;
    note(&app, &caller, "add skill", &caller.user.id, &look.card).await?;
    Ok((StatusCode::CREATED, Json(look)))
}

/// Shows what you should know before you trust a skill that you uploaded.
#[utoipa::path(get, path = "/own-skills/{digest}", tag = "skills", params(("digest" = String, Path)), responses((status = 200, body = OwnSkillLook)))]
pub(super) async fn look(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(digest): ApiPath<String>,
) -> Result<Json<OwnSkillLook>, ApiError> {
    let _place = place(&app, &caller)?;
    Ok(Json(own_skills(&app)?.look(&caller.user.id, &digest).await?))
}

/// Removes a skill that you uploaded.
#[utoipa::path(delete, path = "/own-skills/{digest}", tag = "skills", params(("digest" = String, Path)), responses((status = 204)))]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(digest): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let removed = own_skills(&app)?.remove(&caller.user.id, &digest).await?;
    note(&app, &caller, "remove skill", &caller.user.id, &removed).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Trusts a skill that you uploaded: your agents see exactly these files. A trusted version of the same name is replaced.
#[utoipa::path(put, path = "/own-skills/{digest}/trust", tag = "skills", params(("digest" = String, Path)), responses((status = 200, body = OwnSkillCard)))]
pub(super) async fn trust(
    State(app): State<Arc<App>>,
    Approver(caller): Approver,
    ApiPath(digest): ApiPath<String>,
) -> Result<Json<OwnSkillCard>, ApiError> {
    let skills = own_skills(&app)?;
    if skills.decider() != OwnSkillsDecider::User {
        return Err(ApiError::forbidden("On this server, an administrator decides about skills of users."));
    }
    let _place = place(&app, &caller)?;
    let card = skills.trust(&caller.user.id, &digest, &caller.user.id, false).await?;
    note(&app, &caller, "trust skill", &caller.user.id, &card).await?;
    Ok(Json(card))
}

/// Trusts a skill that you uploaded no more.
#[utoipa::path(delete, path = "/own-skills/{digest}/trust", tag = "skills", params(("digest" = String, Path)), responses((status = 200, body = OwnSkillCard)))]
pub(super) async fn distrust(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(digest): ApiPath<String>,
) -> Result<Json<OwnSkillCard>, ApiError> {
    let card = own_skills(&app)?.distrust(&caller.user.id, &digest).await?;
    note(&app, &caller, "distrust skill", &caller.user.id, &card).await?;
    Ok(Json(card))
}

/// How many of the skills that wait are wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct FirstOf {
    /// The most skills, up to 200.
    limit: Option<usize>,
}

/// Lists the first skills of users that wait for an administrator, the oldest first. Others follow when these are decided.
#[utoipa::path(get, path = "/waiting-skills", tag = "skills", params(FirstOf), responses((status = 200, body = Items<WaitingSkill>)))]
pub(super) async fn waiting(
    State(app): State<Arc<App>>,
    _: AdminCaller,
    ApiQuery(FirstOf { limit }): ApiQuery<FirstOf>,
) -> Result<Json<Items<WaitingSkill>>, ApiError> {
    let first = Page { limit, after: None };
    let waiting = decided_by_admins(&app)?.waiting(first.limit()).await?;
    let users = app.accounts.users().await?;
    let names: HashMap<&str, &str> = users.iter().map(|user| (&*user.id, &*user.name)).collect();
    let view = |(owner, skill): (String, OwnSkillCard)| {
        let owner_name = names.get(&*owner).copied().unwrap_or_default().to_owned();
        WaitingSkill { owner, owner_name, skill }
    };
    Ok(Json(waiting.into_iter().map(view).collect::<Vec<_>>().into()))
}

fn not_of_user(user: &str) -> impl Fn(OwnSkillRefusal) -> ApiError + use<'_> {
    move |refusal| match refusal {
        OwnSkillRefusal::NotFound => {
            ApiError::not_found(format_args!("such skill of the user `{}`", escaped_start(user)))
        }
        refusal => refusal.into(),
    }
}

/// Shows what an administrator should know before they trust a skill of a user.
#[utoipa::path(get, path = "/users/{user}/own-skills/{digest}", tag = "skills", params(("user" = String, Path), ("digest" = String, Path)), responses((status = 200, body = OwnSkillLook)))]
pub(super) async fn look_as_admin(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath((user, digest)): ApiPath<(String, String)>,
) -> Result<Json<OwnSkillLook>, ApiError> {
    let _place = place(&app, &caller)?;
    let look = decided_by_admins(&app)?.look(&user, &digest).await;
    look.map(Json).map_err(not_of_user(&user))
}

/// Trusts a skill of a user: the user's agents see exactly these files.
#[utoipa::path(put, path = "/users/{user}/own-skills/{digest}/trust", tag = "skills", params(("user" = String, Path), ("digest" = String, Path)), responses((status = 200, body = OwnSkillCard)))]
pub(super) async fn trust_as_admin(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath((user, digest)): ApiPath<(String, String)>,
) -> Result<Json<OwnSkillCard>, ApiError> {
    let skills = decided_by_admins(&app)?;
    let _place = place(&app, &caller)?;
    let card = skills.trust(&user, &digest, &caller.user.id, true).await.map_err(not_of_user(&user))?;
    note(&app, &caller, "trust skill", &user, &card).await?;
    Ok(Json(card))
}

/// Refuses a skill of a user: it is removed, whether it was trusted or not.
#[utoipa::path(delete, path = "/users/{user}/own-skills/{digest}", tag = "skills", params(("user" = String, Path), ("digest" = String, Path)), responses((status = 204)))]
pub(super) async fn refuse_as_admin(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath((user, digest)): ApiPath<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let removed = decided_by_admins(&app)?.remove(&user, &digest).await.map_err(not_of_user(&user))?;
    note(&app, &caller, "refuse skill", &user, &removed).await?;
    Ok(StatusCode::NO_CONTENT)
}
