//! The five failures of the program that most people install skills with. prowess passes each.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use super::archives::zip;
use super::{Repository, Scene, manifest};

const TIDE: &str = "skills/tide/SKILL.md";
const SCRIPT: &str = "skills/tide/scripts/run.sh";
const INSTALLED: &str = ".agents/skills/tide/SKILL.md";
const INSTALLED_SCRIPT: &str = ".agents/skills/tide/scripts/run.sh";
const NOTES: &str = ".agents/skills/tide/notes.md";
/// Enough lines between two edits that they merge.
const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";

/// A project with one skill from a repository.
fn installed() -> (Scene, Repository) {
    let scene = Scene::new();
    let tide = manifest("tide", "High at noon.");
    let files = [(TIDE, tide.as_str()), (SCRIPT, "echo high\n"), ("skills/tide/notes.md", LINES)];
    let repository = scene.repository("r", &files);
    scene.succeed(&["add", &repository.url(), "--yes"]);
    (scene, repository)
}

/// The source changes its script and its text.
fn change(repository: &Repository) -> String {
    let tide = manifest("tide", "Low at noon.");
    repository.commit(&[(TIDE, &tide), (SCRIPT, "echo EVIL\n")])
}

#[test]
fn failure_1_install_restores_the_locked_commit_and_nothing_newer() {
    let (scene, repository) = installed();
    let before = scene.state();
    change(&repository);
    for frozen in [&[][..], &["--frozen"]] {
        for is_cached in [true, false] {
            scene.forget_skills();
            if !is_cached {
                scene.forget_cache();
            }
            let told = scene.succeed(&[&["install"][..], frozen].concat());
            assert!(told.contains("restored tide\n"), "{told}");
            assert_eq!(scene.state(), before, "cached: {is_cached}, {frozen:?}");
            scene.succeed(&["verify"]);
        }
    }
}

#[test]
fn failure_1_a_commit_that_is_gone_is_an_error_and_nothing_is_written() {
    let (scene, repository) = installed();
    std::fs::remove_dir_all(repository.path()).unwrap();
    let rewritten = Repository::new(repository.path());
    rewritten.commit(&[(TIDE, &manifest("tide", "Another past.")), (SCRIPT, "echo EVIL\n")]);
    scene.forget_skills();
    scene.forget_cache();
    let before = scene.state();
    for args in [&["install"][..], &["install", "--frozen"]] {
        scene.fail(args, "does not give out commit");
        let after = scene.state();
        assert!(!after.keys().any(|path| path.starts_with(".agents/skills/tide")), "{after:?}");
        assert_eq!(after["prowess-lock.json"], before["prowess-lock.json"]);
        assert_eq!(after["skills-lock.json"], before["skills-lock.json"]);
    }
    assert_snapshot!(scene.run(&["install", "--frozen"]));
}

