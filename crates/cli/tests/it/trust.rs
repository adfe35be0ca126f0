//! `prowess trust`, and what changes when a project does.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use insta::assert_snapshot;

use crate::pty::Pty;
use crate::world::World;

const SCRIPT: &str = "project/.prowess/skills/tides/scripts/tides.sh";

/// A project with a skill that has a script, tools and hooks, a configuration and a memory.
fn furnished() -> World {
    let world = World::new();
    world
        .file(
            "project/.prowess/skills/tides/SKILL.md",
            "---\nname: tides\ndescription: Looks up tides. Use at sea.\nallowed-tools: Read Bash(date:*)\nhooks:\n  Stop:\n    - hooks:\n        - type: prompt\n          prompt: x\n---\n",
        )
        .file(SCRIPT, "#!/bin/sh\necho high\n")
        .skill("project/.claude/skills", "kites", "Builds kites. Use in wind.")
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 20\n")
        .file("project/AGENTS.md", "Speak of the sea.\n");
    chmod(&world, SCRIPT, 0o755);
    world
}

fn chmod(world: &World, path: &str, mode: u32) {
    std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The line about the project, as `list` says it.
fn standing(world: &World) -> String {
    let output = world.output(&["list"]);
    assert!(output.status.success());
    let told = world.told(&output);
    let lines = told.split("--- err\n").nth(1).unwrap().lines();
    // A project's file may be trusted that cannot be used.
    let lines = lines.filter(|line| !line.starts_with("cannot tell which skills the model sees"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Trusts the project, whatever it brings now.
fn trust(world: &World) {
    world.stdout(&["trust", "--yes"]);
    assert_eq!(standing(world), "");
}

/// What `trust` says on a terminal where its question gets this answer, and its exit code. Something may happen while the
/// question waits.
fn asked(world: &World, answer: &str, meanwhile: impl FnOnce()) -> (String, Option<i32>) {
    let mut pty = Pty::start(world, &["trust"], 250, 50);
    pty.wait_for("[y/N]");
    meanwhile();
    pty.press(answer);
    let code = pty.wait();
    (pty.screen().replace(&*world.path("").to_string_lossy(), "[WORLD]/"), code)
}

#[test]
fn a_project_is_shown_asked_about_and_remembered() {
    let world = furnished();
    assert_eq!(
        standing(&world),
        "this project is not trusted: 2 project skills are hidden from models, its prowess.toml is not used, its \
         AGENTS.md is not read; `prowess trust` shows what it contains\n"
    );
    let (said, code) = asked(&world, "n\n", || {});
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("[WORLD]/project is not trusted."), "{said}");
    assert!(standing(&world).contains("is not trusted"));
    assert_eq!(world.json(&["trust", "--list", "--json"]).as_array().unwrap().len(), 0, "a no is no trust");
    let (said, code) = asked(&world, "y\n", || {});
    assert_eq!(code, Some(0), "{said}");
    assert_snapshot!(said);
    assert_eq!(standing(&world), "");
    assert!(world.stdout(&["prompt", "--form", "compact"]).contains("tides"));
    assert!(world.stdout(&["config", "show"]).contains("skills.max_loaded_skills\t20\t"));
    let file = world.path("home/.local/state/prowess/trust.json");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_a_terminal_only_a_word_trusts() {
    let world = furnished();
    assert_snapshot!(world.told(&world.fed(&["trust"], "y\n")));
    assert!(standing(&world).contains("is not trusted"));
    assert_snapshot!(world.run(&["trust", "--list"]), @r"
    exit 0
    --- out
    No project is trusted. Run `prowess trust` in a project to trust it.
    --- err
    ");
    trust(&world);
    assert_snapshot!(world.run(&["trust"]), @r"
    exit 0
    --- out
    [WORLD]/project is trusted and has not changed.
    --- err
    ");
    let listed = world.json(&["trust", "--list", "--json"]);
    assert_eq!(listed[0]["items"].as_object().unwrap().len(), 4, "{listed}");
    // From anywhere, by any name of the project.
    std::fs::create_dir_all(world.path("project/deep/er")).unwrap();
    symlink(world.path("project"), world.path("home/link")).unwrap();
    let link = world.path("home/link/deep").to_string_lossy().into_owned();
    assert_snapshot!(world.run(&["trust", "--revoke", &link]), @r"
    exit 0
    --- out
    [WORLD]/project is no longer trusted.
    --- err
    ");
    assert_snapshot!(world.run(&["trust", "--revoke"]), @r"
    exit 2
    --- out
    --- err
    prowess: [WORLD]/project was not trusted; `prowess trust --list` shows trusted projects
    ");
    assert!(standing(&world).contains("is not trusted"));
}

#[test]
fn whatever_changes_is_named_and_asked_again() {
    let world = furnished();
    trust(&world);
    let mut told = String::new();
    // What is hidden for it; the others stay as they are.
    let mut changed = |what: &str, hidden: &[&str], change: &dyn Fn()| {
        change();
        let session = world.run(&["session", "-c", "skills"]);
        let line = session.split("--- err\n").nth(1).unwrap().to_owned();
        assert!(
            line.contains("part of this project is not trusted") && line.lines().count() == 1,
            "{what}: {line}"
        );
        let prompt = world.stdout(&["prompt", "--form", "compact"]);
        for skill in ["tides", "kites", "boats"] {
            let is_there =
                world.path(&format!("project/.prowess/skills/{skill}")).exists() || skill == "kites";
            assert_eq!(prompt.contains(skill), is_there && !hidden.contains(&skill), "{what}: {prompt}");
        }
        let run = world.output(&["run", "tides", "--", "true"]);
        let code = if hidden.contains(&"tides") { 125 } else { 0 };
        assert_eq!(run.status.code(), Some(code), "{what}: {}", world.told(&run));
        told.push_str(&format!("{what}\n    {line}"));
        trust(&world);
    };
    changed("a script", &["tides"], &|| {
        world.file(SCRIPT, "#!/bin/sh\necho low\n");
    });
    changed("chmod -x", &["tides"], &|| chmod(&world, SCRIPT, 0o644));
    changed("chmod +x", &["tides"], &|| chmod(&world, SCRIPT, 0o755));
    changed("another file", &["tides"], &|| {
        world.file("project/.prowess/skills/tides/scripts/more.sh", "");
    });
    changed("an empty directory", &["tides"], &|| {
        std::fs::create_dir(world.path("project/.prowess/skills/tides/empty")).unwrap();
    });
    changed("a file that became a link", &["tides"], &|| {
        let more = world.path("project/.prowess/skills/tides/scripts/more.sh");
        std::fs::remove_file(&more).unwrap();
        symlink("tides.sh", more).unwrap();
    });
    changed("a link that leads elsewhere inside", &["tides"], &|| {
        let more = world.path("project/.prowess/skills/tides/scripts/more.sh");
        std::fs::remove_file(&more).unwrap();
        symlink("../SKILL.md", more).unwrap();
    });
    changed("the same bytes in other files", &["tides"], &|| {
        let at = |name: &str| world.path("project/.prowess/skills/tides").join(name);
        std::fs::rename(at("scripts/tides.sh"), at("scripts/tide.sh")).unwrap();
    });
    changed("a new skill", &["boats"], &|| {
        world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    });
    changed("a new client's directory", &[], &|| {
        world.skill("project/.agents/skills", "nets", "Knots. Use at sea.");
    });
    changed("the configuration", &[], &|| {
        world.file("project/prowess.toml", "[skills]\nmax_loaded_skills = 19\n");
    });
    changed("the memory", &[], &|| {
        world.file("project/AGENTS.md", "Speak of evil.\n");
    });
    changed("many", &[], &|| {
        for number in 0..9 {
            world.skill("project/.prowess/skills", &format!("more-{number}"), "Is one of many. Use never.");
        }
    });
    assert_snapshot!(told);
    // What is gone does no harm.
    std::fs::remove_dir_all(world.path("project/.prowess/skills/more-3")).unwrap();
    std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
    assert_eq!(standing(&world), "");
}

#[test]
fn a_change_while_the_question_waits_is_not_trusted() {
    let world = furnished();
    let (said, code) = asked(&world, "y\n", || {
        world.file(SCRIPT, "#!/bin/sh\necho low\n");
    });
    assert_eq!(code, Some(0), "{said}");
    assert!(standing(&world).contains("part of this project is not trusted (tides changed)"));
    world.file(SCRIPT, "#!/bin/sh\necho high\n");
    assert_eq!(standing(&world), "", "what was shown is what was trusted");
    world.file("project/prowess.toml", "[skills]\nmax_loded = 20\n");
    let (said, _) = asked(&world, "n\n", || {});
    assert!(
        said.contains("there is no key `skills.max_loded`; did you mean `skills.max_loaded_skills`?"),
        "{said}"
    );
    trust(&world);
    for answer in ["\n", "\u{4}", "yes please\n", "Nay\n"] {
        world.stdout(&["trust", "--revoke"]);
        assert_eq!(asked(&world, answer, || {}).1, Some(1), "{answer:?}");
        world.stdout(&["trust", "--yes"]);
    }
}

#[test]
fn what_leads_out_or_is_no_file_cannot_be_trusted() {
    let place = "project/.prowess/skills/tides/scripts/more.sh";
    let mut told = String::new();
    let mut refused = |what: &str, make: &dyn Fn(&World)| {
        for before in [false, true] {
            let world = furnished();
            if before {
                trust(&world);
            }
            make(&world);
            let output = world.output(&["trust", "--yes"]);
            let said = world.told(&output);
            assert_eq!(output.status.code(), Some(1), "{what}: {said}");
            let line = said.split("--- err\n").next().unwrap().lines().last().unwrap();
            let session = world.run(&["session", "-c", "skills"]);
            let notice = session.split("--- err\n").nth(1).unwrap();
            // What is no skill is missed by nobody.
            assert!(
                notice.is_empty() || notice.contains("part of this project is not trusted"),
                "{what}: {notice}"
            );
            assert!(
                world.stdout(&["prompt", "--form", "compact"]).contains("kites"),
                "{what}: the others are trusted"
            );
            if before {
                let notice = if notice.is_empty() { String::new() } else { format!("    {notice}") };
                told.push_str(&format!("{what}\n    {line}\n{notice}"));
            }
        }
    };
    refused("a link to another place", &|world| symlink("/etc/passwd", world.path(place)).unwrap());
    refused("a link above", &|world| symlink("../../../../AGENTS.md", world.path(place)).unwrap());
    refused("a link through a link", &|world| {
        symlink("up/up", world.path(place)).unwrap();
        symlink("..", world.path("project/.prowess/skills/tides/scripts/up")).unwrap();
        symlink("../..", world.path("project/.prowess/skills/up")).unwrap();
    });
    refused("a FIFO", &|world| {
        let made = std::process::Command::new("mkfifo").arg(world.path(place)).status().unwrap();
        assert!(made.success());
    });
    refused("a skill elsewhere", &|world| {
        symlink(world.path("home"), world.path("project/.prowess/skills/boats")).unwrap();
    });
    refused("a memory elsewhere", &|world| {
        std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
        symlink("/etc/passwd", world.path("project/AGENTS.md")).unwrap();
    });
    refused("a memory that is a secret", &|world| {
        world.file("project/.env", "TOKEN=tide-4711\n");
        std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
        symlink(".env", world.path("project/AGENTS.md")).unwrap();
    });
    refused("a memory that is a key by two links", &|world| {
        world.file("project/keys/server.key", "tide-4711\n");
        std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
        symlink("keys/notes.md", world.path("project/AGENTS.md")).unwrap();
        symlink("server.key", world.path("project/keys/notes.md")).unwrap();
    });
    refused("a memory that leads nowhere", &|world| {
        std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
        symlink("NOTES.md", world.path("project/AGENTS.md")).unwrap();
    });
    refused("a memory whose place cannot be looked at", &|world| {
        std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
        symlink("n".repeat(300), world.path("project/AGENTS.md")).unwrap();
    });
    refused("a configuration elsewhere", &|world| {
        std::fs::remove_file(world.path("project/prowess.toml")).unwrap();
        symlink("/etc/passwd", world.path("project/prowess.toml")).unwrap();
    });
    refused("too deep", &|world| {
        std::fs::create_dir_all(world.path(&format!("project/.prowess/skills/tides/{}", "d/".repeat(40))))
            .unwrap();
    });
    refused("too large", &|world| {
        let file = std::fs::File::create(world.path(place)).unwrap();
        file.set_len(65 << 20).unwrap();
    });
    assert_snapshot!(told);
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let world = furnished();
    trust(&world);
    let path = world.path("home/.local/state/prowess/trust.json");
    let good = std::fs::read_to_string(&path).unwrap();
    let mut told = String::new();
    for (what, text, mode) in [
        ("cut", &good[..good.len() / 2], 0o600),
        ("newer", "{\"version\": 3, \"projects\": 1}", 0o600),
        ("empty", "", 0o600),
        ("everybody's", &good, 0o666),
    ] {
        world.file("home/.local/state/prowess/trust.json", text);
        chmod(&world, "home/.local/state/prowess/trust.json", mode);
        for args in [&["list"][..], &["trust", "--yes"], &["trust", "--revoke"], &["trust", "--list"]] {
            let output = world.output(args);
            let said = world.told(&output);
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{what}: {said}");
            if args == ["list"] {
                told.push_str(&format!("{what}\n    {}", said.split("--- err\n").nth(1).unwrap()));
            }
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{what}");
    }
    assert_snapshot!(told);
}

#[test]
fn projects_are_remembered_by_several_at_once() {
    let world = World::new();
    let names: Vec<String> = (0..8).map(|number| format!("home/work/{number}")).collect();
    for name in &names {
        std::fs::create_dir_all(world.path(&format!("{name}/.git"))).unwrap();
        world.skill(&format!("{name}/.prowess/skills"), "tides", "Looks up tides. Use at sea.");
    }
    let children: Vec<_> = names
        .iter()
        .map(|name| world.command(&["trust", "--yes"]).current_dir(world.path(name)).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(world.json(&["trust", "--list", "--json"]).as_array().unwrap().len(), names.len());
}

#[test]
fn a_home_is_no_project_nor_is_what_it_lies_in() {
    let world = World::new();
    // All of it is under version control.
    for path in [".git", "home/.git"] {
        std::fs::create_dir_all(world.path(path)).unwrap();
    }
    for (path, code) in [("home", 2), ("", 2), ("home/work", 0)] {
        std::fs::create_dir_all(world.path(path)).unwrap();
        let file = world.path(path).join("prowess.toml");
        std::fs::write(file, "[limits]\nmodel_calls = 3\n").unwrap();
        let output = world.command(&["trust", "--yes"]).current_dir(world.path(path)).output().unwrap();
        let said = world.told(&output);
        assert_eq!(output.status.code(), Some(code), "{path}: {said}");
        if code == 2 {
            assert!(said.contains("is a home directory or contains one, so it is not a project"), "{said}");
        }
    }
    let output = world.command(&["trust", "--yes"]).current_dir("/").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // Another name of the home does not make it a project.
    symlink(world.path("home"), world.path("other-home")).unwrap();
    let mut command = world.command(&["trust", "--yes"]);
    command.current_dir(world.path("home")).env("HOME", world.path("other-home"));
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}

#[test]
fn a_project_without_anything_needs_no_trust() {
    let world = World::new();
    assert_snapshot!(world.run(&["trust"]), @r"
    exit 0
    --- out
    [WORLD]/project has nothing to trust: no skills, no prowess.toml, no AGENTS.md.
    --- err
    ");
    assert!(!world.path("home/.local/state/prowess").exists());
    // A memory alone is for conversations; a list does not speak of it.
    world.file("project/AGENTS.md", "Speak of the sea.\n");
    assert_eq!(standing(&world).lines().count(), 0);
}

#[test]
fn what_a_directory_below_brings_is_asked_about_there() {
    let world = furnished();
    trust(&world);
    world.skill("project/sub/.prowess/skills", "boats", "Builds boats. Use at sea.");
    let below = |args: &[&str]| {
        let output = world.command(args).current_dir(world.path("project/sub")).output().unwrap();
        world.told(&output)
    };
    assert_eq!(standing(&world), "", "from the top it is not seen");
    assert!(below(&["list"]).contains("part of this project is not trusted (boats is new)"));
    assert!(below(&["trust", "--yes"]).contains("sub/.prowess/skills/boats (new)"));
    assert!(below(&["list"]).ends_with("--- err\n"));
    assert_eq!(standing(&world), "");
    trust_again_from_the_top_keeps_what_is_below(&world);
    assert!(below(&["list"]).ends_with("--- err\n"));
}

#[test]
fn memory_files_count_from_the_top_down_to_the_working_directory() {
    let world = World::new();
    std::fs::create_dir_all(world.path("project/sub")).unwrap();
    world.file("project/AGENTS.md", "Speak of the sea.\n");
    let below = |args: &[&str]| {
        let output = world.command(args).current_dir(world.path("project/sub")).output().unwrap();
        world.told(&output)
    };
    world.file("project/sub/AGENTS.md", "Speak of evil.\n");
    let told = below(&["session", "-c", "skills"]);
    assert!(
        told.ends_with(
            "this project is not trusted: its AGENTS.md and sub/AGENTS.md are not read; `prowess trust` shows what it contains\n"
        ),
        "{told}"
    );
    // Nobody reads the file below from the top.
    assert!(!world.stdout(&["trust", "--yes"]).contains("evil"));
    let told = below(&["session", "-c", "skills"]);
    assert!(
        told.ends_with(
            "part of this project is not trusted (sub/AGENTS.md is new): its sub/AGENTS.md is not read; 1 other item stays trusted; `prowess trust` shows the rest\n"
        ),
        "{told}"
    );
    assert!(below(&["trust", "--yes"]).starts_with("exit 0"));
    assert!(below(&["session", "-c", "skills"]).ends_with("--- err\n"));
    world.file("project/sub/AGENTS.md", "Speak of worse.\n");
    // Also where its skills are not looked for.
    let shelf = world.path("home").to_string_lossy().into_owned();
    let told = below(&["session", "--only", "--root", &shelf, "-c", "skills"]);
    assert!(told.contains("sub/AGENTS.md changed"), "{told}");
}

fn trust_again_from_the_top_keeps_what_is_below(world: &World) {
    world.file(SCRIPT, "#!/bin/sh\necho low\n");
    trust(world);
}

#[test]
fn a_directory_that_does_not_exist_is_no_project() {
    let world = furnished();
    let told = "exit 2\n--- out\n--- err\nprowess: [WORLD]/project/nowhere: no such directory\n";
    for args in [&["trust", "nowhere"][..], &["trust", "--yes", "nowhere"]] {
        assert_eq!(world.run(args), told);
    }
    assert_eq!(world.json(&["trust", "--list", "--json"]).as_array().unwrap().len(), 0);
}

#[test]
fn a_list_and_a_chat_name_the_same_items() {
    let world = furnished();
    let told = |args: &[&str]| world.run(args).split("--- err\n").nth(1).unwrap().to_owned();
    let chat = |world: &World| {
        let lines = told(&["chat", "/skills"]);
        let line = lines.lines().find(|line| line.contains("is not trusted"));
        line.map_or_else(|| world.run(&["chat", "/skills"]), |line| format!("{line}\n"))
    };
    assert_eq!(standing(&world), chat(&world));
    trust(&world);
    world
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 19\n")
        .file("project/AGENTS.md", "Speak of the land.\n")
        .file(SCRIPT, "#!/bin/sh\necho low\n");
    let list = standing(&world);
    assert_eq!(list, chat(&world));
    for item in ["tides changed", "prowess.toml changed", "AGENTS.md changed"] {
        assert!(list.contains(item), "{list}");
    }
    assert!(list.contains("its prowess.toml is not used, its AGENTS.md is not read"), "{list}");
}

#[test]
fn a_question_names_only_what_the_project_has() {
    let world = World::new();
    world.skill("project/.prowess/skills", "tides", "Looks up tides. Use at sea.");
    let (said, _) = asked(&world, "n\n", || {});
    assert!(
        said.contains(
            "Trust this project? Models will see the skill and can ask to run its commands. You will be asked again \
             about anything new or changed. [y/N]"
        ),
        "{said}"
    );
    world.file("project/AGENTS.md", "Speak of the sea.\n");
    std::fs::remove_dir_all(world.path("project/.prowess")).unwrap();
    let (said, _) = asked(&world, "y\n", || {});
    assert!(said.contains("Trust this project? The project's AGENTS.md will be used. You will be"), "{said}");
}

#[test]
fn a_mistake_in_a_trusted_file_is_told_at_the_end() {
    let world = World::new();
    world.file("project/prowess.toml", "[limits]\nmodel_calls = 3\n");
    assert_snapshot!(world.run(&["trust", "--yes"]), @r"
    exit 0
    --- out
    [WORLD]/project contains:

      prowess.toml: settings, 25 B
        error: [WORLD]/project/prowess.toml:2: only your own file ([WORLD]/home/.config/prowess/prowess.toml) may set `limits.model_calls`; move it there
        [limits]
        model_calls = 3

    [WORLD]/project is trusted.
    Its prowess.toml has a mistake, and no chat starts until you fix it: [WORLD]/project/prowess.toml:2: only your own file ([WORLD]/home/.config/prowess/prowess.toml) may set `limits.model_calls`; move it there
    --- err
    ");
    assert_eq!(world.output(&["chat", "hello"]).status.code(), Some(2));
}
