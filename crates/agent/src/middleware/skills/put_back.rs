//! Puts the text of loaded skills back into the conversation, after compaction took it out.

use std::sync::Arc;

use prowess_permission::NoAsker;
use prowess_skills::context::LoadedSection;
use prowess_skills::{Operation, Outcome, SkillDelta, SkillError, SkillState, SkillView};

use super::in_thread::ThreadSkills;
use super::state::SkillsState;
use crate::agent::next_request::conversation;
use crate::message::Message;
use crate::middleware::MiddlewareContext;

/// The text of loaded skills that the conversation does not have.
pub(super) struct MissingTexts {
    /// What belongs into the prompt, because the session puts texts there.
    pub(super) in_prompt: String,
    /// What is said again at the end of the conversation.
    pub(super) put_back: String,
    /// The changes of state that belong to the texts.
    pub(super) deltas: Vec<SkillDelta>,
    /// The view after these changes.
    pub(super) view: SkillView,
}

impl ThreadSkills {
    /// The text of loaded skills that the conversation does not have.
    ///
    /// The conversation lacks a text if the session puts texts into the prompt, if the skill was loaded in another thread,
    /// or if compaction removed the message.
    pub(super) async fn missing_texts(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<MissingTexts, SkillError> {
        let mut view = self.at(context.states);
        let LoadedSection { text: in_prompt, mut deltas, .. } = self.section(view.loaded_section()).await?;
        let inherited = SkillsState::of(context.states).is_some_and(|state| state.inherited);
        // The process that opened the thread before may have put texts into the prompt.
        let is_elsewhere =
            *self.is_elsewhere.get_or_init(|| !view.has_all_texts(texts(&conversation(context))));
        view = after(&view, &deltas);
        let mut put_back = String::new();
        if inherited || is_elsewhere || context.thread_state.cut() > 0 {
            let messages = conversation(context);
            let section = self.section(view.put_back(texts(&messages), None)).await?;
            (put_back, view) = (section.text, after(&view, &section.deltas));
            deltas.extend(section.deltas);
        }
        Ok(MissingTexts { in_prompt, put_back, deltas, view })
    }

    async fn section(&self, operation: Operation<LoadedSection>) -> Result<LoadedSection, SkillError> {
        match operation.drive(self.service.files(), &NoAsker).await {
            Outcome::Done(section) => Ok(section),
            Outcome::Refused(error) => Err(error),
            // This operation asks nobody: a loaded skill was approved.
            Outcome::Asks(_) => Ok(LoadedSection::default()),
        }
    }
}

fn texts(messages: &[Arc<Message>]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| message.texts())
}

/// The view after these changes.
pub(super) fn after(view: &SkillView, deltas: &[SkillDelta]) -> SkillView {
    if deltas.is_empty() {
        return view.clone();
    }
    let mut state = SkillState::clone(view.state());
    // A change that does not fit was refused when it was made.
    let _ = state.replay(deltas);
    view.engine().at(&state)
}
