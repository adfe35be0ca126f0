//! Looking again: what is read, what is kept, and what is seen to have changed.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use prowess_catalog::scan::Links;
use prowess_catalog::watch::RootWatcher;
use prowess_catalog::{Catalog, CatalogDiff, LiveCatalog, RefreshPolicy, RootKind, ScanOptions};
use rustix::fs::inotify;
use rustix::io::Errno;

use crate::tree::{PATIENCE, Tree, eventually, manifest, names, options};

fn diff(added: &[&str], changed: &[&str], removed: &[&str]) -> CatalogDiff {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let mut diff = CatalogDiff::default();
    (diff.added, diff.changed, diff.removed) = (owned(added), owned(changed), owned(removed));
    diff
}

/// Waits until nothing in the tree is so young that its times could stand still in a change.
fn settle(tree: &Tree) {
    fn youngest(directory: &std::path::Path) -> Duration {
        let times = std::fs::read_dir(directory).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            let changed =
                Duration::new(metadata.ctime().unsigned_abs(), u32::try_from(metadata.ctime_nsec()).unwrap());
            if metadata.is_dir() { changed.max(youngest(&entry.path())) } else { changed }
        });
        times.max().unwrap_or_default()
    }
    let settled = youngest(tree.path()) + Duration::from_millis(100);
    eventually("the clock moves on", || SystemTime::now().duration_since(UNIX_EPOCH).unwrap() > settled);
}

/// Tells which manifests were opened, by the directory that they lie in.
struct Opened {
    events: OwnedFd,
    directories: BTreeMap<i32, String>,
}

impl Opened {
    fn in_directories(tree: &Tree, paths: &[&str]) -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let events = inotify::init(flags).unwrap();
        let watch = |path: &&str| {
            let watched = inotify::add_watch(&events, tree.join(path), inotify::WatchFlags::OPEN);
            (watched.unwrap(), path.to_string())
        };
        let directories = paths.iter().map(watch).collect();
        Self { events, directories }
    }

    /// The manifests opened since the last time this was asked, sorted.
    fn take(&self) -> Vec<&str> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut opened = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.file_name().is_some_and(|name| name.to_bytes() == b"SKILL.md") => {
                    opened.push(self.directories[&event.wd()].as_str());
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("{error}"),
            }
        }
        opened.sort_unstable();
        opened
    }
}

#[test]
fn nothing_changed_gives_the_very_same_snapshot_and_opens_no_manifest() {
    let tree = Tree::new().skill("a").skill("b").skill("group/c").link("away", "/nowhere");
    settle(&tree);
    let opened = Opened::in_directories(&tree, &["a", "b", "group/c"]);
    let first = tree.discover();
    assert_eq!(opened.take(), ["a", "b", "group/c"]);
    for _ in 0..3 {
        assert!(first.refreshed(&[tree.root()], &ScanOptions::default()).is_same(&first));
    }
    assert_eq!(opened.take(), Vec::<&str>::new());
    // Other options look at everything again.
    let other = first.refreshed(&[tree.root()], &options(|options| options.hidden = true));
    assert_eq!(names(&other), names(&first));
    assert_eq!(opened.take(), ["a", "b", "group/c"]);
}

#[test]
fn only_what_changed_is_read_again() {
    let tree = Tree::new().skill("a").skill("b").skill("c");
    settle(&tree);
    let first = tree.discover();
    tree.write("b/SKILL.md", manifest("b", "Now looks after other things."));
    tree.write("d/SKILL.md", manifest("d", "Looks after d. Use it when asked."));
    tree.remove("c");
    let opened = Opened::in_directories(&tree, &["a", "b", "d"]);
    let second = first.refreshed(&[tree.root()], &ScanOptions::default());
    assert_eq!(opened.take(), ["b", "d"]);
    assert_eq!(first.diff(&second), diff(&["d"], &["b"], &["c"]));
    assert!(Arc::ptr_eq(first.get("a").unwrap(), second.get("a").unwrap()));
    // Who holds the first snapshot goes on with it.
    assert_eq!(names(&first), ["a", "b", "c"]);
    assert_eq!(first.get("b").unwrap().skill.description, "Looks after b. Use it when asked.");
}

#[test]
fn a_body_that_changed_is_a_change() {
    let tree = Tree::new().skill("a");
    settle(&tree);
    let first = tree.discover();
    tree.write("a/SKILL.md", manifest("a", "Looks after a. Use it when asked.") + "More steps.\n");
    let second = first.refreshed(&[tree.root()], &ScanOptions::default());
    assert_eq!(first.diff(&second), diff(&[], &["a"], &[]));
}

