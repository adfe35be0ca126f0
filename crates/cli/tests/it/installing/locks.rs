//! The lock of the program `skills` beside that of prowess.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Scene, manifest};

/// A scene with the skill `tide` in a directory of this machine.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.files("local/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    scene
}

#[test]
fn install_says_what_it_records_in_the_lock_of_another_program() {
    let scene = scene();
    scene.succeed(&["add", "../local", "--yes"]);
    let before = scene.text("skills-lock.json");
    // As `skills remove tide` does.
    std::fs::write(scene.here("skills-lock.json"), "{\"version\":1,\"skills\":{}}\n").unwrap();
    scene.forget_skills();
    assert_snapshot!(scene.run(&["install"]), @r"
    exit 0
    --- out
    restored tide
    1 skill restored, 0 there already
    Models do not see skills of a project before you trust them: `prowess trust`.
    --- err
    recorded in skills-lock.json, because prowess-lock.json has it: tide; to remove a skill, use `prowess remove NAME`
    ");
    assert_eq!(scene.text("skills-lock.json"), before);
    scene.succeed(&["remove", "tide", "--yes"]);
    let told = scene.succeed(&["install"]);
    assert!(told.contains("The lock has no skills"), "{told}");
}

#[test]
fn add_says_that_a_locked_skill_gets_another_source() {
    let scene = scene();
    scene.succeed(&["add", "../local", "--yes"]);
    scene.files("other/tide", &[("SKILL.md", &manifest("tide", "EVIL"))]);
    scene.files("same/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    let says = |source: &str, said: &str| {
        let told = scene.run(&["add", source]);
        assert!(told.contains(said), "{source}: {told}");
    };
    says("../local", "tide (installed already)");
    says("../same", "tide (replaces ../local)");
    // As in a fresh clone.
    scene.forget_skills();
    says("../local", "tide (new)");
    says("../other", "tide (replaces ../local)");
    let told = scene.succeed(&["add", "../other", "--yes", "--json"]);
    assert!(told.contains("\"change\": \"replaces\""), "{told}");
    assert_eq!(scene.text(".agents/skills/tide/SKILL.md"), manifest("tide", "EVIL"));
}

#[test]
fn install_keeps_an_entry_of_another_program_that_it_cannot_use() {
    for name in ["tide", "Tide"] {
        let scene = scene();
        scene.succeed(&["add", "../local", "--yes"]);
        let theirs = json!({ "version": 1, "skills": { name: { "source": 7, "theirs": true } } });
        std::fs::write(scene.here("skills-lock.json"), theirs.to_string()).unwrap();
        scene.forget_skills();
        let told = scene.fail(&["install"], "cannot be used");
        assert!(!told.contains("recorded in"), "{told}");
        assert_eq!(scene.lock("skills-lock.json"), theirs);
        assert!(scene.here(".agents/skills/tide/SKILL.md").exists());
    }
}

#[test]
fn install_writes_no_wrong_hash_into_the_lock_of_a_user() {
    let scene = Scene::new();
    let tide = manifest("tide", "High at noon.");
    let repository = scene.repository("r", &[("skills/tide/SKILL.md", tide.as_str())]);
    let config = format!("[url \"{}\"]\n\tinsteadOf = https://github.com/o/r.git\n", repository.url());
    std::fs::write(scene.path("gitconfig"), config).unwrap();
    scene.files("local/reef", &[("SKILL.md", &manifest("reef", "Far out."))]);
    scene.succeed(&["add", "o/r", "../local", "--global", "--yes"]);
    let lock = scene.path("home/.agents/.skill-lock.json");
    std::fs::write(&lock, "{\"version\":3,\"skills\":{},\"dismissed\":{}}\n").unwrap();
    let told = scene.fail(&["install", "--global"], "recorded in .skill-lock.json");
    assert!(told.contains("prowess-lock.json has it: reef;"), "{told}");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(lock).unwrap()).unwrap();
    let names: Vec<_> = recorded["skills"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["reef"]);
}
