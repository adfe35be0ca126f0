//! Installing skills: `add`, `install`, `verify`, `outdated`, `update` and `remove`, as a person runs them.

mod agents;
pub(crate) mod archives;
mod failures;
mod hostile;
mod killed;
mod locks;
mod repository;
mod screens;
mod server;
mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use self::repository::Repository;
use crate::pty::Pty;
use crate::world::World;

/// A world whose Git configuration and temporary directory only the test knows.
struct Scene {
    world: World,
    /// The directory in which commands run, from the world.
    project: String,
}

impl Scene {
    fn new() -> Self {
        let world = World::new();
        world.file("gitconfig", "");
        std::fs::create_dir(world.path("tmp")).unwrap();
        Self { world, project: "project".to_owned() }
    }

    /// Makes another project, and runs the next commands there.
    fn enter(&mut self, project: &str) {
        std::fs::create_dir_all(self.world.path(project).join(".git")).unwrap();
        project.clone_into(&mut self.project);
    }

    /// A path from the world.
    fn path(&self, path: &str) -> PathBuf {
        self.world.path(path)
    }

    /// A path from the project.
    fn here(&self, path: &str) -> PathBuf {
        self.path(&self.project).join(path)
    }

    /// Writes files below a directory of the world.
    fn files(&self, directory: &str, files: &[(&str, &str)]) -> &Self {
        for (path, text) in files {
            self.world.file(&format!("{directory}/{path}"), text);
        }
        self
    }

    /// A new repository with one commit.
    fn repository(&self, name: &str, files: &[(&str, &str)]) -> Repository {
        let repository = Repository::new(&self.path("upstream").join(name));
        repository.commit(files);
        repository
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command
            .current_dir(self.path(&self.project))
            .env("GIT_CONFIG_GLOBAL", self.path("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("TMPDIR", self.path("tmp"));
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Exit code, output and errors as one text.
    fn run(&self, args: &[&str]) -> String {
        self.told(&self.output(args))
    }

    /// The same of a run that has ended. A path of this world reads the same in every run of the test.
    fn told(&self, output: &Output) -> String {
        self.world.told(output).replace(&format!("[WORLD]/{}/", self.project), "[PROJECT]/")
    }

    /// Runs a command that must succeed.
    fn succeed(&self, args: &[&str]) -> String {
        let told = self.run(args);
        assert!(told.starts_with("exit 0\n"), "{args:?}: {told}");
        told
    }

    /// Runs a command that must fail and say this.
    fn fail(&self, args: &[&str], said: &str) -> String {
        let told = self.run(args);
        assert!(!told.starts_with("exit 0\n"), "{args:?}: {told}");
        assert!(told.contains(said), "{args:?} does not say {said:?}: {told}");
        told
    }

    /// A command on a terminal.
    fn on_terminal(&self, args: &[&str], columns: u16, rows: u16) -> Pty {
        let mut command = self.command(args);
        command.env("TERM", "xterm-256color");
        Pty::run(command, columns, rows)
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.here(path)).unwrap()
    }

    /// A lock of the project.
    fn lock(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// Everything in the project: files with their texts, links with their targets.
    fn state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        collect(&self.here(""), "", &mut state);
        state
    }

    /// Everything in the world that prowess did not make for itself.
    fn outside(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        collect(&self.path(""), "", &mut state);
        let own = ["home/.cache/", "home/.local/", "tmp/"];
        state.retain(|path, _| !own.iter().any(|own| path.starts_with(own)));
        state
    }

    /// Forgets what prowess has cached.
    fn forget_cache(&self) {
        std::fs::remove_dir_all(self.path("home/.cache")).unwrap();
    }

    /// Removes the installed skills, as in a fresh clone that has only the locks.
    fn forget_skills(&self) {
        std::fs::remove_dir_all(self.here(".agents")).unwrap();
    }
}

/// The entries below a directory. Directories count, so that no empty one is overlooked.
fn collect(directory: &Path, prefix: &str, state: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), state);
            state.insert(format!("{path}/"), String::new());
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            state.insert(path, format!("→ {}", target.display()));
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            state.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        } else {
            state.insert(path, "special".to_owned());
        }
    }
}

/// The text of a small skill.
fn manifest(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: Knows the {name}. Use it at sea.\n---\n\n# {name}\n\n{body}\n")
}
