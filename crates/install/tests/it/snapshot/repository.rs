//! Git repositories for tests.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prowess_install::snapshot::git::GitRequest;

/// A repository, and a home whose Git configuration only the test writes.
pub(crate) struct Repository {
    pub(crate) home: tempfile::TempDir,
}

impl Repository {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let repository = Self { home };
        fs::create_dir(repository.path()).unwrap();
        repository.configure("[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n");
        repository.git(&["init", "--quiet"]);
        repository
    }

    /// A repository with one commit.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let repository = Self::new();
        repository.commit(files);
        repository
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Adds lines to the person's Git configuration.
    pub(crate) fn configure(&self, lines: &str) {
        let file = self.home.path().join("gitconfig");
        let mut file = fs::File::options().create(true).append(true).open(file).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    /// The variables that make Git use that configuration and no other.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let pair = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        vec![
            pair("GIT_CONFIG_GLOBAL", &self.home.path().join("gitconfig")),
            pair("GIT_CONFIG_SYSTEM", Path::new("/dev/null")),
            pair("HOME", self.home.path()),
        ]
    }

    pub(crate) fn request(&self, url: &str) -> GitRequest {
        let mut request = GitRequest::new(url);
        request.environment = self.environment();
        request
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    /// Runs Git with some input.
    pub(crate) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("git")
            .current_dir(self.path())
            .envs(self.environment())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Writes files and commits everything.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a tree made of `mktree` lines, which `add` would refuse.
    pub(crate) fn commit_tree(&self, lines: &[u8]) -> String {
        let tree = self.git_with(&["mktree", "-z"], lines);
        let commit = self.git(&["commit-tree", "-m", "x", &tree]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
        tree
    }

    /// The id of a new blob.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        self.git_with(&["hash-object", "-w", "--stdin"], bytes)
    }

    /// Writes a script below the home and returns its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}
