//! What threads take: tokens, cost and room in the context window.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use prowess_agent::Usage;
use prowess_agent::middleware::{Counting, WindowUse};
use prowess_agent::model::ModelUsage;
use prowess_store::serve::{DailyLimits, OwnedThread, UsageSum};
use serde::Serialize;
use utoipa::ToSchema;

use super::threads::owned;
use super::{ApiError, ApiPath};
use crate::allowance::dollars;
use crate::app::App;
use crate::auth::Reader;
use crate::view::{Replay, UsageView};

/// How long a request waits for a worker to count.
const PATIENCE: Duration = Duration::from_secs(5);

/// What fills the context window of the next model call.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ContextView {
    /// All tokens.
    tokens: u64,
    /// The context window, if it is known.
    window: Option<u64>,
    /// The tokens that are free.
    free: Option<u64>,
    /// Who counted: `provider`, `tokenizer` or `estimate`.
    counted: &'static str,
    /// The parts, in the order of the request.
    parts: Vec<ContextPart>,
}

/// A part of the window.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ContextPart {
    /// What it is: `prompt`, `tool`, `skill`, `message` and so on.
    kind: serde_json::Value,
    /// What it is, for a person.
    name: String,
    /// Its tokens.
    tokens: u64,
}

/// Accounts for the context window of a thread.
#[utoipa::path(get, path = "/threads/{thread}/context", tag = "usage", params(("thread" = String, Path)), responses((status = 200, body = ContextView), (status = 409, description = "The agent works", body = super::ApiErrorBody)))]
pub(super) async fn context(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<ContextView>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let last = app.look_at(&thread, |replay| replay.last).await?;
    let mut used = window_use(&app, &thread, last).await?;
    if used.is_none() && last > 0 {
        // A worker counts when it has looked at the thread.
        app.inbox_of(&thread.owner).wake(&thread.id).await?;
        app.tell_posted(&thread.id);
        let begun = tokio::time::Instant::now();
        while used.is_none() && begun.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let last = app.look_at(&thread, |replay| replay.last).await?;
            used = window_use(&app, &thread, last).await?;
        }
    }
    let used = match used {
        Some(used) => used,
        None if last == 0 => Default::default(),
        None => return Err(ApiError::conflict("The agent works. Ask again when it rests.")),
    };
    let counted = match used.counting {
        Counting::Provider => "provider",
        Counting::Tokenizer { .. } => "tokenizer",
        _ => "estimate",
    };
    let parts = used.parts.iter().map(|part| ContextPart {
        kind: serde_json::to_value(part.kind).unwrap_or_default(),
        name: part.to_string(),
        tokens: part.tokens,
    });
    Ok(Json(ContextView {
        tokens: used.total(),
        window: used.window,
        free: used.free(),
        counted,
        parts: parts.collect(),
    }))
}

/// What fills the window of a thread with so many events, if a worker has counted it.
async fn window_use(app: &App, thread: &OwnedThread, events: u64) -> Result<Option<WindowUse>, ApiError> {
    let used = app.threads.window_use(&thread.owner, &thread.id, events).await?;
    Ok(used.and_then(|used| serde_json::from_value(used).ok()))
}

/// What a thread took.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadUsage {
    /// The model calls that ended with a response.
    model_calls: Vec<CallUsage>,
    /// All tokens, with those of sub-agents and summaries. Model calls that were cancelled count for the user (`/usage`), not here.
    tokens: u64,
    /// The cost in dollars, if all prices are known.
    cost: Option<String>,
}

/// What one model call took.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CallUsage {
    /// The number of the event.
    number: u64,
    /// When the model responded.
    at: String,
    /// The model.
    model: String,
    /// The tokens.
    #[serde(flatten)]
    usage: UsageView,
    /// The cost in dollars, if the prices are known.
    cost: Option<String>,
}

/// Lists the tokens and the cost of a thread's model calls.
#[utoipa::path(get, path = "/threads/{thread}/usage", tag = "usage", params(("thread" = String, Path)), responses((status = 200, body = ThreadUsage)))]
pub(super) async fn of_thread(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<ThreadUsage>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let cost = |spent: &ModelUsage| app.agents.cost(spent).map(|cost| cost.text);
    let call = |(number, at, model, usage): &(u64, String, String, prowess_agent::Usage)| CallUsage {
        number: *number,
        at: at.clone(),
        model: model.clone(),
        usage: (*usage).into(),
        cost: cost(&ModelUsage::on(model.clone(), *usage)),
    };
    let used = |replay: &Replay| {
        let spent = replay.state.spent();
        ThreadUsage {
            model_calls: replay.responses.iter().map(call).collect(),
            tokens: spent.total().total(),
            cost: cost(spent),
        }
    };
    Ok(Json(app.look_at(&thread, used).await?))
}

/// What all threads of a user took.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserUsage {
    /// Today, by the server's clock in UTC.
    today: Spent,
    /// In all.
    total: Spent,
    /// How much you may use in a day.
    daily: DailyLimitsView,
}

/// How much a user may use in a day. The limit resets at midnight UTC. `null`: there is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct DailyLimitsView {
    /// Tokens.
    pub(super) tokens: Option<u64>,
    /// Dollars, such as `2.50`.
    pub(super) cost: Option<String>,
}

impl From<DailyLimits> for DailyLimitsView {
    fn from(limits: DailyLimits) -> Self {
        Self { tokens: limits.tokens, cost: limits.micro_dollars.map(dollars) }
    }
}

/// Tokens and their cost.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Spent {
    /// Tokens.
    tokens: u64,
    /// The dollars of the tokens whose price was known when they were used. `null`: the price was known of none.
    cost: Option<String>,
}

/// Sums up what your threads took, with those that were deleted.
#[utoipa::path(get, path = "/usage", tag = "usage", responses((status = 200, body = UserUsage)))]
pub(super) async fn of_user(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
) -> Result<Json<UserUsage>, ApiError> {
    let usage = app.threads.usage(&caller.user.id).await?;
    let is_free = |tokens: u64| {
        let used = ModelUsage::on(app.model.clone(), Usage::new(tokens, 0));
        app.agents.cost(&used).is_some_and(|cost| cost.micros == 0)
    };
    let spent = |UsageSum { tokens, micro_dollars }: UsageSum| {
        // Only the sum is stored. It is zero if nothing had a price, or if all of it was free.
        let is_known = micro_dollars > 0 || is_free(tokens);
        Spent { tokens, cost: (tokens == 0 || is_known).then(|| dollars(micro_dollars)) }
    };
    let daily = app.daily_limits(&caller.user).into();
    Ok(Json(UserUsage { today: spent(usage.today), total: spent(usage.total), daily }))
}
