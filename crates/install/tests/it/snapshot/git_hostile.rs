//! Repositories that want to do harm.

use std::fs;
use std::process::{Command, Stdio};

use prowess_install::snapshot::fetch::{FetchError, FetchOptions, fetch};
use prowess_install::snapshot::git::{self, GitError};
use prowess_install::snapshot::http::NamedBy;
use prowess_install::snapshot::{EntryKind, Snapshot, SnapshotError, check_path};
use prowess_install::source::{Source, SourceEnvironment};

use super::repository::Repository;
use super::run;

const SKILL: &str = "---\nname: tide\ndescription: Tells the tide.\n---\n";

fn kind(snapshot: &impl Snapshot, path: &str) -> Option<EntryKind> {
    snapshot.entries().iter().find(|entry| entry.path == path).map(|entry| entry.kind)
}

#[test]
fn case_126_options_and_helpers_as_names_run_nothing() {
    let repository = Repository::with(&[("SKILL.md", SKILL)]);
    let mark = repository.home.path().join("ran");
    let shown = mark.display();
    for url in [
        format!("ext::sh -c touch% {shown}"),
        format!("ext::touch {shown}"),
        format!("--upload-pack=touch {shown}"),
        format!("-c core.sshCommand='touch {shown}'"),
        "-c".to_owned(),
        format!("ssh://-oProxyCommand=touch {shown}/x"),
        format!("-oProxyCommand=touch {shown}:x"),
        "fd::3".to_owned(),
        "ftp://127.0.0.1/x".to_owned(),
    ] {
        let error = run(git::fetch(&repository.request(&url))).unwrap_err();
        assert!(matches!(error, GitError::Url { .. }), "{url}: {error}");
    }
    for reference in [
        format!("--upload-pack=touch {shown}"),
        "-c".to_owned(),
        "main:refs/heads/x".to_owned(),
        "^main".to_owned(),
        "+main".to_owned(),
        "--".to_owned(),
    ] {
        let mut request = repository.request(&repository.url());
        request.reference = Some(reference.clone());
        let error = run(git::fetch(&request)).unwrap_err();
        assert!(matches!(error, GitError::Reference(_)), "{reference}: {error}");
    }
    // Not even the person's configuration leads to a helper.
    repository.configure(&format!(
        "[url \"ext::touch {shown} \"]\ninsteadOf = https://evil.example/\n[protocol \"ext\"]\nallow = always\n"
    ));
    let error = run(git::fetch(&repository.request("https://evil.example/x"))).unwrap_err();
    assert!(matches!(error, GitError::Url { .. }), "{error}");
    assert!(!mark.exists());
}

#[test]
fn case_126_strangers_cannot_name_files() {
    let repository = Repository::with(&[("SKILL.md", SKILL)]);
    let path = repository.path().display().to_string();
    for url in [repository.url(), path.clone()] {
        let mut request = repository.request(&url);
        request.named_by = NamedBy::Stranger;
        let error = run(git::fetch(&request)).unwrap_err();
        assert!(matches!(error, GitError::FileFromStranger { .. }), "{error}");
    }
    let options = FetchOptions { named_by: NamedBy::Stranger, ..FetchOptions::default() };
    let source = Source::parse(&path, &SourceEnvironment::default()).unwrap();
    let error = run(fetch(&source, &options)).unwrap_err();
    assert!(matches!(error, FetchError::LocalFromStranger(_)), "{error}");
}

