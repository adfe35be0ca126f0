//! What runs may write in a project, and what they never write.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::workspace::Workspaces;

/// A project, and a workspace with copies of its directories.
struct Place {
    scratch: tempfile::TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("project/dist/sub")).unwrap();
        let workspace = Workspaces::open(scratch.path().join("ws")).unwrap().workspace("one").unwrap();
        Self { scratch, workspace }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join("project").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }

    fn copies(&self, inside: &[&str]) -> (Copies, Vec<Mount>, Vec<String>) {
        self.copies_with(inside, Vec::new())
    }

    fn copies_with(&self, inside: &[&str], mut mounts: Vec<Mount>) -> (Copies, Vec<Mount>, Vec<String>) {
        let project = WritableProject {
            directory: self.scratch.path().join("project"),
            at: "/project".to_owned(),
            inside: inside.iter().map(|path| path.parse().unwrap()).collect(),
            withheld: Arc::new(|path| path.ends_with("key.txt")),
        };
        let mut warnings = Vec::new();
        let copies = Copies::make(&self.workspace, project, &mut mounts, &mut warnings).unwrap();
        (copies, mounts, warnings.iter().map(ToString::to_string).collect())
    }

    fn left(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.workspace.path().join("out").join(LEFT).join(name)).ok()
    }
}

/// The local directory that a run writes.
fn copy_of<'a>(mounts: &'a [Mount], at: &str) -> &'a Path {
    let mount = mounts.iter().find(|mount| mount.at == at).unwrap();
    assert!(matches!(mount.source, MountSource::Writable(_)));
    mount.source.path().unwrap()
}

fn told(changed: &[ChangedProjectFile]) -> Vec<(&str, ProjectChange)> {
    changed.iter().map(|file| (file.path.as_str(), file.change)).collect()
}

