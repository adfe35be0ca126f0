//! Eviction: a skill with the lifetime `capped` goes when another skill needs its slot or its tokens.

use prowess_catalog::untrusted::code_text;

use crate::delta::{SkillDelta, UnloadReason};
use crate::engine::SkillEngine;
use crate::error::argument;
use crate::options::Lifetime;
use crate::state::{Conflict, SkillState};
use crate::view::SkillView;

impl SkillEngine {
    /// The state after `deltas`. If there is no room for them, the capped skills that were used longest ago are unloaded
    /// first, as many as needed. If that does not help, none is unloaded.
    pub(crate) fn after_with_room(
        &self,
        state: &SkillState,
        deltas: Vec<SkillDelta>,
    ) -> Result<(Vec<SkillDelta>, SkillState), (Vec<SkillDelta>, Conflict)> {
        let conflict = match self.after(state, &deltas) {
            Ok(after) => return Ok((deltas, after)),
            Err(conflict @ (Conflict::LimitReached | Conflict::OverBudget)) => conflict,
            Err(conflict) => return Err((deltas, conflict)),
        };
        let mut changes = Vec::new();
        let candidates = state.by_use().iter().filter(|name| {
            is_capped(state, name) && !deltas.iter().any(|delta| delta.skill() == name.as_str())
        });
        for name in candidates {
            changes.push(SkillDelta::Unloaded { name: name.clone(), reason: UnloadReason::Evicted });
            let all: Vec<SkillDelta> = changes.iter().chain(&deltas).cloned().collect();
            if let Ok(after) = self.after(state, &all) {
                return Ok((all, after));
            }
        }
        Err((deltas, conflict))
    }

    /// What the model reads about skills that `deltas` evict; empty if there are none.
    pub(crate) fn eviction_note(&self, deltas: &[SkillDelta]) -> String {
        let evicted = deltas.iter().filter_map(|delta| match delta {
            SkillDelta::Unloaded { name, reason: UnloadReason::Evicted } => Some(name),
            _ => None,
        });
        let load = self.options().dialect.load_tools().load;
        let note = |name: &String| {
            format!(
                "\n\nSkill '{}' was unloaded to make room: it was used longest ago. Use `{load}(\"{}\")` if you need it \
                 again.",
                code_text(name),
                argument(name)
            )
        };
        evicted.map(note).collect()
    }
}

impl SkillView {
    /// Whether a loaded skill would make room for another one.
    pub(crate) fn can_evict(&self) -> bool {
        self.state().names().any(|name| is_capped(self.state(), name))
    }

    /// The change after a loaded skill was used, if that matters: the skill could be evicted, and was not the last one used.
    pub fn used(&self, name: &str) -> Option<SkillDelta> {
        let is_last = self.state().by_use().last().is_some_and(|last| last == name);
        (is_capped(self.state(), name) && !is_last).then(|| SkillDelta::Used { name: name.to_owned() })
    }
}

fn is_capped(state: &SkillState, name: &str) -> bool {
    state.get(name).is_some_and(|skill| skill.lifetime == Lifetime::Capped)
}
