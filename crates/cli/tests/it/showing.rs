//! `list`, `info`, `prompt`, `search`, `completions`.

use insta::assert_snapshot;
use serde_json::json;

use crate::world::{World, examples};

/// A project skill that shadows a user's, one of another client, one only for people, and a broken one.
fn furnished() -> World {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tide-tables", "Old tide tables. Use never.")
        .skill("home/.claude/skills", "soup-planner", "Plans soups. Use for cheap menus.")
        .skill("project/.prowess/skills", "tide-tables", "Looks up tides. Use before boat trips.")
        .skill("project/.prowess/skills", "kite-maker", "Builds kites: frame first. Use on windy days.")
        .file("project/.prowess/skills/broken/SKILL.md", "# no frontmatter\n")
        .file(
            "project/.agents/skills/lamp-reset/SKILL.md",
            "---\nname: lamp-reset\ndescription: Resets lamps. Use on request.\ndisable-model-invocation: true\n---\n",
        );
    world
}

#[test]
fn list_shows_untrusted_project_skills_to_people() {
    assert_snapshot!(furnished().run(&["list"]));
}

#[test]
fn list_of_a_trusted_project_lets_the_nearer_skill_win() {
    assert_snapshot!(furnished().run(&["list", "--trust-project", "--all", "--diagnostics"]));
}

#[test]
fn list_as_json_says_where_each_skill_stands() {
    let listed = furnished().json(&["list", "--trust-project", "--all", "--json"]);
    let brief: Vec<_> = listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| json!([skill["name"], skill["status"], skill["source"]["kind"], skill["model_visible"]]))
        .collect();
    assert_eq!(
        json!(brief),
        json!([
            ["kite-maker", "active", "project", true],
            ["lamp-reset", "active", "project-compatibility", false],
            ["soup-planner", "active", "user-compatibility", true],
            ["tide-tables", "active", "project", true],
            ["tide-tables", "shadowed", "user", false],
        ])
    );
}

#[test]
fn list_without_skills_says_how_to_make_one() {
    assert_snapshot!(World::new().run(&["list"]));
}

#[test]
fn list_counts_resources_of_the_examples() {
    assert_snapshot!(World::new().stdout(&["list", "--only", "--root", &examples(), "--resources"]));
}

#[test]
fn skills_root_names_roots_too_and_flags_win() {
    let world = World::new();
    world.skill("a", "one", "From a. Use for tests.").skill("b", "one", "From b. Use for tests.");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_prowess"))
        .args(["list", "--only", "--root"])
        .arg(world.path("b"))
        .env("SKILLS_ROOT", world.path("a"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\texplicit\tFrom b. Use for tests.\n");
}

#[test]
fn a_stray_colon_in_skills_root_does_not_trust_the_working_directory() {
    let world = World::new();
    world.skill("project", "planted", "Was not asked for. Use never.");
    for roots in [":", "/nowhere:", ""] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_prowess"))
            .args(["prompt", "--form", "compact"])
            .current_dir(world.path("project"))
            .env("HOME", ".")
            .env("SKILLS_ROOT", roots)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "\n", "{roots:?}");
    }
}

#[test]
fn info_shows_everything_about_a_skill() {
    let world = furnished();
    world
        .file("project/.prowess/skills/full/SKILL.md", FULL)
        .file("project/.prowess/skills/full/scripts/run.py", "print(1)\n")
        .file("project/.prowess/skills/full/references/a.md", "# A\n")
        .file("project/.prowess/skills/full/notes.txt", "x")
        .skill("home/.prowess/skills", "full", "Another one. Use never.");
    assert_snapshot!(world.run(&["info", "full", "--trust-project"]));
    let info = world.json(&["info", "full", "--trust-project", "--json"]);
    assert_eq!(info["extra"], json!({"version": "1.10", "tags": ["a", "b"]}));
    assert_eq!(info["metadata"], json!({"author": "us"}));
    assert_eq!(info["allowed_tools"], json!(["Read", "Bash(git:*)"]));
    assert_eq!(info["shadows"].as_array().unwrap().len(), 1);
}

const FULL: &str = "---
name: full
description: Has every field. Use to test info.
license: MIT
compatibility: Needs a printer.
metadata:
  author: us
allowed-tools: Read Bash(git:*)
version: 1.10
tags: [a, b]
when_to_use: When somebody asks.
argument-hint: [file] [count]
arguments: [file, count]
model: small
effort: low
context: fork
agent: reviewer
paths: src/**/*.rs
shell: bash
user-invocable: false
hooks:
  PreToolUse:
    - matcher: Bash
