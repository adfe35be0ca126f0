//! Puts the commit into the version: `0.1.0 (abc1234, 2026-11-15)`.
//!
//! The commit is what `PROWESS_COMMIT` says, for those who build from an archive, else what git says. Where neither
//! says anything there is the version alone.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of. A change in it is a modification.
const SOURCES: [&str; 6] = [
    "Cargo.toml",
    "Cargo.lock",
    "crates/*/Cargo.toml",
    "crates/*/build.rs",
    "crates/*/src/**",
    "examples/skills/**",
];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let top = here.join("../..");
    println!("cargo::rerun-if-env-changed=PROWESS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let said = std::env::var("PROWESS_COMMIT").ok();
    if said.is_none() {
        for path in watched(&top) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let version = version(env!("CARGO_PKG_VERSION"), said.as_deref(), &top);
    println!("cargo::rustc-env=PROWESS_VERSION={version}");
    carry(&top.join("examples/skills"));
}

/// Writes down the example skills, for the demo to carry along. Where there are none, it carries none.
fn carry(skills: &Path) {
    println!("cargo::rerun-if-changed={}", skills.display());
    let mut files = Vec::new();
    collect(skills, &mut files);
    files.sort();
    let lines = files.iter().map(|path| {
        let below = path.strip_prefix(skills).unwrap_or(path);
        format!(
            "({:?}, include_bytes!({:?}).as_slice()),\n",
            below.display().to_string(),
            path.display().to_string()
        )
    });
    let list = format!("&[{}]", lines.collect::<String>());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = std::fs::write(out.join("examples.rs"), list) {
        println!("cargo::error=the example skills cannot be written down: {error}");
    }
}

/// All files below a directory, except files that running them left.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "__pycache__" {
            collect(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}

/// The version with the commit that was `said`, or else is checked out at `top`.
pub(crate) fn version(number: &str, said: Option<&str>, top: &Path) -> String {
    let commit = match said {
        Some(said) => said.lines().next().map(|line| line.trim().to_owned()),
        None => checked_out(top),
    };
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{number} ({commit})"),
        None => number.to_owned(),
    }
}

/// The commit, its day, and whether the sources are no longer what it has.
fn checked_out(top: &Path) -> Option<String> {
    // A repository around an unpacked archive is somebody else's, and knows nothing of these files.
    git(top, &["ls-files", "--error-unmatch", "crates/cli/build.rs"])?;
    let commit = git(top, &["-c", "log.showSignature=false", "log", "-1", "--abbrev=7", "--format=%h, %cs"])?;
    let sources = SOURCES.map(|path| format!(":(glob){path}"));
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(sources.iter().map(String::as_str));
    let is_modified = git(top, &status).is_none_or(|changes| !changes.is_empty());
    Some(if is_modified { commit + ", modified" } else { commit })
}

/// The files whose change can change the answer. One that is not there would count as changed in every build.
pub(crate) fn watched(top: &Path) -> Vec<PathBuf> {
    let branch = git(top, &["symbolic-ref", "--quiet", "HEAD"]);
    // A branch that is packed has no file until the next commit: the log of HEAD sees that one too.
    let names = ["HEAD", "logs/HEAD", "packed-refs", "reftable"].into_iter().chain(branch.as_deref());
    let mut paths: Vec<PathBuf> =
        names.filter_map(|name| Some(top.join(git(top, &["rev-parse", "--git-path", name])?))).collect();
    if !paths.is_empty() {
        paths.extend(["Cargo.toml", "Cargo.lock"].map(|name| top.join(name)));
        for one in std::fs::read_dir(top.join("crates")).into_iter().flatten().flatten() {
            paths.extend(["Cargo.toml", "build.rs", "src"].map(|name| one.path().join(name)));
        }
    }
    paths.retain(|path| path.exists());
    paths
}

/// What git prints; nothing when it is not there, or fails.
fn git(top: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook of another repository may have started us.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    let output = command.arg("--no-optional-locks").args(args).current_dir(top).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