#[test]
fn what_was_refused_does_not_make_every_refresh_a_change() {
    let tree = Tree::new()
        .skill("a")
        .file("broken/SKILL.md", "No frontmatter.")
        .link("linked/SKILL.md", "/etc/hostname")
        .link("inside/SKILL.md", "../a/SKILL.md");
    settle(&tree);
    let first = tree.discover();
    assert!(first.refreshed(&[tree.root()], &ScanOptions::default()).is_same(&first));
}

#[test]
fn a_file_just_written_is_not_a_change_once_it_has_settled() {
    let tree = Tree::new().skill("a").skill("b");
    let first = tree.discover();
    settle(&tree);
    let second = first.refreshed(&[tree.root()], &ScanOptions::default());
    assert_eq!(first.diff(&second), CatalogDiff::default());
    assert!(second.refreshed(&[tree.root()], &ScanOptions::default()).is_same(&second));
}

#[test]
fn a_write_in_the_same_tick_of_the_clock_is_not_missed() {
    let tree = Tree::new().file("a/SKILL.md", manifest("a", "Version 100 of the tide tables."));
    let mut catalog = tree.discover();
    for version in 101..301 {
        // The same size, in place: nothing but the times could tell, and they may not move.
        let description = format!("Version {version} of the tide tables.");
        tree.write("a/SKILL.md", manifest("a", &description));
        let newer = catalog.refreshed(&[tree.root()], &ScanOptions::default());
        assert_eq!(newer.get("a").unwrap().skill.description, description);
        assert_eq!(catalog.diff(&newer), diff(&[], &["a"], &[]));
        catalog = newer;
    }
}

#[test]
fn a_directory_made_in_the_same_tick_of_the_clock_is_not_missed() {
    let tree = Tree::new();
    let mut catalog = tree.discover();
    for number in 0..200 {
        tree.write(
            &format!("s{number}/SKILL.md"),
            manifest(&format!("s{number}"), "Came just now, in no time."),
        );
        catalog = catalog.refreshed(&[tree.root()], &ScanOptions::default());
        assert_eq!(catalog.entries().len(), number + 1);
    }
}

#[test]
fn a_skill_moved_away_and_linked_back_can_still_be_read() {
    let outside = Tree::new();
    let tree = Tree::new().skill("a");
    settle(&tree);
    let anywhere = options(|options| options.links = Links::Anywhere);
    let first = Catalog::discover(&[tree.root()], &anywhere);
    std::fs::rename(tree.join("a"), outside.join("moved")).unwrap();
    let tree = tree.link("a", outside.join("moved"));
    let second = first.refreshed(&[tree.root()], &anywhere);
    assert_eq!(names(&second), ["a"]);
    second.get("a").unwrap().read_text().unwrap();
}

#[test]
fn a_live_catalog_returns_snapshots_and_changes() {
    let tree = Tree::new().skill("one/a").skill("two/b");
    let (one, two) = (tree.root_at("one", RootKind::User), tree.root_at("two", RootKind::Project));
    let live = LiveCatalog::new(vec![one.clone()], ScanOptions::default(), RefreshPolicy::OnRequest);
    let before = live.snapshot();
    assert_eq!(live.refresh(), CatalogDiff::default());
    tree.write("one/c/SKILL.md", manifest("c", "Looks after c. Use it when asked."));
    assert_eq!(live.refresh(), diff(&["c"], &[], &[]));
    assert_eq!(names(&before), ["a"]);
    assert_eq!(live.set_roots(vec![two.clone()]), diff(&["b"], &[], &["a", "c"]));
    assert_eq!((names(&live.snapshot()), live.roots()), (vec!["b"], vec![two]));

    let fixed = LiveCatalog::new(vec![one.clone()], ScanOptions::default(), RefreshPolicy::Never);
    tree.remove("one/c");
    assert_eq!(fixed.refresh(), CatalogDiff::default());
    assert_eq!(names(&fixed.snapshot()), ["a", "c"]);
    assert_eq!(fixed.set_roots(vec![one]), diff(&[], &[], &["c"]));
}

