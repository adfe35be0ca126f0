//! Users, their tokens, and what they approved.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_store::serve::{Audit, AuditEntry, DailyLimits, NewToken, Scope, TokenInfo, TokenKind, User};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::usage::DailyLimitsView;
use super::{ApiError, ApiJson, ApiPath, ApiQuery, Items, Page};
use crate::allowance::micro_dollars;
use crate::app::App;
use crate::auth::{AccessSecret, AdminCaller, Caller, Reader, Writer};
use crate::view::time;

/// The most tokens and sessions of one user.
const MAX_TOKENS: usize = 100;
/// The longest name of a user or a token, in bytes.
const MAX_NAME: usize = 100;

/// The most days of a token that ends.
const MAX_DAYS: u32 = 3650;

/// A user.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserView {
    /// The id, which never changes.
    id: String,
    /// The name.
    name: String,
    /// Whether the user is an administrator.
    is_admin: bool,
    /// Whether the user's tokens and sessions are refused.
    is_disabled: bool,
    /// When the user was added.
    created: String,
    /// The user's own limits. Where there are none, those of the server count.
    daily: DailyLimitsView,
}

impl From<&User> for UserView {
    fn from(user: &User) -> Self {
        Self {
            id: user.id.clone(),
            name: user.name.clone(),
            is_admin: user.is_admin,
            is_disabled: user.is_disabled,
            created: time(user.created),
            daily: user.daily.into(),
        }
    }
}

/// Who you are.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// You.
    user: UserView,
    /// What your token or session may do: `read`, `write`, `approve`, `admin`.
    scopes: Vec<String>,
    /// The version of the server.
    version: &'static str,
    /// The most bytes of an uploaded file.
    upload_bytes: usize,
}

/// Says who you are.
#[utoipa::path(get, path = "/me", tag = "accounts", responses((status = 200, body = Me), (status = 401, description = "Not signed in", body = super::error::ApiErrorBody)))]
pub(super) async fn me(State(app): State<Arc<App>>, Reader(caller): Reader) -> Json<Me> {
    let Caller { user, token, .. } = &caller;
    let scopes = token.scopes.iter().map(|scope| scope.to_string()).collect();
    let (version, upload_bytes) = (env!("CARGO_PKG_VERSION"), app.limits.upload_bytes);
    Json(Me { user: user.into(), scopes, version, upload_bytes })
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenView {
    /// The id, to revoke the token.
    id: String,
    /// `token`, or `session` of a browser.
    kind: &'static str,
    /// The name.
    name: String,
    /// What it may do.
    scopes: Vec<String>,
    /// When it was made.
    created: String,
    /// When it ends.
    expires: Option<String>,
    /// When it was last used.
    used: Option<String>,
    /// Whether it is the one of this request.
    is_current: bool,
}

impl From<&TokenInfo> for TokenView {
    fn from(token: &TokenInfo) -> Self {
        Self {
            id: token.id.clone(),
            kind: if token.kind == TokenKind::Session { "session" } else { "token" },
            name: token.name.clone(),
            scopes: token.scopes.iter().map(|scope| scope.to_string()).collect(),
            created: time(token.created),
            expires: token.expires.map(time),
            used: token.used.map(time),
            is_current: false,
        }
    }
}

/// Lists your tokens and sessions.
#[utoipa::path(get, path = "/tokens", tag = "accounts", responses((status = 200, body = Items<TokenView>)))]
pub(super) async fn tokens(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
) -> Result<Json<Items<TokenView>>, ApiError> {
    let tokens = app.accounts.tokens(&caller.user.id).await?;
    let view = |token: &TokenInfo| TokenView { is_current: token.id == caller.token.id, ..token.into() };
    Ok(Json(tokens.iter().map(view).collect::<Vec<_>>().into()))
}

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenWish {
    /// What it is for.
    name: String,
    /// What it may do. A token never has more rights than the one that makes it.
    scopes: Vec<String>,
    /// After how many days it ends. Without it, the token does not end.
    #[serde(default)]
    days: Option<u32>,
}

/// A new token, with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NewTokenView {
    #[serde(flatten)]
    token: TokenView,
    /// The secret. It is shown only now.
    #[serde(rename = "token")]
    secret: String,
}

