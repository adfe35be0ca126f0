//! What a package needs beside the binary: a version that names its commit, manual pages, completions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::documents::bash;
use crate::world::{World, subcommands};

#[path = "../../build.rs"]
#[allow(dead_code, reason = "it is a program of its own")]
mod build;

/// A directory with the sources of a program in it.
struct Sources(tempfile::TempDir);

impl Sources {
    fn new() -> Self {
        let sources = Self(tempfile::tempdir().unwrap());
        sources.write("crates/cli/build.rs", "fn main() {}\n");
        sources.write("crates/cli/src/main.rs", "fn main() {}\n");
        sources
    }

    /// The same under version control, with one commit.
    fn committed() -> Self {
        let sources = Self::new();
        sources.git(&["init", "--quiet", "--initial-branch", "trunk"]);
        sources.commit("Begin");
        sources
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", subject]);
    }

    /// The output of git, with nobody's configuration.
    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.path())
            .env_remove("GIT_DIR")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")])
            .env("GIT_COMMITTER_DATE", "2026-11-15T12:00:00Z")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn head(&self) -> String {
        self.git(&["rev-parse", "--short=7", "HEAD"])
    }
}

fn version_at(top: &Path) -> String {
    build::version("1.2.3", None, top)
}

#[test]
fn the_version_names_the_commit_and_its_day() {
    let sources = Sources::committed();
    assert_eq!(version_at(sources.path()), format!("1.2.3 ({}, 2026-11-15)", sources.head()));
    sources.commit("Go on");
    assert_eq!(version_at(sources.path()), format!("1.2.3 ({}, 2026-11-15)", sources.head()));
}

#[test]
fn changed_and_new_sources_are_a_modification_and_other_files_are_not() {
    let sources = Sources::committed();
    let modified = format!("1.2.3 ({}, 2026-11-15, modified)", sources.head());
    sources.write("notes.txt", "What is not built does not count.\n");
    assert!(!version_at(sources.path()).contains("modified"));
    sources.write("crates/cli/src/deep/new.rs", "");
    assert_eq!(version_at(sources.path()), modified);
    sources.commit("Add it");
    assert!(!version_at(sources.path()).contains("modified"));
    sources.write("crates/cli/src/main.rs", "fn main() { loop {} }\n");
    assert!(version_at(sources.path()).ends_with(", modified)"));
}

