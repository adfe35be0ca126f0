//! The one place where a session's state changes.

use std::sync::Arc;

use prowess_permission::quoted;

use crate::delta::SkillDelta;
use crate::event::SkillEvent;
use crate::session::{LoadedText, Shared, SkillSession};
use crate::state::{Conflict, SkillState};

/// Deltas that were not applied, with the state that decided it.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) conflict: Conflict,
    pub(crate) state: Arc<SkillState>,
}

impl SkillSession {
    /// Applies all of `deltas` or none; gives the state after them.
    pub(crate) fn commit(&self, deltas: &[SkillDelta]) -> Result<Arc<SkillState>, Rejected> {
        self.commit_with(deltas, None)
    }

    /// Applies all of `deltas`, which are about one skill, or none, and keeps its texts for later calls
    /// beside those that are kept already.
    pub(crate) fn commit_with(
        &self,
        deltas: &[SkillDelta],
        text: Option<LoadedText>,
    ) -> Result<Arc<SkillState>, Rejected> {
        let mut shared = self.lock();
        let shared = &mut *shared;
        let mut state = SkillState::clone(&shared.state);
        let applied = deltas.iter().try_for_each(|delta| state.apply(delta, &self.options().budgets));
        if let Err(conflict) = applied {
            return Err(Rejected { conflict, state: Arc::clone(&shared.state) });
        }
        shared.state = Arc::new(state);
        if let (Some(text), Some(delta)) = (text, deltas.first()) {
            shared.texts.entry(delta.skill().to_owned()).or_default().take(text);
        }
        for delta in deltas {
            shared.follow(delta);
            shared.sequence += 1;
            self.log(delta, &shared.state);
            self.tell(|| SkillEvent::Changed { sequence: shared.sequence, delta: delta.clone() });
        }
        Ok(Arc::clone(&shared.state))
    }

    /// Goes on from a state that others made of this session's deltas, such as the log of a thread that was read again.
    pub fn follow(&self, state: &SkillState) {
        let mut shared = self.lock();
        if *shared.state == *state {
            return;
        }
        shared.texts.retain(|name, text| {
            let nonce = text.instructions.as_ref().map(|text| text.nonce.as_str());
            state.get(name).is_some_and(|skill| nonce.is_none_or(|nonce| nonce == skill.nonce))
        });
        shared.changed.retain(|name| state.get(name).is_some());
        shared.state = Arc::new(state.clone());
    }

    /// Keeps texts that were read again and are what the state says is loaded; others are out of date.
    pub(crate) fn keep(&self, name: &str, text: LoadedText) {
        let mut shared = self.lock();
        let shared = &mut *shared;
        let Some(skill) = shared.state.get(name) else { return };
        let mut kept = LoadedText { heading: text.heading, ..LoadedText::default() };
        kept.instructions = text.instructions.filter(|text| text.nonce == skill.nonce);
        let selected = shared.state.documents(name);
        kept.documents = text.documents;
        kept.documents.retain(|_, text| selected.iter().any(|document| document.nonce == text.nonce));
        if kept.instructions.is_some() {
            shared.changed.remove(name);
        }
        shared.texts.entry(name.to_owned()).or_default().take(kept);
    }

    fn log(&self, delta: &SkillDelta, state: &SkillState) {
        let skill = delta.skill();
        match delta {
            SkillDelta::Loaded { skill: loaded, resources } => {
                let (resources, tokens) = (resources.len(), loaded.tokens);
                tracing::info!(
                    skill,
                    resources,
                    tokens,
                    "Skill {} loaded ({resources} resources discovered)",
                    quoted(skill)
                );
            }
            SkillDelta::Unloaded { reason, .. } => {
                let slots = self.options().budgets.max_loaded_skills;
                let free = slots.saturating_sub(state.loaded().len());
                tracing::info!(
                    skill,
                    free,
                    slots,
                    ?reason,
                    "Skill {} unloaded ({free}/{slots} slots available)",
                    quoted(skill)
                );
            }
            SkillDelta::Reloaded { .. } => tracing::info!(skill, "Skill {} loaded again", quoted(skill)),
            SkillDelta::Selected { documents, .. } => {
                tracing::info!(
                    skill,
                    documents = documents.len(),
                    "Documents of skill {} selected",
                    quoted(skill)
                );
            }
            SkillDelta::DocumentChanged { document, .. } => {
                let kept = document.is_some();
                tracing::info!(skill, kept, "A selected document of skill {} changed", quoted(skill));
            }
            SkillDelta::Led { .. } => {
                tracing::info!(skill, "Skill {} of a server led to this", quoted(skill))
            }
            SkillDelta::Offered { .. } => tracing::info!(skill, "Skill {} offered", quoted(skill)),
        }
    }
}

impl Shared {
    /// Brings what is kept beside the state into line with it.
    fn follow(&mut self, delta: &SkillDelta) {
        let name = delta.skill();
        match delta {
            SkillDelta::Unloaded { .. } => {
                self.texts.remove(name);
                self.changed.remove(name);
                self.unloaded.insert(name.to_owned());
            }
            SkillDelta::Loaded { .. } | SkillDelta::Reloaded { .. } => {
                self.changed.remove(name);
                self.unloaded.remove(name);
            }
            SkillDelta::Selected { .. } | SkillDelta::DocumentChanged { .. } => {
                let selected = self.state.documents(name);
                if let Some(kept) = self.texts.get_mut(name) {
                    kept.documents.retain(|_, text| selected.iter().any(|found| found.nonce == text.nonce));
                }
            }
            SkillDelta::Led { .. } | SkillDelta::Offered { .. } => {}
        }
    }
}

impl LoadedText {
    /// Adds the texts of `newer`, in the place of those that were there.
    fn take(&mut self, newer: Self) {
        if newer.instructions.is_some() {
            self.instructions = newer.instructions;
            self.heading = newer.heading;
        }
        self.documents.extend(newer.documents);
    }
}
