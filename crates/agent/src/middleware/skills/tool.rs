//! The skill tools of a thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::call::ForkedSkill;
use prowess_skills::{Outcome, PreparedCall, SkillDelta, SkillService, SkillState, ToolSpec};
use serde_json::Value;

use super::state::{SkillsDelta, SkillsState};
use super::typed_call::TypedCall;
use crate::middleware::SubAgents;
use crate::model::ToolDefinition;
use crate::state::States;
use crate::telemetry;
#[cfg(feature = "run")]
use crate::tool::ReportedOutput;
use crate::tool::{
    DEFAULT_TOOL_TIMEOUT, Tool, ToolAnswer, ToolContext, ToolData, ToolKind, ToolOutput, permission,
};

/// A tool of the skill session.
#[derive(Debug)]
pub(super) struct SkillTool {
    pub(super) service: SkillService,
    pub(super) spec: ToolSpec,
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) forks: Option<SubAgents>,
    /// Whether spans of tool calls name skills.
    pub(super) are_in_spans: bool,
}

#[async_trait]
impl Tool for SkillTool {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.definition)
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Skill(self.spec.kind)
    }

    fn timeout(&self) -> Duration {
        self.forks.as_ref().map_or(DEFAULT_TOOL_TIMEOUT, SubAgents::tool_timeout)
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let replies = match permission::replies(context.consultation) {
            Ok(replies) => replies,
            Err(answer) => return answer.into(),
        };
        let view = self.service.engine().at_shared(&state(context.states));
        if let Some(typed) = TypedCall::of(&context) {
            return self.follow_typed(typed, &view, context).await;
        }
        let skill = self.spec.skill_in(&arguments).map(str::to_owned);
        let are_in_spans = self.are_in_spans;
        if are_in_spans {
            // A model can name anything. Only names of skills are recorded.
            let known = skill.as_deref().and_then(|name| view.name_of(name));
            telemetry::record_skill(self.spec.kind, known);
        }
        #[cfg(feature = "run")]
        let called = {
            let output = ReportedOutput::default();
            let call = self.service.call_watched(&view, self.spec.name, arguments, &output, &replies);
            output.reporting(context.progress, call).await
        };
        #[cfg(not(feature = "run"))]
        let called = self.service.call(&view, self.spec.name, arguments, &replies).await;
        let prepared = match called {
            Outcome::Done(prepared) => prepared,
            Outcome::Asks(question) => {
                return ToolOutput::Ask(permission::call_question(*question, context.consultation));
            }
            Outcome::Refused(error) => {
                let data = error.refusal().map(ToolData::from);
                return ToolAnswer { data, ..ToolAnswer::error(error.for_model()) }.into();
            }
        };
        if let (Some(forks), Some(forked)) = (&self.forks, prepared.forked()) {
            self.service.engine().note_use(&forked.name);
            return fork(forks, forked, context).await;
        }
        if self.spec.is_idempotent() {
            return ToolOutput::InOrder(Box::new(move |states| answer(prepared, states, are_in_spans)));
        }
        // The command has run already, so the answer need not wait for other calls.
        let answer = answer(prepared, context.states, are_in_spans);
        match skill.filter(|_| !answer.is_error) {
            Some(skill) => answer.change(SkillsDelta::Ran { skill }.change()).into(),
            None => answer.into(),
        }
    }
}

/// Lets a sub-agent follow a skill, and counts that.
pub(super) async fn fork(forks: &SubAgents, forked: ForkedSkill, context: ToolContext<'_>) -> ToolOutput {
    let tokens = forked.deltas.iter().map(tokens).sum();
    let change = SkillsDelta::Forked { skill: forked.name.clone(), tokens }.change();
    match forks.fork(forked, context).await {
        ToolOutput::Done(answer) => answer.change(change).into(),
        output => output,
    }
}

/// The state of the thread's skill session.
fn state(states: &States) -> Arc<SkillState> {
    SkillsState::of(states).map(|state| Arc::clone(&state.state)).unwrap_or_default()
}

fn answer(prepared: PreparedCall, states: &States, is_in_span: bool) -> ToolAnswer {
    let answer = prepared.finish(&state(states));
    if is_in_span {
        for delta in &answer.deltas {
            if let SkillDelta::Loaded { skill, .. } = delta {
                telemetry::record_loaded_skill(&skill.digest.to_string());
            }
        }
    }
    let refused = answer.refusal.as_ref().map(ToolData::from);
    let data = answer.ran.map(ToolData::Ran).or(refused);
    let changes = answer.deltas.into_iter().map(|delta| SkillsDelta::Skill(delta).change()).collect();
    let skill = answer.preapproved_by;
    let answer =
        ToolAnswer { text: answer.text, is_error: answer.is_error, changes, data, ..ToolAnswer::default() };
    answer.preapproved_by(skill)
}

fn tokens(delta: &SkillDelta) -> u64 {
    match delta {
        SkillDelta::Loaded { skill, .. } => skill.tokens as u64,
        _ => 0,
    }
}
