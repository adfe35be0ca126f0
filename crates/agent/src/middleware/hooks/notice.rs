//! Tells hooks what happened since they were called last, and what a person is asked.

use serde_json::Value;

use super::event::EventData;
use super::in_thread::{HookActions, ThreadHooks, responses};
use super::state::{HookText, HooksDelta, HooksState, TextLifetime};
use crate::id::MessageId;
use crate::message::{Content, ToolCall};
use crate::middleware::{MiddlewareAction, MiddlewareContext, skills};
use crate::tool::{RefusedBy, ToolData};

impl ThreadHooks {
    /// Tells hooks what happened since they were called last: tool calls, loaded and unloaded skills, a compaction.
    ///
    /// A hook comes too late to block these. The model reads its reason.
    pub(super) async fn notice(
        &self,
        context: MiddlewareContext<'_>,
        state: &HooksState,
        actions: &mut HookActions,
    ) {
        for made in &state.made {
            let result =
                context.thread_state.messages().iter().rev().find(|message| message.id == made.message);
            let Some(Content::Tool(result)) = result.map(|message| &message.content) else { continue };
            let Some(call) = called(context, made.message.as_str()) else { continue };
            let input = made.arguments.clone().or_else(|| call.parsed().ok()).unwrap_or(Value::Null);
            let event_data = if result.is_error {
                EventData::PostToolUseFailure { call, input: &input, error: &result.text }
            } else {
                EventData::PostToolUse { call, input: &input, response: &result.text }
            };
            self.tell_of(context, state, event_data, actions).await;
        }
        if !state.made.is_empty() {
            actions.change(&HooksDelta::Followed);
        }
        if let Some(skills) = skills::at(context) {
            let loaded: Vec<String> = skills.state().names().map(str::to_owned).collect();
            for skill in state.skills.iter().filter(|skill| !loaded.contains(skill)) {
                self.tell_of(context, state, EventData::SkillUnload { skill }, actions).await;
            }
            for skill in loaded.iter().filter(|skill| !state.skills.contains(skill)) {
                self.tell_of(context, state, EventData::SkillLoad { skill }, actions).await;
            }
            if loaded != state.skills {
                actions.change(&HooksDelta::Skills(loaded));
            }
        }
        if context.thread_state.cut() > state.cut {
            let messages = context.thread_state.cut() - state.cut;
            self.tell_of(context, state, EventData::PostCompact { messages }, actions).await;
            actions.change(&HooksDelta::Cut(context.thread_state.cut()));
        }
    }

    /// Tells hooks of something that has happened already.
    async fn tell_of(
        &self,
        context: MiddlewareContext<'_>,
        state: &HooksState,
        event_data: EventData<'_>,
        actions: &mut HookActions,
    ) {
        let decision = self.fire(context, state, event_data).await;
        if let Some(reason) = actions.add(decision) {
            actions.change(&late_objection(context, &event_data, reason));
        }
    }

    /// Tells hooks of the calls that a person is asked about, once per call. A call that they block is not made.
    pub(super) async fn permission_requests(
        &self,
        context: MiddlewareContext<'_>,
        state: &HooksState,
        actions: &mut HookActions,
    ) {
        for call in context.thread_state.asked().iter().filter(|call| !state.asked.contains(&call.message)) {
            let input = call.call.parsed().unwrap_or(Value::Null);
            let event_data = EventData::PermissionRequest { call: &call.call, input: &input };
            actions.change(&HooksDelta::Asked(call.message.clone()));
            if let Some(reason) = actions.add(self.fire(context, state, event_data).await) {
                let text = format!("Error: this call was refused by {reason}");
                let data = Some(ToolData::Refused { by: RefusedBy::Rule, message: None, rule: None });
                actions.actions.push(MiddlewareAction::Answer {
                    call: call.call.id.clone(),
                    text,
                    is_error: true,
                    data,
                });
            }
        }
    }
}

/// The reason of a hook that came too late to block something, as a text for the model.
pub(super) fn late_objection(
    context: MiddlewareContext<'_>,
    event_data: &EventData<'_>,
    reason: String,
) -> HooksDelta {
    let text = match event_data.subject() {
        Some(subject) => format!("About {subject}: {reason}"),
        None => reason,
    };
    let (event, after) = (event_data.event().to_string(), responses(context));
    HooksDelta::Tell(HookText { event, skill: None, text, lasts: TextLifetime::Call, after, told_at: None })
}

/// The tool call that the message of this id answers, or will answer.
pub(super) fn called<'a>(context: MiddlewareContext<'a>, result: &str) -> Option<&'a ToolCall> {
    let (message, number) = result.rsplit_once('-')?;
    let message: MessageId = message.into();
    let found = context.thread_state.messages().iter().rev().find(|known| known.id == message)?;
    found.tool_calls().nth(number.parse().ok()?)
}