#[test]
fn case_127_hooks_filters_submodules_and_lfs_run_nothing() {
    let repository = Repository::new();
    let mark = repository.home.path().join("ran");
    let evil = repository.script("evil", &format!("touch {}\ncat", mark.display()));
    let evil = evil.display();
    // Hooks of the repository itself, and of a directory that the person configured for other work.
    for name in ["post-checkout", "reference-transaction", "post-merge", "pre-auto-gc", "post-index-change"] {
        repository.script(&format!("hooks/{name}"), &format!("touch {}", mark.display()));
        repository.script(&format!("work/.git/hooks/{name}"), "exit 0");
    }
    fs::create_dir_all(repository.home.path().join("template")).unwrap();
    std::os::unix::fs::symlink("../hooks", repository.home.path().join("template/hooks")).unwrap();
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 3\n", "0".repeat(64));
    repository.commit(&[
        ("SKILL.md", SKILL),
        (".gitattributes", "*.bin filter=lfs diff=lfs\n*.txt filter=evil ident eol=crlf\n"),
        ("a.bin", &pointer),
        ("a.txt", "$Id$\n"),
    ]);
    let module = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{module},module")]);
    repository.git(&["commit", "--quiet", "--message=y"]);
    let shell = format!("!touch {}", mark.display());
    for (key, value) in [
        ("core.fsmonitor", &*format!("{evil}")),
        ("core.pager", &format!("{evil}")),
        ("uploadpack.packObjectsHook", &*format!("{evil}")),
        ("core.sshCommand", &format!("{evil}")),
        ("alias.ls-tree", &shell),
    ] {
        repository.git(&["config", key, value]);
    }
    repository.configure(&format!(
        "[core]\nhooksPath = {home}/hooks\nfsmonitor = {evil}\npager = {evil}\n\
         [init]\ntemplateDir = {home}/template\n[submodule]\nrecurse = true\n[fetch]\nrecurseSubmodules = true\n\
         [filter \"evil\"]\nsmudge = {evil}\nclean = {evil}\nrequired = true\n\
         [filter \"lfs\"]\nsmudge = {evil}\nprocess = {evil}\nrequired = true\n",
        home = repository.home.path().display()
    ));
    // Only what runs from now on counts: making the repository is not under test.
    let _ = fs::remove_file(&mark);
    let mut snapshot = run(git::fetch(&repository.request(&repository.url()))).unwrap();
    assert_eq!(snapshot.read("a.bin").unwrap(), pointer.as_bytes());
    assert_eq!(snapshot.read("a.txt").unwrap(), b"$Id$\n");
    assert_eq!(kind(&snapshot, "module"), Some(EntryKind::Submodule));
    assert!(matches!(snapshot.read("module"), Err(SnapshotError::NotAFile { .. })));
    let notices = snapshot.notices().join("\n");
    assert!(notices.contains("module: a submodule") && notices.contains("LFS"), "{notices}");
    assert!(!mark.exists(), "something ran");
    // The traps are armed: an ordinary clone runs them.
    let clone = ["clone", "--quiet", &repository.url(), "../clone"];
    let _ = Command::new("git")
        .current_dir(repository.path())
        .envs(repository.environment())
        .args(clone)
        .stderr(Stdio::null())
        .status();
    assert!(mark.exists());
}

#[test]
fn case_127_a_hostile_gitmodules_file_runs_nothing() {
    let repository = Repository::new();
    let mark = repository.home.path().join("ran");
    let modules = format!(
        "[submodule \"x\"]\npath = x\nurl = ext::touch {mark}\nupdate = !touch {mark}\n",
        mark = mark.display()
    );
    repository.commit(&[("SKILL.md", SKILL), (".gitmodules", &modules)]);
    let fetched = run(git::fetch(&repository.request(&repository.url())));
    // Git's own check of objects refuses it.
    let error = fetched.unwrap_err();
    assert!(matches!(error, GitError::Failed { command: "fetch", .. }), "{error}");
    assert!(error.to_string().contains("gitmodules"), "{error}");
    assert!(!mark.exists());
}

#[test]
fn case_128_names_that_cannot_be_used_are_no_files() {
    let repository = Repository::new();
    let blob = repository.blob(b"x");
    let link = repository.blob(b"/etc/passwd");
    let mut lines = Vec::new();
    for (mode, id, name) in [
        ("100644", &blob, &b"SKILL.md"[..]),
        ("100644", &blob, b"ok"),
        ("100644", &blob, b"CON."),
        ("100644", &blob, b"trailing "),
        ("100644", &blob, b"line\nbreak"),
        ("100644", &blob, b"es\x1b[2Jcape"),
        ("100644", &blob, b"back\\slash"),
        ("100644", &blob, b"\xff\xfe"),
        ("100644", &blob, b"twin"),
        ("100644", &blob, b"TWIN"),
        ("100644", &blob, "é".as_bytes()),
        ("100644", &blob, "e\u{301}".as_bytes()),
        ("120000", &link, b"out"),
    ] {
        lines.extend_from_slice(format!("{mode} blob {id}\t").as_bytes());
        lines.extend_from_slice(name);
        lines.push(0);
    }
    repository.commit_tree(&lines);
    let mut snapshot = run(git::fetch(&repository.request(&repository.url()))).unwrap();
    assert_eq!(snapshot.entries().len(), 13);
    for entry in snapshot.entries().to_vec() {
        assert_eq!(check_path(&entry.path), Ok(()), "{:?}", entry.path);
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        assert_eq!(is_file, ["SKILL.md", "ok"].contains(&entry.path.as_str()), "{:?}", entry.path);
        assert_eq!(snapshot.read(&entry.path).is_ok(), is_file, "{:?}", entry.path);
    }
    assert_eq!(kind(&snapshot, "out"), Some(EntryKind::Link));
    assert!(snapshot.notices().iter().all(|notice| !notice.contains(['\n', '\x1b'])));
}

