//! `check`, in all its forms.

use insta::assert_snapshot;
use serde_json::json;

use crate::world::{World, examples};

fn flawed() -> World {
    let world = World::new();
    world
        .skill("project/skills", "good", "Is as it should be. Use as an example.")
        .skill("project/skills", "colon", "Use when: something. Use it.")
        .file(
            "project/skills/wrong-name/SKILL.md",
            "\u{FEFF}---\nname: Right_Name\ndescription: x\nallowed-tools: Read, Write\nauthor: me\n---\n[a](references/none.md)\n",
        )
        .file("project/skills/case/skill.md", "---\nname: case\n---\n");
    world
}

#[test]
fn the_examples_are_valid() {
    let world = World::new();
    let checked = world.json(&["check", "--json", &examples()]);
    assert!(checked.as_array().unwrap().len() >= 6);
    for skill in checked.as_array().unwrap() {
        assert_eq!((&skill["valid_strict"], &skill["advice"]), (&json!(true), &json!([])), "{skill}");
    }
}

#[test]
fn people_see_every_finding_with_its_line() {
    assert_snapshot!(flawed().run(&["check", "skills"]));
}

#[test]
fn a_valid_skill_is_one_line_and_exit_0() {
    assert_snapshot!(flawed().run(&["check", "skills/good"]));
    assert_snapshot!(flawed().run(&["check", "skills/good/SKILL.md"]));
}