fn texts(warnings: &[RunWarning]) -> String {
    warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn changes_of_a_run_reach_the_project() {
    let place = Place::new();
    for (name, text) in [("dist/same", "1"), ("dist/changed", "2"), ("dist/sub/removed", "3"), ("other", "4")]
    {
        place.write(name, text);
    }
    fs::set_permissions(place.at("dist/changed"), fs::Permissions::from_mode(0o600)).unwrap();
    let (copies, mounts, warnings) = place.copies(&["dist", "dist/sub", "new/deep"]);
    assert_eq!(warnings, [""; 0]);
    let seen: Vec<_> = mounts.iter().map(|mount| mount.at.as_str()).collect();
    assert_eq!(seen, ["/project", "/project/dist", "/project/new/deep"]);
    assert_eq!(mounts[0].source, MountSource::Empty);
    let (dist, new) = (copy_of(&mounts, "/project/dist"), copy_of(&mounts, "/project/new/deep"));
    fs::write(dist.join("changed"), "two").unwrap();
    fs::remove_dir_all(dist.join("sub")).unwrap();
    fs::create_dir(dist.join("made")).unwrap();
    fs::write(dist.join("made/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dist.join("made/tool"), fs::Permissions::from_mode(0o6777)).unwrap();
    fs::write(new.join("x"), "new").unwrap();
    assert_eq!(place.read("dist/changed").unwrap(), "2", "a run does not write the project itself");
    let (changed, warnings) = copies.write_back();
    assert_eq!(texts(&warnings), "");
    assert_eq!(
        told(&changed),
        [
            ("/project/dist/changed", ProjectChange::Replaced),
            ("/project/dist/made/tool", ProjectChange::Created),
            ("/project/dist/sub/removed", ProjectChange::Removed),
            ("/project/new/deep/x", ProjectChange::Created),
        ]
    );
    assert_eq!(changed[0].real, place.at("dist/changed"));
    let mode = |name: &str| fs::metadata(place.at(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("dist/changed"), mode("dist/made/tool")), (0o600, 0o755));
    assert_eq!(
        ["dist/same", "dist/changed", "dist/sub/removed", "new/deep/x"].map(|name| place.read(name)),
        [Some("1"), Some("two"), None, Some("new")].map(|text| text.map(str::to_owned))
    );
    assert_eq!(fs::read_dir(place.workspace.path().join(COPIES)).unwrap().count(), 0, "the copy is gone");
}

#[test]
fn case_115_protected_names_are_never_written() {
    let names = [
        ".git/config",
        ".GIT/hooks/pre-commit",
        "a/b/.git",
        ".prowess/skills/x/SKILL.md",
        ".Claude/settings.json",
        "a/.agents/x",
        ".opencode/x",
        "AGENTS.md",
        "a/agents.MD",
        "CLAUDE.md",
        "prowess.toml",
        "a/Prowess.toml",
        ".vscode/tasks.json",
        ".idea/x",
        "a/.envrc",
        "x.code-workspace",
        ".nvim.lua",
        "git~1",
        ".git.",
        "a/.agent\u{17f}/x",
        ".g\u{200c}it/config",
        "key.txt",
    ];
    let place = Place::new();
    place.write("dist/.git/config", "theirs");
    place.write("dist/AGENTS.md", "theirs");
    place.write("dist/key.txt", "secret");
    let (copies, mounts, warnings) = place.copies(&["dist"]);
    assert!(warnings[0].contains(".git, AGENTS.md, key.txt"), "{warnings:?}");
    let copy = copy_of(&mounts, "/project/dist");
    assert_eq!(fs::read_dir(copy).unwrap().count(), 1, "only sub");
    for name in names {
        fs::create_dir_all(copy.join(name).parent().unwrap()).unwrap();
        fs::write(copy.join(name), "evil").unwrap();
    }
    fs::write(copy.join("good"), "good").unwrap();
    let (changed, warnings) = copies.write_back();
    assert_eq!(told(&changed), [("/project/dist/good", ProjectChange::Created)]);
    assert!(texts(&warnings).contains("/project/dist/AGENTS.md was not copied back"), "{}", texts(&warnings));
    for (name, text) in [(".git/config", "theirs"), ("AGENTS.md", "theirs"), ("key.txt", "secret")] {
        assert_eq!(place.read(&format!("dist/{name}")).as_deref(), Some(text));
    }
    for name in names.iter().filter(|name| ![".git/config", "AGENTS.md", "key.txt"].contains(name)) {
        assert_eq!(place.read(&format!("dist/{name}")), None, "{name}");
    }
    for name in [".git", "a/.claude", "AGENTS.md", "dist/.Vscode", "..", "/etc", "."] {
        assert!(name.parse::<WritablePath>().is_err(), "{name}");
    }
}

#[test]
fn case_115_links_and_special_files_lead_nowhere() {
    let place = Place::new();
    place.write(".git/config", "theirs");
    place.write("dist/a", "1");
    place.write("outside", "mine");
    symlink("../.git", place.at("dist/out-of-it")).unwrap();
    let (copies, mounts, warnings) = place.copies(&["dist"]);
    assert!(warnings[0].contains("out-of-it"), "{warnings:?}");
    let copy = copy_of(&mounts, "/project/dist").to_owned();
    symlink(place.at("outside"), copy.join("file-link")).unwrap();
    symlink(place.scratch.path().join("project"), copy.join("directory-link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, copy.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    fs::remove_file(copy.join("a")).unwrap();
    symlink("/etc/passwd", copy.join("a")).unwrap();
    // Files that the run would write below a link of the project.
    fs::create_dir(copy.join("out-of-it")).unwrap();
    fs::write(copy.join("out-of-it/config"), "evil").unwrap();
    fs::write(copy.join("out-of-it/new"), "evil").unwrap();
    let (changed, warnings) = copies.write_back();
    assert_eq!(told(&changed), [], "{}", texts(&warnings));
    for name in ["file-link", "directory-link", "fifo", "out-of-it/config", "/a "] {
        assert!(texts(&warnings).contains(name), "{name}: {}", texts(&warnings));
    }
    assert_eq!(place.read(".git/config").unwrap(), "theirs");
    assert_eq!((place.read(".git/new"), place.read("dist/a").as_deref()), (None, Some("1")));
    // A directory that is a link itself, or becomes one during the run.
    symlink(".git", place.at("alias")).unwrap();
    let (copies, mounts, warnings) = place.copies(&["alias", "dist"]);
    assert!(
        warnings[0].contains("/project/alias cannot be written in this run: it is a link"),
        "{warnings:?}"
    );
    fs::write(copy_of(&mounts, "/project/dist").join("config"), "evil").unwrap();
    fs::remove_dir_all(place.at("dist")).unwrap();
    symlink(".git", place.at("dist")).unwrap();
    let (changed, warnings) = copies.write_back();
    assert_eq!(told(&changed), [], "{}", texts(&warnings));
    assert_eq!(place.read(".git/config").unwrap(), "theirs");
}

#[test]
fn what_somebody_else_changed_is_not_overwritten() {
    let place = Place::new();
    for name in ["both", "removed-here", "removed-there", "alone"] {
        place.write(&format!("dist/{name}"), "before");
    }
    let (copies, mounts, _) = place.copies(&["dist"]);
    let copy = copy_of(&mounts, "/project/dist").to_owned();
    fs::write(copy.join("both"), "run").unwrap();
    fs::write(copy.join("new"), "run").unwrap();
    fs::write(copy.join("agreed"), "same").unwrap();
    fs::write(copy.join("removed-here"), "run").unwrap();
    fs::remove_file(copy.join("removed-there")).unwrap();
    for (name, text) in
        [("both", "person"), ("new", "person"), ("removed-there", "person"), ("agreed", "same")]
    {
        place.write(&format!("dist/{name}"), text);
    }
    fs::remove_file(place.at("dist/removed-here")).unwrap();
    let (changed, warnings) = copies.write_back();
    assert_eq!(told(&changed), []);
    insta::assert_snapshot!(texts(&warnings));
    for name in ["both", "new", "removed-there"] {
        assert_eq!(place.read(&format!("dist/{name}")).as_deref(), Some("person"), "{name}");
    }
    assert_eq!(place.read("dist/removed-here"), None);
    assert_eq!(
        ["both", "new", "removed-here"].map(|name| place.left(&format!("dist/{name}")).unwrap()),
        ["run"; 3]
    );
}

#[test]
fn large_directories_are_not_writable_and_large_changes_are_kept_apart() {
    let place = Place::new();
    for number in 0..=MAX_WRITABLE_ENTRIES {
        place.write(&format!("many/{number}"), "");
    }
    fs::create_dir(place.at("large")).unwrap();
    fs::File::create(place.at("large/file")).unwrap().set_len(MAX_WRITABLE_BYTES + 1).unwrap();
    let (copies, mounts, warnings) = place.copies(&["many", "large", "dist"]);
    assert_eq!(mounts.len(), 2);
    assert!(
        warnings.iter().any(|text| text.contains("/project/many") && text.contains("4096 files")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|text| text.contains("/project/large") && text.contains("bytes")),
        "{warnings:?}"
    );
    place.write("dist/kept", "mine");
    let copy = copy_of(&mounts, "/project/dist").to_owned();
    fs::write(copy.join("small"), "small").unwrap();
    for number in 0..MAX_WRITABLE_ENTRIES {
        fs::write(copy.join(number.to_string()), "").unwrap();
    }
    let (changed, warnings) = copies.write_back();
    assert_eq!(told(&changed), []);
    assert!(
        texts(&warnings).contains("nothing of it was copied back; it is at /work/out/not-copied-back/dist"),
        "{warnings:?}"
    );
    assert_eq!(place.left("dist/small").unwrap(), "small");
    assert_eq!(place.read("dist/kept").unwrap(), "mine");
}

#[test]
fn a_copy_hides_what_was_given_of_its_directory() {
    let place = Place::new();
    let given = |at: &str| Mount { source: MountSource::ReadOnly("/x".into()), at: at.to_owned() };
    let all = vec![given("/project"), given("/project/dist/a"), given("/project/distant")];
    let (copies, mounts, warnings) = place.copies_with(&["dist", "missing"], all);
    let seen: Vec<_> = mounts.iter().map(|mount| mount.at.as_str()).collect();
    assert_eq!(seen, ["/project", "/project/distant", "/project/dist"]);
    assert!(
        warnings[0].contains("/project/missing cannot be written in this run: it does not exist"),
        "{warnings:?}"
    );
    drop(copies);
    // A killed process leaves its copies. They are removed when no run is left.
    fs::create_dir_all(place.workspace.path().join(COPIES).join("old/0")).unwrap();
    sweep(&place.workspace).unwrap();
    assert!(!place.workspace.path().join(COPIES).exists());
}
