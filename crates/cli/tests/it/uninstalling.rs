//! `prowess uninstall`: all of it goes, and nothing else.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pty::Pty;
use crate::world::World;

/// A home with everything that the program makes, and a copy of the program in it.
fn installed() -> World {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.")
        .skill("project/.prowess/skills", "kites", "Builds kites. Use on windy days.")
        .file("home/.config/prowess/prowess.toml", "[model]\nname = \"offline\"\n")
        .file("home/.cache/prowess/servers/docs/a", "cached\n")
        .file("home/.local/share/man/man1/prowess-notes.1", ".TH somebody-else 1\n")
        .file("home/.local/share/man/man1/other.1", ".TH other 1\n")
        .file("home/.zfunc/_prowess", "# somebody wrote this\n");
    std::fs::create_dir_all(world.path("home/bin")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_prowess"), world.path("home/bin/prowess")).unwrap();
    world.stdout(&["chat", "--yes", "hello"]);
    let pages = world.path("home/.local/share/man/man1");
    world.stdout(&["man", pages.to_str().unwrap()]);
    world.file(
        "home/.local/share/bash-completion/completions/prowess",
        &world.stdout(&["completions", "bash"]),
    );
    world.file("home/.config/fish/completions/prowess.fish", &world.stdout(&["completions", "fish"]));
    world
}

/// The copy of the program in the home, ready to be run. It sees nothing of the place where a superuser's workspaces are,
/// which other tests use.
fn own(world: &World, args: &[&str]) -> Command {
    apart(world, &world.path("home/bin/prowess"), args)
}

/// A program that cannot reach what other tests share with it.
pub(crate) fn apart(world: &World, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command
        .args(["--dev-bind", "/", "/", "--tmpfs", "/var/tmp", "--"])
        .arg(program)
        .args(args)
        .current_dir(world.path("project"))
        .env_clear()
        .env("HOME", world.path("home"))
        .env("TERM", "xterm-256color")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(std::process::Stdio::null());
    command
}

/// Every file below the home, by its path there.
fn files(world: &World) -> Vec<String> {
    let (home, mut found) = (world.path("home"), Vec::new());
    let mut pending = vec![home.clone()];
    while let Some(path) = pending.pop() {
        if path.symlink_metadata().unwrap().is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push(path.strip_prefix(&home).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn everything_goes_but_skills_and_what_is_not_ours() {
    let world = installed();
    let output = own(&world, &["uninstall", "--dry-run"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    for path in [
        "home/.local/state/prowess",
        "home/.cache/prowess",
        "home/.config/prowess/prowess.toml",
        "home/bin/prowess",
        "home/.local/share/bash-completion/completions/prowess",
        "home/.local/share/man/man1/prowess-chat.1",
    ] {
        let line = format!("  {}  (", world.path(path).display());
        assert!(told.contains(&line), "{path}: {told}");
    }
    assert!(told.contains(&format!("Your skills stay: {}", world.path("home/.prowess").display())), "{told}");
    let before = files(&world);

    // Without a terminal nothing happens, and a no is a no.
    let output = own(&world, &["uninstall"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("add --yes"));
    let mut pty = Pty::run(own(&world, &["uninstall"]), 100, 60);
    pty.wait_for("[y/N]");
    pty.type_line("");
    assert_eq!(pty.wait(), Some(1), "{}", pty.screen());
    assert_eq!(files(&world), before);

    let mut pty = Pty::run(own(&world, &["uninstall"]), 100, 60);
    pty.wait_for("[y/N]");
    pty.type_line("y");
    assert_eq!(pty.wait(), Some(0), "{}", pty.screen());
    assert_eq!(
        files(&world),
        [
            ".local/share/man/man1/other.1",
            ".local/share/man/man1/prowess-notes.1",
            ".prowess/skills/tides/SKILL.md",
            ".zfunc/_prowess",
        ]
    );
    assert!(world.path("project/.prowess/skills/kites/SKILL.md").is_file());
    assert!(!world.path("home/.config/prowess").exists());
}

#[test]
fn the_configuration_can_stay_and_links_are_not_followed() {
    let world = installed();
    world.file("precious/threads.db", "not ours to remove\n").file("dotfiles/prowess.toml", "");
    std::fs::remove_dir_all(world.path("home/.cache/prowess")).unwrap();
    symlink(world.path("precious"), world.path("home/.cache/prowess")).unwrap();
    std::fs::remove_file(world.path("home/.config/prowess/prowess.toml")).unwrap();
    symlink(world.path("dotfiles/prowess.toml"), world.path("home/.config/prowess/prowess.toml")).unwrap();
    std::fs::create_dir_all(world.path("home/.local/state/prowess/workspaces")).unwrap();
    symlink(world.path("precious"), world.path("home/.local/state/prowess/workspaces/out")).unwrap();

    let output = own(&world, &["uninstall", "--yes", "--keep-config"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("(cache, a link)"), "{told}");
    assert!(!told.contains("prowess.toml"), "{told}");
    assert!(world.path("home/.config/prowess/prowess.toml").symlink_metadata().is_ok());
    assert!(world.path("home/.cache/prowess").symlink_metadata().is_err());
    assert!(world.path("precious/threads.db").is_file());
    assert!(!world.path("home/.local/state/prowess").exists());
}

#[test]
fn cargo_removes_what_cargo_installed() {
    let world = installed();
    world.file("home/.crates.toml", "[v1]\n\"prowess 0.1.0 (path+file:///x)\" = [\"prowess\"]\n");
    let output = own(&world, &["uninstall", "--yes"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("`cargo uninstall prowess --root "), "{told}");
    assert!(world.path("home/bin/prowess").is_file());
    // A build of a checkout stays, too: this very program is one.
    let output =
        apart(&world, Path::new(env!("CARGO_BIN_EXE_prowess")), &["uninstall", "--yes"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("is a build in a source checkout"), "{told}");
    assert!(PathBuf::from(env!("CARGO_BIN_EXE_prowess")).is_file());
}

#[test]
fn nothing_goes_while_a_conversation_is_open() {
    let world = installed();
    let pty = Pty::start(&world, &["chat", "--trust-project"], 80, 20);
    pty.wait_until("the prompt", |screen| screen.lines().last() == Some(">"));
    let before = files(&world);
    let output = own(&world, &["uninstall", "--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("prowess is in use"));
    assert_eq!(files(&world), before);
}

#[test]
fn nothing_goes_when_a_conversation_begins_while_the_question_is_open() {
    let world = installed();
    let mut asking = Pty::run(own(&world, &["uninstall"]), 100, 60);
    asking.wait_for("[y/N]");
    let chat = Pty::start(&world, &["chat", "--trust-project"], 80, 20);
    chat.wait_until("the prompt", |screen| screen.lines().last() == Some(">"));
    let before = files(&world);
    asking.type_line("y");
    assert_eq!(asking.wait(), Some(2), "{}", asking.screen());
    assert!(asking.screen().contains("prowess is in use"), "{}", asking.screen());
    assert_eq!(files(&world), before);
    chat.type_line("hello");
    chat.type_line("/quit");
}
