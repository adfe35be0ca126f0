mod kill;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::rc::Rc;

use prowess_catalog::Digest;
use tempfile::TempDir;

use super::*;
use crate::store::{Store, Stored};
use crate::tree::SkillTree;

/// A project with a store.
struct Project {
    scratch: TempDir,
    store: Store,
    steps: Steps,
}

impl Project {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("project")).unwrap();
        let store = Store::open(&scratch.path().join("cache")).unwrap();
        Self { scratch, store, steps: Steps::default() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join("project").join(path)
    }

    fn place(&self) -> Place {
        let mut place = Place::new(&self.at(".agents")).unwrap();
        for agent in [".claude/skills", ".other/skills", "same/skills"] {
            place = place.with_agent_directory(&self.at(agent));
        }
        place =
            place.with_lock_file(&self.at("skills-lock.json")).with_lock_file(&self.at("prowess-lock.json"));
        place.steps = self.steps.clone();
        place
    }

    fn stored(&self, files: &[(&str, &str)]) -> Stored {
        let directory = tempfile::tempdir_in(self.scratch.path()).unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.store.stage_directory(&TreeDirectory::open(directory.path()).unwrap()).unwrap()
    }

    fn skill(&self, text: &str) -> Stored {
        self.stored(&[("SKILL.md", text), ("docs/more.md", text)])
    }

    fn commit(&self, plan: impl FnOnce(&mut Transaction)) -> Result<Report, PlaceError> {
        let place = self.place();
        let held = place.hold()?;
        let mut transaction = Transaction::default();
        plan(&mut transaction);
        held.commit(&transaction)
    }

    fn digest(&self, path: &str) -> Option<Digest> {
        SkillTree::read(&self.at(path)).ok().map(|tree| tree.digest())
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    /// All files and links of the project with their texts.
    fn everything(&self) -> BTreeMap<String, String> {
        fn walk(directory: &Path, prefix: &str, all: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    walk(&entry.path(), &format!("{path}/"), all);
                } else if kind.is_symlink() {
                    let target = std::fs::read_link(entry.path()).unwrap();
                    all.insert(path, format!("-> {}", target.display()));
                } else {
                    all.insert(path, std::fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.at(""), "", &mut all);
        all
    }
}

#[test]
fn skills_are_installed_linked_replaced_and_removed() {
    let project = Project::new();
    let (one, two) = (project.skill("one"), project.skill("two"));
    let claude = project.at(".claude/skills");
    let lock = project.at("skills-lock.json");
    let report = project.commit(|transaction| {
        transaction.put("tide", &one, None);
        transaction.link(&claude, "tide", None);
        transaction.copy(&project.at(".other/skills"), "tide", &one, None);
        transaction.write_lock(&lock, "1");
    });
    assert_eq!(report.unwrap(), Report::default());
    let link = std::fs::read_link(claude.join("tide")).unwrap();
    assert_eq!(link.to_str(), Some("../../.agents/skills/tide"));
    assert_eq!(project.text(".claude/skills/tide/SKILL.md").unwrap(), "one");
    assert_eq!(project.digest(".other/skills/tide"), Some(one.digest));

    let update = |transaction: &mut Transaction| {
        transaction.put("tide", &two, Some(one.digest));
        transaction.link(&claude, "tide", Some(one.digest));
        transaction.copy(&project.at(".other/skills"), "tide", &two, Some(one.digest));
        transaction.write_lock(&lock, "2");
    };
    assert_eq!(project.commit(update).unwrap(), Report::default());
    let expected = [
        (".agents/skills/tide/SKILL.md", "two"),
        (".agents/skills/tide/docs/more.md", "two"),
        (".claude/skills/tide", "-> ../../.agents/skills/tide"),
        (".other/skills/tide/SKILL.md", "two"),
        (".other/skills/tide/docs/more.md", "two"),
        ("skills-lock.json", "2"),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert_eq!(project.everything(), expected, "nothing else is left, not even the lock on the place");
    assert_eq!(project.place().installed().unwrap().names, ["tide"]);

    let remove = |transaction: &mut Transaction| {
        transaction.remove("tide", Some(two.digest));
        transaction.unlink(&claude, "tide", None);
        transaction.unlink(&project.at(".other/skills"), "tide", Some(two.digest));
        transaction.write_lock(&lock, "3");
    };
    assert_eq!(project.commit(remove).unwrap(), Report::default());
    assert_eq!(project.everything().into_values().collect::<Vec<_>>(), ["3"]);
    assert_eq!(project.commit(remove).unwrap(), Report::default(), "it can be repeated");
}

#[test]
fn a_link_becomes_a_copy_and_a_copy_a_link() {
    let project = Project::new();
    let (one, claude) = (project.skill("one"), project.at(".claude/skills"));
    project
        .commit(|transaction| {
            transaction.put("tide", &one, None);
            transaction.link(&claude, "tide", None);
        })
        .unwrap();
    assert_eq!(project.commit(|t| t.copy(&claude, "tide", &one, None)).unwrap(), Report::default());
    assert_eq!(project.digest(".claude/skills/tide"), Some(one.digest));
    assert_eq!(project.commit(|t| t.link(&claude, "tide", Some(one.digest))).unwrap(), Report::default());
    assert!(claude.join("tide").is_symlink());
    // Another spelling of the same link is ours too.
    std::fs::remove_file(claude.join("tide")).unwrap();
    symlink(project.at(".agents/skills/tide"), claude.join("tide")).unwrap();
    assert_eq!(project.commit(|t| t.unlink(&claude, "tide", None)).unwrap(), Report::default());
    assert!(!claude.join("tide").is_symlink());
}

#[test]
fn an_edited_skill_is_kept_outside_of_the_skills() {
    let project = Project::new();
    let (one, two) = (project.skill("one"), project.skill("two"));
    for number in 1..3 {
        project.commit(|t| t.put("tide", &one, project.digest(".agents/skills/tide"))).unwrap();
        std::fs::write(project.at(".agents/skills/tide/SKILL.md"), format!("edited {number}")).unwrap();
        let report = project.commit(|t| t.put("tide", &two, Some(one.digest))).unwrap();
        assert_eq!(report.kept[0].path, project.at(&format!(".agents/skills-kept/tide-{number}")));
        let kept = project.text(&format!(".agents/skills-kept/tide-{number}/SKILL.md")).unwrap();
        assert_eq!(kept, format!("edited {number}"));
        assert_eq!(project.digest(".agents/skills/tide"), Some(two.digest));
    }
    std::fs::write(project.at(".agents/skills/tide/new"), "").unwrap();
    let report = project.commit(|t| t.remove("tide", Some(two.digest))).unwrap();
    assert_eq!(report.kept[0].path, project.at(".agents/skills-kept/tide-3"));
    // A link of the person, and a file, are kept as they are.
    symlink("/etc", project.at(".agents/skills/tide")).unwrap();
    std::fs::write(project.at(".agents/skills/moon"), "file").unwrap();
    let report = project.commit(|transaction| {
        transaction.put("tide", &one, None);
        transaction.put("moon", &one, None);
    });
    assert_eq!(report.unwrap().kept.len(), 2);
    assert_eq!(std::fs::read_link(project.at(".agents/skills-kept/tide-4")).unwrap(), Path::new("/etc"));
    assert_eq!(project.text(".agents/skills-kept/moon-1").unwrap(), "file");
}

#[test]
fn nothing_else_in_an_agents_directory_is_overwritten() {
    let project = Project::new();
    let one = project.skill("one");
    let claude = project.at(".claude/skills");
    let occupy: [&dyn Fn(&Path); 4] = [
        &|path| std::fs::create_dir_all(path.join("x")).unwrap(),
        &|path| std::fs::write(path, "file").unwrap(),
        &|path| symlink("/etc", path).unwrap(),
        &|path| symlink("gone", path).unwrap(),
    ];
    for (number, occupy) in occupy.iter().enumerate() {
        let name = format!("tide{number}");
        std::fs::create_dir_all(&claude).unwrap();
        occupy(&claude.join(&name));
        let before = project.everything();
        for copies in [false, true] {
            let refused = project.commit(|transaction| {
                transaction.put(&name, &one, None);
                if copies {
                    transaction.copy(&claude, &name, &one, None);
                } else {
                    transaction.link(&claude, &name, None);
                }
            });
            let refused = refused.unwrap_err();
            assert!(
                matches!(&refused, PlaceError::Occupied(path) if *path == claude.join(&name)),
                "{refused}"
            );
            assert_eq!(project.everything(), before, "nothing has changed");
        }
        let report = project.commit(|t| t.unlink(&claude, &name, Some(one.digest))).unwrap();
        assert_eq!(report.left_alone, [claude.join(&name)]);
        assert_eq!(project.everything(), before);
    }
}

#[test]
fn an_agent_that_shares_the_directory_needs_no_link() {
    let project = Project::new();
    let one = project.skill("one");
    std::fs::create_dir(project.at("same")).unwrap();
    symlink("../.agents/skills", project.at("same/skills")).unwrap();
    // A link that stays in the project, to another directory: a relative link would count from there.
    std::fs::create_dir_all(project.at("settings/claude")).unwrap();
    symlink("settings/claude", project.at(".claude")).unwrap();
    project
        .commit(|transaction| {
            transaction.put("tide", &one, None);
            transaction.link(&project.at("same/skills"), "tide", None);
            transaction.link(&project.at(".claude/skills"), "tide", None);
        })
        .unwrap();
    assert!(!project.at(".agents/skills/tide").is_symlink());
    let link = std::fs::read_link(project.at("settings/claude/skills/tide")).unwrap();
    assert_eq!(link, project.at(".agents/skills/tide"));
}

#[test]
fn case_133_nothing_is_changed_outside() {
    let project = Project::new();
    let one = project.skill("one");
    let outside = project.scratch.path().join("outside");
    std::fs::create_dir_all(outside.join("skills")).unwrap();
    for name in ["", ".", "..", "../x", "a/b", "/etc", ".git", "a\0", "a\n", "a.", "x\\y"] {
        let refused = project.commit(|t| t.put(name, &one, None)).unwrap_err();
        assert!(matches!(refused, PlaceError::Name(_)), "{name:?}");
    }
    let refused = project.commit(|t| t.link(&outside, "tide", None)).unwrap_err();
    assert!(matches!(refused, PlaceError::NotListed(_)), "{refused}");
    let refused = project.commit(|t| t.write_lock(&outside.join("x"), "")).unwrap_err();
    assert!(matches!(refused, PlaceError::NotListed(_)), "{refused}");
    let twice = project.commit(|transaction| {
        transaction.put("tide", &one, None);
        transaction.remove("tide", None);
    });
    assert!(matches!(twice.unwrap_err(), PlaceError::Twice(_)));

    symlink(&outside, project.at(".claude")).unwrap();
    let refused = project.commit(|t| t.link(&project.at(".claude/skills"), "tide", None)).unwrap_err();
    assert!(matches!(refused, PlaceError::LeadsOut { .. }), "{refused}");
    symlink(outside.join("lock"), project.at("skills-lock.json")).unwrap();
    let refused = project.commit(|t| t.write_lock(&project.at("skills-lock.json"), "")).unwrap_err();
    assert!(matches!(refused, PlaceError::LockFile(_)), "{refused}");

    for link in [".agents/skills", ".agents"] {
        std::fs::remove_dir_all(project.at(link)).unwrap();
        symlink(&outside, project.at(link)).unwrap();
        let refused = project.commit(|t| t.put("tide", &one, None)).unwrap_err();
        assert!(matches!(refused, PlaceError::LeadsOut { .. }), "{refused}");
        assert!(project.place().installed().is_err());
    }
    assert_eq!(std::fs::read_dir(outside.join("skills")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert!(matches!(Place::new("relative".as_ref()), Err(PlaceError::Root(_))));
}

#[test]
fn case_133_a_strangers_journal_reaches_only_the_place() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    let change = |agent: &str, name: &str, after: &str| {
        format!(
            r#"{{"version":1,"changes":[{{"agent":{agent},"name":"{name}","before":null,"after":{after}}}],"locks":[]}}"#
        )
    };
    let link = r#"{"link":"/etc"}"#;
    let journals = [
        format!(r#"{{"version":1,"changes":[],"locks":[{{"path":{victim:?},"before":null,"text":"x"}}]}}"#),
        change("null", "../../x", link),
        change("null", "tide", link),
        change(&format!("{:?}", outside.path()), "victim", link),
        r#"{"version":2,"changes":[],"locks":[]}"#.to_owned(),
        "{".to_owned(),
    ];
    for journal in journals {
        let project = Project::new();
        let transaction = project.at(".agents/.prowess-install/1");
        for directory in ["new", "old"] {
            std::fs::create_dir_all(transaction.join(directory)).unwrap();
        }
        symlink("/etc", transaction.join("new/0")).unwrap();
        std::fs::write(transaction.join("journal.json"), &journal).unwrap();
        let before = project.everything();
        let refused = project.place().recover().unwrap_err();
        assert!(matches!(refused, PlaceError::Journal { .. }), "{refused}");
        assert_eq!(project.everything(), before);
        assert!(!victim.is_symlink() && !victim.exists());
    }
    // A link of a listed agent that leads elsewhere is not made.
    let project = Project::new();
    let transaction = project.at(".agents/.prowess-install/1");
    for directory in ["new", "old"] {
        std::fs::create_dir_all(transaction.join(directory)).unwrap();
    }
    symlink("/etc", transaction.join("new/0")).unwrap();
    let journal = change(&format!("{:?}", project.at(".claude/skills")), "tide", link);
    std::fs::write(transaction.join("journal.json"), journal).unwrap();
    let report = project.place().recover().unwrap();
    assert_eq!(report.left_alone, [project.at(".claude/skills/tide")]);
    assert_eq!(project.everything(), BTreeMap::new());
}

#[test]
fn a_lock_file_that_another_program_wrote_is_left_alone() {
    let project = Project::new();
    let lock = project.at("skills-lock.json");
    project.commit(|t| t.write_lock(&lock, "1")).unwrap();
    // Stop before the lock file is written: the steps of an empty transaction with one lock.
    let left = Rc::new(Cell::new(6));
    let stopping = Project { steps: Steps { left: Some(left), cannot_exchange: false }, ..project };
    let stopped = stopping.commit(|t| t.write_lock(&lock, "2")).unwrap_err();
    assert!(matches!(&stopped, PlaceError::Unfinished(error) if error.is_killed()), "{stopped}");
    let project = Project { steps: Steps::default(), ..stopping };
    std::fs::write(&lock, "theirs").unwrap();
    let report = project.place().recover().unwrap();
    assert_eq!((report.left_alone, report.finished), (vec![lock], 1));
    assert_eq!(project.text("skills-lock.json").unwrap(), "theirs");
}

#[test]
fn case_133_a_recovery_goes_around_what_was_planted_meanwhile() {
    let mut journals = 0;
    for left in 0.. {
        let mut project = Project::new();
        let (one, lock) = (project.skill("one"), project.at("prowess-lock.json"));
        let put = |transaction: &mut Transaction| {
            transaction.put("tide", &one, None);
            transaction.write_lock(&lock, "1");
        };
        project.commit(put).unwrap();
        std::fs::write(project.at(".agents/skills/tide/SKILL.md"), "mine").unwrap();
        project.steps.left = Some(Rc::new(Cell::new(left)));
        let remove = |transaction: &mut Transaction| {
            transaction.remove("tide", Some(one.digest));
            transaction.write_lock(&lock, "2");
        };
        let is_stopped = project.commit(remove).is_err();
        project.steps = Steps::default();
        for file in [".agents/skills-kept", ".agents/skills-kept-2"] {
            if !project.at(file).exists() {
                std::fs::write(project.at(file), "").unwrap();
            }
        }
        let unfinished = project.at(".prowess-lock.json.prowess-unfinished");
        std::fs::create_dir_all(unfinished.join("d/".repeat(100))).unwrap();
        std::fs::remove_file(&lock).unwrap();
        symlink("/etc/passwd", &lock).unwrap();
        let report = project.place().recover().unwrap();
        let everything = project.everything();
        assert!(everything.values().any(|text| text == "mine"), "{left}: {everything:?}");
        assert!(!project.at(".agents/.prowess-install").exists(), "{left}: {everything:?}");
        journals += report.finished;
        if !is_stopped {
            break;
        }
    }
    assert!(journals > 2, "{journals}");
}
