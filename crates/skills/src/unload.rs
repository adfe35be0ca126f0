//! Unloading: on request, when a lifetime ends, and when the budget shrinks.

use prowess_catalog::untrusted::code_text;

use crate::answer::SkillAnswer;
use crate::conflict::conflict_error;
use crate::delta::{SkillDelta, UnloadReason};
use crate::error::SkillError;
use crate::event::{Stale, Staleness};
use crate::options::Lifetime;
use crate::view::SkillView;

impl SkillView {
    /// Unloads a skill, with its resources and documents.
    ///
    /// # Errors
    ///
    /// The skill is not loaded.
    pub fn unload(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        let engine = self.engine();
        let deltas = vec![SkillDelta::Unloaded { name: name.to_owned(), reason: UnloadReason::Asked }];
        let after = engine
            .after(self.state(), &deltas)
            .map_err(|conflict| conflict_error(engine.options(), name, &deltas, conflict, self.state()))?;
        engine.log(&deltas, &after);
        engine.cache_texts(&after, []);
        let loaded = after.loaded().len();
        let most = engine.options().budgets.max_loaded_skills;
        let options = engine.options();
        let note = options.dialect.unload_note(options.placement, options.unloaded_text);
        let free = most.saturating_sub(loaded);
        let text = format!(
            "Skill '{}' has been unloaded. Currently loaded: {loaded}/{most} ({free} slot(s) available). \
             Note: {note}",
            code_text(name)
        );
        Ok(SkillAnswer { text, deltas, ..SkillAnswer::default() })
    }

    /// Unloads skills that last for one model call. Apply this after the model's response, before its tool calls.
    pub fn after_model_call(&self) -> Vec<SkillDelta> {
        self.expired(|lifetime| lifetime == Lifetime::Once)
    }

    /// Unloads skills that last for one turn. Apply this at the end of a turn.
    pub fn end_turn(&self) -> Vec<SkillDelta> {
        self.expired(|lifetime| matches!(lifetime, Lifetime::Once | Lifetime::Turn))
    }

    /// Unloads the skills that were used longest ago, if more are loaded than the budget allows now.
    pub fn over_budget(&self) -> Vec<SkillDelta> {
        let loaded = self.state().by_use();
        let excess = loaded.len().saturating_sub(self.engine().options().budgets.max_loaded_skills);
        let unloaded =
            |name: &String| SkillDelta::Unloaded { name: name.clone(), reason: UnloadReason::Budget };
        loaded[..excess].iter().map(unloaded).collect()
    }

    /// Unloads the local skills that are gone: removed, no longer trusted, or denied by a rule. The skill of a server may come
    /// back with its server.
    pub fn gone(&self) -> Vec<SkillDelta> {
        let is_gone = |stale: &Stale| {
            stale.why == Staleness::Gone
                && self.state().get(&stale.name).is_some_and(|skill| skill.from.is_none())
        };
        let gone = self.stale().into_iter().filter(is_gone);
        gone.map(|stale| SkillDelta::Unloaded { name: stale.name, reason: UnloadReason::Gone }).collect()
    }

    /// Unloads the skills whose lifetime is over.
    fn expired(&self, is_over: impl Fn(Lifetime) -> bool) -> Vec<SkillDelta> {
        let over = self.state().loaded().iter().filter(|skill| is_over(skill.lifetime));
        let unloaded =
            |name: &String| SkillDelta::Unloaded { name: name.clone(), reason: UnloadReason::Expired };
        let deltas: Vec<SkillDelta> = over.map(|skill| unloaded(&skill.name)).collect();
        if let Ok(after) = self.engine().after(self.state(), &deltas) {
            self.engine().log(&deltas, &after);
        }
        deltas
    }
}
