//! What a run in a conversation sees of the working directory.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

/// The answer that the model got for the one command that it ran.
fn answered(world: &World, model: &FakeModel, mut chat: Command) -> String {
    let output = chat.output().unwrap();
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "{}", world.told(&output));
    last(&requests[1])
}

fn project(model: &FakeModel) -> World {
    let world = world(model);
    world
        .file("project/plan.json", "{\"tide\": \"high\"}\n")
        .file("project/src/a.py", "print(1)\n")
        .file("project/.env", "KEY=HERON\n")
        .file("project/keys/server.key", "HERON\n")
        .file("project/venv/certifi/cacert.pem", "public\n");
    world
}

/// One command of the model, and its answer.
fn after(command: &str) -> (World, FakeModel, String) {
    let model = FakeModel::start(vec![runs(command), Answer::text("Done.")]);
    let world = project(&model);
    let answer = answered(&world, &model, world.command(&["chat", "--yes", "do it"]));
    (world, model, answer)
}

#[test]
fn a_command_sees_the_files_that_it_names() {
    for command in ["cat /project/plan.json", "cat /project/*.json", "cd /project && cat plan.json"] {
        let (_, _, answer) = after(command);
        assert!(answer.contains("tide") && answer.contains("high"), "{command}: {answer}");
    }
    let (_, _, answer) = after("cat plan.json");
    assert!(answer.contains("the command did not see `/project/plan.json`"), "{answer}");
    let (world, _, answer) = after("echo x > /project/new.txt");
    assert!(
        answer.contains("the project is read-only for commands, so write new files to `/work/out`"),
        "{answer}"
    );
    assert!(!world.path("project/new.txt").exists());
}

#[test]
fn the_question_shows_what_a_command_can_read_as_real_paths() {
    let model = FakeModel::start(vec![runs("cat /project/plan.json; ls -A /project"), Answer::text("Done.")]);
    let world = project(&model);
    let pty = begun(&world, &[], 160, 60);
    pty.type_line("look");
    let screen = pty.wait_for("allow it?");
    insta::assert_snapshot!(stable(&world, &screen));
    pty.type_line("y");
    pty.wait_for("Done.");
    let answer = last(&model.requests()[1]);
    for name in ["plan.json", "src", "venv"] {
        assert!(answer.contains(&format!("{name}\\\\n")), "{answer}");
    }
    assert!(
        answer.contains(
            "left out of `/project`, because they are, contain or lead to files that commands do not see: \
             `/project/.env`, `/project/keys`"
        ),
        "{answer}"
    );
}

#[test]
fn case_112_a_command_is_not_given_secret_files() {
    let commands = [
        "cat /project/.env",
        "cat /project/src/../.env",
        "cat /project/keys/*",
        "cat /project/settings",
        "cd /project && cat settings .env keys/server.key",
        "f=.env; cat /project/$f",
        "cat /project/{.env,plan.json}",
    ];
    for command in commands {
        let model = FakeModel::start(vec![runs(command), Answer::text("Done.")]);
        let world = project(&model);
        symlink(".env", world.path("project/settings")).unwrap();
        let answer = answered(&world, &model, world.command(&["chat", "--yes", "do it"]));
        assert!(!answer.contains("HERON"), "{command}: {answer}");
    }
    let (_, _, answer) = after("find /project/venv -name cacert.pem | xargs cat");
    assert!(answer.contains("public"), "public certificates are no secrets: {answer}");
}

#[test]
fn case_98_a_command_is_not_given_files_of_untrusted_skills() {
    for command in [
        "cat /project/.prowess/skills/sly/SKILL.md",
        "grep -r HERON /project/.prowess",
        "grep -r HERON /project",
    ] {
        let model = FakeModel::start(vec![runs(command), Answer::text("Done.")]);
        let world = world(&model);
        let text = "---\nname: sly\ndescription: Is not trusted.\n---\nHERON\n";
        world.file("project/.prowess/skills/sly/SKILL.md", text).file("project/a.txt", "HERON is a bird\n");
        let answer = answered(&world, &model, world.command(&["chat", "--yes", "do it"]));
        assert!(!answer.contains("HERON\\\\n"), "{command}: {answer}");
    }
}

