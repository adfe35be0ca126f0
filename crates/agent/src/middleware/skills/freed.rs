//! The text of unloaded skills in earlier messages: one line replaces it, and the line stays if the skill is loaded again.
//!
//! A skill that is loaded again has the same text as before, in another message. Without a record, the text would come back
//! in both messages, and the provider would have to read the conversation again from the first one on.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use prowess_skills::options::UnloadedText;
use prowess_skills::prowess_catalog::Frame;
use prowess_skills::{SkillEngine, SkillState, SkillView};

use super::in_thread::ThreadSkills;
use super::put_back::after;
use super::state::{SkillsDelta, SkillsState};
use crate::message::{Content, Message, ToolResult, UserPart};
use crate::middleware::{MiddlewareContext, Sections};

/// The texts that were taken out of earlier messages, by the nonces of their frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreedTexts {
    /// The first message of the thread from which on the text counts again.
    before: BTreeMap<String, usize>,
    /// The texts that are no longer loaded since the last model call.
    new: BTreeSet<String>,
}

impl FreedTexts {
    /// Notes the texts that a change of the state unloaded.
    pub(super) fn note(&mut self, before: &SkillState, after: &SkillState) {
        let is_gone = |nonce: &&str| !nonce.is_empty() && !after.has_text(nonce);
        self.new.extend(before.nonces().filter(is_gone).map(str::to_owned));
    }

    /// Applies a change. Messages before `cut` are no longer in the model's view.
    pub(super) fn apply(&mut self, before: BTreeMap<String, usize>, cut: usize) {
        self.new.clear();
        self.before.extend(before);
        self.before.retain(|_, before| *before > cut);
    }

    /// The texts that are no longer loaded since the last model call, with the first message from which on each counts again.
    fn pending(&self, context: MiddlewareContext<'_>, view: &SkillView) -> BTreeMap<String, usize> {
        let messages = context.thread_state.messages();
        let has_text = |message: &Message, nonce: &String| {
            message.texts().into_iter().any(|text| view.nonces_in(text).contains(nonce))
        };
        let before = |nonce: &String| match view.state().has_text(nonce) {
            // It was loaded again since, by the last message that has it.
            true => messages.iter().rposition(|message| has_text(message, nonce)).unwrap_or(0),
            false => messages.len(),
        };
        self.new.iter().map(|nonce| (nonce.clone(), before(nonce))).collect()
    }
}

impl ThreadSkills {
    /// Notes which messages lost the text of unloaded skills.
    pub(super) fn note_freed(
        &self,
        context: MiddlewareContext<'_>,
        view: &SkillView,
        sections: &mut Sections,
    ) {
        let Some(state) = SkillsState::of(context.states).filter(|_| removes_text(view.engine())) else {
            return;
        };
        let before = state.freed.pending(context, view);
        if !before.is_empty() {
            let cut = context.thread_state.cut();
            sections.changes.push(SkillsDelta::Freed { before, cut }.change());
        }
    }

    /// The message as the model sees it, if a text in it is no longer loaded. A skill that a person started is in a message of
    /// the person.
    pub(super) fn without_freed(
        &self,
        context: MiddlewareContext<'_>,
        index: usize,
        message: &Message,
    ) -> Option<Message> {
        // This is asked for every message of every request, so it must be fast if there is nothing to remove.
        let may_have_text = || message.texts().into_iter().any(Frame::may_be_in);
        if !removes_text(self.service.engine()) || !may_have_text() {
            return None;
        }
        let mut view = self.at(context.states);
        // A skill may be denied or gone since the last model call, and is only unloaded before the next one.
        let gone = view.gone();
        if !gone.is_empty() {
            view = after(&view, &gone);
        }
        let freed = SkillsState::of(context.states).map(|state| &state.freed);
        let pending = LazyCell::new(|| freed.map(|freed| freed.pending(context, &view)).unwrap_or_default());
        let is_freed = |nonce: &str| {
            // The text may have been loaded again and unloaded since it was stored.
            let stored = freed.and_then(|freed| freed.before.get(nonce));
            stored.max(pending.get(nonce)).is_some_and(|before| index < *before)
        };
        let shorter = |text: &str| view.without_texts(text, &is_freed);
        let content = match &message.content {
            Content::Tool(result) => {
                let text = shorter(&result.text)?;
                Content::Tool(ToolResult { text, ..result.clone() })
            }
            Content::User { parts } => {
                let part = |part: &UserPart| match part {
                    UserPart::Text { text } => shorter(text).map(|text| UserPart::Text { text }),
                    _ => None,
                };
                let shorter: Vec<Option<UserPart>> = parts.iter().map(part).collect();
                shorter.iter().any(Option::is_some).then_some(())?;
                let pairs = shorter.into_iter().zip(parts);
                Content::User { parts: pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect() }
            }
            Content::Assistant { .. } => return None,
        };
        Some(Message { content, ..message.clone() })
    }
}

/// Whether the session removes the text of unloaded skills from earlier messages.
pub(super) fn removes_text(engine: &SkillEngine) -> bool {
    engine.options().unloaded_text == UnloadedText::Stub
}