/// Makes a token.
#[utoipa::path(post, path = "/tokens", tag = "accounts", request_body = TokenWish, responses((status = 201, body = NewTokenView)))]
pub(super) async fn add_token(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiJson(wish): ApiJson<TokenWish>,
) -> Result<(StatusCode, Json<NewTokenView>), ApiError> {
    let mut scopes = Vec::new();
    for scope in &wish.scopes {
        let scope: Scope = scope
            .parse()
            .map_err(|_| ApiError::bad_request("A scope is `read`, `write`, `approve` or `admin`."))?;
        if !caller.token.scopes.contains(scope) {
            return Err(ApiError::forbidden(format!("You do not have the scope `{scope}` yourself.")));
        }
        scopes.push(scope);
    }
    if wish.days.is_some_and(|days| days == 0 || days > MAX_DAYS) {
        return Err(ApiError::bad_request(format!("A token ends after 1 to {MAX_DAYS} days.")));
    }
    if app.accounts.tokens(&caller.user.id).await?.len() >= MAX_TOKENS {
        return Err(ApiError::conflict(format!("You have {MAX_TOKENS} tokens and sessions. Revoke some.")));
    }
    let wished = wish.days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
    let left = caller.token.expires.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    let secret = AccessSecret::random().map_err(|error| ApiError::internal(&error))?;
    let token = NewToken {
        kind: TokenKind::Token,
        name: checked_name(&wish.name)?,
        scopes: scopes.into_iter().collect(),
        digest: secret.digest(),
        // A token ends with the one that made it, at the latest.
        expires: [wished, left].into_iter().flatten().min(),
    };
    let token = app.accounts.add_token(&caller.user.id, token).await?;
    let detail = json!({"token": token.id, "name": token.name});
    app.audit.note(&caller.user.id, "add token", None, &detail).await?;
    Ok((
        StatusCode::CREATED,
        Json(NewTokenView { token: (&token).into(), secret: secret.expose().to_owned() }),
    ))
}

fn checked_name(name: &str) -> Result<String, ApiError> {
    let name = name.trim();
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!("A name has 1 to {MAX_NAME} bytes on one line.")));
    }
    Ok(name.to_owned())
}

/// Revokes one of your tokens or sessions.
#[utoipa::path(delete, path = "/tokens/{token}", tag = "accounts", params(("token" = String, Path)), responses((status = 204)))]
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    if !app.accounts.revoke(&caller.user.id, &id).await? {
        return Err(ApiError::not_found("such token"));
    }
    app.audit.note(&caller.user.id, "revoke token", None, &json!({"token": id})).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the users.
#[utoipa::path(get, path = "/users", tag = "accounts", responses((status = 200, body = Items<UserView>)))]
pub(super) async fn users(
    State(app): State<Arc<App>>,
    _: AdminCaller,
) -> Result<Json<Items<UserView>>, ApiError> {
    let users = app.accounts.users().await?;
    Ok(Json(users.iter().map(UserView::from).collect::<Vec<_>>().into()))
}

/// A new user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    /// The name.
    name: String,
    /// Whether the user is an administrator.
    #[serde(default)]
    is_admin: bool,
}

/// A new user, with a link to sign in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NewUserView {
    #[serde(flatten)]
    user: UserView,
    /// The path of a link that signs the user in, once.
    login: String,
}

/// Adds a user.
#[utoipa::path(post, path = "/users", tag = "accounts", request_body = NewUser, responses((status = 201, body = NewUserView)))]
pub(super) async fn add_user(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiJson(new): ApiJson<NewUser>,
) -> Result<(StatusCode, Json<NewUserView>), ApiError> {
    let user = app.accounts.add_user(&checked_name(&new.name)?, new.is_admin).await?;
    let login = crate::auth::login_link(&app.accounts, &user.id).await?;
    let detail = json!({"user": user.id, "name": user.name, "is_admin": user.is_admin});
    app.audit.note(&caller.user.id, "add user", None, &detail).await?;
    app.audit.note(&caller.user.id, "make login link", None, &json!({"user": user.id})).await?;
    Ok((StatusCode::CREATED, Json(NewUserView { user: (&user).into(), login })))
}

/// A link to sign in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginLinkView {
    /// The path of a link that signs the user in, once, within 15 minutes.
    login: String,
}

/// Makes a link that signs a user in.
#[utoipa::path(post, path = "/users/{user}/login", tag = "accounts", params(("user" = String, Path)), responses((status = 201, body = LoginLinkView)))]
pub(super) async fn add_login(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath(id): ApiPath<String>,
) -> Result<(StatusCode, Json<LoginLinkView>), ApiError> {
    let user = app.accounts.user(&id).await?.filter(|user| user.id == id);
    let user = user.ok_or_else(|| ApiError::not_found("such user"))?;
    if user.is_disabled {
        return Err(ApiError::conflict("This user is disabled."));
    }
    let login = crate::auth::login_link(&app.accounts, &user.id).await?;
    let detail = json!({"user": user.id, "name": user.name});
    app.audit.note(&caller.user.id, "make login link", None, &detail).await?;
    Ok((StatusCode::CREATED, Json(LoginLinkView { login })))
}

/// A change of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserChange {
    /// Whether the user's tokens and sessions are refused.
    #[serde(default)]
    is_disabled: Option<bool>,
    /// The user's own limits.
    #[serde(default)]
    daily: Option<DailyChange>,
}

/// A change of a user's limits. What is absent stays; `null` stands for the server's limit.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DailyChange {
    /// Tokens.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    tokens: Option<Option<u64>>,
    /// Dollars, such as `2.50`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    cost: Option<Option<String>>,
}