#[test]
fn case_128_names_that_lead_out_are_refused() {
    for name in ["..", ".", ".git", ".GIT", "git~1", "a/../../b", "/etc"] {
        let repository = Repository::new();
        let blob = repository.blob(b"x");
        let inner =
            repository.git_with(&["mktree", "-z"], format!("100644 blob {blob}\tconfig\0").as_bytes());
        // `mktree` refuses a slash, so the object is written by hand.
        let mut tree = format!("40000 {name}\0").into_bytes();
        tree.extend((0..20).map(|at| u8::from_str_radix(&inner[2 * at..2 * at + 2], 16).unwrap()));
        let tree = repository.git_with(&["hash-object", "-w", "-t", "tree", "--literally", "--stdin"], &tree);
        let commit = repository.git(&["commit-tree", "-m", "x", &tree]);
        repository.git(&["update-ref", "refs/heads/main", &commit]);
        match run(git::fetch(&repository.request(&repository.url()))) {
            Err(error) => assert!(matches!(error, GitError::Failed { .. }), "{name}: {error}"),
            Ok(snapshot) => {
                let is_usable = |path: &str| matches!(kind(&snapshot, path), Some(EntryKind::File { .. }));
                assert!(!snapshot.entries().iter().any(|entry| is_usable(&entry.path)), "{name}");
            }
        }
    }
}

#[test]
fn case_129_a_hundred_thousand_files_are_listed_or_refused() {
    let repository = Repository::new();
    let blob = repository.blob(b"x");
    let lines: String = (0..100_000).map(|number| format!("100644 blob {blob}\t{number}\0")).collect();
    let many = repository.git_with(&["mktree", "-z"], lines.as_bytes());
    repository.commit_tree(format!("040000 tree {many}\tmany\0").as_bytes());
    let mut request = repository.request(&repository.url());
    let mut snapshot = run(git::fetch(&request)).unwrap();
    assert_eq!(snapshot.entries().len(), 100_000);
    assert_eq!(snapshot.read("many/99999").unwrap(), b"x");
    request.limits.entries = 50_000;
    let error = run(git::fetch(&request)).unwrap_err();
    assert!(matches!(error, GitError::TooMany { most: 50_000 }), "{error}");
}

#[test]
fn case_129_a_tree_of_trees_is_refused() {
    let repository = Repository::new();
    let blob = repository.blob(b"x");
    let mut lines: String = (0..10).map(|number| format!("100644 blob {blob}\t{number}\0")).collect();
    for _ in 0..9 {
        let tree = repository.git_with(&["mktree", "-z"], lines.as_bytes());
        lines = (0..10).map(|number| format!("040000 tree {tree}\t{number}\0")).collect();
    }
    // Ten thousand million files in eleven objects.
    repository.commit_tree(lines.as_bytes());
    let error = run(git::fetch(&repository.request(&repository.url()))).unwrap_err();
    assert!(matches!(error, GitError::TooMany { .. }), "{error}");
}

#[test]
fn case_129_large_repositories_and_files_are_refused() {
    let repository = Repository::with(&[("SKILL.md", SKILL)]);
    fs::write(repository.path().join("zeros"), vec![0; 4 << 20]).unwrap();
    repository.commit(&[]);
    let mut request = repository.request(&repository.url());
    request.limits.file_bytes = 1 << 20;
    let mut snapshot = run(git::fetch(&request)).unwrap();
    let error = snapshot.read("zeros").unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { size: 4_194_304, .. }), "{error}");
    assert_eq!(snapshot.read("SKILL.md").unwrap(), SKILL.as_bytes());
    // Bytes that cannot be compressed.
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    })
    .take(2 << 20)
    .collect();
    fs::write(repository.path().join("noise"), noise).unwrap();
    repository.commit(&[]);
    request.limits.fetch_bytes = 1 << 20;
    let error = run(git::fetch(&request)).unwrap_err();
    assert!(matches!(error, GitError::TooLarge { .. }), "{error}");
}
