//! Wrong input: one line that says what to do, and exit code 2.

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn every_mistake_is_told_in_one_line() {
    let world = World::new();
    world.skill("project/.prowess/skills", "tide-tables", "Looks up tides. Use before boat trips.");
    let mistakes: &[&[&str]] = &[
        &["lst"],
        &["list", "--rot", "x"],
        &["list", "--root", "nowhere"],
        &["list", "--only"],
        &["list", "--color", "pink"],
        &["info"],
        &["info", "tide"],
        &["info", "zeppelin"],
        &["check", "nowhere"],
        &["check", ".git/../../home/none"],
        &["check", "--format", "xml"],
        &["check", "--json", "--format", "jsonl"],
        &["prompt", "--loaded", "zeppelin"],
        &["prompt", "--template", "nowhere.txt"],
        &["prompt", "--form", "xml", "--manual"],
        &["prompt", "--form", "xml", "--budget", "500"],
        &["prompt", "--budget", "99"],
        &["search"],
        &["session", "--dialect", "klingon"],
        &["session", "--max-skills", "many"],
        &["session", "--permissions", "nowhere.toml"],
        &["session", "--state", ".git"],
        &["session", "-c"],
        &["mcp", "--print-config", "emacs"],
        &["mcp", "--trust-project", "--run", "--dialect", "klingon"],
        &["package", "./nowhere"],
        &["new"],
        &["completions", "tcsh"],
        &["threads", "prune"],
    ];
    let mut told = String::new();
    for args in mistakes {
        let output = world.output(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!((output.stdout.len(), error.lines().count()), (0, 1), "{args:?}: {error}");
        told.push_str(&format!("{}\n    {error}", args.join(" ")));
    }
    assert_snapshot!(told);
}

#[test]
fn a_closed_pipe_is_no_mistake() {
    let world = World::new();
    for number in 0..3000 {
        world.skill(
            "many",
            &format!("skill-{number}"),
            "Is one of many, so that a pipe fills up. Use for tests.",
        );
    }
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_prowess"))
        .args(["list", "--only", "--root"])
        .arg(world.path("many"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
