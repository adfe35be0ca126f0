//! Puts the text of loaded skills back into the prompt, after compaction took it out of the conversation.

use prowess_permission::NoAsker;
use prowess_skills::context::LoadedSection;
use prowess_skills::{Operation, Outcome, SkillDelta, SkillError, SkillState, SkillView};

use super::in_thread::ThreadSkills;
use super::state::SkillsState;
use crate::middleware::MiddlewareContext;

impl ThreadSkills {
    /// The text of loaded skills that the conversation does not have, with the state changes and the view after them.
    ///
    /// The conversation lacks a text if the session puts texts into the prompt, if the skill was loaded in another thread,
    /// or if compaction removed the message.
    pub(super) async fn missing_texts(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<(Vec<String>, Vec<SkillDelta>, SkillView), SkillError> {
        let mut view = self.at(context.states);
        let mut sections = vec![self.section(view.loaded_section()).await?];
        let inherited = SkillsState::of(context.states).is_some_and(|state| state.inherited);
        let texts = || context.thread_state.view().flat_map(|message| message.texts());
        // The process that opened the thread before may have put texts into the prompt.
        let is_elsewhere = *self.is_elsewhere.get_or_init(|| !view.has_all_texts(texts()));
        if inherited || is_elsewhere || context.thread_state.cut() > 0 {
            view = after(&view, &sections[0].deltas);
            sections.push(self.section(view.put_back(texts(), None)).await?);
        }
        let view = after(&view, &sections[sections.len() - 1].deltas);
        let (texts, deltas): (Vec<String>, Vec<Vec<SkillDelta>>) =
            sections.into_iter().map(|section| (section.text, section.deltas)).unzip();
        Ok((texts, deltas.concat(), view))
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

/// The view after these changes.
pub(super) fn after(view: &SkillView, deltas: &[SkillDelta]) -> SkillView {
    let mut state = SkillState::clone(view.state());
    // A change that does not fit was refused when it was made.
    let _ = state.replay(deltas);
    view.engine().at(&state)
}
