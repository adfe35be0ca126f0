//! `model` and `effort` of loaded skills: who is asked while they are loaded, and how hard they think.

use std::fmt::{self, Debug};
use std::sync::Arc;

use prowess_skills::SkillView;
use prowess_skills::prowess_catalog::skill::Extensions;

use crate::agent::NextModel;
use crate::model::{Effort, Model};

/// The models that skills may choose among, by the names that skills give them.
#[derive(Clone)]
pub(super) struct Models(Arc<Find>);

type Find = dyn Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync;

impl Models {
    pub(super) fn new(find: impl Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").finish_non_exhaustive()
    }
}

/// Lets the skills that are loaded choose. Of several, the one that was loaded last does.
pub(super) fn apply(skills: &SkillView, models: Option<&Models>, next: &mut NextModel<'_>) {
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
        match parsed(name) {
            Some(effort) => next.request.effort = Some(effort),
            None => tracing::warn!(skill, effort = name, "The skill wants an effort that nobody knows"),
        }
    }
}

fn parsed(name: &str) -> Option<Effort> {
    match name {
        "low" => Some(Effort::Low),
        "medium" => Some(Effort::Medium),
        "high" => Some(Effort::High),
        "max" | "xhigh" => Some(Effort::Max),
        _ => None,
    }
}
