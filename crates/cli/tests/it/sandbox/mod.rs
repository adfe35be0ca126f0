//! What hostile skills do to the machine through `prowess run`, by the numbers of the security cases.

mod bombs;
mod memory;
mod results;
mod set_ids;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::world::World;

/// A world with a skill that has this script, which commands can reach whoever they run as.
fn world(script: &str) -> World {
    let world = World::new();
    for path in ["", "home"] {
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    world.skill("home/.prowess/skills", "hostile", "Does harm. Use it in tests.");
    world.file("home/.prowess/skills/hostile/act.py", script);
    world
}

/// `prowess run` of the script with these options and this argument.
fn act(world: &World, options: &[&str], argument: &str) -> Command {
    let line = format!("exec /usr/bin/python3 -u act.py {argument}");
    world.command(&[&["run", "hostile"], options, &["--", &line]].concat())
}

/// Has a command find no bubblewrap, so that a weaker level holds it.
fn without_bubblewrap(world: &World, command: &mut Command) {
    let bin = world.path("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        let places = std::env::var_os("PATH").unwrap();
        let setpriv =
            std::env::split_paths(&places).map(|place| place.join("setpriv")).find(|at| at.is_file());
        std::os::unix::fs::symlink(setpriv.unwrap(), bin.join("setpriv")).unwrap();
    }
    command.env("PATH", bin);
}

/// The same command as a user who is not root and can make no control group.
fn as_plain_user(world: &World, command: &Command) -> Command {
    const USER: &str = "54321";
    if !rustix::process::geteuid().is_root() {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args())
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        same.current_dir(command.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
        return same;
    }
    // At a place that every user can reach.
    let program = world.path("prowess");
    if !program.exists() {
        std::fs::copy(command.get_program(), &program).unwrap();
    }
    let owned =
        Command::new("chown").args(["-R", USER]).args([world.path("home"), world.path("project")]).status();
    assert!(owned.unwrap().success());
    let mut plain = Command::new("setpriv");
    plain.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--"]).arg(program);
    plain
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    plain.current_dir(command.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    plain
}

/// Everything that a run said.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// All files and directories below a directory. No link is followed.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}
