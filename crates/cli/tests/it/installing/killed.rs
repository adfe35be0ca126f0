//! `add` and `update` are killed at any moment. The next command finishes or undoes what they did.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{Scene, manifest};
use crate::chat::eventually;

/// How many moments the test tries that always runs.
const KILLS: usize = 40;
/// How many skills one command changes.
const SKILLS: usize = 6;
/// The text of a person in one of the skills.
const EDIT: &str = "This line is mine.\n";
const EDITED: &str = ".agents/skills/skill-1/notes.md";

/// Moments that are the same in every run.
struct Moments(u64);

impl Moments {
    /// Microseconds within `most`, or within a millisecond.
    fn next(&mut self, most: Duration) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % u64::try_from(most.as_micros()).unwrap().max(1_000)
    }
}

/// Writes a version of all skills to the source.
fn publish(scene: &Scene, version: &str) {
    for number in 0..SKILLS {
        let name = format!("skill-{number}");
        let text = manifest(&name, version);
        let files = [("SKILL.md", text.as_str()), ("scripts/run.sh", version), ("notes.md", "Notes.\n")];
        scene.files(&format!("source/{name}"), &files);
    }
}

/// What a command has begun.
#[derive(Clone, Copy)]
enum Phase {
    Start,
    /// It copies the new files.
    Writing,
    /// It has a journal, and replaces the old files.
    Replacing,
}

const PHASES: [Phase; 3] = [Phase::Start, Phase::Writing, Phase::Replacing];

