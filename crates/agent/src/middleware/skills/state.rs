//! What a thread keeps of its skills.

use std::collections::BTreeMap;
use std::sync::Arc;

use prowess_skills::{LoadedSkill, SkillDelta, SkillState};
use serde::{Deserialize, Serialize};

use super::NAME;
use crate::state::{State, States};
use crate::thread_state::StateChange;

/// What a thread keeps of its skills. Other parts may read it.
#[derive(Clone, Debug, Default)]
pub struct SkillsState {
    /// Marks the frames of this conversation.
    pub(super) secret: Option<[u8; 16]>,
    pub(super) state: Arc<SkillState>,
    /// Whether some were loaded elsewhere, so that the conversation does not have their text.
    pub(super) inherited: bool,
    usage: BTreeMap<String, SkillUse>,
}

/// How much a skill was used in a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillUse {
    /// How often it was loaded, or given to a sub-agent.
    pub loads: u64,
    /// How many of its commands were run.
    pub runs: u64,
    /// About how many tokens its instructions took, all loads together.
    pub tokens: u64,
}

impl SkillsState {
    /// The state of a thread's skills, if its agent has any.
    pub fn of(states: &States) -> Option<&Self> {
        states.get(NAME)
    }

    /// The skills that are loaded, in the order in which they were.
    pub fn loaded(&self) -> &[LoadedSkill] {
        self.state.loaded()
    }

    /// What is loaded, with all that is kept of it.
    pub fn state(&self) -> &Arc<SkillState> {
        &self.state
    }

    /// How much each skill was used.
    pub fn usage(&self) -> &BTreeMap<String, SkillUse> {
        &self.usage
    }

    /// What a stored change means for skills, for whoever watches a thread; `None` when it is about something else.
    pub fn delta(change: &StateChange) -> Option<SkillDelta> {
        if change.owner != NAME {
            return None;
        }
        match Delta::deserialize(&change.delta) {
            Ok(Delta::Skill(delta)) => Some(delta),
            _ => None,
        }
    }

    /// What begins a thread in which these are loaded.
    pub(crate) fn seeds(deltas: Vec<SkillDelta>) -> Vec<StateChange> {
        let skills = deltas.into_iter().map(Delta::Skill);
        std::iter::once(Delta::Inherited).chain(skills).map(|delta| delta.change()).collect()
    }

    /// What tells another thread which skills of servers led to what it is given.
    pub(crate) fn led(&self) -> Vec<StateChange> {
        let led = self.state.from_servers().into_iter().map(|(name, server)| {
            Delta::Skill(SkillDelta::Led { name: name.to_owned(), server: server.to_owned() }).change()
        });
        led.collect()
    }

    /// What begins a thread in which the same is loaded.
    pub(crate) fn inheritance(&self) -> Vec<StateChange> {
        let loaded = |skill: &LoadedSkill| SkillDelta::Loaded {
            skill: skill.clone(),
            resources: self.state.resources(&skill.name).to_vec(),
        };
        // The words of servers are where they were read, and nowhere else.
        let deltas: Vec<SkillDelta> =
            self.loaded().iter().filter(|skill| skill.from.is_none()).map(loaded).collect();
        if deltas.is_empty() { Vec::new() } else { Self::seeds(deltas) }
    }
}

/// A change of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// The secret of the conversation.
    Secret([u8; 16]),
    /// What was loaded, unloaded, chosen.
    Skill(SkillDelta),
    /// What is loaded was loaded elsewhere.
    Inherited,
    /// A sub-agent followed a skill.
    Forked {
        /// Which skill.
        skill: String,
        /// About how many tokens its instructions took.
        tokens: u64,
    },
    /// A command was run.
    Ran {
        /// Whose.
        skill: String,
    },
}

impl Delta {
    pub(super) fn change(&self) -> StateChange {
        StateChange::new::<SkillsState>(NAME, self)
    }
}

impl State for SkillsState {
    type Delta = Delta;

    fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Secret(secret) => self.secret = Some(secret),
            Delta::Skill(delta) => {
                if let SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } = &delta {
                    self.count(&skill.name, skill.tokens as u64);
                }
                // What does not fit was refused by the session that made it, and is in no log.
                let _ = Arc::make_mut(&mut self.state).replay([&delta]);
            }
            Delta::Inherited => self.inherited = true,
            Delta::Forked { skill, tokens } => self.count(&skill, tokens),
            Delta::Ran { skill } => self.usage.entry(skill).or_default().runs += 1,
        }
    }
}

impl SkillsState {
    fn count(&mut self, skill: &str, tokens: u64) {
        let usage = self.usage.entry(skill.to_owned()).or_default();
        usage.loads += 1;
        usage.tokens = usage.tokens.saturating_add(tokens);
    }
}
