//! Loads and unloads in every order that a scheduler can think of: `make shuttle` runs this, with the
//! session's lock replaced by one that hands control to the next thread wherever it can.

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::{Budgets, SessionOptions, SkillError, SkillEvent, SkillSession, SkillState};
use shuttle::future::block_on;
use shuttle::thread;

const SCHEDULES: usize = 5_000;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Runs `test` under that many random schedules, on stacks that reading files fits on.
fn check(test: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1024 * 1024;
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(schedules), config).run(test);
}

/// Skills that stay for all schedules: only sessions are made anew.
fn catalog() -> (tempfile::TempDir, Catalog) {
    let scratch = tempfile::tempdir().unwrap();
    for name in NAMES {
        let directory = scratch.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let text = format!("---\nname: {name}\ndescription: Looks after {name}.\n---\nDo it.\n");
        std::fs::write(directory.join("SKILL.md"), text).unwrap();
    }
    let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    (scratch, catalog)
}

fn session(catalog: &Catalog, max_loaded_skills: usize) -> SkillSession {
    let mut options = SessionOptions::default();
    options.budgets = Budgets::new(max_loaded_skills, None);
    block_on(SkillSession::builder(catalog.clone()).options(options).build())
}

/// What the events say, applied in order.
fn replayed(mut events: tokio::sync::broadcast::Receiver<SkillEvent>) -> SkillState {
    let mut state = SkillState::default();
    let mut expected = 1;
    while let Ok(event) = events.try_recv() {
        let SkillEvent::Changed { sequence, delta } = event else { continue };
        assert_eq!(sequence, expected, "events come in the order of the changes");
        expected += 1;
        state.replay([&delta]).unwrap();
    }
    state
}

#[test]
fn four_loads_for_two_slots() {
    let (_scratch, catalog) = catalog();
    check(
        move || {
            let session = session(&catalog, 2);
            let events = session.events();
            let loads = NAMES.map(|name| {
                let session = session.clone();
                thread::spawn(move || block_on(session.load(name, None)))
            });
            let mut loaded = 0;
            for load in loads {
                match load.join().unwrap() {
                    Ok(answer) => loaded += answer.deltas.len(),
                    Err(SkillError::LimitReached { loaded, .. }) => assert_eq!(loaded.len(), 2),
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(loaded, 2);
            assert_eq!(session.state().loaded().len(), 2);
            assert_eq!(replayed(events), *session.state());
        },
        SCHEDULES,
    );
}

#[test]
fn the_same_skill_is_loaded_once() {
    let (_scratch, catalog) = catalog();
    check(
        move || {
            let session = session(&catalog, 2);
            let loads = [(); 3].map(|()| {
                let session = session.clone();
                thread::spawn(move || block_on(session.load("a", None)).unwrap().deltas.len())
            });
            let changes: usize = loads.into_iter().map(|load| load.join().unwrap()).sum();
            assert_eq!(changes, 1);
            assert_eq!(session.state().loaded().len(), 1);
        },
        SCHEDULES,
    );
}

/// A skill is given other arguments while its text is put back: what is shown is what the state says.
#[test]
fn what_is_shown_is_what_is_loaded() {
    let (_scratch, catalog) = catalog();
    check(
        move || {
            let before = session(&catalog, 2);
            block_on(before.invoke("/a one")).unwrap();
            // A restored session has no text at hand, and reads it again.
            let restored = SkillSession::builder(catalog.clone()).saved_state(before.save());
            let session = block_on(restored.build());
            let (one, two, three) = (session.clone(), session.clone(), session.clone());
            let putting = thread::spawn(move || block_on(one.put_back([], None)));
            let invoking = thread::spawn(move || block_on(two.invoke("/a two")).unwrap());
            let refreshing = {
                let catalog = catalog.clone();
                thread::spawn(move || block_on(three.refresh(&catalog)))
            };
            putting.join().unwrap();
            invoking.join().unwrap();
            refreshing.join().unwrap();
            let section = block_on(session.put_back([], None));
            let nonce = session.state().get("a").unwrap().nonce.clone();
            assert!(section.text.contains(&nonce), "{}", section.text);
            assert!(section.text.contains("ARGUMENTS: two"), "{}", section.text);
        },
        SCHEDULES,
    );
}

/// Documents that are chosen at the same time are all chosen.
#[test]
fn choices_of_documents_are_merged() {
    let (scratch, catalog) = catalog();
    for path in ["x.md", "y.md", "z.md"] {
        std::fs::write(scratch.path().join("a").join(path), "text\n").unwrap();
    }
    check(
        move || {
            let session = session(&catalog, 2);
            let events = session.events();
            block_on(session.load("a", None)).unwrap();
            let choices = ["x.md", "y.md", "z.md"].map(|path| {
                let session = session.clone();
                let choice = DocumentChoice::Named(vec![path.to_owned()]);
                thread::spawn(move || {
                    block_on(session.select_documents("a", SelectMode::Add, choice)).unwrap()
                })
            });
            choices.into_iter().for_each(|choice| drop(choice.join().unwrap()));
            assert_eq!(session.state().documents("a").len(), 3);
            assert_eq!(replayed(events), *session.state());
        },
        SCHEDULES / 4,
    );
    drop(scratch);
}

#[test]
fn loads_and_unloads_balance() {
    let (_scratch, catalog) = catalog();
    check(
        move || {
            let session = session(&catalog, 2);
            let events = session.events();
            let workers = [("a", "b"), ("b", "a"), ("c", "a")].map(|(load, unload)| {
                let session = session.clone();
                thread::spawn(move || {
                    let loaded = block_on(session.load(load, None)).map_or(0, |answer| answer.deltas.len());
                    let unloaded = session.unload(unload).map_or(0, |answer| answer.deltas.len());
                    // Someone who only looks never sees more than there may be.
                    assert!(session.state().loaded().len() <= 2);
                    loaded as i64 - unloaded as i64
                })
            });
            let balance: i64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
            assert_eq!(session.state().loaded().len() as i64, balance);
            assert_eq!(replayed(events), *session.state());
        },
        SCHEDULES,
    );
}
