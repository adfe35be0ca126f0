//! A view of the skills in one state.

use std::sync::Arc;

use prowess_catalog::overview::ManualSkills;
use prowess_catalog::{CatalogView, SkillEntry};

use crate::delta::LoadedSkill;
use crate::dialect::SEARCH_TOOL;
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::event::{Stale, Staleness};
use crate::frozen::FrozenPrompt;
use crate::operation::Operation;
use crate::state::SkillState;
use crate::visibility::VisibleSkills;

/// What a model sees of skills, and what it can do with them, in one state. A view does not change the state: operations
/// return [`SkillDelta`](crate::SkillDelta)s, and the owner of the state applies them.
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
    visible: Arc<VisibleSkills>,
    /// The prompt to use, if it was frozen earlier.
    frozen: Option<Arc<FrozenPrompt>>,
}

impl SkillView {
    pub(crate) fn new(engine: SkillEngine, state: Arc<SkillState>) -> Self {
        let visible = engine.visible();
        Self { engine, state, visible, frozen: None }
    }

    /// The same view with a prompt that was frozen earlier.
    #[must_use]
    pub fn with_frozen(mut self, frozen: Arc<FrozenPrompt>) -> Self {
        self.frozen = Some(frozen);
        self
    }

    pub(crate) fn frozen(&self) -> Option<&Arc<FrozenPrompt>> {
        self.frozen.as_ref()
    }

    /// The engine.
    pub fn engine(&self) -> &SkillEngine {
        &self.engine
    }

    /// The state.
    pub fn state(&self) -> &Arc<SkillState> {
        &self.state
    }

    pub(crate) fn visible(&self) -> &Arc<VisibleSkills> {
        &self.visible
    }

    /// The skills in the overview: visible, and with a file in play if they have `paths`.
    pub(crate) fn offered(&self) -> CatalogView {
        self.visible.offered(&self.state)
    }

    /// The skills in the overview that a model may load.
    pub(crate) fn loadable(&self) -> CatalogView {
        let offered = self.offered();
        let may_load = |entry: &SkillEntry| {
            let is_offered =
                offered.get(entry.skill.name.as_str()).is_some_and(|found| std::ptr::eq(&**found, entry));
            is_offered && self.found_by_model(entry.skill.name.as_str()).is_some()
        };
        offered.catalog().view(may_load)
    }

    pub(crate) fn offered_names(&self) -> Vec<String> {
        self.visible.offered_names(&self.state)
    }

    /// The loaded skills that have changed in the catalog.
    pub fn stale(&self) -> Vec<Stale> {
        let why = |skill: &LoadedSkill| match self.visible.view.get(&skill.name) {
            None => Some(Staleness::Gone),
            Some(entry) if entry.skill.location != skill.location => Some(Staleness::Replaced),
            Some(_) => self.engine.is_outdated(&skill.nonce).then_some(Staleness::Changed),
        };
        let loaded = self.state.loaded().iter();
        loaded.filter_map(|skill| Some(Stale { name: skill.name.clone(), why: why(skill)? })).collect()
    }

    /// The server skills whose text the model has. While there is one, prowess asks before every run.
    pub fn server_skills_in_context(&self) -> Vec<String> {
        self.state.from_servers().into_keys().map(str::to_owned).collect()
    }

    /// Notes which loaded skills have changed since they were loaded. An engine that was made after the change does not know
    /// that.
    pub fn note_changed(&self) -> Operation<()> {
        let view = self.clone();
        Operation::new(self.engine(), |io| async move {
            for skill in view.state.loaded().iter().filter(|skill| skill.from.is_none()) {
                let entry = view.visible.view.get(&skill.name);
                let Some(entry) = entry.filter(|entry| entry.skill.location == skill.location) else {
                    continue;
                };
                match io.text(entry).await {
                    Ok(text) if text.digest != skill.digest => view.engine.note_outdated(&skill.nonce),
                    Err(SkillError::WrongFeed) => return Err(SkillError::WrongFeed),
                    // A skill that cannot be read fails when it is needed.
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// The name of the skill that a model means by `name`, if the model may use that skill.
    pub fn name_of(&self, name: &str) -> Option<&str> {
        Some(self.found_by_model(name)?.skill.name.as_str())
    }

    /// The skill called `name`, if the model may load it, or a person has loaded it.
    pub(crate) fn found_by_model(&self, name: &str) -> Option<&Arc<SkillEntry>> {
        let is_found =
            |entry: &&Arc<SkillEntry>| self.visible.is_for_models(entry) || self.state.get(name).is_some();
        self.visible.view.get(name).filter(is_found)
    }

    /// The same, or why not. The error lists names, so it takes time with many skills.
    pub(crate) fn visible_to_model(&self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        if let Some(entry) = self.found_by_model(name) {
            return Ok(Arc::clone(entry));
        }
        match self.visible.view.get(name) {
            Some(entry)
                if self.engine.options().manual == ManualSkills::Marked
                    && !self.visible.is_manual_by_mode(entry) =>
            {
                Err(SkillError::ManualOnly { name: name.to_owned() })
            }
            _ => Err(self.not_found(name)),
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> SkillError {
        SkillError::NotFound {
            name: name.to_owned(),
            available: self.offered_names(),
            search: self.search_tool(),
            dialect: self.engine.options().dialect,
        }
    }

    /// The tool that searches skills, if the model has it.
    pub(crate) fn search_tool(&self) -> Option<&'static str> {
        self.engine.options().capabilities.search.then_some(SEARCH_TOOL)
    }

    pub(crate) fn not_loaded(&self, name: &str) -> SkillError {
        SkillError::NotLoaded {
            name: name.to_owned(),
            loaded: self.state.names().map(str::to_owned).collect(),
        }
    }
}