#[test]
fn refreshes_beside_a_writer_never_tear_a_catalog() {
    let tree = Tree::new();
    // One version of a skill says the same number in all of its fields.
    let write = |name: &str, version: usize| {
        let text = format!(
            "---\nname: {name}\ndescription: Version {version} of {name}, as it is.\nlicense: v{version}\n---\n"
        );
        tree.write(&format!(".new-{name}"), text);
        std::fs::create_dir_all(tree.join(name)).unwrap();
        std::fs::rename(tree.join(&format!(".new-{name}")), tree.join(name).join("SKILL.md")).unwrap();
    };
    let all: Vec<String> = (0..20).map(|number| format!("skill-{number:02}")).collect();
    all.iter().for_each(|name| write(name, 0));
    let live = LiveCatalog::new(vec![tree.root()], ScanOptions::default(), RefreshPolicy::OnRequest);
    let (done, start) = (AtomicBool::new(false), Barrier::new(5));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for version in 1..30 {
                all.iter().for_each(|name| write(name, version));
            }
            done.store(true, Ordering::SeqCst);
        });
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                while !done.load(Ordering::SeqCst) {
                    live.refresh();
                    let catalog = live.snapshot();
                    assert_eq!(names(&catalog), all);
                    for entry in catalog.entries() {
                        let version = entry.skill.license.as_ref().unwrap().strip_prefix('v').unwrap();
                        let expected = format!("Version {version} of {}, as it is.", entry.skill.name);
                        assert_eq!(entry.skill.description, expected);
                    }
                }
            });
        }
    });
    live.refresh();
    assert!(live.snapshot().entries().iter().all(|entry| entry.skill.license.as_deref() == Some("v29")));
}

fn watch(live: &Arc<LiveCatalog>) -> (RootWatcher, Receiver<CatalogDiff>) {
    let (sender, changes) = channel();
    let changed = move |diff: &CatalogDiff| sender.send(diff.clone()).unwrap();
    (RootWatcher::start(Arc::clone(live), Duration::from_millis(20), changed).unwrap(), changes)
}

/// Takes changes until the catalog's skills are `expected`.
fn wait_for(live: &LiveCatalog, changes: &Receiver<CatalogDiff>, expected: &[&str]) {
    while names(&live.snapshot()) != expected {
        let change = changes.recv_timeout(PATIENCE);
        assert!(change.is_ok(), "{:?} never became {expected:?}", names(&live.snapshot()));
    }
}

#[test]
fn a_watcher_sees_new_changed_and_deleted_skills_until_it_is_dropped() {
    let tree = Tree::new().skill("a");
    let live =
        Arc::new(LiveCatalog::new(vec![tree.root()], ScanOptions::default(), RefreshPolicy::OnRequest));
    let (watcher, changes) = watch(&live);
    tree.write("group/b/SKILL.md", manifest("b", "Looks after b. Use it when asked."));
    wait_for(&live, &changes, &["a", "b"]);
    tree.write("a/SKILL.md", manifest("a", "Now looks after other things."));
    let seen = || live.snapshot().get("a").unwrap().skill.description == "Now looks after other things.";
    while !seen() {
        changes.recv_timeout(PATIENCE).expect("the change was never seen");
    }
    tree.remove("group");
    wait_for(&live, &changes, &["a"]);

    drop(watcher);
    tree.write("c/SKILL.md", manifest("c", "Looks after c. Use it when asked."));
    // What it would have told is gone with it.
    eventually("nobody tells of changes", || {
        matches!(changes.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected))
    });
    assert_eq!(names(&live.snapshot()), ["a"]);
}

#[test]
fn a_watcher_waits_for_roots_that_come_later_and_go_and_come_again() {
    let tree = Tree::new();
    let root = tree.root_at("later/skills", RootKind::Explicit);
    let live = Arc::new(LiveCatalog::new(vec![root], ScanOptions::default(), RefreshPolicy::OnRequest));
    let (_watcher, changes) = watch(&live);
    tree.write("later/skills/a/SKILL.md", manifest("a", "Looks after a. Use it when asked."));
    wait_for(&live, &changes, &["a"]);
    tree.write("later/skills/b/SKILL.md", manifest("b", "Looks after b. Use it when asked."));
    wait_for(&live, &changes, &["a", "b"]);
    // Gone and there again before anyone looked.
    tree.remove("later/skills");
    tree.write("later/skills/c/SKILL.md", manifest("c", "Looks after c. Use it when asked."));
    wait_for(&live, &changes, &["c"]);
    tree.write("later/skills/d/SKILL.md", manifest("d", "Looks after d. Use it when asked."));
    wait_for(&live, &changes, &["c", "d"]);
}

#[test]
fn a_watcher_watches_a_root_whole_though_another_is_awaited_in_it() {
    let tree = Tree::new().skill("a");
    let roots = vec![tree.root(), tree.root_at("inner", RootKind::Explicit)];
    let live = Arc::new(LiveCatalog::new(roots, ScanOptions::default(), RefreshPolicy::OnRequest));
    let (_watcher, changes) = watch(&live);
    tree.write("a/SKILL.md", manifest("a2", "Looks after a. Use it when asked."));
    wait_for(&live, &changes, &["a2"]);
}

