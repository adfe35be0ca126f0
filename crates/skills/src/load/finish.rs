//! The end of a load: the changes, and what the model reads.

use std::sync::Arc;

use prowess_catalog::skill::SkillContext;
use prowess_catalog::untrusted::code_text;
use prowess_permission::Kind;

use super::{Caller, PreparedLoad};
use crate::answer::SkillAnswer;
use crate::call::ForkedSkill;
use crate::conflict::conflict_error;
use crate::delta::{LoadedSkill, SkillDelta};
use crate::error::SkillError;
use crate::framing::{self, FramedText};
use crate::options::Placement;
use crate::state::SkillState;

/// Why the text of a loaded skill is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reload {
    /// It has changed since it was loaded.
    Changed,
    /// It gets other arguments.
    Arguments,
}

impl PreparedLoad {
    /// The changes, and the text for the model.
    ///
    /// # Errors
    ///
    /// `state` has no room for it, or a new rule denies it. Nothing changes.
    pub fn finish(self, state: &SkillState) -> Result<SkillAnswer, SkillError> {
        let permissions = self.engine.permissions();
        let is_server_skill = self.text.as_ref().is_some_and(|text| text.skill.from.is_some());
        if permissions.is_denied(&Kind::SKILL, &self.name)
            || (is_server_skill && permissions.is_denied(&Kind::MCP_SKILL, &self.name))
        {
            return Err(self.engine.at(state).not_found(&self.name));
        }
        let loaded = state.get(&self.name);
        let Some(deltas) = self.deltas(loaded) else {
            // An earlier call may have unloaded it.
            let not_loaded = || self.engine.at(state).not_loaded(&self.name);
            return if loaded.is_some() { Ok(self.already_loaded(state)) } else { Err(not_loaded()) };
        };
        let (deltas, after) = self.engine.after_with_room(state, deltas).map_err(|(deltas, conflict)| {
            conflict_error(self.engine.options(), &self.name, &deltas, conflict, state)
        })?;
        self.engine.log(&deltas, &after);
        self.engine.note_use(&self.name);
        self.engine.cache_texts(&after, self.texts(has_instructions(&deltas)));
        let mut text = self.answer(&deltas, loaded.and_then(|loaded| self.reload_of(loaded)), &after);
        text.push_str(&self.engine.eviction_note(&deltas));
        Ok(SkillAnswer { text, deltas, ..SkillAnswer::default() })
    }

    /// Whether a person starts a skill that is loaded in `state` with this text. If the conversation has all texts of that
    /// state, you need not repeat this one.
    pub fn is_repeated(&self, state: &SkillState) -> bool {
        let loaded = state.get(&self.name);
        self.text.is_some() && loaded.is_some_and(|loaded| self.reload_of(loaded).is_none())
    }

    /// The task for a sub-agent, if the skill says `context: fork`. If you have sub-agents, give it to one and drop this load.
    pub fn forked(&self) -> Option<ForkedSkill> {
        let text = self.text.as_ref()?;
        let visible = self.engine.visible();
        let extensions = &visible.view.get(&self.name)?.skill.extensions;
        (extensions.context == SkillContext::Fork).then(|| ForkedSkill {
            name: self.name.clone(),
            agent: extensions.agent.clone(),
            arguments: text.skill.arguments.clone().filter(|given| !given.is_empty()),
            instructions: text.instructions.text.clone(),
            deltas: self.deltas(None).unwrap_or_default(),
        })
    }

