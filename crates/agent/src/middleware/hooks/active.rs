//! The active hooks: the user's own, and those of loaded skills that the rules allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use prowess_skills::SkillView;
use prowess_skills::allowed_tools::ToolNames;
use prowess_skills::prowess_catalog::CatalogView;
use prowess_skills::prowess_catalog::yaml::Value;
use prowess_skills::prowess_permission::{Decision, Kind, Question, Rule, owned_subject};

use super::config::{Handler, Hook, HookSet};
use super::event::EventData;
use super::state::HooksState;

/// How many errors in one skill's hooks are logged.
const MAX_WARNINGS: usize = 5;

/// A hook that is to be called, and its skill.
#[derive(Clone, Debug)]
pub(super) struct DueHook {
    pub(super) hook: Hook,
    /// The skill that it belongs to. `None`: the user's own.
    pub(super) skill: Option<String>,
}

impl DueHook {
    /// Identifies the hook in the thread.
    pub(super) fn key(&self) -> String {
        self.of_origin(&self.hook.key)
    }

    /// Whether the state says that it ran before, in the form of this version or of an earlier one.
    fn ran(&self, state: &HooksState) -> bool {
        state.ran.contains(&self.key()) || state.ran.contains(&self.of_origin(&self.hook.earlier_key))
    }

    fn of_origin(&self, key: &str) -> String {
        match &self.skill {
            Some(skill) => format!("{skill}/{key}"),
            None => key.to_owned(),
        }
    }
}

/// The active hooks of an open thread.
#[derive(Debug, Default)]
pub(super) struct ActiveHooks {
    /// The parsed hooks of each skill, and the value that they were parsed from.
    parsed: Mutex<BTreeMap<String, (Value, Arc<HookSet>)>>,
    /// The hooks that a warning was logged about.
    warned: Mutex<BTreeSet<String>>,
    /// Hooks with `once` that are running or have run.
    claimed: Mutex<BTreeSet<String>>,
}

impl ActiveHooks {
    /// The hooks to call for an event. A hook with `once` is claimed, so that it is called once.
    pub(super) fn claim(
        &self,
        own: &HookSet,
        skills: Option<&SkillView>,
        state: &HooksState,
        event_data: &EventData<'_>,
    ) -> Vec<DueHook> {
        let mut due = self.due(own, skills, event_data);
        due.retain(|due| !due.hook.once || (!due.ran(state) && lock(&self.claimed).insert(due.key())));
        due
    }

    /// Releases a claimed hook that failed, so that it can be called again.
    pub(super) fn give_back(&self, due: &DueHook) {
        lock(&self.claimed).remove(&due.key());
    }

    /// Whether there are hooks for this event.
    pub(super) fn has(&self, own: &HookSet, skills: Option<&SkillView>, event_data: &EventData<'_>) -> bool {
        !self.due(own, skills, event_data).is_empty()
    }

    fn due(&self, own: &HookSet, skills: Option<&SkillView>, event_data: &EventData<'_>) -> Vec<DueHook> {
        let (event, subject) = (event_data.event(), event_data.subject());
        let default = ToolNames::default();
        let names = skills.map_or(&default, |view| &view.engine().options().tools);
        let names = event_data.is_about_tool().then_some(names);
        let mine = |hooks: &HookSet, skill: Option<&str>| {
            let hooks = hooks.0.iter().filter(|hook| {
                hook.event == event && subject.is_none_or(|subject| hook.matcher.matches(subject, names))
            });
            let due = |hook: &Hook| DueHook { hook: hook.clone(), skill: skill.map(str::to_owned) };
            hooks.map(due).collect::<Vec<_>>()
        };
        let mut due = mine(own, None);
        let Some(skills) = skills else { return due };
        let (view, state) = (skills.engine().catalog_view(), skills.state());
        let loaded = state.loaded().iter().map(|skill| (skill.name.as_str(), Some(&skill.location)));
        // A skill's hooks are called for its own unloading.
        let gone = match event_data {
            EventData::SkillUnload { skill } => Some((*skill, None)),
            _ => None,
        };
        for (name, location) in loaded.chain(gone) {
            let elsewhere = |entry: &prowess_skills::prowess_catalog::SkillEntry| {
                location.is_some_and(|location| entry.skill.location != *location)
            };
            if view.get(name).is_none_or(|entry| elsewhere(entry)) {
                continue;
            }
            if let Some(hooks) = self.hooks_of(&view, name) {
                let of_skill = mine(&hooks, Some(name)).into_iter();
                due.extend(of_skill.filter(|due| self.may_run(skills, name, &due.hook)));
            }
        }
        due
    }

    /// The hooks of a skill, parsed again if its frontmatter has changed.
    fn hooks_of(&self, view: &CatalogView, name: &str) -> Option<Arc<HookSet>> {
        let written = view.get(name)?.skill.extensions.hooks.as_ref()?;
        let mut parsed = lock(&self.parsed);
        if let Some((value, hooks)) = parsed.get(name)
            && value == written
        {
            return Some(Arc::clone(hooks));
        }
        let (hooks, errors) = HookSet::of_skill(written);
        for error in errors.iter().take(MAX_WARNINGS) {
            tracing::warn!(skill = name, %error, "A hook of a skill is invalid and ignored");
        }
        let hooks = Arc::new(hooks);
        parsed.insert(name.to_owned(), (written.clone(), Arc::clone(&hooks)));
        Some(hooks)
    }

    /// Whether the rules allow a skill's hook. A command that is denied to the model is denied to hooks too.
    fn may_run(&self, skills: &SkillView, skill: &str, hook: &Hook) -> bool {
        let permissions = skills.engine().permissions();
        let subject = owned_subject(skill, &hook.event.to_string());
        let decision = permissions.decide(&Question::new(Kind::HOOK, subject.as_str())).decision;
        let is_denied = match &hook.handler {
            Handler::Command(line) => permissions.is_denied(&Kind::RUN, &owned_subject(skill, line)),
            Handler::Prompt(_) | Handler::Agent { .. } => false,
        };
        if decision == Decision::Allow && !is_denied {
            return true;
        }
        if lock(&self.warned).insert(subject.clone()) {
            let rule = Rule::literal(&Kind::HOOK, &subject, Decision::Allow);
            tracing::warn!(
                skill,
                event = %hook.event,
                "A hook of a skill does not run. To allow it: {} {}",
                rule.toml_table(),
                rule.toml_line()
            );
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ran_once_in_an_earlier_version_does_not_run_again() {
        let hook = json!({"type": "prompt", "prompt": "Mind the gap.", "once": true});
        let hooks = HookSet::parse(&json!({"Stop": [{"hooks": [hook]}]})).unwrap_or_default();
        for skill in [None, Some("pdf".to_owned())] {
            let due = DueHook { hook: hooks.0[0].clone(), skill };
            for key in [due.of_origin(&due.hook.earlier_key), due.key()] {
                let mut state = HooksState::default();
                assert!(!due.ran(&state));
                state.ran.insert(key);
                assert!(due.ran(&state));
            }
        }
    }
}