impl DailyChange {
    fn changed(&self, mut limits: DailyLimits) -> Result<DailyLimits, ApiError> {
        let wrong = || ApiError::bad_request("`cost` is an amount of dollars, such as `2.50`.");
        if let Some(tokens) = self.tokens {
            limits.tokens = tokens;
        }
        if let Some(cost) = &self.cost {
            let cost = cost.as_deref().map(|cost| micro_dollars(cost).ok_or_else(wrong));
            limits.micro_dollars = cost.transpose()?;
        }
        Ok(limits)
    }
}

/// A field that is there, even if it is `null`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(field: D) -> Result<Option<T>, D::Error> {
    T::deserialize(field).map(Some)
}

/// Disables a user, enables the user again, or sets limits.
#[utoipa::path(patch, path = "/users/{user}", tag = "accounts", params(("user" = String, Path)), request_body = UserChange, responses((status = 204)))]
pub(super) async fn change_user(
    State(app): State<Arc<App>>,
    AdminCaller(caller): AdminCaller,
    ApiPath(id): ApiPath<String>,
    ApiJson(UserChange { is_disabled, daily }): ApiJson<UserChange>,
) -> Result<StatusCode, ApiError> {
    if id == caller.user.id && is_disabled == Some(true) {
        return Err(ApiError::conflict("You cannot disable yourself."));
    }
    let missing = || ApiError::not_found("such user");
    let user = app.accounts.user(&id).await?.filter(|user| user.id == id).ok_or_else(missing)?;
    let limits = daily.as_ref().map(|daily| daily.changed(user.daily)).transpose()?;
    if let Some(is_disabled) = is_disabled {
        app.accounts.set_disabled(&id, is_disabled).await?;
    }
    if let Some(limits) = limits {
        app.accounts.set_daily(&id, limits).await?;
    }
    app.posted.notify_one();
    let detail = json!({"user": id, "is_disabled": is_disabled, "daily": daily});
    app.audit.note(&caller.user.id, "change user", None, &detail).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An entry of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditView {
    /// Its number.
    number: u64,
    /// When it happened.
    at: String,
    /// Who did it: the id of a user, or `command line`.
    user: String,
    /// What was done.
    action: String,
    /// The id of the user to whom it was done, if that is somebody else.
    affected: Option<String>,
    /// The thread.
    thread: Option<String>,
    /// The details.
    detail: Value,
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, mut user, action, thread, mut detail, .. } = entry;
        let mut taken = |name: &str| match detail.as_object_mut()?.remove(name)? {
            Value::String(text) => Some(text),
            _ => None,
        };
        let (mut affected, from) = (taken("user"), taken("from"));
        // Older versions noted the affected user as the one who did it.
        if from.as_deref() == Some(Audit::COMMAND_LINE) {
            let noted = std::mem::replace(&mut user, Audit::COMMAND_LINE.to_owned());
            affected = affected.or(Some(noted));
        }
        let thread = thread.map(|thread| thread.to_string());
        Self { number, at: time(at), user, action, affected, thread, detail }
    }
}

/// Lists who replied, signed in, and changed users and tokens, the last one first.
#[utoipa::path(get, path = "/audit", tag = "accounts", params(Page), responses((status = 200, body = Items<AuditView>)))]
pub(super) async fn audit(
    State(app): State<Arc<App>>,
    _: AdminCaller,
    ApiQuery(page): ApiQuery<Page>,
) -> Result<Json<Items<AuditView>>, ApiError> {
    let after = page.after.as_deref().map(str::parse).transpose();
    let after = after.map_err(|_| ApiError::bad_request("`after` is not a number of an entry."))?;
    let entries = app.audit.list(after, page.limit()).await?;
    let next = (entries.len() == page.limit()).then(|| entries.last().map(|entry| entry.number.to_string()));
    Ok(Json(Items { items: entries.into_iter().map(AuditView::from).collect(), next: next.flatten() }))
}

#[cfg(test)]
mod tests {
    use prowess_store::{Database, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn an_entry_names_who_did_it_and_to_whom() {
        let audit = Database::from(SqliteStore::in_memory().unwrap()).audit();
        let shown = async |user: &str, detail: Value| {
            audit.note(user, "add token", None, &detail).await.unwrap();
            let entry = AuditView::from(audit.list(None, 1).await.unwrap().remove(0));
            (entry.user, entry.affected, entry.detail)
        };
        let line = Audit::COMMAND_LINE;
        let new = shown(line, json!({"user": "bob", "system_user": "root", "name": "x"})).await;
        assert_eq!(
            new,
            (line.to_owned(), Some("bob".to_owned()), json!({"system_user": "root", "name": "x"}))
        );
        // Entries of older versions.
        for old in [json!({"user": "bob", "from": line, "name": "x"}), json!({"from": line, "name": "x"})] {
            assert_eq!(
                shown("bob", old).await,
                (line.to_owned(), Some("bob".to_owned()), json!({"name": "x"}))
            );
        }
        let own = shown("bob", json!({"name": "x", "user": 3})).await;
        assert_eq!((own.0.as_str(), own.1), ("bob", None));
    }
}
