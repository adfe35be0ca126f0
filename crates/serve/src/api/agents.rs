//! The agents of the server.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::Items;
use crate::agents::AgentCard;
use crate::app::App;
use crate::auth::Reader;

/// Lists the agents, with their models, rules and limits.
#[utoipa::path(get, path = "/agents", tag = "agents", responses((status = 200, body = Items<AgentCard>)))]
pub(super) async fn list(State(app): State<Arc<App>>, _: Reader) -> Json<Items<AgentCard>> {
    Json(vec![app.agents.card()].into())
}
