//! Repositories over every transport.

use std::fs;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use prowess_install::snapshot::fetch::{FetchOptions, fetch};
use prowess_install::snapshot::git::{self, GitError};
use prowess_install::snapshot::http::HttpError;
use prowess_install::snapshot::{EntryKind, Snapshot, SnapshotError};
use prowess_install::source::{Source, SourceEnvironment};

use super::repository::Repository;
use super::run;
use super::server::{Answer, Server, git_backend};

const SKILL: &str = "---\nname: tide\ndescription: Tells the tide.\n---\n";

fn tide() -> Repository {
    let repository = Repository::with(&[("skills/tide/SKILL.md", SKILL), ("README.md", "Old.\n")]);
    let script = repository.path().join("skills/tide/run.sh");
    fs::write(&script, "echo low\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repository.commit(&[]);
    repository
}

fn read(snapshot: &mut impl Snapshot, path: &str) -> String {
    String::from_utf8(snapshot.read(path).unwrap()).unwrap()
}

#[test]
fn a_repository_is_listed_and_read_without_a_checkout() {
    let repository = tide();
    let mut snapshot = run(git::fetch(&repository.request(&repository.url()))).unwrap();
    let entries: Vec<_> = snapshot.entries().iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    assert_eq!(
        entries,
        [
            ("README.md", EntryKind::File { size: 5, is_executable: false }),
            ("skills/tide/SKILL.md", EntryKind::File { size: 48, is_executable: false }),
            ("skills/tide/run.sh", EntryKind::File { size: 9, is_executable: true }),
        ]
    );
    assert_eq!(read(&mut snapshot, "skills/tide/SKILL.md"), SKILL);
    assert_eq!(read(&mut snapshot, "README.md"), "Old.\n");
    assert_eq!(snapshot.commit().unwrap(), repository.git(&["rev-parse", "HEAD"]));
    for (path, name) in [("", "HEAD^{tree}"), ("skills", "HEAD:skills"), ("skills/tide", "HEAD:skills/tide")]
    {
        assert_eq!(snapshot.folder_sha1(path).unwrap(), repository.git(&["rev-parse", name]), "{path}");
    }
    assert_eq!(snapshot.folder_sha1("README.md"), None);
    assert!(matches!(snapshot.read("gone"), Err(SnapshotError::NotAFile { .. })));
    assert!(matches!(snapshot.read("skills"), Err(SnapshotError::NotAFile { .. })));
    assert!(snapshot.notices().is_empty());
    // What was fetched stays as it was.
    repository.commit(&[("README.md", "New.\n")]);
    fs::remove_dir_all(repository.path()).unwrap();
    assert_eq!(read(&mut snapshot, "README.md"), "Old.\n");
}

#[test]
fn branches_tags_and_commits_are_found() {
    let repository = tide();
    let first = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["tag", "-a", "v1", "-m", "one"]);
    repository.git(&["branch", "feature/old"]);
    repository.git(&["tag", "blob", &repository.git(&["rev-parse", "HEAD:README.md"])]);
    let second = repository.commit(&[("README.md", "New.\n")]);
    for (reference, commit, text) in [
        (None, &second, "New.\n"),
        (Some("main"), &second, "New.\n"),
        (Some("v1"), &first, "Old.\n"),
        (Some("refs/tags/v1"), &first, "Old.\n"),
        (Some("feature/old"), &first, "Old.\n"),
        (Some(first.as_str()), &first, "Old.\n"),
    ] {
        let mut request = repository.request(&repository.url());
        request.reference = reference.map(str::to_owned);
        let mut snapshot = run(git::fetch(&request)).unwrap();
        assert_eq!(snapshot.commit(), Some(commit.as_str()), "{reference:?}");
        assert_eq!(read(&mut snapshot, "README.md"), text, "{reference:?}");
    }
    for (reference, expected) in [
        ("gone", "has no branch or tag \"gone\""),
        (&first[..12], "a commit needs all 40 digits"),
        ("blob", "does not name a commit"),
        ("0123456789012345678901234567890123456789", "does not give out commit 0123"),
    ] {
        let mut request = repository.request(&repository.url());
        request.reference = Some(reference.to_owned());
        let error = run(git::fetch(&request)).unwrap_err().to_string();
        assert!(error.contains(expected), "{reference}: {error}");
    }
    // Older servers give out no commits by id.
    repository.configure("[protocol]\nversion = 0\n");
    let mut request = repository.request(&repository.url());
    request.reference = Some(repository.git(&["rev-parse", "HEAD~2"]));
    let error = run(git::fetch(&request)).unwrap_err();
    assert!(matches!(error, GitError::CommitRefused { .. }), "{error}");
}

#[test]
fn missing_and_empty_repositories_are_said() {
    let repository = Repository::new();
    let error = run(git::fetch(&repository.request(&repository.url()))).unwrap_err();
    assert!(matches!(error, GitError::NoDefaultBranch { .. }), "{error}");
    let error = run(git::fetch(&repository.request("file:///nowhere/at/all"))).unwrap_err();
    assert!(matches!(error, GitError::Denied { .. }), "{error}");
}