#[test]
fn without_a_commit_there_is_the_version_alone() {
    let sources = Sources::new();
    assert_eq!(version_at(sources.path()), "1.2.3");
    assert_eq!(build::watched(sources.path()), Vec::<PathBuf>::new());

    // A repository around it that does not have these files has nothing to say about them.
    sources.git(&["init", "--quiet"]);
    sources.git(&["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    assert_eq!(version_at(sources.path()), "1.2.3");

    // No commit at all.
    let sources = Sources::new();
    sources.git(&["init", "--quiet"]);
    sources.git(&["add", "."]);
    assert_eq!(version_at(sources.path()), "1.2.3");
}

#[test]
fn packagers_say_which_commit_it_is() {
    let sources = Sources::committed();
    let said = |said| build::version("1.2.3", Some(said), sources.path());
    assert_eq!(said("v1.2.3-4-gabc"), "1.2.3 (v1.2.3-4-gabc)");
    assert_eq!(said(" abc1234\ncargo::rustc-env=PATH=/"), "1.2.3 (abc1234)");
    assert_eq!(said(""), "1.2.3");
}

/// Whether something that a build looks at changes when `act` does something. Times are what cargo compares.
fn notices(top: &Path, act: impl FnOnce()) -> bool {
    let state = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok();
        file.map(|file| (file.modified().unwrap(), file.len()))
    };
    let watched = build::watched(top);
    let before: Vec<_> = watched.iter().map(state).collect();
    assert!(before.iter().all(Option::is_some), "what is not there is built in every build: {watched:?}");
    act();
    before != watched.iter().map(state).collect::<Vec<_>>()
}

#[test]
fn a_commit_is_noticed_by_the_next_build_wherever_git_keeps_it() {
    let sources = Sources::committed();
    assert!(notices(sources.path(), || sources.commit("On a branch")));
    sources.git(&["pack-refs", "--all"]);
    assert!(!sources.path().join(".git/refs/heads/trunk").exists());
    assert!(notices(sources.path(), || sources.commit("On a packed branch")));
    sources.git(&["checkout", "--quiet", "--detach"]);
    assert!(notices(sources.path(), || sources.commit("On no branch")));
    sources.git(&["branch", "other", "HEAD~"]);
    assert!(notices(sources.path(), || drop(sources.git(&["checkout", "--quiet", "other"]))));
}

#[test]
fn a_worktree_has_its_own_commit_and_notices_it() {
    let sources = Sources::committed();
    let elsewhere = Sources(tempfile::tempdir().unwrap());
    let tree = elsewhere.path().join("tree");
    sources.git(&["worktree", "add", "--quiet", "-b", "side", tree.to_str().unwrap()]);
    assert!(tree.join(".git").is_file());
    let in_tree = |args: &[&str]| sources.git(&[&["-C", tree.to_str().unwrap()], args].concat());
    let commit = || drop(in_tree(&["commit", "--quiet", "--allow-empty", "-m", "Aside"]));
    assert!(notices(&tree, commit));
    let head = in_tree(&["rev-parse", "--short=7", "HEAD"]);
    assert_ne!(head, sources.head());
    assert_eq!(version_at(&tree), format!("1.2.3 ({head}, 2026-11-15)"));
}

#[test]
fn the_version_is_the_same_everywhere() {
    let world = World::new();
    let said = world.stdout(&["--version"]);
    let version = said.trim_end().strip_prefix("prowess ").unwrap();
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(world.json(&["doctor", "--json"])["version"], version);
    let doctor = String::from_utf8(world.output(&["doctor"]).stdout).unwrap();
    assert!(doctor.lines().any(|line| line.split_whitespace().eq(said.split_whitespace())), "{doctor}");
    let page = world.stdout(&["man"]);
    assert!(page.contains(&format!("\"{}\"", said.trim_end())), "{page}");
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let told = world.stdout(&["man", "pages/man1"]);
    let pages = world.path("project/pages/man1");
    let written: BTreeSet<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(told, format!("wrote {} pages to pages/man1\n", written.len()));

    let mut expected = BTreeSet::from(["prowess.1".to_owned()]);
    let mut next: Vec<Vec<String>> = subcommands(&world, &[]).into_iter().map(|name| vec![name]).collect();
    while let Some(words) = next.pop() {
        expected.insert(format!("prowess-{}.1", words.join("-")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let below = subcommands(&world, &words);
        next.extend(
            below.iter().map(|name| [&words[..], &[name]].concat().into_iter().map(str::to_owned).collect()),
        );
    }
    assert_eq!(written, expected);
    assert!(expected.contains("prowess-artifacts-list.1"), "{expected:?}");

    for name in &written {
        check_page(name, &std::fs::read_to_string(pages.join(name)).unwrap());
    }
    assert_eq!(world.stdout(&["man"]), std::fs::read_to_string(pages.join("prowess.1")).unwrap());
}

/// A page has its head and its sections, in order, and each macro that it uses is one of man(7).
fn check_page(name: &str, page: &str) {
    let command = name.strip_suffix(".1").unwrap();
    let requests: Vec<&str> = page.lines().filter(|line| line.starts_with('.')).collect();
    let head = requests.iter().find(|line| line.starts_with(".TH ")).unwrap();
    assert!(head.starts_with(&format!(".TH {command} 1 \" \" \"prowess ")), "{name}: {head}");
    let sections: Vec<&str> = requests.iter().filter_map(|line| line.strip_prefix(".SH ")).collect();
    assert_eq!(sections[..3], ["NAME", "SYNOPSIS", "DESCRIPTION"], "{name}: {sections:?}");
    for request in requests {
        let word = request.split(' ').next().unwrap();
        assert!(
            [".TH", ".SH", ".SS", ".TP", ".RS", ".RE", ".PP", ".IP", ".br", ".ie", ".el"].contains(&word),
            "{name}: {request}"
        );
    }
    let named = page.split_once(".SH NAME\n").unwrap().1.lines().next().unwrap();
    assert!(named.replace('\\', "").starts_with(&format!("{command} - ")), "{name}: {named}");
    assert!(page.lines().all(|line| !line.starts_with('\'') || line.starts_with("'\\\"")), "{name}");
}

#[test]
fn pages_that_cannot_be_written_are_told() {
    let world = World::new();
    world.file("project/taken", "");
    let output = world.output(&["man", "taken"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("prowess: cannot write man pages to taken: "), "{told}");
}

#[test]
fn every_shell_gets_completions_of_every_command() {
    let world = World::new();
    let names = subcommands(&world, &[]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = world.stdout(&["completions", shell]);
        assert!(script.contains("_PROWESS_COMPLETE"), "{shell}: {script}");
        if shell == "bash" {
            bash(&script).unwrap();
        }
        // What the script asks for, and which word is to be completed.
        let ask = |words: &[&str]| {
            let mut command = world.command(&[&["--", "prowess"], words].concat());
            command.env("_PROWESS_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let commands = ask(&[""]);
        for name in &names {
            assert!(
                commands.split(['\n', '\t', ':', '\u{b}']).any(|word| word == name),
                "{shell}: {name}: {commands}"
            );
        }
        assert!(ask(&["list", "--trust"]).contains("--trust-project"), "{shell}");
    }
}
