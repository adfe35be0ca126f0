//! Commands of skills whose files are in a backend.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use prowess_backend::{Backend, CompositeBackend, LocalBackend, MemoryBackend, VirtualPath, WriteMode};
use prowess_catalog::{Catalog, Root, ScanOptions, scan_backend};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{BackendFiles, Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{LocalExecutor, LocalOptions, Runner, Workspaces};
use serde_json::{Value, json};

const MANIFEST: &str = "---\nname: kit\ndescription: Looks after kit.\n---\nDo it.\n";

async fn write(backend: &dyn Backend, path: &str, text: &str) {
    let path = VirtualPath::parse(path).unwrap();
    backend.write(&path, text.to_owned().into(), WriteMode::Replace).await.unwrap();
}

async fn session(backend: Arc<dyn Backend>, scratch: &std::path::Path) -> SkillSession {
    std::fs::set_permissions(scratch, PermissionsExt::from_mode(0o711)).unwrap();
    let root = Arc::new(Root::explicit("/skills").in_backend());
    let scan = scan_backend(&*backend, &root, &ScanOptions::default(), None).await;
    let runner = Runner {
        workspaces: Workspaces::open(scratch.join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    let policy = Policy::new().rules(RuleSource::User, [Rule::new("run", "*", Decision::Allow)]);
    SkillSession::builder(Catalog::empty().assembled([scan]))
        .files(Arc::new(BackendFiles::new(backend)))
        .options(SessionOptions::new(Dialect::Trpc))
        .permissions(Permissions::unattended(policy))
        .runs(RunSetup::new(runner, "one"))
        .build()
        .await
}

async fn stdout(session: &SkillSession, command: &str) -> String {
    let reply = session.call("skill_run", json!({"skill": "kit", "command": command})).await;
    let report: Value = serde_json::from_str(&reply.text).unwrap_or_else(|_| panic!("{}", reply.text));
    assert_eq!((&report["exit_code"], &report["stderr"]), (&json!(0), &json!("")), "{report}");
    report["stdout"].as_str().unwrap().to_owned()
}

/// What is changed in the backend is what runs next.
#[tokio::test]
async fn a_script_in_memory_runs_and_runs_anew_when_it_has_changed() {
    let backend = Arc::new(MemoryBackend::new());
    write(&*backend, "/skills/kit/SKILL.md", MANIFEST).await;
    write(&*backend, "/skills/kit/scripts/say.sh", "#!/bin/sh\necho one $(cat data/words.txt)\n").await;
    write(&*backend, "/skills/kit/data/words.txt", "words").await;
    let scratch = tempfile::tempdir().unwrap();
    let session = session(Arc::clone(&backend) as Arc<dyn Backend>, scratch.path()).await;
    assert_eq!(
        stdout(&session, "scripts/say.sh; ls").await,
        "one words\nSKILL.md\ndata\ninputs\nout\nscripts\nwork\n"
    );
    write(&*backend, "/skills/kit/scripts/say.sh", "#!/bin/sh\necho two $(cat data/words.txt)\n").await;
    assert_eq!(stdout(&session, "scripts/say.sh").await, "two words\n");
    write(&*backend, "/skills/kit/data/words.txt", "wordy").await;
    assert_eq!(stdout(&session, "scripts/say.sh").await, "two wordy\n");
    assert_eq!(stdout(&session, "touch scripts/x 2>/dev/null || echo kept").await, "kept\n");
}

/// Versions that one backend numbers mean nothing to the next.
#[tokio::test]
async fn another_backend_at_the_same_place_is_another_skill() {
    let scratch = tempfile::tempdir().unwrap();
    for word in ["first", "other"] {
        let memory = MemoryBackend::new();
        write(&memory, "/kit/SKILL.md", MANIFEST).await;
        write(&memory, "/kit/word", word).await;
        let mount = VirtualPath::parse("/skills").unwrap();
        let composite = CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(mount, Arc::new(memory));
        let session = session(Arc::new(composite), scratch.path()).await;
        assert_eq!(stdout(&session, "cat word").await, word);
    }
}

/// What cannot be kept, or leads out of the skill, is left out; the rest runs.
#[tokio::test]
async fn hostile_files_are_left_out() {
    let place = tempfile::tempdir().unwrap();
    let skill = place.path().join("skills/kit");
    let deep = "d/".repeat(70);
    std::fs::create_dir_all(skill.join(&deep)).unwrap();
    std::fs::write(place.path().join("secret"), "secret").unwrap();
    std::fs::write(skill.join("SKILL.md"), MANIFEST).unwrap();
    std::fs::write(skill.join(&deep).join("file"), "x").unwrap();
    std::fs::write(skill.join("a\nb"), "x").unwrap();
    std::os::unix::fs::symlink("../../secret", skill.join("link")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let session = session(Arc::new(LocalBackend::open(place.path()).unwrap()), scratch.path()).await;
    assert_eq!(stdout(&session, "find . -type f; find . -name link").await, "./SKILL.md\n");
    let reply = session.call("skill_run", json!({"skill": "kit", "command": "true"})).await;
    assert!(reply.text.contains("/d/file` of the skill was not staged: it is longer"), "{}", reply.text);
}

/// A skill with more than can be staged is refused whole.
#[tokio::test]
async fn a_skill_that_is_too_large_is_refused() {
    let backend = Arc::new(MemoryBackend::new());
    write(&*backend, "/skills/kit/SKILL.md", MANIFEST).await;
    for number in 0..=prowess_workspace::stage::MAX_SKILL_FILES {
        write(&*backend, &format!("/skills/kit/data/{number}"), "").await;
    }
    let scratch = tempfile::tempdir().unwrap();
    let session = session(backend, scratch.path()).await;
    let reply = session.call("skill_run", json!({"skill": "kit", "command": "true"})).await;
    assert!(reply.is_error && reply.text.contains("too large to stage"), "{}", reply.text);
}
