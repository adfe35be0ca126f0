//! Files that `prowess run` is given: what rules deny, and files of skills that are denied or not trusted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::world::World;

/// A world whose home commands can reach, with a skill and files to give it.
fn world(rules: &str) -> World {
    let world = World::new();
    for path in ["", "home"] {
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    let text = |name: &str| format!("---\nname: {name}\ndescription: Is {name}.\n---\n\nHERON\n");
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides.")
        .file("home/.prowess/skills/hushed/SKILL.md", &text("hushed"))
        .file("project/.prowess/skills/strange/SKILL.md", &text("strange"))
        .file("home/private/key.txt", "HERON\n")
        .file("home/open/note.txt", "egret\n")
        .file("project/private/key.txt", "HERON\n")
        .file("home/.config/prowess/prowess.toml", rules);
    symlink("private", world.path("home/alias")).unwrap();
    symlink(world.path("project/.prowess/skills/strange/SKILL.md"), world.path("project/way.md")).unwrap();
    world
}

fn run(world: &World, option: &str, from: &str) -> String {
    let show = "find -L work/inputs -type f | xargs cat";
    world.run(&["run", "tides", option, from, "--", show])
}

#[test]
fn case_96_what_a_rule_denies_is_no_input() {
    let rules = "[permission.read]\n\"~/private/*\" = \"deny\"\n\"./private/*\" = \"deny\"\n";
    let world = world(rules);
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    for option in ["--input", "--link"] {
        for from in [
            at("home/private/key.txt"),
            at("home/alias/key.txt"),
            at("home/private"),
            at("home/alias"),
            "../home/private/key.txt".to_owned(),
            format!("host://{}", at("home/alias/key.txt")),
            "private/key.txt".to_owned(),
            "private".to_owned(),
        ] {
            let told = run(&world, option, &from);
            assert!(told.contains("exit 125") && !told.contains("HERON"), "{option} {from}: {told}");
        }
        let told = run(&world, option, &at("home/open/note.txt"));
        assert!(told.contains("exit 0\n") && told.contains("egret"), "{told}");
    }
}

#[test]
fn case_98_files_of_denied_and_untrusted_skills_are_no_inputs() {
    let world = world("[permission.skill]\n\"hushed\" = \"deny\"\n");
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    for from in [
        ".prowess/skills/strange/SKILL.md".to_owned(),
        ".prowess/skills/strange".to_owned(),
        ".prowess".to_owned(),
        "way.md".to_owned(),
        "skill://strange/SKILL.md".to_owned(),
        "skill://hushed/SKILL.md".to_owned(),
        at("home/.prowess/skills/hushed/SKILL.md"),
        at("home/.prowess"),
    ] {
        let told = run(&world, "--input", &from);
        assert!(told.contains("exit 125") && !told.contains("HERON"), "{from}: {told}");
    }
    // Who trusts the project for once may give them.
    let told =
        world.run(&["run", "tides", "--trust-project", "--input", "way.md", "--", "cat work/inputs/way.md"]);
    assert!(told.contains("HERON"), "{told}");
}

/// Skills that others take precedence over are neither denied nor untrusted.
#[test]
fn files_of_shadowed_skills_are_inputs() {
    let world = world("");
    world
        .skill("home/.claude/skills", "tides", "Looks up tides.")
        .file("home/.claude/skills/tides/data.txt", "egret\n");
    for from in ["home/.claude/skills/tides/data.txt", "home/.claude"] {
        let told = run(&world, "--input", &world.path(from).to_string_lossy());
        assert!(told.contains("exit 0\n") && told.contains("egret"), "{from}: {told}");
    }
    // In a project each skill is trusted for itself, whatever its directory is.
    for root in ["project/.claude/skills", "project/.prowess/skills"] {
        world.skill(root, "tides", "Looks up tides.").file(&format!("{root}/tides/data.txt"), "heron\n");
    }
    let give = |from: &str| run(&world, "--input", from);
    for from in [".claude", ".prowess"] {
        let told = give(from);
        assert!(told.contains("exit 125") && !told.contains("heron"), "{from}: {told}");
    }
    world.stdout(&["trust", "--yes"]);
    for from in [".claude/skills/tides/data.txt", ".claude", ".prowess"] {
        let told = give(from);
        assert!(told.contains("exit 0\n") && told.contains("heron"), "{from}: {told}");
    }
}

/// A link with a plain name can lead to a directory whose name is no text.
#[test]
fn case_96_a_directory_whose_name_is_no_text_is_not_taken_for_a_file() {
    let world = world("[permission.read]\n\"key.txt\" = \"deny\"\n");
    let directory = world.path("home").join(OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("key.txt"), "HERON\n").unwrap();
    symlink(&directory, world.path("home/way")).unwrap();
    for option in ["--input", "--link"] {
        let told = run(&world, option, &world.path("home/way").to_string_lossy());
        assert!(told.contains("exit 125") && !told.contains("HERON"), "{option}: {told}");
    }
}

/// Nothing can be loaded before a run that a person starts, so nothing has to be.
#[test]
fn nothing_has_to_be_loaded_before_a_run() {
    let world = world("[permission]\nskill = \"ask\"\n");
    world.file("home/.prowess/skills/tides/data.txt", "egret\n");
    for input in ["home/.prowess/skills/tides/data.txt", "home/.prowess"] {
        let told = run(&world, "--input", &world.path(input).to_string_lossy());
        assert!(told.contains("exit 0\n") && told.contains("egret"), "{told}");
    }
}

#[test]
fn a_person_is_told_what_keeps_an_input_out() {
    let world =
        world("[permission.read]\n\"~/private/*\" = \"deny\"\n[permission.skill]\n\"hushed\" = \"deny\"\n");
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    let why = |from: &str| {
        let told = run(&world, "--input", from);
        told.split("nothing ran: ").nth(1).unwrap_or(&told).trim_end().to_owned()
    };
    assert_eq!(
        why("."),
        "[WORLD]/project contains files of the skill 'strange', which is denied or not trusted"
    );
    assert_eq!(
        why(&at("home/.prowess")),
        "[WORLD]/home/.prowess contains files of the skill 'hushed', which is denied or not trusted"
    );
    assert_eq!(
        why(&at("home/private/key.txt")),
        r#"[WORLD]/home/private/key.txt must not be read: the rule "~/private/*" = "deny" denies it"#
    );
    assert_eq!(
        why(&at("home")),
        "[WORLD]/home contains files of the skill 'hushed', which is denied or not trusted"
    );
}