#[test]
fn failure_1_an_archive_that_changed_is_an_error() {
    let scene = Scene::new();
    let tide = manifest("tide", "High at noon.");
    let write = |script: &str| {
        let bytes = zip(&[("SKILL.md", tide.as_bytes()), ("run.sh", script.as_bytes())]);
        std::fs::write(scene.path("tide.zip"), bytes).unwrap();
    };
    write("echo high\n");
    scene.succeed(&["add", "../tide.zip", "--yes"]);
    write("echo EVIL\n");
    scene.forget_skills();
    scene.forget_cache();
    assert_snapshot!(scene.run(&["install"]), @r#"
    exit 1
    --- out
    0 skills restored, 0 there already
    --- err
    tide: the source has other files now: changed "run.sh"
    "#);
    assert!(!scene.here(".agents/skills/tide").exists());
}

#[test]
fn failure_2_looking_installs_nothing() {
    let (scene, repository) = installed();
    change(&repository);
    let before = scene.state();
    let url = repository.url();
    for args in [
        &["outdated"][..],
        &["outdated", "--json"],
        &["outdated", "tide"],
        &["update", "--dry-run"],
        &["update", "--dry-run", "--yes"],
        &["update", "tide", "--dry-run"],
        &["update"],
        &["add", &url, "--list"],
        &["add", &url, "--list", "--json"],
        &["add", &url],
        &["verify"],
        &["verify", "--json"],
        &["list"],
    ] {
        let told = scene.run(args);
        assert_eq!(scene.state(), before, "{args:?}: {told}");
    }
    let told = scene.fail(&["outdated"], "tide");
    assert!(told.starts_with("exit 1\n"), "{told}");
    scene.succeed(&["verify"]);
}

#[test]
fn failure_3_update_merges_local_edits() {
    let (scene, repository) = installed();
    // In a file that the source leaves alone, in one that it changes elsewhere, and in a new one.
    std::fs::write(scene.here(INSTALLED_SCRIPT), "echo mine\n").unwrap();
    let edited = LINES.replace("one\n", "one of mine\n");
    std::fs::write(scene.here(NOTES), &edited).unwrap();
    std::fs::write(scene.here(".agents/skills/tide/own.md"), "My own.\n").unwrap();
    let newer = LINES.replace("nine\n", "nine of theirs\n");
    repository.commit(&[
        (TIDE, &manifest("tide", "Low at noon.")),
        ("skills/tide/notes.md", &newer),
        ("skills/tide/new.md", "New.\n"),
    ]);
    assert_snapshot!(scene.succeed(&["update", "--yes"]));
    assert_eq!(scene.text(INSTALLED), manifest("tide", "Low at noon."));
    assert_eq!(scene.text(INSTALLED_SCRIPT), "echo mine\n");
    assert_eq!(scene.text(NOTES), edited.replace("nine\n", "nine of theirs\n"));
    assert_eq!(scene.text(".agents/skills/tide/own.md"), "My own.\n");
    assert_eq!(scene.text(".agents/skills/tide/new.md"), "New.\n");
    // The lock has what the source has, so the edits stay visible.
    assert_snapshot!(scene.run(&["verify"]), @r"
    exit 1
    --- out
    tide: was changed here: +own.md ~notes.md ~scripts/run.sh
    1 skill, 4 files: 1 difference
    --- err
    ");
    assert_snapshot!(scene.run(&["update", "--yes"]), @r"
    exit 0
    --- out
    All skills are up to date.
    --- err
    ");
    assert_eq!(scene.text(INSTALLED_SCRIPT), "echo mine\n");
}

#[test]
fn failure_3_update_refuses_by_name_what_does_not_merge() {
    let (scene, repository) = installed();
    let wave = manifest("wave", "Two metres.");
    repository.commit(&[("skills/wave/SKILL.md", &wave)]);
    scene.succeed(&["add", &repository.url(), "--skill", "wave", "--yes"]);
    std::fs::write(scene.here(INSTALLED_SCRIPT), "echo mine\n").unwrap();
    change(&repository);
    repository.commit(&[("skills/wave/SKILL.md", &manifest("wave", "Three metres."))]);
    let before = scene.state();
    assert_snapshot!(scene.fail(&["update", "--yes"], "tide stays as it is"));
    let after = scene.state();
    let of_tide = |state: &std::collections::BTreeMap<String, String>| -> Vec<(String, String)> {
        let paths = state.iter().filter(|(path, _)| path.contains("skills/tide"));
        paths.map(|(path, text)| (path.clone(), text.clone())).collect()
    };
    assert_eq!(of_tide(&after), of_tide(&before));
    assert_eq!(scene.text(".agents/skills/wave/SKILL.md"), manifest("wave", "Three metres."));
    // The lock of the skill that stays is that of the old commit.
    let lock = |state: &std::collections::BTreeMap<String, String>| -> serde_json::Value {
        serde_json::from_str(&state["prowess-lock.json"]).unwrap()
    };
    assert_eq!(lock(&after)["skills"]["tide"], lock(&before)["skills"]["tide"]);
    assert_ne!(lock(&after)["skills"]["wave"], lock(&before)["skills"]["wave"]);
}

#[test]
fn failure_3_add_does_not_overwrite_local_edits() {
    let (scene, repository) = installed();
    std::fs::write(scene.here(INSTALLED), "Mine.\n").unwrap();
    change(&repository);
    let before = scene.state();
    scene.fail(&["add", &repository.url(), "--yes"], "its files were changed here");
    scene.fail(&["install"], "was changed here: ~SKILL.md");
    scene.fail(&["install", "--frozen"], "was changed here: ~SKILL.md");
    assert_eq!(scene.state(), before);
    // A removal sets the edit aside.
    let told = scene.succeed(&["remove", "tide", "--yes"]);
    assert!(told.contains("your changed files were kept in"), "{told}");
    assert_eq!(scene.text(".agents/skills-kept/tide-1/SKILL.md"), "Mine.\n");
}

#[test]
fn failure_4_trees_with_one_computed_hash_are_told_apart() {
    let mut scene = Scene::new();
    let tide = manifest("tide", "High at noon.");
    scene.files("one/tide", &[("SKILL.md", &tide), ("za", "bEVIL")]);
    scene.files("two/tide", &[("SKILL.md", &tide), ("zab", "EVIL")]);
    scene.succeed(&["add", "../one", "--yes"]);
    let (own, shared) = (scene.lock("prowess-lock.json"), scene.lock("skills-lock.json"));
    std::fs::rename(scene.here(".agents/skills/tide/za"), scene.here(".agents/skills/tide/zab")).unwrap();
    std::fs::write(scene.here(".agents/skills/tide/zab"), "EVIL").unwrap();
    assert_snapshot!(scene.run(&["verify"]), @r"
    exit 1
    --- out
    tide: was changed here: +zab -za
    1 skill, 2 files: 1 difference
    --- err
    ");
    scene.enter("other");
    scene.succeed(&["add", "../two", "--yes"]);
    let (other_own, other_shared) = (scene.lock("prowess-lock.json"), scene.lock("skills-lock.json"));
    let hash = |lock: &serde_json::Value| lock["skills"]["tide"]["computedHash"].clone();
    assert_eq!(hash(&other_shared), hash(&shared), "`skills` cannot tell them apart");
    assert_ne!(other_own["skills"]["tide"]["digest"], own["skills"]["tide"]["digest"]);
}

#[test]
fn failure_5_drift_is_noticed_although_source_and_lock_agree() {
    let (scene, _repository) = installed();
    let skill = scene.here(".agents/skills/tide");
    let write = |path: &str, text: &str| std::fs::write(skill.join(path), text).unwrap();
    let chmod = |path: &str, mode: u32| {
        std::fs::set_permissions(skill.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let verified = || {
        scene.succeed(&["outdated"]);
        scene.fail(&["verify"], "1 difference").lines().nth(2).unwrap().to_owned()
    };
    write("scripts/run.sh", "echo lower\n");
    assert_eq!(verified(), "tide: was changed here: ~scripts/run.sh");
    write("scripts/run.sh", "echo high\n");
    scene.succeed(&["verify"]);
    chmod("scripts/run.sh", 0o755);
    assert_eq!(verified(), "tide: was changed here: ~scripts/run.sh");
    chmod("scripts/run.sh", 0o644);
    write("planted.md", "");
    assert_eq!(verified(), "tide: was changed here: +planted.md");
    std::fs::remove_file(skill.join("planted.md")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", skill.join("planted.md")).unwrap();
    assert!(verified().contains("planted.md"), "{}", verified());
    std::fs::remove_file(skill.join("planted.md")).unwrap();
    std::fs::remove_file(skill.join("notes.md")).unwrap();
    assert_eq!(verified(), "tide: was changed here: -notes.md");
    std::fs::remove_dir_all(&skill).unwrap();
    assert_eq!(verified(), "tide: is missing; `prowess install` restores it");
    scene.succeed(&["install"]);
    scene.succeed(&["verify"]);
}

#[test]
fn add_installs_from_the_other_sources_and_lists_what_failed() {
    let scene = Scene::new();
    let (tide, reef) = (manifest("tide", "High at noon."), manifest("reef", "Far out."));
    let repository =
        scene.repository("r", &[("tide/SKILL.md", &tide), ("bad/SKILL.md", &manifest("bad", "x"))]);
    std::os::unix::fs::symlink("/etc/passwd", repository.path().join("bad/passwd")).unwrap();
    repository.commit(&[]);
    scene.files("local/reef", &[("SKILL.md", &reef)]);
    let gone = format!("{}-gone", repository.url());
    let url = repository.url();
    let args = ["add", &gone, &url, "../local", "--skill", "tide", "bad", "reef", "--yes", "--json"];
    let told = scene.fail(&args, "prowess: ");
    assert!(told.starts_with("exit 1\n"), "{told}");
    let json = told.split("--- out\n").nth(1).unwrap().split("--- err").next().unwrap();
    let rows: serde_json::Value = serde_json::from_str(json).unwrap();
    let rows: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["name"], row["status"], row["error"].is_string()))
        .collect();
    assert_snapshot!(rows.join("\n"), @r#"
    null "failed" true
    "bad" "failed" true
    "reef" "failed" true
    "tide" "installed" false
    "tide" "failed" true
    "bad" "failed" true
    "reef" "installed" false
    "#);
    assert_eq!(scene.text(".agents/skills/reef/SKILL.md"), reef);
    scene.succeed(&["verify"]);
    // A list goes on too, and is one array.
    let output = scene.output(&["add", &gone, &url, "../local", "--list", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["name"], row["status"], row["change"]))
        .collect();
    assert_snapshot!(rows.join("\n"), @r#"
    null "failed" null
    "bad" "failed" null
    "tide" null "installed already"
    "reef" null "installed already"
    "#);
    let told = scene.fail(&["add", &gone, "../local", "--list"], "prowess: ");
    assert!(told.contains("reef"), "{told}");
}

#[test]
fn failure_5_a_link_or_a_device_in_a_skill_is_drift_in_the_list() {
    let scene = Scene::new();
    scene.files("local/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    scene.succeed(&["add", "../local", "--global", "--yes"]);
    let installed = || {
        let told = scene.succeed(&["list", "--json"]);
        let json = told.split("--- out\n").nth(1).unwrap().split("--- err").next().unwrap();
        let listed: serde_json::Value = serde_json::from_str(json).unwrap();
        let skills = listed["skills"].as_array().unwrap().clone();
        let row = skills.into_iter().find(|row| row["name"] == "tide");
        row.unwrap()["installed"]["changed"].clone()
    };
    assert_eq!(installed(), false);
    let planted = scene.path("home/.agents/skills/tide/planted");
    std::os::unix::fs::symlink("/etc/passwd", &planted).unwrap();
    assert_eq!(installed(), true);
    assert!(scene.run(&["list"]).contains("changed here, "), "{}", scene.run(&["list"]));
    std::fs::remove_file(&planted).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&planted).status().unwrap().success());
    assert_eq!(installed(), true);
}

#[test]
fn failure_5_a_lock_of_another_version_is_an_error_and_stays() {
    let (scene, repository) = installed();
    let url = repository.url();
    for version in ["2", "4", "\"3\"", "null"] {
        let text = format!("{{\"version\":{version},\"skills\":{{\"old\":{{\"source\":\"o/r\"}}}}}}");
        scene.files("home/.agents", &[(".skill-lock.json", &text)]);
        let before = scene.outside();
        for args in [
            &["add", url.as_str(), "--global", "--yes"][..],
            &["install", "--global"],
            &["verify", "--global"],
            &["outdated", "--global"],
            &["update", "--global", "--yes"],
            &["remove", "old", "--global", "--yes"],
        ] {
            let told = scene.run(args);
            assert_eq!(scene.outside(), before, "{args:?} with version {version}: {told}");
            assert!(told.contains("but prowess knows only version 3"), "{args:?}: {told}");
            assert!(told.starts_with("exit 2\n"), "{args:?}: {told}");
        }
    }
    std::fs::remove_file(scene.path("home/.agents/.skill-lock.json")).unwrap();
    let lock = scene.text("prowess-lock.json").replace("\"version\": 1", "\"version\": 2");
    std::fs::write(scene.here("prowess-lock.json"), lock).unwrap();
    let before = scene.state();
    for args in [&["add", url.as_str(), "--yes"][..], &["install"], &["verify"], &["update", "--yes"]] {
        scene.fail(args, "has version 2, but prowess knows only version 1: update prowess");
        assert_eq!(scene.state(), before, "{args:?}");
    }
}