#[test]
fn jsonl_has_one_object_for_each_directory_given() {
    let world = flawed();
    world.file("project/skills/none/README.md", "");
    let output = world.output(&[
        "check",
        "--format",
        "jsonl",
        "skills/good/",
        "skills/none",
        "skills/case",
        "skills/colon",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let objects: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let brief: Vec<_> = objects
        .iter()
        .map(|object| {
            json!([
                object["id"],
                object["valid_strict"],
                object["loads_lenient"],
                object["name"],
                object["diagnostics"]
            ])
        })
        .collect();
    assert_eq!(
        json!(brief),
        json!([
            ["skills/good/", true, true, "good", []],
            ["skills/none", false, false, null, ["missing-skill-md"]],
            ["skills/case", false, false, null, ["file-name-case"]],
            ["skills/colon", false, true, "colon", ["yaml-repaired"]],
        ])
    );
    let keys: Vec<_> = objects[0].as_object().unwrap().keys().cloned().collect();
    for key in [
        "id",
        "valid_strict",
        "loads_lenient",
        "name",
        "description",
        "diagnostics",
        "allowed_tools",
        "metadata",
        "model_visible",
    ] {
        assert!(keys.iter().any(|have| have == key), "{key}");
    }
}

#[test]
fn jsonl_of_a_tree_has_one_object_for_each_skill_in_it() {
    let world = World::new();
    for number in 0..2000 {
        world.skill("project/tree", &format!("skill-{number}"), "Is one of many. Use for tests.");
    }
    let output = world.stdout(&["check", "--format", "jsonl", "tree"]);
    assert_eq!(output.lines().count(), 2000);
    assert!(output.lines().all(|line| line.contains("\"valid_strict\":true")));
}

#[test]
fn other_forms_are_for_other_programs() {
    let world = flawed();
    assert_snapshot!(world.run(&["check", "--format", "github", "skills/wrong-name"]));
    let log = world.json(&["check", "--format", "sarif", "skills"]);
    assert_eq!(log["version"], "2.1.0");
    let result = &log["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "file-name-case");
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "skills/case/skill.md");
}

#[test]
fn profiles_have_their_own_rules() {
    let world = World::new();
    let skill = |name: &str, more: &str| {
        world.file(
            &format!("project/{name}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: Does a thing. Use for <x>.\n{more}---\nBody.\n"),
        );
    };
    skill("claude-helper", "");
    skill("with-model", "model: small\n");
    let valid = |profile: &str, path: &str| {
        world.json(&["check", "--json", "--profile", profile, path])[0]["valid_strict"].clone()
    };
    assert_eq!(
        [valid("spec", "claude-helper"), valid("claude", "claude-helper")],
        [json!(true), json!(false)]
    );
    assert_eq!([valid("spec", "with-model"), valid("prowess", "with-model")], [json!(false), json!(true)]);
}

#[test]
fn fix_mends_what_is_safe_and_keeps_the_rest() {
    let world = flawed();
    assert_snapshot!(world.run(&["check", "--fix", "skills/colon", "skills/wrong-name"]));
    assert_snapshot!(std::fs::read_to_string(world.path("project/skills/wrong-name/SKILL.md")).unwrap());
    assert_eq!(
        std::fs::read_to_string(world.path("project/skills/colon/SKILL.md")).unwrap(),
        "---\nname: colon\ndescription: \"Use when: something. Use it.\"\n---\n\n# colon\n\nDo it.\n"
    );
}

#[test]
fn one_path_that_cannot_be_checked_does_not_hide_the_others() {
    let world = flawed();
    let output = world.output(&["check", "--format", "jsonl", "skills/good", "nowhere", "skills/colon"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("prowess: nowhere cannot be checked"));
}

#[test]
fn a_tree_that_was_not_looked_at_whole_is_not_fine() {
    let world = World::new();
    world.skill("project/deep/1/2", "x", "Lies deep. Use for tests.").skill(
        "project/deep",
        "y",
        "Lies near. Use for tests.",
    );
    assert_snapshot!(world.run(&["check", "--max-depth", "1", "deep"]));
    assert_snapshot!(world.run(&["list", "--max-depth", "1", "--only", "--root", "deep"]));
}

#[test]
fn what_cannot_be_mended_does_not_stop_the_mending() {
    let world = flawed();
    std::fs::create_dir(world.path("project/skills/a-link")).unwrap();
    world
        .file("project/skills/a-link/text.md", "---\nname: a-link\ndescription: Use when: linked.\n---\nx\n");
    std::os::unix::fs::symlink("text.md", world.path("project/skills/a-link/SKILL.md")).unwrap();
    let output = world.output(&["check", "--fix", "skills/a-link", "skills/colon"]);
    assert_eq!(output.status.code(), Some(2));
    let text = std::fs::read_to_string(world.path("project/skills/colon/SKILL.md")).unwrap();
    assert!(text.contains("\"Use when: something."), "{text}");
}

#[test]
fn a_long_line_is_drawn_in_part() {
    let world = World::new();
    let line = "z ".repeat(500_000);
    world.file("project/long/SKILL.md", &format!("---\nname: long\ndescription: Has a long line. Use for tests.\n---\n{line}[x](references/none.md){line}\n"));
    let output = world.output(&["check", "long"]);
    assert!(output.stdout.len() < 5000, "{}", output.stdout.len());
}

/// Many directories that are too deep are one thing to know, and the summary says that it is not all.
#[test]
fn what_was_not_looked_at_is_told_once() {
    let world = World::new();
    world.skill("project", "tides", "Looks up tides. Use at sea.");
    for name in ["a", "b", "c"] {
        world.file(&format!("project/1/2/3/4/5/{name}/7/notes.txt"), "");
    }
    assert_snapshot!(world.run(&["check"]), @r"
    exit 1
    --- out
    ./tides: valid
    1 skill checked: 1 valid; some places were skipped
    --- err
    ./1/2/3/4/5/a: warning [depth-cap] prowess does not scan directories below level 6 (raise the limit, or give a deeper root)
    and 2 more like it; --max-depth N looks deeper
    ");
}

#[test]
fn a_directory_without_skills_is_told_as_such() {
    let world = flawed();
    std::fs::create_dir_all(world.path("project/nothing")).unwrap();
    let output = world.command(&["check"]).current_dir(world.path("project/nothing")).output().unwrap();
    let told = world.told(&output);
    assert!(told.starts_with("exit 1") && told.contains("error[missing-skill-md]"), "{told}");
    assert!(told.contains("\n.: no skill\n"), "{told}");
    assert!(
        told.contains("\nno skill was checked; name a skill, or a directory that contains skills\n"),
        "{told}"
    );
    let told = world.run(&["check", "skills/good", "nothing"]);
    assert!(
        told.starts_with("exit 1") && told.contains("\n1 skill checked: 1 valid; 1 directory has no skill\n"),
        "{told}"
    );
}
