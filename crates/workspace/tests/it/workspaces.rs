//! Tests of workspaces: one per session, created and removed completely.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prowess_workspace::{Workspace, WorkspaceError, Workspaces};

use crate::place::{Place, block_on, mode, put, set_mode, tree, without_rights};

fn home(workspace: &Workspace) -> std::path::PathBuf {
    workspace.path().parent().unwrap().to_owned()
}

#[test]
fn a_workspace_has_its_directories_and_a_metadata_file() {
    let place = Place::new();
    let workspace = place.workspace();
    let places = [".places", ".places/inputs", ".places/out", ".places/work"];
    let directories = ["out", "runs", "skills", "work", "work/inputs"];
    assert_eq!(tree(workspace.path()), [&places[..], &directories].concat());
    let text = std::fs::read_to_string(home(&workspace).join("workspace.json")).unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&metadata["version"], &metadata["session"]), (&1.into(), &"test".into()));
    assert!(metadata["created"].as_u64().unwrap() <= metadata["last_used"].as_u64().unwrap());
}

#[test]
fn a_session_keeps_its_workspace_and_has_it_alone() {
    let place = Place::new();
    put(&place.workspace(), "out/kept", "text");
    assert!(place.workspace().path().join("out/kept").exists());
    let other = place.workspaces.workspace("other").unwrap();
    assert!(!other.path().join("out/kept").exists());
}

#[test]
fn an_identity_is_never_a_path() {
    let place = Place::new();
    let root = place.path("workspaces");
    for identity in ["", ".", "..", "../../escaped", "/etc", "a\0b", "a\nb", &"long".repeat(10_000)] {
        let workspace = place.workspaces.workspace(identity).unwrap();
        assert_eq!(home(&workspace).parent().unwrap(), root, "{identity:?}");
    }
    assert!(!place.path("escaped").exists());
}

#[test]
fn only_its_users_can_enter() {
    let place = Place::new();
    let workspace = place.workspace();
    for path in [place.path("workspaces"), home(&workspace), workspace.path().to_owned()] {
        assert_eq!(mode(&path) & 0o027, 0, "{}", path.display());
    }
}

#[test]
fn it_is_told_when_commands_cannot_get_there() {
    let place = Place::new();
    if rustix::process::geteuid().is_root() {
        set_mode(place.path(""), 0o700);
        assert_eq!(place.workspaces.closed_to_commands(), Some(place.path("")));
        set_mode(place.path(""), 0o711);
    }
    assert_eq!(place.workspaces.closed_to_commands(), None);
    if rustix::process::geteuid().is_root() {
        let workspace = place.workspace();
        let (skills, out) = (workspace.path().join("skills"), workspace.path().join("out"));
        without_rights(|| {
            assert!(std::fs::read_dir(skills).is_ok(), "they can read skills");
            assert!(std::fs::write(out.join("a"), "text").is_ok(), "and write what they make");
            assert!(std::fs::write(workspace.path().join("a"), "text").is_err(), "and nothing else");
            assert!(std::fs::read_dir(place.path("workspaces")).is_err(), "and see no other session");
        });
    }
}

