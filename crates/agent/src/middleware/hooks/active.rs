//! Which hooks there are now: the user's own, and those of loaded skills that the rules let run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use prowess_skills::SkillView;
use prowess_skills::allowed_tools::ToolNames;
use prowess_skills::prowess_catalog::CatalogView;
use prowess_skills::prowess_catalog::yaml::Value;
use prowess_skills::prowess_permission::{Decision, Kind, Question, Rule, owned_subject};

use super::config::{Handler, Hook, HookSet};
use super::event::Happening;
use super::state::Kept;

/// How many problems of one skill's hooks are told.
const MAX_WARNINGS: usize = 5;

/// A hook that is to run, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) hook: Hook,
    /// The skill that it is of.
    pub(super) skill: Option<String>,
}

impl Due {
    /// What tells it from all others of the thread.
    pub(super) fn key(&self) -> String {
        self.of_origin(&self.hook.key)
    }

    /// Whether it ran before in this thread, as this version or an earlier one has noted it.
    fn ran(&self, kept: &Kept) -> bool {
        kept.ran.contains(&self.key()) || kept.ran.contains(&self.of_origin(&self.hook.earlier_key))
    }

    fn of_origin(&self, key: &str) -> String {
        match &self.skill {
            Some(skill) => format!("{skill}/{key}"),
            None => key.to_owned(),
        }
    }
}

/// What a thread's part knows of hooks while it is open.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The hooks of skills as they were read last, and from what.
    read: Mutex<BTreeMap<String, (Value, Arc<HookSet>)>>,
    /// What was warned about.
    warned: Mutex<BTreeSet<String>>,
    /// Hooks that are to run once, and run or ran.
    claimed: Mutex<BTreeSet<String>>,
}

impl Known {
    /// The hooks that are to run. Those that are to run once are taken: nobody else gets them.
    pub(super) fn take(
        &self,
        own: &HookSet,
        skills: Option<&SkillView>,
        kept: &Kept,
        happening: &Happening<'_>,
    ) -> Vec<Due> {
        let mut due = self.due(own, skills, happening);
        due.retain(|due| !due.hook.once || (!due.ran(kept) && lock(&self.claimed).insert(due.key())));
        due
    }

    /// A hook that was to run once did not answer: it is not gone.
    pub(super) fn give_back(&self, due: &Due) {
        lock(&self.claimed).remove(&due.key());
    }

    /// Whether there are hooks for this at all.
    pub(super) fn has(&self, own: &HookSet, skills: Option<&SkillView>, happening: &Happening<'_>) -> bool {
        !self.due(own, skills, happening).is_empty()
    }

    fn due(&self, own: &HookSet, skills: Option<&SkillView>, happening: &Happening<'_>) -> Vec<Due> {
        let (event, subject) = (happening.event(), happening.subject());
        let default = ToolNames::default();
        let names = skills.map_or(&default, |view| &view.engine().options().tools);
        let names = happening.is_about_tool().then_some(names);
        let mine = |hooks: &HookSet, skill: Option<&str>| {
            let hooks = hooks.0.iter().filter(|hook| {
                hook.event == event && subject.is_none_or(|subject| hook.matcher.chooses(subject, names))
            });
            let due = |hook: &Hook| Due { hook: hook.clone(), skill: skill.map(str::to_owned) };
            hooks.map(due).collect::<Vec<_>>()
        };
        let mut due = mine(own, None);
        let Some(skills) = skills else { return due };
        let (view, state) = (skills.engine().catalog_view(), skills.state());
        let loaded = state.loaded().iter().map(|skill| (skill.name.as_str(), Some(&skill.location)));
        // A skill hears of its own end.
        let gone = match happening {
            Happening::SkillUnload { skill } => Some((*skill, None)),
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

    /// The hooks of a skill. They are read anew when they have changed.
    fn hooks_of(&self, view: &CatalogView, name: &str) -> Option<Arc<HookSet>> {
        let written = view.get(name)?.skill.extensions.hooks.as_ref()?;
        let mut read = lock(&self.read);
        if let Some((value, hooks)) = read.get(name)
            && value == written
        {
            return Some(Arc::clone(hooks));
        }
        let (hooks, problems) = HookSet::of_skill(written);
        for problem in problems.iter().take(MAX_WARNINGS) {
            tracing::warn!(skill = name, %problem, "A hook of a skill is ignored");
        }
        let hooks = Arc::new(hooks);
        read.insert(name.to_owned(), (written.clone(), Arc::clone(&hooks)));
        Some(hooks)
    }

    /// Whether the rules let a skill's hook run. What may not be run by the model may not be run by a hook either.
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
                "A hook of a skill does not run. To let it: {} {}",
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
            let due = Due { hook: hooks.0[0].clone(), skill };
            for key in [due.of_origin(&due.hook.earlier_key), due.key()] {
                let mut kept = Kept::default();
                assert!(!due.ran(&kept));
                kept.ran.insert(key);
                assert!(due.ran(&kept));
            }
        }
    }
}
