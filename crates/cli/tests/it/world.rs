//! A home, a project and a binary to run in it.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A home and a project under version control.
pub(crate) struct World {
    directory: PathBuf,
    /// More variables of every command.
    variables: Vec<(String, String)>,
    /// Removes the directory with the world.
    _temporary: Option<TempDir>,
}

impl World {
    /// A home and a project with nothing in them.
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut world = Self::at(temporary.path());
        world._temporary = Some(temporary);
        world
    }

    /// The home and the project in a directory that stays; they are made if they are missing.
    pub(crate) fn at(directory: &Path) -> Self {
        let world = Self { directory: directory.to_owned(), variables: Vec::new(), _temporary: None };
        for path in ["home", "project/.git"] {
            std::fs::create_dir_all(world.path(path)).unwrap();
        }
        world
    }

    /// Sets a variable for every command.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// Writes a file, with the directories that it needs.
    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Writes a skill below `root`.
    pub(crate) fn skill(&self, root: &str, name: &str, description: &str) -> &Self {
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\nDo it.\n");
        self.file(&format!("{root}/{name}/SKILL.md"), &text)
    }

    /// `prowess` in the project, ready to be run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prowess"));
        command
            .args(args)
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs `prowess` in the project.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs `prowess` in the project, with `input` to read.
    pub(crate) fn fed(&self, args: &[&str], input: impl AsRef<[u8]>) -> Output {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_ref()).unwrap();
        file.rewind().unwrap();
        self.command(args).stdin(file).output().unwrap()
    }

    /// The standard output of a run that must succeed.
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The JSON that a run prints, whatever its exit code.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_slice(&self.output(args).stdout).unwrap()
    }

    /// Everything a run says, as one text to hold against a snapshot.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.told(&self.output(args))
    }

    /// Exit code, output and errors as one text.
    pub(crate) fn told(&self, output: &Output) -> String {
        let told = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&*self.directory.to_string_lossy(), "[WORLD]")
        };
        format!(
            "exit {}\n--- out\n{}--- err\n{}",
            output.status.code().map_or("by signal".to_owned(), |code| code.to_string()),
            told(&output.stdout),
            told(&output.stderr)
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Skills in workspaces are read-only, which only root can remove as they are.
        let state = self.path("home/.local/state");
        if state.is_dir() {
            let _ = Command::new("chmod").args(["-R", "u+w"]).arg(state).status();
        }
    }
}

/// The skills that come with the project.
pub(crate) fn examples() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills").to_string_lossy().into_owned()
}

/// The commands that the help of `prowess WORDS…` shows.
pub(crate) fn subcommands(world: &World, words: &[&str]) -> Vec<String> {
    let help = world.stdout(&[words, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}
