//! The frozen prompt of a thread: the same texts about skills in every request, until the conversation is compacted.

use std::sync::{Arc, PoisonError};

use prowess_skills::SkillView;
use prowess_skills::frozen::FrozenPrompt;
use prowess_skills::options::Prompt;
use prowess_skills::told::Told;

use super::in_thread::ThreadSkills;
use super::state::{SkillsDelta, SkillsState};
use crate::id::MessageId;
use crate::message::Message;
use crate::middleware::{MiddlewareContext, Sections};

/// A prompt that was made for a thread, and how many of its messages were summarised then.
#[derive(Clone, Debug)]
pub(super) struct MadePrompt {
    cut: usize,
    prompt: Arc<FrozenPrompt>,
}

/// A message of a person, and the names of skills that match it.
pub(super) type Matching = (MessageId, Vec<String>);

/// How a thread knows its frozen prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has stored the prompt.
    Stored,
    /// It has stored the prompt, and was compacted since.
    Kept,
    /// It does not have it yet.
    New,
}

impl ThreadSkills {
    /// The view with the frozen prompt of the thread, if the session freezes prompts.
    pub(super) fn view(&self, context: MiddlewareContext<'_>) -> SkillView {
        let view = self.at(context.states);
        match self.frozen(context, &view) {
            Some((prompt, _)) => view.with_frozen(prompt),
            None => view,
        }
    }

    /// The frozen prompt for the next request, and how the thread knows it.
    ///
    /// It is made anew when the thread begins, and when a skill in it is gone or denied. After a compaction it is made anew only
    /// if the skills have changed: the model no longer sees the messages that said so.
    pub(super) fn frozen(
        &self,
        context: MiddlewareContext<'_>,
        view: &SkillView,
    ) -> Option<(Arc<FrozenPrompt>, Known)> {
        if view.engine().options().prompt != Prompt::Frozen {
            return None;
        }
        let cut = context.thread_state.cut();
        let stored = SkillsState::of(context.states).and_then(|state| state.frozen.as_ref());
        if let Some(stored) = stored.filter(|stored| view.may_use(&stored.prompt)) {
            if stored.cut == cut {
                return Some((Arc::clone(&stored.prompt), Known::Stored));
            }
            if view.is_up_to_date(&stored.prompt) {
                return Some((Arc::clone(&stored.prompt), Known::Kept));
            }
        }
        // It is needed several times before it is stored: for the prompt, the tools and the size of the request.
        let mut made = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.cut == cut && view.may_use(&made.prompt)) {
            return Some((Arc::clone(&made.prompt), Known::New));
        }
        let prompt = Arc::new(view.freeze());
        *made = Some(MadePrompt { cut, prompt: Arc::clone(&prompt) });
        Some((prompt, Known::New))
    }

    /// Adds what the model does not know yet, with the changes that note that it knows it then.
    pub(super) async fn add_news(
        &self,
        context: MiddlewareContext<'_>,
        view: &SkillView,
        sections: &mut Sections,
    ) {
        let Some((prompt, known)) = self.frozen(context, view) else { return };
        let begins_again = known != Known::Stored;
        let state = SkillsState::of(context.states);
        let mut told = state.map(|state| state.told.clone()).unwrap_or_default();
        // These changes have their own texts.
        for delta in sections.changes.iter().filter_map(SkillsState::delta) {
            told.note(&delta);
        }
        let dropped = sections.changes.iter().filter_map(SkillsState::delta);
        let dropped: Vec<String> = dropped.map(|delta| delta.skill().to_owned()).collect();
        told.forget_unloaded(&dropped);
        // A model that has read nothing yet does not know the skills that it inherited.
        if context.thread_state.responses() == 0 {
            told = Told::default();
        }
        let cut = context.thread_state.cut();
        match known {
            Known::Stored => {}
            Known::Kept => sections.changes.push(SkillsDelta::Kept { cut }.change()),
            Known::New => {
                sections.changes.push(SkillsDelta::Frozen { cut, prompt: Arc::clone(&prompt) }.change());
            }
        }
        if begins_again {
            told = told.again();
        }
        let matching = if prompt.is_whole { Vec::new() } else { self.matching(context, view).await };
        let news = view.news(&told, &prompt, &matching);
        if news.is_some() || begins_again || !dropped.is_empty() {
            let mut delta = news.as_ref().map(|news| news.delta.clone()).unwrap_or_default();
            delta.again = begins_again;
            sections.changes.push(SkillsDelta::Told(delta).change());
        }
        sections.messages.extend(news.map(|news| Message::by_agent(news.text)));
    }
}

impl ThreadSkills {
    /// The skills that match the message that begins the turn, before the first model call of the turn.
    async fn matching(&self, context: MiddlewareContext<'_>, view: &SkillView) -> Vec<String> {
        let request = context.thread_state.current_request().last();
        let Some(request) = request.filter(|_| context.thread_state.model_calls() == 0) else {
            return Vec::new();
        };
        // The size of the request is counted before it is made, so this is needed more than once.
        let found = |found: &Option<Matching>| found.clone().filter(|(of, _)| *of == request.id);
        if let Some((_, names)) = found(&self.matching.lock().unwrap_or_else(PoisonError::into_inner)) {
            return names;
        }
        let names = self.service.matching(view, &request.text()).await;
        *self.matching.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((request.id.clone(), names.clone()));
        names
    }
}