#[test]
fn case_113_the_working_directory_may_be_a_link_a_mount_or_a_worktree() {
    let command = "cat /project/plan.json; ls -A /project/sub";
    let model = || FakeModel::start(vec![runs(command), Answer::text("Done.")]);
    let prepared = |model: &FakeModel| {
        let world = project(model);
        std::fs::remove_dir_all(world.path("project/.git")).unwrap();
        world.file("project/sub/.git", "gitdir: ../.git/modules/sub\n").file("project/sub/b.txt", "");
        world.file("project/.git", "gitdir: /elsewhere/.git/worktrees/project\n");
        world
    };
    let is_right = |answer: &str| {
        assert!(answer.contains("tide") && answer.contains(".git\\\\nb.txt"), "{answer}");
    };
    // A worktree with a submodule: `.git` is a file in both.
    let plain = model();
    let world = prepared(&plain);
    is_right(&answered(&world, &plain, world.command(&["chat", "--yes", "do it"])));
    // A link.
    let linked = model();
    let world = prepared(&linked);
    symlink(world.path("project"), world.path("link")).unwrap();
    let mut chat = world.command(&["chat", "--yes", "do it"]);
    chat.current_dir(world.path("link")).env("PWD", world.path("link"));
    is_right(&answered(&world, &linked, chat));
    // A bind mount.
    let mounted = model();
    let world = prepared(&mounted);
    std::fs::create_dir(world.path("mount")).unwrap();
    let plain = world.command(&["chat", "--yes", "do it"]);
    let mut chat = Command::new("bwrap");
    chat.args(["--dev-bind", "/", "/", "--bind"]).args([world.path("project"), world.path("mount")]);
    chat.arg("--chdir").arg(world.path("mount")).arg(plain.get_program()).args(plain.get_args()).env_clear();
    chat.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    is_right(&answered(&world, &mounted, chat));
}

#[test]
fn a_failed_command_in_a_directory_of_the_project_is_told_which_files_it_did_not_see() {
    let run = |command: &str| {
        let call = json!({"skill": "tides", "command": command, "cwd": "/project/sub"});
        let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("Done.")]);
        let world = project(&model);
        world.file("project/sub/own.json", "{}\n").file("project/own.json", "{}\n");
        // A withheld file, so that the directory is given entry by entry.
        world.file("project/sub/keys/server.key", "secret\n");
        answered(&world, &model, world.command(&["chat", "--yes", "do it"]))
    };
    for command in ["cat plan.json", "cat ../plan.json", "cat ../sub/../plan.json"] {
        let answer = run(command);
        assert!(answer.contains("the command did not see `/project/plan.json`"), "{command}: {answer}");
    }
    for command in ["cat own.json missing.json", "cat ../../plan.json ../.env"] {
        let answer = run(command);
        assert!(!answer.contains("the command did not see"), "{command}: {answer}");
    }
}

/// The root of a machine with one more directory, for a project at a place of the tree.
fn with_project_at(real: &str, world: &World, plain: &Command) -> Command {
    let mut chat = Command::new("bwrap");
    chat.args(["--tmpfs", "/"]);
    for entry in std::fs::read_dir("/").unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            chat.arg("--symlink").args([std::fs::read_link(entry.path()).unwrap(), entry.path()]);
        } else if kind.is_dir() {
            chat.arg("--dev-bind").args([entry.path(), entry.path()]);
        }
    }
    chat.arg("--bind").arg(world.path("project")).args([real, "--chdir", real]);
    chat.arg(plain.get_program()).args(plain.get_args()).env_clear();
    chat.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    chat
}

#[test]
fn a_failed_command_that_names_the_project_by_a_path_without_room_is_told_the_one_that_works() {
    let real = "/skills/site";
    let hint = format!("commands do not see `{real}`; write `/project` instead");
    for (command, is_told) in [(format!("cat {real}/plan.json"), true), (format!("echo {real}"), false)] {
        let model = FakeModel::start(vec![runs(&command), Answer::text("Done.")]);
        let world = project(&model);
        let plain = world.command(&["chat", "--yes", "do it"]);
        let answer = answered(&world, &model, with_project_at(real, &world, &plain));
        assert_eq!(answer.contains(&hint), is_told, "{answer}");
    }
    let model = FakeModel::start(vec![runs("cat /project/plan.json"), Answer::text("Done.")]);
    let world = project(&model);
    let plain = world.command(&["chat", "--yes", "do it"]);
    let answer = answered(&world, &model, with_project_at(real, &world, &plain));
    assert!(answer.contains("tide"), "{answer}");
}

#[test]
fn the_question_shows_the_real_paths_of_inputs_and_of_the_directory() {
    let arguments = json!({
        "skill": "tides", "command": "cat /work/work/f.txt", "cwd": "/project/src",
        "inputs": [{"from": "/project/notes.txt", "to": "work/f.txt"}, {"from": "/project/linked", "to": "work/l.txt"}],
    });
    let call = || Answer::call("skill_run", arguments.clone());
    let model = FakeModel::start(vec![call(), Answer::text("Done."), call(), Answer::text("Again.")]);
    let world = project(&model);
    world.file("project/notes.txt", "low tide\n");
    symlink("plan.json", world.path("project/linked")).unwrap();
    let pty = begun(&world, &[], 160, 60);
    pty.type_line("look");
    let screen = pty.wait_for("allow it?");
    let at = |name: &str| world.path("project").join(name).display().to_string();
    for line in [
        format!("{} as work/f.txt", at("notes.txt")),
        format!("{} as work/l.txt", at("plan.json")),
        format!("cwd {}", at("src")),
    ] {
        assert!(screen.contains(&line), "{line}: {screen}");
    }
    // An approval still covers the same request.
    pty.type_line("a");
    pty.wait_for("Done.");
    at_prompt(&pty);
    pty.type_line("look again");
    let screen = pty.wait_for("Again.");
    assert_eq!(screen.matches("allow it?").count(), 1, "{screen}");
}
