//! How people name skills, and what they are told of those that are not there as they expect.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::model::{Answer, FakeModel};
use crate::pty::Pty;
use crate::world::World;

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_takes_a_name_as_info_does() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.")
        .skill("elsewhere", "kites", "Builds kites. Use on windy days.")
        .file("home/.prowess/skills/broken/SKILL.md", "# no frontmatter\n");
    let checked = world.json(&["check", "--json", "tides"]);
    assert_eq!(checked[0]["valid_strict"], json!(true), "{checked}");
    // What cannot be loaded is what one checks.
    let checked = world.json(&["check", "--json", "broken"]);
    assert_eq!(checked[0]["diagnostics"], json!(["missing-frontmatter"]), "{checked}");
    let elsewhere = world.path("elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();
    let checked = world.json(&["check", "--json", "--root", elsewhere, "kites"]);
    assert_eq!(checked[0]["valid_strict"], json!(true), "{checked}");
    // Without a name, the directories that were given are checked.
    let checked = world.json(&["check", "--json", "--root", elsewhere]);
    assert_eq!(checked[0]["name"], json!("kites"), "{checked}");
}

#[test]
fn a_path_that_exists_wins_over_a_name() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.")
        .file("project/tides/SKILL.md", "---\nname: other\ndescription: x\n---\n");
    let checked = world.json(&["check", "--json", "tides"]);
    assert_eq!((&checked[0]["id"], &checked[0]["name"]), (&json!("tides"), &json!("other")), "{checked}");
}

#[test]
fn a_name_that_is_neither_says_so_and_helps() {
    let world = World::new();
    world.skill("home/.prowess/skills", "pdf", "Reads PDF files. Use for PDFs.");
    let output = world.output(&["check", "pd"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.contains("no such file or directory, and there is no skill `pd`")
            && told.contains("did you mean `pdf`?"),
        "{told}"
    );
    // What is written as a path is one.
    let told = stderr(&world.output(&["check", "./pd"]));
    assert!(told.starts_with("prowess: ./pd cannot be checked"), "{told}");
}

#[test]
fn many_skills_end_with_a_summary_by_code() {
    let world = World::new();
    for name in ["one", "two", "three"] {
        world.file(
            &format!("project/skills/{name}/SKILL.md"),
            &format!(
                "---\nname: {name}\ndescription: Does a thing. Use it for tests.\nauthor: me\nversion: 1\n---\nBody.\n"
            ),
        );
    }
    world.file(
        "project/skills/four/SKILL.md",
        "---\nname: other\ndescription: Does a thing. Use it for tests.\n---\nBody.\n",
    );
    let output = world.output(&["check", "skills"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let summary: Vec<&str> = told.lines().rev().take(4).collect();
    assert_eq!(
        summary,
        [
            "4 skills checked: 0 valid, 4 invalid",
            "name-dir-mismatch\t1\t1",
            "unknown-field\t6\t3",
            "CODE\tFINDINGS\tSKILLS",
        ],
        "{told}"
    );
    // On a screen it fits, however narrow that is.
    let mut pty = Pty::start(&world, &["check", "skills"], 30, 12);
    assert_eq!(pty.wait(), Some(1));
    let screen = pty.screen();
    assert!(screen.contains("CODE") && screen.contains("FINDINGS"), "{screen}");
    // One skill needs none, and programs get none.
    let one = String::from_utf8(world.output(&["check", "skills/one"]).stdout).unwrap();
    assert!(!one.contains("FINDINGS"), "{one}");
    for format in ["json", "jsonl", "github", "sarif"] {
        let told = String::from_utf8(world.output(&["check", "--format", format, "skills"]).stdout).unwrap();
        assert!(!told.contains("FINDINGS"), "{format}: {told}");
    }
}

#[test]
fn the_beginning_of_a_name_is_near_to_it() {
    let world = World::new();
    for name in ["pdf", "update-pages", "spdx-licences", "zebra-crossing"] {
        world.skill("home/.prowess/skills", name, "Does a thing. Use it for tests.");
    }
    for (typed, meant) in [
        ("pd", "pdf"),
        ("PDF", "pdf"),
        ("pdff", "pdf"),
        ("fdp", ""),
        ("pdf-reader", "pdf"),
        ("crossing", "zebra-crossing"),
        ("licences", "spdx-licences"),
        ("udpate-pages", "update-pages"),
    ] {
        let told = stderr(&world.output(&["info", typed]));
        let suggested =
            told.split_once("did you mean `").map_or("", |(_, rest)| rest.split('`').next().unwrap());
        assert_eq!(suggested, meant, "{typed}: {told}");
    }
}

#[test]
fn search_ranks_the_exact_name_first() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "pdf", "Reads, fills and joins many kinds of documents, page by page, and writes them again in whatever form is wanted. Use for forms.")
        .skill("home/.prowess/skills", "pdf-pdf", "PDF to PDF. PDF.")
        .skill("home/.prowess/skills", "release-notes", "Writes notes. Use for releases.")
        .skill("home/.prowess/skills", "notes", "Release notes, release notes, release notes.");
    let names = |words: &[&str]| -> Vec<String> {
        let hits = world.json(&[&["search", "--json"], words].concat());
        let hits = hits.as_array().unwrap().clone();
        let scores: Vec<f64> = hits.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
        hits.iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["pdf"]), ["pdf", "pdf-pdf"]);
    assert_eq!(names(&["PDF"]), ["pdf", "pdf-pdf"]);
    assert_eq!(names(&["release", "notes"])[0], "release-notes");
    assert_eq!(names(&["release-notes"])[0], "release-notes");
}

