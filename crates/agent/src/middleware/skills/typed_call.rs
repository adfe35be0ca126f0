//! `/name arguments` for a skill with `context: fork`: a sub-agent follows the skill.
//!
//! The line becomes a tool call, as if the model had loaded the skill. So the sub-agent's questions, a cancelled turn and a
//! crash are handled as for every other sub-agent, and the model reads the sub-agent's response and responds to the person.

use prowess_permission::Replies;
use prowess_skills::{Outcome, SkillView};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::in_thread::ThreadSkills;
use super::state::{SkillsDelta, SkillsState};
use super::tool::{SkillTool, fork};
use crate::id::CallId;
use crate::message::ToolCall;
use crate::middleware::{Jump, MiddlewareAction, MiddlewareContext};
use crate::thread_state::{NextStep, ReadyCall};
use crate::tool::{ToolAnswer, ToolContext, ToolData, ToolOutput};

/// The call that a person made by typing a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedCall {
    call: CallId,
    /// The line, such as `/audit the docks`.
    line: String,
}

impl TypedCall {
    /// The typed line of this call, if a person made the call.
    ///
    /// It is the call of the turn's first response, which no model wrote. A model that repeats the id comes later.
    pub(super) fn of<'a>(context: &ToolContext<'a>) -> Option<&'a Self> {
        Self::of_turn(context.middleware).filter(|typed| typed.call == *context.call)
    }

    fn of_turn(context: MiddlewareContext<'_>) -> Option<&Self> {
        let is_first = context.thread_state.model_calls() == 1;
        SkillsState::of(context.states)?.typed.as_ref().filter(|_| is_first)
    }

    /// Approves the call: the person typed it, so nobody is asked about it again.
    pub(super) fn approved(context: MiddlewareContext<'_>) -> Option<MiddlewareAction> {
        let typed = Self::of_turn(context)?;
        let NextStep::CallTools(calls) = context.thread_state.next() else { return None };
        let is_open = |ready: &ReadyCall| ready.call.id == typed.call && !ready.approved;
        calls.iter().any(is_open).then(|| MiddlewareAction::Approve { call: typed.call.clone() })
    }

    /// Forgets the call of an earlier turn when a turn begins.
    pub(super) fn forgotten(context: MiddlewareContext<'_>) -> Option<MiddlewareAction> {
        let state = context.thread_state;
        let begins = state.model_calls() == 0 && state.next() == NextStep::CallModel;
        let is_known = SkillsState::of(context.states).is_some_and(|state| state.typed.is_some());
        (begins && is_known).then(|| MiddlewareAction::Change(SkillsDelta::Typed(None).change()))
    }
}

impl ThreadSkills {
    /// Turns a typed line into a call, if there are sub-agents and one of them follows the skill.
    pub(super) fn fork_typed(&self, view: &SkillView, line: &str) -> Option<Vec<MiddlewareAction>> {
        self.forks.as_ref()?;
        let (tool, arguments) = view.fork_call(line)?;
        let call = CallId::from(format!("call_{}", Uuid::now_v7().simple()).as_str());
        let typed = SkillsDelta::Typed(Some(TypedCall { call: call.clone(), line: line.to_owned() }));
        let call = ToolCall { id: call, name: tool.to_owned(), arguments: arguments.to_string() };
        Some(vec![MiddlewareAction::Change(typed.change()), MiddlewareAction::Jump(Jump::Tools(vec![call]))])
    }
}

impl SkillTool {
    /// Lets a sub-agent follow the skill that a person typed.
    pub(super) async fn follow_typed(
        &self,
        typed: &TypedCall,
        view: &SkillView,
        context: ToolContext<'_>,
    ) -> ToolOutput {
        let files = self.service.files();
        let mut invoked = view.invoke(&typed.line).drive(files, &Replies::default()).await;
        // The person typed the skill's name. If nobody else can be asked, that counts as the reply.
        if let Outcome::Asks(question) = &invoked {
            let replies = Replies::once([question.fingerprint()]);
            invoked = view.invoke(&typed.line).drive(files, &replies).await;
        }
        let error = match invoked {
            Outcome::Done(prepared) => match (&self.forks, prepared.forked()) {
                (Some(forks), Some(forked)) => {
                    self.service.engine().note_use(&forked.name);
                    return fork(forks, forked, context).await;
                }
                // The skill has changed since the line was typed.
                _ => return ToolAnswer::error(CHANGED).into(),
            },
            Outcome::Asks(_) => return ToolAnswer::error(CHANGED).into(),
            Outcome::Refused(error) => error,
        };
        let data = error.refusal().map(ToolData::from);
        ToolAnswer { data, ..ToolAnswer::error(error.for_model()) }.into()
    }
}

const CHANGED: &str = "Error: the skill changed after the user typed its name, so it was not followed.";