#[test]
fn what_a_crash_left_half_made_is_finished() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "work/kept", "text");
    let (inside, home) = (workspace.path().to_owned(), home(&workspace));
    drop(workspace);
    let breaks: [&dyn Fn(); 5] = [
        &|| std::fs::remove_file(home.join("workspace.json")).unwrap(),
        &|| std::fs::write(home.join("workspace.json"), "{\"version\":1,").unwrap(),
        &|| std::fs::write(home.join("workspace.json"), "").unwrap(),
        &|| std::fs::remove_dir_all(inside.join("out")).unwrap(),
        &|| {
            std::fs::remove_dir_all(&home).unwrap();
            std::fs::create_dir(&home).unwrap();
        },
    ];
    for (number, step) in breaks.iter().enumerate() {
        step();
        let workspace = place.workspace();
        assert!(inside.join("out").is_dir() && inside.join("work/inputs").is_dir(), "{number}");
        assert_eq!(workspace.path().join("work/kept").exists(), number < 4);
        let text = std::fs::read_to_string(home.join("workspace.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}

#[test]
fn a_link_in_the_place_of_a_directory_is_replaced_and_not_followed() {
    let place = Place::new();
    let outside = place.file("outside/kept", "text");
    for name in ["out", "work", "skills", "runs"] {
        let path = place.workspace().path().join(name);
        std::fs::remove_dir_all(&path).unwrap();
        symlink(outside.parent().unwrap(), &path).unwrap();
        place.workspace();
        assert!(!path.is_symlink() && path.is_dir(), "{name}");
    }
    assert_eq!(tree(outside.parent().unwrap()), ["kept"]);
}

#[test]
fn a_newer_version_is_left_alone() {
    let place = Place::new();
    let file = home(&place.workspace()).join("workspace.json");
    let newer = r#"{"version":2,"session":"test","created":0,"last_used":0}"#;
    std::fs::write(&file, newer).unwrap();
    let refused = place.workspaces.workspace("test").unwrap_err();
    assert!(matches!(refused, WorkspaceError::NewerVersion { version: 2, .. }), "{refused}");
    let cleaned = place.workspaces.cleanup(Duration::ZERO).unwrap();
    assert_eq!((cleaned.removed, cleaned.warnings.len()), (0, 1));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
}

#[test]
fn cleanup_removes_by_age_and_never_what_is_in_use() {
    let place = Place::new();
    let used = place.workspaces.workspace("used").unwrap();
    let idle = place.workspaces.workspace("idle").unwrap().path().to_owned();
    let young = place.workspaces.cleanup(Duration::from_secs(3600)).unwrap();
    assert_eq!((young.removed, young.in_use), (0, 0));
    // A second value behaves like another process.
    let others = Workspaces::open(place.path("workspaces")).unwrap();
    let cleaned = others.cleanup(Duration::ZERO).unwrap();
    assert_eq!((cleaned.removed, cleaned.in_use, cleaned.warnings), (1, 1, vec![]));
    assert!(used.path().is_dir() && !idle.exists());
    drop(used);
    assert_eq!(others.cleanup(Duration::ZERO).unwrap().removed, 1);
    assert_eq!(tree(&place.path("workspaces")), Vec::<String>::new());
}

#[test]
fn cleanup_follows_no_link_and_touches_nothing_else() {
    let place = Place::new();
    let kept = place.file("outside/kept", "text");
    let workspace = place.workspace();
    symlink(place.path("outside"), workspace.path().join("out/link")).unwrap();
    symlink("/", workspace.path().join("work/root")).unwrap();
    drop(workspace);
    // A foreign file, and a link with the name of a workspace.
    place.file("workspaces/README", "text");
    symlink(place.path("outside"), place.path("workspaces").join("0".repeat(32))).unwrap();
    std::fs::create_dir_all(place.path("workspaces/.prowess-1-1/left/over")).unwrap();
    assert_eq!(place.workspaces.cleanup(Duration::ZERO).unwrap().removed, 1);
    assert_eq!(tree(&place.path("workspaces")), ["0".repeat(32), "README".to_owned()]);
    assert!(kept.exists());
}

#[test]
fn a_plain_user_can_stage_replace_and_clean_up() {
    without_rights(|| {
        let place = Place::new();
        let source = place.skill("demo", &[("scripts/deep/a.sh", "one")]);
        let workspace = place.workspace();
        block_on(workspace.stage("demo", &source)).unwrap();
        let staged = workspace.path().join("skills/demo");
        assert_eq!(mode(&staged), 0o555);
        if !rustix::process::geteuid().is_root() {
            assert!(std::fs::write(staged.join("new"), "").is_err());
            assert!(std::fs::write(staged.join("scripts/deep/a.sh"), "").is_err());
        }
        place.file("skills/demo/scripts/deep/a.sh", "two!");
        block_on(workspace.stage("demo", &source)).unwrap();
        assert_eq!(std::fs::read_to_string(staged.join("scripts/deep/a.sh")).unwrap(), "two!");
        assert_eq!(
            tree(&workspace.path().join("skills")).iter().filter(|path| path.starts_with('.')).count(),
            0
        );
        drop(workspace);
        let cleaned = place.workspaces.cleanup(Duration::ZERO).unwrap();
        assert_eq!((cleaned.removed, cleaned.warnings), (1, vec![]));
    });
}

#[test]
fn opening_and_cleaning_at_the_same_time_harm_nobody() {
    let place = Place::new();
    let (done, removed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let cleaned = place.workspaces.cleanup(Duration::ZERO).unwrap();
                    assert_eq!(cleaned.warnings, Vec::<String>::new());
                    removed.fetch_add(cleaned.removed, Ordering::Relaxed);
                }
            });
        }
        let opening = scope.spawn(|| {
            // At least this often, until both sides won the race.
            let until = Instant::now() + Duration::from_secs(10);
            let mut rounds = 0;
            while rounds < 500 || (removed.load(Ordering::Relaxed) < 20 && Instant::now() < until) {
                let workspace = place.workspaces.workspace("contended").unwrap();
                // Nobody removes a workspace that is in use.
                assert!(workspace.path().join("work/inputs").is_dir());
                drop(workspace);
                std::thread::yield_now();
                rounds += 1;
            }
        });
        let opened = opening.join();
        // First of all, so that the other threads end even after a failure.
        done.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
    assert!(removed.into_inner() >= 20, "the race was run");
    place.workspaces.cleanup(Duration::ZERO).unwrap();
    assert_eq!(tree(&place.path("workspaces")), Vec::<String>::new());
}

/// A command can close its directories to its own user. The next run opens them.
#[test]
fn directories_that_a_command_closed_are_opened() {
    let test = "workspaces::directories_that_a_command_closed_are_opened";
    crate::modes::run(test, crate::modes::Mode::User, async {
        let place = Place::new();
        let workspace = place.workspace();
        put(&workspace, "out/kept", "text");
        for name in ["out", "work", "runs"] {
            set_mode(workspace.path().join(name), 0o000);
        }
        drop(place.workspace());
        assert_eq!(std::fs::read_to_string(workspace.path().join("out/kept")).unwrap(), "text");
    });
}
