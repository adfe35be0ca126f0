//! The tools of a thread's skills.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::{PreparedCall, SkillDelta, SkillSession, ToolSpec};
use serde_json::Value;

use super::state::Delta;
use crate::model::ToolDefinition;
use crate::parts::{SubAgents, consult};
use crate::tool::{DEFAULT_TOOL_TIMEOUT, Tool, ToolAct, ToolAnswer, ToolContext, ToolOutput};

/// One of the session's tools.
#[derive(Debug)]
pub(super) struct SkillTool {
    pub(super) session: SkillSession,
    pub(super) spec: ToolSpec,
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) forks: Option<SubAgents>,
}

#[async_trait]
impl Tool for SkillTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.definition)
    }

    fn act(&self) -> ToolAct {
        ToolAct::Skill(self.spec.act)
    }

    fn timeout(&self) -> Duration {
        self.forks.as_ref().map_or(DEFAULT_TOOL_TIMEOUT, SubAgents::tool_timeout)
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let allowed = match consult::allow(self.session.permissions(), context.consulted).await {
            Ok(allowed) => allowed,
            Err(answer) => return answer.into(),
        };
        let skill = self.spec.skill_in(&arguments).map(str::to_owned);
        let prepared = self.session.prepare_call(self.spec.name, arguments).await;
        drop(allowed);
        if let Some(request) = prepared.unanswered() {
            return ToolOutput::Ask(consult::question(request, context.consulted));
        }
        if let (Some(forks), Some(forked)) = (&self.forks, prepared.forked()) {
            let tokens = forked.deltas.iter().map(tokens).sum();
            let change = Delta::Forked { skill: forked.name.clone(), tokens }.change();
            return match forks.fork(forked, context).await {
                ToolOutput::Done(answer) => answer.with(change).into(),
                output => output,
            };
        }
        if self.spec.is_idempotent() {
            return ToolOutput::InOrder(Box::new(move |_| answer(prepared)));
        }
        // What was run is done: nobody waits for it.
        let answer = answer(prepared);
        match skill.filter(|_| !answer.is_error) {
            Some(skill) => answer.with(Delta::Ran { skill }.change()).into(),
            None => answer.into(),
        }
    }
}

fn answer(prepared: PreparedCall) -> ToolAnswer {
    let reply = prepared.finish();
    let changes = reply.deltas.into_iter().map(|delta| Delta::Skill(delta).change()).collect();
    ToolAnswer { text: reply.text, is_error: reply.is_error, changes, ..ToolAnswer::default() }
}

fn tokens(delta: &SkillDelta) -> u64 {
    match delta {
        SkillDelta::Loaded { skill, .. } => skill.tokens as u64,
        _ => 0,
    }
}
