//! The agents of the server.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Items;
use crate::agents::{AgentCard, SkillsPart};
use crate::app::App;
use crate::auth::Reader;
use crate::own_skills::OwnSkillsDecider;

/// An agent, as it works for you.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentView {
    #[serde(flatten)]
    card: AgentCard,
    /// How many skills it may see. `/skills` lists them.
    skills: usize,
    /// Who decides whether it sees the skills that you upload: `user` (you), `admin` (an administrator), or `off` (nobody can upload
    /// skills).
    own_skills: OwnSkillsDecider,
}

/// Lists the agents, with their models, skills, budgets, limits and rules, and who may reply to their questions.
#[utoipa::path(get, path = "/agents", tag = "agents", responses((status = 200, body = Items<AgentView>)))]
pub(super) async fn list(State(app): State<Arc<App>>, Reader(caller): Reader) -> Json<Items<AgentView>> {
    let all = SkillsPart { after: None, limit: usize::MAX };
    let skills = app.agents.skills(&caller.user.id, None, all).await.skills.len();
    let own_skills = app.agents.own_skills().map_or(OwnSkillsDecider::Off, |skills| skills.decider());
    Json(vec![AgentView { card: app.agents.card(), skills, own_skills }].into())
}