#[test]
fn links_that_are_not_followed_are_told_with_their_flag() {
    let world = World::new();
    world.skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.").skill(
        "elsewhere",
        "kites",
        "Builds kites. Use on windy days.",
    );
    symlink(world.path("elsewhere/kites"), world.path("home/.prowess/skills/kites")).unwrap();
    for args in [&["list"][..], &["info", "tides"]] {
        let output = world.output(args);
        let told = stderr(&output);
        let lines: Vec<&str> = told.lines().filter(|line| line.contains("--follow-links")).collect();
        assert_eq!(lines.len(), 1, "{args:?}: {told}");
        assert!(lines[0].contains("home/.prowess/skills/kites"), "{told}");
        assert_eq!(output.status.code(), Some(0));
    }
    // Who asks for the very one is told that it is there.
    let output = world.output(&["info", "kites"]);
    let told = stderr(&output);
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("is a link") && told.contains("--follow-links"), "{told}");
    let told = stderr(&world.output(&["list", "--follow-links"]));
    assert_eq!(told, "");
}

#[test]
fn opencode_s_skills_are_where_xdg_config_home_says() {
    let world = World::new();
    world.skill("config/opencode/skills", "moved", "Lies elsewhere. Use for tests.").skill(
        "home/.config/opencode/skills",
        "usual",
        "Lies where it does. Use for tests.",
    );
    let names = |config: Option<&str>| {
        let mut command = world.command(&["list"]);
        if let Some(config) = config {
            command.env("XDG_CONFIG_HOME", config);
        }
        let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        listed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["usual"]);
    assert_eq!(names(Some(world.path("config").to_str().unwrap())), ["moved"]);
    // A path that is not absolute says nothing, and a project cannot be made the user's with it.
    for relative in ["config", "../config", ""] {
        assert_eq!(names(Some(relative)), ["usual"], "{relative:?}");
    }
}

#[test]
fn a_new_skill_of_a_project_has_to_be_trusted() {
    let world = World::new();
    let told = world.stdout(&["new", "tides"]);
    assert!(told.contains("then run `prowess trust`"), "{told}");
    assert_eq!(world.json(&["new", "kites", "--json"])["needs_trust"], json!(true));
    // The user's own needs nobody's word, and neither does one that lies in no project's directory of skills.
    let own = world.path("home/.prowess/skills");
    let told = world.stdout(&["new", "mine", "--in", own.to_str().unwrap()]);
    assert!(!told.contains("trust"), "{told}");
    let made = world.json(&["new", "other", "--json", "--in", "here"]);
    assert_eq!(made["needs_trust"], json!(false));
}

/// What `info` says a load takes is what it takes.
#[test]
fn info_counts_the_tokens_that_a_load_takes() {
    let long = "Take the rule, the pencil and the paper, and draw the line again.\n".repeat(120);
    let skills = [
        ("plain", "---\nname: plain\ndescription: Is plain. Use for tests.\n---\n\nDo it.\n".to_owned()),
        (
            "with-files",
            format!(
                "---\nname: with-files\ndescription: Has files. Use for tests.\nlicense: MIT\n---\n\n# Draw\n\n{long}"
            ),
        ),
        (
            "takes-arguments",
            "---\nname: takes-arguments\ndescription: Takes some. Use for tests.\n---\n\nRead $ARGUMENTS.\n"
                .to_owned(),
        ),
    ];
    let model = FakeModel::start(
        skills
            .iter()
            .flat_map(|(name, _)| {
                [Answer::call("skill_load", json!({"skill": name})), Answer::text("Loaded.")]
            })
            .collect(),
    );
    let world = World::new();
    world.file(
        "home/.config/prowess/prowess.toml",
        &format!(
            "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n",
            model.url()
        ),
    );
    for (name, text) in &skills {
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), text);
    }
    for file in ["scripts/draw.py", "references/paper.md", "assets/rule.svg"] {
        world.file(&format!("home/.prowess/skills/with-files/{file}"), "x\n");
    }
    for (name, _) in &skills {
        let output = world.output(&["chat", "--json", &format!("load {name}")]);
        let events = String::from_utf8(output.stdout).unwrap();
        let loaded = events
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|event| event["type"] == "loaded")
            .unwrap_or_else(|| panic!("{events}"));
        let info = world.json(&["info", "--json", name]);
        assert_eq!(info["tokens"]["instructions"], loaded["tokens"], "{name}");
        let told = world.stdout(&["info", name]);
        assert!(told.contains(&format!("{} loaded", loaded["tokens"])), "{told}");
    }
}
