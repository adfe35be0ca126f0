//! Git repositories for tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A repository. Its commits have fixed times, so their ids are the same in every run.
pub(super) struct Repository {
    path: PathBuf,
}

impl Repository {
    pub(super) fn new(path: &Path) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let repository = Self { path: path.to_owned() };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Writes files, commits everything, and gives the id of the commit.
    pub(super) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.path.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Puts a tree made of `mktree` lines on the branch, even one that `add` would refuse.
    pub(super) fn commit_tree(&self, lines: &[u8]) {
        let tree = self.git_with(&["mktree", "-z"], lines);
        let commit = self.git(&["commit-tree", "-m", "x", &tree]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
    }

    /// The id of a new blob.
    pub(super) fn blob(&self, text: &str) -> String {
        self.git_with(&["hash-object", "-w", "--stdin"], text.as_bytes())
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.git_with(args, b"")
    }

    /// The output of git, with nobody's configuration.
    pub(super) fn git_with(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("git")
            .args(args)
            .current_dir(&self.path)
            .env_remove("GIT_DIR")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")])
            .envs([
                ("GIT_AUTHOR_DATE", "2026-11-15T12:00:00Z"),
                ("GIT_COMMITTER_DATE", "2026-11-15T12:00:00Z"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}