#[derive(Clone, Debug)]
enum Act {
    Write(usize, u8),
    Break(usize),
    Delete(usize),
    Rename(usize, usize),
    Link(usize, usize),
    LinkManifest(usize, usize),
    Lowercase(usize),
    Settle,
}

const PLACES: [&str; 7] = ["a", "b", "group/a", "group/c", "group/deep/d", "b/inner", ".hidden"];

fn act() -> impl Strategy<Value = Act> {
    let place = 0..PLACES.len();
    prop_oneof![
        4 => (place.clone(), any::<u8>()).prop_map(|(at, version)| Act::Write(at, version)),
        1 => place.clone().prop_map(Act::Break),
        2 => place.clone().prop_map(Act::Delete),
        2 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Rename(from, to)),
        2 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::LinkManifest(from, to)),
        1 => place.prop_map(Act::Lowercase),
        1 => Just(Act::Settle),
    ]
}

impl Act {
    /// Does it, as far as it can be done.
    fn apply(&self, tree: &Tree) {
        let path = |at: &usize| tree.join(PLACES[*at]);
        let manifest_of = |at: &usize| path(at).join("SKILL.md");
        let clear = |at: &usize| {
            let _ = std::fs::remove_file(path(at)).or_else(|_| std::fs::remove_dir_all(path(at)));
            let _ = std::fs::create_dir_all(path(at).parent().unwrap());
        };
        let write = |at: &usize, text: String| {
            let _ = std::fs::create_dir_all(path(at)).and_then(|()| std::fs::write(manifest_of(at), text));
        };
        match self {
            Self::Write(at, version) => {
                let name = PLACES[*at].rsplit('/').next().unwrap();
                write(at, manifest(name, &format!("Version {version:03} of what it does.")));
            }
            Self::Break(at) => write(at, "No frontmatter.".into()),
            Self::Delete(at) => clear(at),
            Self::Rename(from, to) => {
                let _ = std::fs::create_dir_all(path(to).parent().unwrap());
                let _ = std::fs::rename(path(from), path(to));
            }
            Self::Link(from, to) => {
                clear(from);
                let up = "../".repeat(PLACES[*from].matches('/').count());
                let _ = std::os::unix::fs::symlink(format!("{up}{}", PLACES[*to]), path(from));
            }
            Self::LinkManifest(from, to) => {
                let up = "../".repeat(PLACES[*from].matches('/').count() + 1);
                let _ = std::fs::remove_file(manifest_of(from));
                let _ =
                    std::os::unix::fs::symlink(format!("{up}{}/SKILL.md", PLACES[*to]), manifest_of(from));
            }
            Self::Lowercase(at) => {
                let _ = std::fs::rename(manifest_of(at), path(at).join("skill.md"));
            }
            Self::Settle => settle(tree),
        }
    }
}

/// Everything that can be told of a catalog, in words.
fn told(catalog: &Catalog, tree: &Tree) -> Vec<String> {
    let shown = |entry: &prowess_catalog::SkillEntry| {
        let body = entry.read_text().map(|text| text.manifest().to_owned());
        format!("{} {} {body:?}", entry.skill.location, entry.skill.description)
    };
    let entries = catalog.entries().iter().map(|entry| shown(entry));
    let shadowed =
        catalog.shadowed().iter().map(|pair| format!("{} by {}", shown(&pair.entry), shown(&pair.by)));
    entries.chain(shadowed).chain(tree.findings(catalog)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_refreshed_catalog_is_what_a_new_one_would_be(
        acts in prop::collection::vec(act(), 1..14),
        links in prop_oneof![Just(Links::WithinRoot), Just(Links::Anywhere), Just(Links::Never)],
        nested in any::<bool>(),
    ) {
        let tree = Tree::new().skill("a").skill("group/c");
        let options = options(|options| {
            options.links = links;
            options.nested = nested;
        });
        let mut catalog = Catalog::discover(&[tree.root()], &options);
        for act in &acts {
            act.apply(&tree);
            let refreshed = catalog.refreshed(&[tree.root()], &options);
            let fresh = Catalog::discover(&[tree.root()], &options);
            prop_assert_eq!(told(&refreshed, &tree), told(&fresh, &tree), "after {:?}", act);
            if catalog.diff(&refreshed).is_empty() {
                prop_assert_eq!(names(&catalog), names(&refreshed));
            }
            catalog = refreshed;
        }
    }
}
