//! `model` and `effort` of loaded skills: which model is called while they are loaded, and how much it reasons.

use std::fmt::{self, Debug};
use std::sync::Arc;

use prowess_skills::SkillView;
use prowess_skills::prowess_catalog::skill::Extensions;

use crate::agent::NextModel;
use crate::model::{Effort, Model};

/// The models that skills can choose, by the names that skills use.
#[derive(Clone)]
pub(super) struct SkillModels(Arc<Find>);

type Find = dyn Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync;

impl SkillModels {
    pub(super) fn new(find: impl Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl Debug for SkillModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillModels").finish_non_exhaustive()
    }
}

/// Applies the choice of the loaded skills to a model call. The skill that was loaded last wins.
pub(super) fn apply(skills: &SkillView, models: Option<&SkillModels>, next: &mut NextModel<'_>) {
    let (state, view) = (skills.state(), skills.engine().catalog_view());
    let loaded = state.loaded().iter().rev().filter_map(|skill| {
        let entry = view.get(&skill.name).filter(|entry| entry.skill.location == skill.location)?;
        Some((skill.name.as_str(), &*entry.skill.extensions))
    });
    let loaded: Vec<(&str, &Extensions)> = loaded.collect();
    let model = loaded.iter().find_map(|(skill, extensions)| Some((skill, extensions.model.as_deref()?)));
    if let Some((skill, name)) = model.filter(|(_, name)| *name != "inherit") {
        match models.and_then(|models| (models.0)(name)) {
            Some(model) => next.model = model,
            None => {
                tracing::warn!(skill, model = name, "The skill wants a model that this agent does not have")
            }
        }
    }
    let effort = loaded.iter().find_map(|(skill, extensions)| Some((skill, extensions.effort.as_deref()?)));
    if let Some((skill, name)) = effort {
        match parse_effort(name) {
            Some(effort) => next.request.effort = Some(effort),
            None => tracing::warn!(skill, effort = name, "The skill wants an unknown effort"),
        }
    }
}

fn parse_effort(name: &str) -> Option<Effort> {
    match name {
        "low" => Some(Effort::Low),
        "medium" => Some(Effort::Medium),
        "high" => Some(Effort::High),
        "max" | "xhigh" => Some(Effort::Max),
        _ => None,
    }
}