---

Body.
";

#[test]
fn prompt_shows_what_a_model_sees() {
    assert_snapshot!(furnished().run(&["prompt", "--trust-project", "--loaded", "tide-tables"]));
}

#[test]
fn prompt_leaves_untrusted_skills_out_and_says_so() {
    assert_snapshot!(furnished().run(&["prompt", "--form", "list"]));
}

#[test]
fn prompt_has_other_forms() {
    let world = furnished();
    assert_snapshot!(world.run(&["prompt", "--form", "xml"]));
    assert_snapshot!(world.run(&["prompt", "--form", "compact"]));
    assert_snapshot!(world.run(&["prompt", "--form", "list", "--read-file", "--trust-project", "--manual"]));
    assert_snapshot!(World::new().run(&["prompt", "--form", "list"]));
}

#[test]
fn prompt_takes_a_template_and_checks_it() {
    let world = furnished();
    world.file("project/good.txt", "Skills here:\n{skills_list}\n").file("project/bad.txt", "{skill_list}");
    let text = world.stdout(&["prompt", "--template", "good.txt"]);
    assert!(text.starts_with("Skills here:\n- **soup-planner**: Plans soups."), "{text}");
    assert_snapshot!(world.run(&["prompt", "--template", "bad.txt"]));
}

#[test]
fn search_ranks_by_what_skills_say() {
    let world = World::new();
    let names: Vec<String> = world
        .json(&["search", "log errors", "--only", "--root", &examples(), "--json"])
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names[0], "log-triage");
    assert_snapshot!(world.run(&["search", "zeppelin", "--only", "--root", &examples()]));
}

#[test]
fn completions_are_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(World::new().stdout(&["completions", shell]).contains("prowess"), "{shell}");
    }
}

#[test]
fn verbose_logs_what_was_discovered() {
    let output = furnished().output(&["-v", "list", "--trust-project"]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("Discovered 4 skills from 4 sources"), "{log}");
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let world = World::new();
    world.file(
        "r/evil/SKILL.md",
        "---\nname: evil\ndescription: \"a\\e[31mred\\e]52;c;eA==\\a\\u202Etxt\\nnext\"\nlicense: \"\\e[2J\"\n---\n\\e\n",
    );
    world.file(
        "r/raw/SKILL.md",
        "---\nname: raw\u{1b}[31m\ndescription: a\u{1b}]0;x\u{7}b\u{202E}c: d\n---\n\u{1b}[2J [x](references/\u{1b}.md)\n",
    );
    world.file(
        "r/body/SKILL.md",
        "---\nname: other\ndescription: x\n---\n\u{1b}[2J\u{202E} [x](references/\u{1b}.md)\n",
    );
    world.file("r/\u{1b}[31mname/SKILL.md", "---\ndescription: x\n---\n");
    let root = world.path("r");
    let places = ["--only", "--root", root.to_str().unwrap()];
    for args in [
        &["list"][..],
        &["list", "--diagnostics"],
        &["info", "evil"],
        &["prompt"],
        &["search", "red"],
        &["check"],
        &["check", "--format", "github"],
    ] {
        let places = if args[0] == "check" { &places[2..] } else { &places[..] };
        let output = world.output(&[args, places].concat());
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202E}']), "{args:?}: {text:?}");
        }
        // With styles on, the only escapes are our own.
        let output = world.output(&[args, places, &["--color", "always"]].concat());
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            for theirs in ["\u{1b}]", "\u{1b}[2J", "\u{1b}[31mred", "\u{1b}[31mname", "\u{7}", "\u{202E}"] {
                assert!(!text.contains(theirs), "{args:?}: {text:?}");
            }
        }
    }
}

#[test]
fn a_link_of_another_agent_to_an_installed_skill_is_the_same_skill() {
    let world = World::new();
    let text = "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\nLook.\n";
    world.file("home/.agents/skills/tides/SKILL.md", text);
    std::fs::create_dir_all(world.path("home/.claude/skills")).unwrap();
    let link = world.path("home/.claude/skills/tides");
    std::os::unix::fs::symlink("../../.agents/skills/tides", link).unwrap();
    let told = world.run(&["list", "--diagnostics"]);
    assert!(told.contains("link-duplicate") && !told.contains("outside"), "{told}");
    assert_eq!(world.json(&["list", "--json"])["skills"].as_array().unwrap().len(), 1);
}