#[test]
fn a_repository_that_moved_on_its_host_is_found() {
    let repository = tide();
    let root = repository.home.path().to_owned();
    let server = Server::start(move |request| match request.path.strip_prefix("/old") {
        Some(rest) => Answer::redirect(&format!("/work/.git{rest}?{}", request.query)),
        None => git_backend(&root, request),
    });
    for path in ["work/.git", "old", "old/"] {
        let mut snapshot = run(git::fetch(&repository.request(&format!("{}/{path}", server.url)))).unwrap();
        assert_eq!(read(&mut snapshot, "skills/tide/SKILL.md"), SKILL, "{path}");
    }
    let agents: Vec<_> = server.requests();
    let ours = agents.iter().filter_map(|request| request.header("user-agent"));
    assert!(ours.clone().any(|agent| agent == concat!("prowess/", env!("CARGO_PKG_VERSION"))));
    assert!(agents.iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn case_132_a_repository_does_not_redirect_elsewhere() {
    let repository = tide();
    let root = repository.home.path().to_owned();
    let other = Server::start_at(Ipv4Addr::new(127, 0, 0, 2), move |request| git_backend(&root, request));
    let target = format!("{}/work/.git", other.url);
    let server = Server::start(move |request| {
        let rest = request.path.strip_prefix("/away").unwrap_or("/x");
        match request.path.as_str() {
            path if path.starts_with("/file") => Answer::redirect("file:///etc/passwd"),
            path if path.starts_with("/loop") => Answer::redirect("/loop/info/refs"),
            _ => Answer::redirect(&format!("{target}{rest}?{}", request.query)),
        }
    });
    for (path, expected) in [
        ("away", "127.0.0.1 redirects to another host, 127.0.0.2"),
        ("file", "not an http or https URL"),
        ("loop", "redirects more than 5 times"),
    ] {
        let error = run(git::fetch(&repository.request(&format!("{}/{path}", server.url)))).unwrap_err();
        assert!(error.to_string().contains(expected), "{path}: {error}");
        assert!(matches!(error, GitError::Redirect(_)));
    }
    assert!(other.requests().is_empty());
    let mut request = repository.request(&format!("{}/work/.git", server.url));
    request.named_by = prowess_install::snapshot::http::NamedBy::Stranger;
    let error = run(git::fetch(&request)).unwrap_err();
    assert!(matches!(error, GitError::Redirect(HttpError::Private { .. })), "{error}");
}

#[test]
fn forms_of_github_are_rewritten_by_the_persons_configuration() {
    let repository = tide();
    let base = format!("file://{}/", repository.home.path().display());
    fs::create_dir(repository.home.path().join("ada")).unwrap();
    std::os::unix::fs::symlink(repository.path(), repository.home.path().join("ada/tide.git")).unwrap();
    repository.configure(&format!("[url \"{base}\"]\ninsteadOf = https://github.com/\n"));
    let options = FetchOptions { git_environment: repository.environment(), ..FetchOptions::default() };
    for text in [
        "ada/tide",
        "github:ada/tide",
        "https://github.com/ada/tide",
        "https://github.com/ada/tide.git",
        "https://github.com/ada/tide/tree/main/skills",
        "ada/tide#main@tide",
    ] {
        let source = Source::parse(text, &SourceEnvironment::default()).unwrap();
        let mut fetched = run(fetch(&source, &options)).unwrap();
        assert_eq!(fetched.snapshot.read("skills/tide/SKILL.md").unwrap(), SKILL.as_bytes(), "{text}");
        assert!(fetched.snapshot.commit().is_some());
    }
}

#[test]
fn ssh_uses_the_persons_command() {
    let repository = tide();
    let ssh = repository.script("ssh", "for last; do :; done\nexec sh -c \"$last\"");
    let mut request = repository.request(&format!("ada@example.com:{}", repository.path().display()));
    request.environment.push(("GIT_SSH_COMMAND".into(), ssh.into()));
    let mut snapshot = run(git::fetch(&request)).unwrap();
    assert_eq!(read(&mut snapshot, "README.md"), "Old.\n");
}

#[test]
fn a_fetch_that_hangs_is_ended_with_all_its_processes() {
    let repository = tide();
    let mark = repository.home.path().join("pid");
    let ssh = repository.script("ssh", &format!("echo $$ >{}\nexec sleep 600", mark.display()));
    let mut request = repository.request("ada@example.com:tide");
    request.environment.push(("GIT_SSH_COMMAND".into(), ssh.into()));
    let pid = run(async {
        let mut fetching = pin!(git::fetch(&request));
        loop {
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut fetching).await.is_err());
            let pid = fs::read_to_string(&mark).unwrap_or_default();
            if pid.ends_with('\n') {
                // Giving the fetch up here ends it in the same way as its own time limit.
                break pid;
            }
        }
    });
    let is_running = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['S', 'R', 'D']))
    };
    // The signal is sent, and arrives soon.
    while is_running() {
        std::thread::yield_now();
    }
    request.limits.timeout = Duration::ZERO;
    let error = run(git::fetch(&request)).unwrap_err();
    assert!(matches!(error, GitError::TimedOut { seconds: 0, .. }), "{error}");
}

#[test]
fn passwords_are_in_no_message() {
    let repository = tide();
    let server = Server::start(|_| Answer { status: 401, headers: Vec::new(), body: Vec::new() });
    let url = server.url.replace("http://", "http://ada:hunter2@") + "/tide.git";
    let error = run(git::fetch(&repository.request(&url))).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    assert!(matches!(error, GitError::Denied { .. }), "{error}");
}
