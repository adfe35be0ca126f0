//! A moment of an agent's skills: what is known, and what is loaded.

use std::sync::Arc;

use prowess_catalog::overview::ManualSkills;
use prowess_catalog::{CatalogView, SkillEntry};

use crate::delta::{SkillDelta, UnloadReason};
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::event::{Stale, Staleness};
use crate::known::Known;
use crate::options::Lifetime;
use crate::state::SkillState;

/// What can be seen and done with skills in one state. Nothing that it does changes the state: operations give
/// [`SkillDelta`]s, and whoever owns the state applies them.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_skills::{SkillEngine, SkillState};
///
/// let engine = SkillEngine::new(&Catalog::empty());
/// let view = engine.at(&SkillState::default());
/// assert!(view.state().loaded().is_empty());
/// assert_eq!(view.tools()[0].name, "load_skill");
/// ```
#[derive(Clone, Debug)]
pub struct SkillView {
    engine: SkillEngine,
    state: Arc<SkillState>,
    known: Arc<Known>,
}

impl SkillView {
    pub(crate) fn new(engine: SkillEngine, state: Arc<SkillState>) -> Self {
        let known = engine.known();
        Self { engine, state, known }
    }

    /// Whose skills they are.
    pub fn engine(&self) -> &SkillEngine {
        &self.engine
    }

    /// What is loaded.
    pub fn state(&self) -> &Arc<SkillState> {
        &self.state
    }

    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// The skills that a model is told about: visible, and with a file in play where they ask for one.
    pub(crate) fn offered(&self) -> CatalogView {
        self.known.offered(&self.state)
    }

    pub(crate) fn offered_names(&self) -> Vec<String> {
        self.known.offered_names(&self.state)
    }

    /// Loaded skills that the catalog no longer has as they were.
    pub fn stale(&self) -> Vec<Stale> {
        let why = |skill: &crate::delta::LoadedSkill| match self.known.view.get(&skill.name) {
            None => Some(Staleness::Gone),
            Some(entry) if entry.skill.location != skill.location => Some(Staleness::Replaced),
            Some(_) => self.engine.is_outdated(&skill.nonce).then_some(Staleness::Changed),
        };
        let loaded = self.state.loaded().iter();
        loaded.filter_map(|skill| Some(Stale { name: skill.name.clone(), why: why(skill)? })).collect()
    }

    /// What goes when a model has answered, before its tool calls are made: skills that stay for one model call have
    /// been seen.
    pub fn after_model_call(&self) -> Vec<SkillDelta> {
        self.expired(|lifetime| lifetime == Lifetime::Once)
    }

    /// What goes when a turn ends.
    pub fn end_turn(&self) -> Vec<SkillDelta> {
        self.expired(|lifetime| lifetime != Lifetime::Session)
    }

    /// What goes because more skills are loaded than may be by now: what was loaded first.
    pub fn over_budget(&self) -> Vec<SkillDelta> {
        let loaded = self.state.loaded();
        let excess = loaded.len().saturating_sub(self.engine.options().budgets.max_loaded_skills);
        let unloaded = |skill: &crate::delta::LoadedSkill| SkillDelta::Unloaded {
            name: skill.name.clone(),
            reason: UnloadReason::Budget,
        };
        loaded[..excess].iter().map(unloaded).collect()
    }

    fn expired(&self, is_over: impl Fn(Lifetime) -> bool) -> Vec<SkillDelta> {
        let over = self.state.loaded().iter().filter(|skill| is_over(skill.lifetime));
        let unloaded =
            |name: &String| SkillDelta::Unloaded { name: name.clone(), reason: UnloadReason::Expired };
        let deltas: Vec<SkillDelta> = over.map(|skill| unloaded(&skill.name)).collect();
        if let Ok(after) = self.engine.after(&self.state, &deltas) {
            self.engine.log(&deltas, &after);
        }
        deltas
    }

    /// The skills of servers whose words the model has: whatever is run meanwhile is asked about.
    pub fn servers_at_work(&self) -> Vec<String> {
        self.state.from_servers().into_keys().map(str::to_owned).collect()
    }

    /// The skill called `name`, if this agent's model may load it, or has it because a person did.
    pub(crate) fn visible_to_model(&self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        match self.known.view.get(name) {
            Some(entry) if entry.skill.is_model_invocable() || self.state.get(name).is_some() => {
                Ok(Arc::clone(entry))
            }
            Some(_) if self.engine.options().manual == ManualSkills::Marked => {
                Err(SkillError::ManualOnly { name: name.to_owned() })
            }
            _ => Err(self.not_found(name)),
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> SkillError {
        SkillError::NotFound {
            name: name.to_owned(),
            available: self.offered_names(),
            dialect: self.engine.options().dialect,
        }
    }

    pub(crate) fn not_loaded(&self, name: &str) -> SkillError {
        SkillError::NotLoaded {
            name: name.to_owned(),
            loaded: self.state.names().map(str::to_owned).collect(),
        }
    }
}
