//! The state of skills in a thread.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use prowess_skills::frozen::FrozenPrompt;
use prowess_skills::told::{Told, ToldDelta};
use prowess_skills::{LoadedSkill, SkillDelta, SkillState};
use serde::{Deserialize, Serialize};

use super::NAME;
use super::freed::FreedTexts;
use super::typed_call::TypedCall;
use crate::state::{State, States};
use crate::thread_state::StateChange;

/// The state of skills in a thread. Other middleware can read it.
#[derive(Clone, Debug, Default)]
pub struct SkillsState {
    /// The secret of the conversation's frames.
    pub(super) secret: Option<[u8; 16]>,
    pub(super) state: Arc<SkillState>,
    /// Whether skills were loaded in a parent's thread, so that this conversation lacks their text.
    pub(super) inherited: bool,
    usage: BTreeMap<String, SkillUse>,
    /// What the model was told outside of tool answers.
    pub(super) told: Told,
    /// The prompt that was frozen last.
    pub(super) frozen: Option<FrozenAt>,
    /// The texts that the model no longer sees in earlier messages.
    pub(super) freed: FreedTexts,
    /// The call that a person made by typing `/name` in this turn.
    pub(super) typed: Option<TypedCall>,
}

/// A frozen prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrozenAt {
    /// How many messages of the thread were summarised when it was used first, or after the last compaction.
    pub(super) cut: usize,
    pub(super) prompt: Arc<FrozenPrompt>,
}

/// How much a skill was used in a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillUse {
    /// How often it was loaded, or followed by a sub-agent.
    pub loads: u64,
    /// How often its commands were run.
    pub runs: u64,
    /// The estimated tokens of its instructions, for all loads together.
    pub tokens: u64,
}

impl SkillsState {
    /// The owner of prompt sections about skills.
    pub(crate) const OWNER: &'static str = NAME;

    /// The state of a thread's skills, if its agent has any.
    pub fn of(states: &States) -> Option<&Self> {
        states.get(NAME)
    }

    /// The loaded skills, in the order in which they were loaded.
    pub fn loaded(&self) -> &[LoadedSkill] {
        self.state.loaded()
    }

    /// The state of the skill session.
    pub fn state(&self) -> &Arc<SkillState> {
        &self.state
    }

    /// The texts of loaded skills in a message: the name of each skill, and where its text is.
    pub(crate) fn texts_in(&self, message: &str) -> Vec<(String, Range<usize>)> {
        self.secret.map(|secret| self.state.texts_in(message, &secret)).unwrap_or_default()
    }

    /// How much each skill was used.
    pub fn usage(&self) -> &BTreeMap<String, SkillUse> {
        &self.usage
    }

    /// The skill change in a stored state change, for programs that watch a thread. `None` if it is about something else.
    pub fn delta(change: &StateChange) -> Option<SkillDelta> {
        if change.owner != NAME {
            return None;
        }
        match SkillsDelta::deserialize(&change.delta) {
            Ok(SkillsDelta::Skill(delta)) => Some(delta),
            _ => None,
        }
    }

    /// The changes that begin a thread with these skills loaded.
    pub(crate) fn seeds(deltas: Vec<SkillDelta>) -> Vec<StateChange> {
        let skills = deltas.into_iter().map(SkillsDelta::Skill);
        std::iter::once(SkillsDelta::Inherited).chain(skills).map(|delta| delta.change()).collect()
    }

    /// The changes that tell another thread which skills of servers led to its task.
    pub(crate) fn led(&self) -> Vec<StateChange> {
        let led = self.state.from_servers().into_iter().map(|(name, server)| {
            SkillsDelta::Skill(SkillDelta::Led { name: name.to_owned(), server: server.to_owned() }).change()
        });
        led.collect()
    }

    /// The changes that begin a thread with the same skills loaded.
    pub(crate) fn inheritance(&self) -> Vec<StateChange> {
        let loaded = |skill: &LoadedSkill| SkillDelta::Loaded {
            skill: skill.clone(),
            resources: self.state.resources(&skill.name).to_vec(),
        };
        // Text of servers stays in the thread that read it.
        let deltas: Vec<SkillDelta> =
            self.loaded().iter().filter(|skill| skill.from.is_none()).map(loaded).collect();
        if deltas.is_empty() { Vec::new() } else { Self::seeds(deltas) }
    }
}

/// A change of the state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkillsDelta {
    /// The secret of the conversation's frames.
    Secret([u8; 16]),
    /// A skill was loaded or unloaded, or its documents changed.
    Skill(SkillDelta),
    /// The loaded skills come from a parent's thread.
    Inherited,
    /// A sub-agent followed a skill.
    Forked {
        /// The skill.
        skill: String,
        /// The estimated tokens of its instructions.
        tokens: u64,
    },
    /// A person typed the name of a skill that a sub-agent follows; `None` when the next turn begins.
    Typed(Option<TypedCall>),
    /// The prompt was frozen.
    Frozen {
        /// How many messages of the thread were summarised.
        cut: usize,
        /// The prompt.
        prompt: Arc<FrozenPrompt>,
    },
    /// The conversation was compacted, and the frozen prompt stays.
    Kept {
        /// How many messages of the thread were summarised.
        cut: usize,
    },
    /// The model was told something.
    Told(ToldDelta),
    /// The model no longer sees some texts of skills in earlier messages.
    Freed {
        /// The first message from which on a text counts again, by the nonce of its frame.
        before: BTreeMap<String, usize>,
        /// How many messages of the thread were summarised.
        cut: usize,
    },
    /// A command was run.
    Ran {
        /// The skill.
        skill: String,
    },
}

impl SkillsDelta {
    pub(super) fn change(&self) -> StateChange {
        StateChange::new::<SkillsState>(NAME, self)
    }
}

impl State for SkillsState {
    type Delta = SkillsDelta;

    fn apply(&mut self, delta: SkillsDelta) {
        match delta {
            SkillsDelta::Secret(secret) => self.secret = Some(secret),
            SkillsDelta::Skill(delta) => {
                if let SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } = &delta {
                    self.count(&skill.name, skill.tokens as u64);
                }
                self.told.note(&delta);
                let before = Arc::clone(&self.state);
                // A change that does not fit was refused when it was made, so no log has it.
                let _ = Arc::make_mut(&mut self.state).replay([&delta]);
                self.freed.note(&before, &self.state);
            }
            SkillsDelta::Inherited => self.inherited = true,
            SkillsDelta::Forked { skill, tokens } => self.count(&skill, tokens),
            SkillsDelta::Typed(typed) => self.typed = typed,
            SkillsDelta::Frozen { cut, prompt } => self.frozen = Some(FrozenAt { cut, prompt }),
            SkillsDelta::Kept { cut } => {
                if let Some(frozen) = &mut self.frozen {
                    frozen.cut = cut;
                }
            }
            SkillsDelta::Told(delta) => self.told.apply(delta),
            SkillsDelta::Freed { before, cut } => self.freed.apply(before, cut),
            SkillsDelta::Ran { skill } => self.usage.entry(skill).or_default().runs += 1,
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
