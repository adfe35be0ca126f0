//! What hooks are told after it happened, or while a person is asked.

use serde_json::Value;

use super::event::Happening;
use super::part::{Acts, Opened, answers};
use super::state::{Delta, Kept, Lasts, Told};
use crate::id::MessageId;
use crate::message::{Content, ToolCall};
use crate::middleware::skills;
use crate::middleware::{MiddlewareAction, MiddlewareContext};
use crate::tool::{RefusedBy, ToolData};

impl Opened {
    /// Tells hooks of what happened since they were told last: calls that were made, skills that came and went, a
    /// compaction. What they block is too late, and told to the model.
    pub(super) async fn notice(&self, moment: MiddlewareContext<'_>, kept: &Kept, acts: &mut Acts) {
        for made in &kept.made {
            let result = moment.run.messages().iter().rev().find(|message| message.id == made.message);
            let Some(Content::Tool(result)) = result.map(|message| &message.content) else { continue };
            let Some(call) = called(moment, made.message.as_str()) else { continue };
            let input = made.arguments.clone().or_else(|| call.parsed().ok()).unwrap_or(Value::Null);
            let happening = if result.is_error {
                Happening::PostToolUseFailure { call, input: &input, error: &result.text }
            } else {
                Happening::PostToolUse { call, input: &input, response: &result.text }
            };
            self.tell_of(moment, kept, happening, acts).await;
        }
        if !kept.made.is_empty() {
            acts.change(&Delta::Followed);
        }
        if let Some(skills) = skills::at(moment) {
            let state = skills.state();
            let loaded: Vec<String> = state.names().map(str::to_owned).collect();
            for skill in kept.skills.iter().filter(|skill| !loaded.contains(skill)) {
                self.tell_of(moment, kept, Happening::SkillUnload { skill }, acts).await;
            }
            for skill in loaded.iter().filter(|skill| !kept.skills.contains(skill)) {
                self.tell_of(moment, kept, Happening::SkillLoad { skill }, acts).await;
            }
            if loaded != kept.skills {
                acts.change(&Delta::Skills(loaded));
            }
        }
        if moment.run.cut() > kept.cut {
            let messages = moment.run.cut() - kept.cut;
            self.tell_of(moment, kept, Happening::PostCompact { messages }, acts).await;
            acts.change(&Delta::Cut(moment.run.cut()));
        }
    }

    /// Tells hooks of something that cannot be undone.
    async fn tell_of(
        &self,
        moment: MiddlewareContext<'_>,
        kept: &Kept,
        happening: Happening<'_>,
        acts: &mut Acts,
    ) {
        let ruling = self.fire(moment, kept, happening).await;
        if let Some(reason) = acts.take(ruling) {
            acts.change(&told_of(moment, &happening, reason));
        }
    }

    /// Tells hooks of calls that were put to a person, each once. What they block is not made.
    pub(super) async fn permission_requests(
        &self,
        moment: MiddlewareContext<'_>,
        kept: &Kept,
        acts: &mut Acts,
    ) {
        for call in moment.run.asked().iter().filter(|call| !kept.asked.contains(&call.message)) {
            let input = call.call.parsed().unwrap_or(Value::Null);
            let happening = Happening::PermissionRequest { call: &call.call, input: &input };
            acts.change(&Delta::Asked(call.message.clone()));
            if let Some(reason) = acts.take(self.fire(moment, kept, happening).await) {
                let text = format!("Error: this call was refused by {reason}");
                let data = Some(ToolData::Refused { by: RefusedBy::Rule, message: None });
                acts.acts.push(MiddlewareAction::Answer {
                    call: call.call.id.clone(),
                    text,
                    is_error: true,
                    data,
                });
            }
        }
    }
}

/// What hooks would have blocked, for the model.
pub(super) fn told_of(moment: MiddlewareContext<'_>, happening: &Happening<'_>, reason: String) -> Delta {
    let text = match happening.subject() {
        Some(subject) => format!("About {subject}: {reason}"),
        None => reason,
    };
    let (event, after) = (happening.event().to_string(), answers(moment));
    Delta::Tell(Told { event, skill: None, text, lasts: Lasts::Call, after })
}

/// The call whose result is, or will be, the message of this name.
pub(super) fn called<'a>(moment: MiddlewareContext<'a>, result: &str) -> Option<&'a ToolCall> {
    let (message, number) = result.rsplit_once('-')?;
    let message: MessageId = message.into();
    let found = moment.run.messages().iter().rev().find(|known| known.id == message)?;
    found.tool_calls().nth(number.parse().ok()?)
}
