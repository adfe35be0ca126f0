//! A transaction that stops at any of its steps.

use std::cell::Cell;
use std::rc::Rc;

use super::super::*;
use super::Project;
use crate::store::Stored;

/// A transaction with every kind of change, over a project in which somebody has edited a skill.
struct Everything {
    project: Project,
    one: Stored,
    two: Stored,
}

const EDIT: &str = "an edit that must not be lost";

impl Everything {
    fn new(cannot_exchange: bool) -> Self {
        let mut project = Project::new();
        let (one, two) = (project.skill("one"), project.skill("two"));
        let (claude, other) = (project.at(".claude/skills"), project.at(".other/skills"));
        project
            .commit(|transaction| {
                for name in ["replaced", "removed", "edited"] {
                    transaction.put(name, &one, None);
                }
                transaction.link(&claude, "removed", None);
                transaction.copy(&other, "replaced", &one, None);
                transaction.write_lock(&project.at("skills-lock.json"), "old");
                transaction.write_lock(&project.at("prowess-lock.json"), "old");
            })
            .unwrap();
        std::fs::write(project.at(".agents/skills/edited/SKILL.md"), EDIT).unwrap();
        project.steps.cannot_exchange = cannot_exchange;
        Self { project, one, two }
    }

    fn commit(&self) -> Result<Report, PlaceError> {
        let project = &self.project;
        let (claude, other) = (project.at(".claude/skills"), project.at(".other/skills"));
        project.commit(|transaction| {
            for name in ["replaced", "edited"] {
                transaction.put(name, &self.two, Some(self.one.digest));
            }
            transaction.put("added", &self.two, None);
            transaction.remove("removed", Some(self.one.digest));
            transaction.link(&claude, "added", None);
            transaction.unlink(&claude, "removed", None);
            transaction.copy(&other, "replaced", &self.two, Some(self.one.digest));
            transaction.write_lock(&project.at("skills-lock.json"), "new");
            transaction.write_lock(&project.at("prowess-lock.json"), "new");
        })
    }

    /// Stops after some steps. Returns whether something was stopped.
    fn stop_after(&mut self, steps: usize, run: impl FnOnce(&Self) -> Result<(), PlaceError>) -> bool {
        self.project.steps.left = Some(Rc::new(Cell::new(steps)));
        let stopped = match run(self) {
            Ok(()) => false,
            Err(PlaceError::Unfinished(error)) if error.is_killed() => true,
            Err(error) => {
                assert!(error.is_killed(), "{error}");
                true
            }
        };
        self.project.steps.left = None;
        stopped
    }

    /// Checks that everything is old or everything new. Returns whether it is new.
    fn check(&self, edits: &[&str]) -> bool {
        let project = &self.project;
        let all = project.everything();
        for edit in edits {
            assert!(all.values().any(|text| text == edit), "{edit} is lost: {all:#?}");
        }
        let traces = all.keys().any(|path| path.contains(".prowess-install") || path.contains("unfinished"));
        assert!(!traces, "{all:#?}");
        assert_eq!(project.text("skills-lock.json"), project.text("prowess-lock.json"));
        let is_new = project.text("skills-lock.json").unwrap() == "new";
        let digest = |path: &str| project.digest(path);
        let link = |name: &str| project.at(".claude/skills").join(name).is_symlink();
        let expected = Some(if is_new { self.two.digest } else { self.one.digest });
        if edits.len() < 2 {
            assert_eq!(digest(".agents/skills/replaced"), expected);
        }
        assert_eq!(digest(".other/skills/replaced"), expected);
        assert_eq!(digest(".agents/skills/removed"), (!is_new).then_some(self.one.digest));
        assert_eq!(digest(".agents/skills/added"), is_new.then_some(self.two.digest));
        assert_eq!((link("added"), link("removed")), (is_new, !is_new));
        if is_new {
            assert_eq!(digest(".agents/skills/edited"), Some(self.two.digest));
            assert_eq!(project.text(".agents/skills-kept/edited-1/SKILL.md").unwrap(), EDIT);
        }
        is_new
    }
}

#[test]
fn case_134_a_kill_at_any_step_leaves_the_old_or_the_new_state() {
    for cannot_exchange in [false, true] {
        let mut outcomes = Vec::new();
        for steps in 0.. {
            let mut everything = Everything::new(cannot_exchange);
            let stopped = everything.stop_after(steps, |it| it.commit().map(|_| ()));
            let report = everything.project.place().recover().unwrap();
            outcomes.push(everything.check(&[EDIT]));
            assert_eq!(everything.project.place().recover().unwrap(), Report::default());
            if !stopped {
                assert_eq!(report, Report::default());
                break;
            }
        }
        // One moment decides.
        assert!(outcomes.len() > 30 && outcomes.is_sorted(), "{outcomes:?}");
        assert!(!outcomes[0] && outcomes[outcomes.len() - 1]);
    }
}

#[test]
fn case_134_a_kill_during_the_recovery_leaves_the_old_or_the_new_state() {
    for cannot_exchange in [false, true] {
        for steps in (0..60).step_by(7) {
            for more in (0..).step_by(2) {
                let mut everything = Everything::new(cannot_exchange);
                everything.stop_after(steps, |it| it.commit().map(|_| ()));
                let stopped = everything.stop_after(more, |it| it.project.place().recover().map(|_| ()));
                everything.project.place().recover().unwrap();
                everything.check(&[EDIT]);
                if !stopped {
                    break;
                }
            }
        }
    }
}

#[test]
fn case_134_an_edit_between_the_kill_and_the_recovery_is_not_lost() {
    for cannot_exchange in [false, true] {
        for steps in (0..60).step_by(2) {
            let mut everything = Everything::new(cannot_exchange);
            everything.stop_after(steps, |it| it.commit().map(|_| ()));
            let path = everything.project.at(".agents/skills/replaced");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("SKILL.md"), "a second edit").unwrap();
            everything.project.place().recover().unwrap();
            everything.check(&[EDIT, "a second edit"]);
        }
    }
}

#[test]
fn case_130_files_that_change_after_the_look_are_not_installed() {
    let everything = Everything::new(false);
    let before = everything.project.everything();
    // The store is damaged between the look and the installation.
    std::fs::write(everything.two.path.join("SKILL.md"), "EVIL").unwrap();
    let failed = everything.commit().unwrap_err().to_string();
    assert_eq!(
        failed,
        "cannot copy the files of the skill replaced: \"SKILL.md\" is not the file that was shown"
    );
    assert_eq!(everything.project.everything(), before);
    assert!(!everything.project.at(".agents/.prowess-install").exists());
    std::fs::remove_dir_all(&everything.two.path).unwrap();
    assert!(matches!(everything.commit().unwrap_err(), PlaceError::Stored { .. }));
    assert_eq!(everything.project.everything(), before);
}
