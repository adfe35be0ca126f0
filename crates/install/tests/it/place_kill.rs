//! A process that changes a place is killed at any moment. It is this test binary again, as a child.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use prowess_catalog::Digest;
use prowess_install::place::{Place, Transaction};
use prowess_install::store::{Store, Stored};
use prowess_install::tree::{SkillTree, TreeDirectory};

/// The variable that names the directory in which the child works.
const CHILD: &str = "PROWESS_INSTALL_TEST_KILL";
/// How often a child is killed.
const KILLS: u64 = 50;
/// The skills that each transaction changes.
const SKILLS: usize = 8;
/// The latest moment of a kill, in microseconds after the first transaction.
const LATEST: u64 = 30_000;

struct Project(PathBuf);

impl Project {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join("project").join(path)
    }

    fn place(&self) -> Place {
        Place::new(&self.at(".agents"))
            .unwrap()
            .with_agent_directory(&self.at(".claude/skills"))
            .with_lock_file(&self.at("skills-lock.json"))
    }

    /// The two versions of the skill, from the store.
    fn versions(&self) -> [Stored; 2] {
        let store = Store::open(&self.0.join("cache")).unwrap();
        ["one", "two"].map(|text| {
            let directory = tempfile::tempdir().unwrap();
            for number in 0..4 {
                std::fs::write(directory.path().join(format!("{number}.md")), text).unwrap();
            }
            store.stage_directory(&TreeDirectory::open(directory.path()).unwrap()).unwrap()
        })
    }

    fn digest(&self, name: &str) -> Option<Digest> {
        SkillTree::read(&self.at(".agents/skills").join(name)).ok().map(|tree| tree.digest())
    }

    /// Changes all skills from one version to the other, again and again. Half of the time some are removed.
    fn change_forever(&self, mut after_each: impl FnMut()) {
        let versions = self.versions();
        let place = self.place();
        for round in 0_usize.. {
            let held = place.hold().unwrap();
            let stored = &versions[round % 2];
            let mut transaction = Transaction::default();
            for number in 0..SKILLS {
                let name = format!("skill-{number}");
                let before = versions
                    .iter()
                    .map(|stored| stored.digest)
                    .find(|digest| Some(*digest) == self.digest(&name));
                if round % 4 == 3 && number % 2 == 0 {
                    transaction.remove(&name, before);
                    transaction.unlink(&self.at(".claude/skills"), &name, None);
                } else {
                    transaction.put(&name, stored, before);
                    transaction.link(&self.at(".claude/skills"), &name, None);
                }
            }
            transaction.write_lock(&self.at("skills-lock.json"), (round % 4).to_string());
            held.commit(&transaction).unwrap();
            drop(held);
            after_each();
        }
    }

    /// Checks that the disk is as the lock file says.
    fn check(&self, versions: &[Stored; 2]) {
        let Ok(round) = std::fs::read_to_string(self.at("skills-lock.json")) else {
            assert_eq!(self.place().installed().unwrap().names, <[String; 0]>::default());
            return;
        };
        let round: usize = round.parse().unwrap();
        for number in 0..SKILLS {
            let name = format!("skill-{number}");
            let is_there = round != 3 || number % 2 == 1;
            assert_eq!(self.digest(&name), is_there.then_some(versions[round % 2].digest), "{name} {round}");
            assert_eq!(self.at(".claude/skills").join(&name).is_symlink(), is_there, "{name} {round}");
        }
        assert!(!self.at(".agents/.prowess-install").exists());
        let traces = std::fs::read_dir(self.at("")).unwrap().flatten();
        assert!(!traces.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("unfinished")));
    }

    fn kept(&self) -> Vec<String> {
        let kept = std::fs::read_dir(self.at(".agents/skills-kept"));
        let texts =
            kept.into_iter().flatten().flatten().filter_map(|entry| read(&entry.path().join("mine.md")));
        texts.collect()
    }
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The child. Without the variable this is no test.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let mut is_first = true;
    Project(directory.into()).change_forever(|| {
        if std::mem::take(&mut is_first) {
            println!("ready");
        }
    });
}

#[test]
fn case_134_kill_9_at_any_moment_leaves_disk_and_lock_in_agreement() {
    let scratch = tempfile::tempdir().unwrap();
    let project = Project(scratch.path().to_owned());
    std::fs::create_dir(project.at("")).unwrap();
    let versions = project.versions();
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut edits = Vec::new();
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["place_kill::victim", "--exact", "--nocapture"])
            .env(CHILD, scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(std::io::BufRead::read_line(&mut output, &mut line).unwrap(), 0, "the child ended");
        }
        // Nothing is sent: this is a wait of some microseconds. Any of them is a moment to be killed.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (_sender, receiver) = mpsc::channel::<()>();
        let _ = receiver.recv_timeout(Duration::from_micros(random % LATEST));
        child.kill().unwrap();
        child.wait().unwrap();

        // Somebody edits a skill before prowess runs again.
        let edited = project.at(".agents/skills/skill-1");
        if kill % 5 == 0 && edited.is_dir() {
            let edit = format!("edit {kill}");
            std::fs::write(edited.join("mine.md"), &edit).unwrap();
            edits.push(edit);
            project.place().recover().unwrap();
            let in_place = read(&edited.join("mine.md"));
            let all: Vec<_> = project.kept().into_iter().chain(in_place).collect();
            assert!(edits.iter().all(|edit| all.contains(edit)), "{edits:?} {all:?}");
            let _ = std::fs::remove_file(edited.join("mine.md"));
            edits.retain(|edit| project.kept().contains(edit));
        }
        project.place().recover().unwrap();
        project.check(&versions);
    }
}

#[test]
fn two_processes_at_once_are_safe() {
    let scratch = tempfile::tempdir().unwrap();
    let project = Project(scratch.path().to_owned());
    std::fs::create_dir(project.at("")).unwrap();
    let versions = project.versions();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (project, versions) = (&project, &versions);
            scope.spawn(move || {
                let place = project.place();
                for round in 0..10 {
                    let held = place.hold().unwrap();
                    let count = read(&project.at("skills-lock.json")).map_or(0, |text| text.parse().unwrap());
                    let mut transaction = Transaction::default();
                    let name = format!("skill-{thread}");
                    transaction.put(&name, &versions[round % 2], project.digest(&name));
                    transaction.write_lock(&project.at("skills-lock.json"), (count + 1).to_string());
                    assert_eq!(held.commit(&transaction).unwrap().kept, []);
                }
            });
        }
    });
    assert_eq!(read(&project.at("skills-lock.json")).unwrap(), "40", "no change was lost");
    assert!(!project.at(".agents/.prowess-install.lock").exists());
}
