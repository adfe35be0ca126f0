//! The tools of a thread's skills.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::{Outcome, PreparedCall, SkillDelta, SkillService, SkillState, ToolSpec};
use serde_json::Value;

use super::state::{Delta, SkillsState};
use crate::middleware::{SubAgents, consult};
use crate::model::ToolDefinition;
use crate::state::States;
use crate::tool::{DEFAULT_TOOL_TIMEOUT, Tool, ToolAnswer, ToolContext, ToolData, ToolKind, ToolOutput};

/// One of the session's tools.
#[derive(Debug)]
pub(super) struct SkillTool {
    pub(super) service: SkillService,
    pub(super) spec: ToolSpec,
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) forks: Option<SubAgents>,
}

#[async_trait]
impl Tool for SkillTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.definition)
    }

    fn act(&self) -> ToolKind {
        ToolKind::Skill(self.spec.kind)
    }

    fn timeout(&self) -> Duration {
        self.forks.as_ref().map_or(DEFAULT_TOOL_TIMEOUT, SubAgents::tool_timeout)
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let replies = match consult::replies(context.consulted) {
            Ok(replies) => replies,
            Err(answer) => return answer.into(),
        };
        let skill = self.spec.skill_in(&arguments).map(str::to_owned);
        let view = self.service.engine().at_shared(&state(context.states));
        let prepared = match self.service.call(&view, self.spec.name, arguments, &replies).await {
            Outcome::Done(prepared) => prepared,
            Outcome::Asks(question) => return ToolOutput::Ask(consult::asking(*question, context.consulted)),
            Outcome::Refused(error) => {
                let data = error.refusal().map(ToolData::from);
                return ToolAnswer { data, ..ToolAnswer::error(error.for_model()) }.into();
            }
        };
        if let (Some(forks), Some(forked)) = (&self.forks, prepared.forked()) {
            let tokens = forked.deltas.iter().map(tokens).sum();
            let change = Delta::Forked { skill: forked.name.clone(), tokens }.change();
            return match forks.fork(forked, context).await {
                ToolOutput::Done(answer) => answer.with(change).into(),
                output => output,
            };
        }
        if self.spec.is_idempotent() {
            return ToolOutput::InOrder(Box::new(move |states| answer(prepared, states)));
        }
        // What was run is done: nobody waits for it.
        let answer = answer(prepared, context.states);
        match skill.filter(|_| !answer.is_error) {
            Some(skill) => answer.with(Delta::Ran { skill }.change()).into(),
            None => answer.into(),
        }
    }
}

/// What is loaded in a thread.
fn state(states: &States) -> Arc<SkillState> {
    SkillsState::of(states).map(|kept| Arc::clone(&kept.state)).unwrap_or_default()
}

fn answer(prepared: PreparedCall, states: &States) -> ToolAnswer {
    let reply = prepared.finish(&state(states));
    let refused = reply.refusal.as_ref().map(ToolData::from);
    let data = reply.ran.map(ToolData::Ran).or(refused);
    let changes = reply.deltas.into_iter().map(|delta| Delta::Skill(delta).change()).collect();
    ToolAnswer { text: reply.text, is_error: reply.is_error, changes, data, ..ToolAnswer::default() }
}

fn tokens(delta: &SkillDelta) -> u64 {
    match delta {
        SkillDelta::Loaded { skill, .. } => skill.tokens as u64,
        _ => 0,
    }
}