fn start(scene: &Scene, args: &[&str]) -> Child {
    scene.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a command is in a phase, or has ended.
fn wait_for(scene: &Scene, child: &mut Child, phase: Phase) {
    let unfinished = scene.here(".agents/.prowess-install");
    let is_reached = || match phase {
        Phase::Start => true,
        Phase::Writing => unfinished.exists(),
        Phase::Replacing => {
            let transactions = std::fs::read_dir(&unfinished).into_iter().flatten().flatten();
            transactions.into_iter().any(|entry| entry.path().join("journal.json").exists())
        }
    };
    while !is_reached() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

/// How long a command takes from the begin of each phase to its end. That only spreads the moments.
fn measure(scene: &Scene, args: &[&str]) -> [Duration; 3] {
    let mut child = start(scene, args);
    let begins = PHASES.map(|phase| {
        wait_for(scene, &mut child, phase);
        Instant::now()
    });
    assert!(child.wait().unwrap().success());
    begins.map(|begin| begin.elapsed())
}

/// Starts a command and kills it, some time after a phase began. Returns whether it still ran.
fn kill(scene: &Scene, args: &[&str], phase: usize, wait: u64) -> bool {
    let mut child = start(scene, args);
    wait_for(scene, &mut child, PHASES[phase]);
    // Nothing is sent: this is a wait of some microseconds. Any of them is a moment to be killed.
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_micros(wait));
    let was_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_running
}

/// The next command has recovered. Disk and lock agree about this version, or about the one before.
fn check(scene: &Scene, versions: &[Option<&str>], is_edited: bool) -> usize {
    let told = scene.run(&["verify", "--json"]);
    let json = told.split("--- out\n").nth(1).unwrap().split("--- err\n").next().unwrap();
    let verified: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{told}"));
    let differences: Vec<&str> =
        verified["differences"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    if is_edited {
        assert_eq!(differences, ["skill-1: was changed here: ~notes.md"], "{told}");
    } else {
        assert_eq!(differences, <[&str; 0]>::default(), "{told}");
    }
    assert_eq!(verified["not_in_the_lock"], serde_json::json!([]), "{told}");
    assert!(!scene.here(".agents/.prowess-install").exists());
    assert!(!scene.here(".agents/skills-kept").exists(), "an edit that merges is not set aside");
    let names = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(scene.here(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let traces = names("");
    assert!(!traces.iter().any(|name| name.contains("unfinished")), "{traces:?}");
    let installed = names(".agents/skills");
    assert_eq!(names(".claude/skills"), installed, "links and skills");
    let is_version = |version: &Option<&str>| match version {
        None => installed.is_empty() && !scene.here("prowess-lock.json").exists(),
        Some(version) => {
            installed.len() == SKILLS
                && installed.iter().all(|name| {
                    let skill = scene.here(".agents/skills").join(name);
                    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
                    read(&skill.join("SKILL.md")) == manifest(name, version)
                        && read(&skill.join("scripts/run.sh")) == *version
                        && read(&scene.here(".claude/skills").join(name).join("SKILL.md"))
                            == manifest(name, version)
                })
        }
    };
    let found = versions.iter().position(is_version);
    found.unwrap_or_else(|| panic!("neither old nor new: {installed:?} {:?}", scene.state()))
}

#[allow(clippy::print_stdout, reason = "it says how often the old and the new state were found")]
fn kill_often(kills: usize) {
    let mut scene = Scene::new();
    let mut moments = Moments(0x2545_F491_4F6C_DD1D);
    let add = ["add", "../source", "--yes", "--agent", "claude-code"];
    let update = ["update", "--yes"];
    publish(&scene, "one");
    let to_add = measure(&scene, &add);
    publish(&scene, "two");
    let to_update = measure(&scene, &update);
    let (mut outcomes, mut interrupted) = ([0; 4], 0);
    for round in 0..kills {
        scene.enter(&format!("project-{round}"));
        let phase = round / 2 % PHASES.len();
        publish(&scene, "one");
        if round % 2 == 0 {
            interrupted += usize::from(kill(&scene, &add, phase, moments.next(to_add[phase])));
            outcomes[check(&scene, &[None, Some("one")], false)] += 1;
            // It can be done again.
            scene.succeed(&add);
            assert_eq!(check(&scene, &[Some("one")], false), 0);
        } else {
            scene.succeed(&add);
            std::fs::write(scene.here(EDITED), format!("Notes.\n{EDIT}")).unwrap();
            publish(&scene, "two");
            interrupted += usize::from(kill(&scene, &update, phase, moments.next(to_update[phase])));
            outcomes[2 + check(&scene, &[Some("one"), Some("two")], true)] += 1;
            assert!(scene.text(EDITED).ends_with(EDIT));
            scene.succeed(&update);
            assert_eq!(check(&scene, &[Some("two")], true), 0);
            assert!(scene.text(EDITED).ends_with(EDIT));
        }
    }
    println!("{interrupted} of {kills} were running; add old/new, update old/new: {outcomes:?}");
}

#[test]
fn case_134_kill_9_leaves_the_old_state_or_the_new() {
    let kills = std::env::var("PROWESS_KILLS").ok().and_then(|kills| kills.parse().ok());
    kill_often(kills.unwrap_or(KILLS));
}

#[test]
fn processes_at_once_lose_nothing() {
    let scene = Scene::new();
    publish(&scene, "one");
    let names: Vec<String> = (0..SKILLS).map(|number| format!("skill-{number}")).collect();
    let children: Vec<Child> =
        names.iter().map(|name| start(&scene, &["add", "../source", "--yes", "--skill", name])).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let told = scene.succeed(&["verify"]);
    assert!(told.contains("6 skills, 18 files: as in the lock"), "{told}");
    publish(&scene, "two");
    let children: Vec<Child> = names.iter().map(|name| start(&scene, &["update", "--yes", name])).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    scene.succeed(&["verify"]);
    for name in &names {
        assert_eq!(scene.text(&format!(".agents/skills/{name}/SKILL.md")), manifest(name, "two"));
    }
}

/// A command whose connection to a host never ends. Returns when it has begun to fetch.
fn start_endless(scene: &Scene, args: &[&str]) -> Child {
    let started = scene.path("started");
    let _ = std::fs::remove_file(&started);
    let mut command = scene.command(args);
    command
        .env("GIT_SSH_COMMAND", format!("touch '{}'; sleep 300; false", started.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually("the fetch has begun", || started.exists());
    child
}

fn press_ctrl_c(scene: &Scene, child: Child) -> String {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    scene.told(&child.wait_with_output().unwrap())
}

/// A project with `tide` from a source on SSH that does not answer any more.
fn with_silent_source() -> Scene {
    let scene = Scene::new();
    let tide = manifest("tide", "High at noon.");
    let repository = scene.repository("r", &[("tide/SKILL.md", tide.as_str())]);
    let config = format!("[url \"{}\"]\n\tinsteadOf = git@example.org:o/r.git\n", repository.url());
    std::fs::write(scene.path("gitconfig"), config).unwrap();
    scene.files("local/reef", &[("SKILL.md", &manifest("reef", "Far out."))]);
    scene.succeed(&["add", "git@example.org:o/r.git", "--yes"]);
    std::fs::write(scene.path("gitconfig"), "").unwrap();
    scene
}

#[test]
fn ctrl_c_while_a_later_source_is_fetched() {
    let scene = with_silent_source();
    let child = start_endless(&scene, &["add", "../local", "git@example.org:o/r.git", "--yes"]);
    let told = press_ctrl_c(&scene, child);
    assert!(told.contains("interrupted; the skills of the sources before are installed"), "{told}");
    assert!(scene.here(".agents/skills/reef/SKILL.md").exists());
    let left: Vec<_> = std::fs::read_dir(scene.path("tmp")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // The first source.
    let child = start_endless(&scene, &["add", "git@example.org:o/r.git", "--yes"]);
    let told = press_ctrl_c(&scene, child);
    assert!(told.contains("interrupted; nothing was changed"), "{told}");
}

#[test]
fn a_slow_source_stops_no_other_command() {
    let scene = with_silent_source();
    scene.forget_skills();
    scene.forget_cache();
    let child = start_endless(&scene, &["install"]);
    scene.succeed(&["add", "../local", "--yes"]);
    scene.succeed(&["remove", "reef", "--yes"]);
    press_ctrl_c(&scene, child);
    scene.fail(&["verify"], "tide: is missing");
}