    /// The changes, if `loaded` is the skill as it is loaded now; `None` if nothing changes.
    fn deltas(&self, loaded: Option<&LoadedSkill>) -> Option<Vec<SkillDelta>> {
        let chosen = self.chosen.as_ref().map(|chosen| chosen.delta.clone());
        let text = self.text.as_ref().map(|text| (text.skill.clone(), text.resources.clone()));
        let load = match (text, loaded) {
            (Some((skill, resources)), None) => SkillDelta::Loaded { skill, resources },
            // A person gets the text again: the conversation may be another one.
            (Some((skill, resources)), Some(loaded))
                if self.caller == Caller::Person || self.reload_of(loaded).is_some() =>
            {
                SkillDelta::Reloaded { skill, resources }
            }
            _ => {
                return chosen
                    .filter(|_| self.engine.options().dialect.reselects())
                    .map(|chosen| vec![chosen]);
            }
        };
        Some([load].into_iter().chain(chosen).collect())
    }

    /// Why this text replaces that of the loaded skill; `None` if it does not.
    fn reload_of(&self, loaded: &LoadedSkill) -> Option<Reload> {
        let new = &self.text.as_ref()?.skill;
        if (&new.location, new.digest, &new.from) != (&loaded.location, loaded.digest, &loaded.from) {
            return Some(Reload::Changed);
        }
        // Without arguments, a model means the skill as it is loaded.
        (new.nonce != loaded.nonce && new.arguments.is_some()).then_some(Reload::Arguments)
    }

    /// The framed texts, to cache them.
    fn texts(&self, has_instructions: bool) -> Vec<Arc<FramedText>> {
        let instructions = self.text.as_ref().filter(|_| has_instructions).map(|text| &text.instructions);
        let documents = self.chosen.iter().flat_map(|chosen| chosen.texts.values());
        instructions.into_iter().chain(documents).cloned().collect()
    }

    fn answer(&self, deltas: &[SkillDelta], reload: Option<Reload>, after: &SkillState) -> String {
        let name = code_text(&self.name);
        let loaded = self.text.as_ref().filter(|_| has_instructions(deltas)).map(|text| {
            match self.engine.placement_of(text.skill.from.is_some()) {
                Placement::ToolAnswer => {
                    let reason = reload.map(|reload| {
                        let why = reload.reason(&name);
                        format!(
                            "{why} These instructions replace the earlier ones, which no longer apply.\n\n"
                        )
                    });
                    let paths = &self.engine.options().skill_paths;
                    let summary = framing::resource_summary(&text.resources, &text.skill.location, paths);
                    let reason = reason.unwrap_or_default();
                    [reason.as_str(), &text.heading, &text.instructions.text, &summary].concat()
                }
                Placement::SystemMessage => match reload {
                    Some(reload) => {
                        let why = reload.reason(&name);
                        format!(
                            "{why} The system message has its new instructions instead of the earlier ones."
                        )
                    }
                    None => {
                        format!("Skill '{name}' is loaded. Its instructions are in the system message.")
                    }
                },
            }
        });
        let is_server_skill = after.get(&self.name).is_some_and(|skill| skill.from.is_some());
        let placement = self.engine.placement_of(is_server_skill);
        let selected = self.chosen.as_ref().map(|chosen| chosen.text(&self.name, placement));
        loaded.into_iter().chain(selected).collect::<Vec<_>>().join("\n\n")
    }

    fn already_loaded(&self, state: &SkillState) -> SkillAnswer {
        let name = code_text(&self.name);
        let text = format!("Skill '{name}' is already loaded. Its instructions are already active.");
        let deltas = self.engine.at(state).used(&self.name).into_iter().collect();
        SkillAnswer { text, deltas, ..SkillAnswer::default() }
    }
}

impl Reload {
    fn reason(self, name: &str) -> String {
        match self {
            Self::Changed => {
                format!("Skill '{name}' has changed since it was loaded, so it was loaded again.")
            }
            Self::Arguments => format!("Skill '{name}' was loaded again with these arguments."),
        }
    }
}

/// Whether `deltas` bring in instructions, not only documents.
fn has_instructions(deltas: &[SkillDelta]) -> bool {
    deltas.iter().any(|delta| matches!(delta, SkillDelta::Loaded { .. } | SkillDelta::Reloaded { .. }))
}
