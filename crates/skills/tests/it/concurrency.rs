//! Many callers at once: no change is lost, and no limit exceeded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::load::PreparedLoad;
use prowess_skills::{Dialect, SkillError, SkillEvent, SkillSession, SkillState};

use serde_json::json;

use crate::library::{Library, loaded, prepared, prepared_call};

const THREADS: usize = 64;
const SKILLS: usize = 1_000;
const LIMIT: usize = 10;

/// Loads and unloads of one name that were told to have worked.
type Balance = BTreeMap<String, i64>;

/// How long to go on; `PROWESS_STRESS_SECONDS` says otherwise.
fn duration() -> Duration {
    let seconds = std::env::var("PROWESS_STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

fn churn(session: &SkillSession, names: &[String], seed: usize, until: Instant) -> (Balance, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut balance, mut operations) = (Balance::new(), 0);
    let mut random = seed as u64 * 2_654_435_761 + 1;
    while Instant::now() < until {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = &names[(random >> 33) as usize % names.len()];
        operations += 1;
        if random & (1 << 20) == 0 {
            match runtime.block_on(session.load(name, None)) {
                Ok(answer) => *balance.entry(name.clone()).or_default() += answer.deltas.len() as i64,
                Err(SkillError::LimitReached { loaded, .. }) => {
                    // A full session is emptied by whoever finds it full.
                    let other = &loaded[(random >> 40) as usize % loaded.len()];
                    if session.unload(other).is_ok() {
                        *balance.entry(other.clone()).or_default() -= 1;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        } else if session.unload(name).is_ok() {
            *balance.entry(name.clone()).or_default() -= 1;
        }
    }
    (balance, operations)
}

#[test]
fn sixty_four_threads_lose_no_update_and_exceed_no_limit() {
    let names: Vec<String> = (0..SKILLS).map(|number| format!("s{number:03}")).collect();
    let library = Library::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let session = runtime.block_on(library.session_of(LIMIT));
    let until = Instant::now() + duration();
    let is_over = AtomicBool::new(false);
    let (balances, most) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                let state = session.state();
                most = most.max(state.loaded().len());
                assert!(state.all_resources().keys().all(|name| state.get(name).is_some()));
                std::thread::yield_now();
            }
            most
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| {
                let (session, names) = (&session, &names);
                scope.spawn(move || churn(session, names, seed, until))
            })
            .collect();
        let balances: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        let balances: Vec<_> = balances.into_iter().map(Result::unwrap).collect();
        (balances, watcher.join().unwrap())
    });
    assert!(most <= LIMIT, "{most} skills were loaded at once");

    let operations: u64 = balances.iter().map(|(_, operations)| operations).sum();
    let mut total = Balance::new();
    for (name, change) in balances.into_iter().flat_map(|(balance, _)| balance) {
        *total.entry(name).or_default() += change;
    }
    let expected: Vec<String> = total
        .into_iter()
        .filter(|(_, balance)| *balance != 0)
        .map(|(name, balance)| {
            assert_eq!(balance, 1, "{name} was loaded {balance} times more than it was unloaded");
            name
        })
        .collect();
    let mut remaining = loaded(&session);
    remaining.sort();
    assert_eq!(remaining, expected);
    eprintln!("{operations} operations of {THREADS} threads on {SKILLS} skills, at most {most} loaded");
}

/// The calls of one turn run at the same time; each of them counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_loads_of_one_turn_all_count() {
    let names: Vec<String> = (0..20).map(|number| format!("s{number:02}")).collect();
    let library = Library::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let session = library.session().await;
    let mut events = session.events();
    let calls = names.iter().map(|name| {
        let (session, name) = (session.clone(), name.clone());
        tokio::spawn(async move { session.load(&name, None).await })
    });
    let mut done = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(answer) => done += answer.deltas.len(),
            Err(error) => assert!(matches!(error, SkillError::LimitReached { .. }), "{error}"),
        }
    }
    assert_eq!(done, 10);
    let mut replayed = SkillState::default();
    while let Ok(SkillEvent::Changed { delta, .. }) = events.try_recv() {
        replayed.replay([&delta]).unwrap();
    }
    assert_eq!(replayed, *session.state());
}

/// Reading in parallel and finishing in order: the first calls get the slots, whichever was read first.
#[tokio::test]
async fn finishing_in_the_order_of_the_calls_decides_who_gets_the_slot() {
    let library = Library::of(&["a", "b", "c"]);
    let session = library.session_of(2).await;
    let prepare = |name| prepared(&session, session.view().load(name, None, None));
    let (a, b, c) = tokio::join!(prepare("a"), prepare("b"), prepare("c"));
    let finish = |load: Result<PreparedLoad, SkillError>| session.hold(|state| load.unwrap().finish(state));
    finish(a).unwrap();
    finish(b).unwrap();
    assert!(matches!(finish(c), Err(SkillError::LimitReached { .. })));
    assert_eq!(loaded(&session), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_choices_of_documents_are_merged() {
    let library = (0..16).fold(Library::of(&["kit"]), |library, number| {
        library.file(&format!("kit/d{number:02}.md"), "text\n")
    });
    let session = Arc::new(library.session_in(Dialect::Trpc).await);
    session.load("kit", None).await.unwrap();
    let calls: Vec<_> = (0..16)
        .map(|number| {
            let session = Arc::clone(&session);
            let choice = DocumentChoice::Named(vec![format!("d{number:02}.md")]);
            tokio::spawn(async move { session.select_documents("kit", SelectMode::Add, choice).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(session.state().selection("kit").unwrap().documents.len(), 16);
}

/// Two calls of one turn load the same skill, each with a document: the later one decides, and none is
/// told that nothing happened.
#[tokio::test]
async fn parallel_loads_with_documents_both_count() {
    let library = Library::of(&["kit"]).file("kit/a.md", "A.\n").file("kit/b.md", "B.\n");
    let session = library.session_in(Dialect::Trpc).await;
    let call = |path| prepared_call(&session, "skill_load", json!({"skill": "kit", "docs": [path]}));
    let (first, second) = tokio::join!(call("a.md"), call("b.md"));
    assert_eq!(session.finish(first).deltas.len(), 2);
    let reply = session.finish(second);
    assert_eq!(reply.deltas.len(), 1, "{}", reply.text);
    assert_eq!(session.state().documents("kit")[0].path, "b.md");
    assert_eq!(session.state().documents("kit").len(), 1);
    assert!(session.loaded_section().await.text.contains("B.\n"));
}

/// Calls that are finished in their order leave the same state, in whatever order they were read.
#[tokio::test]
async fn calls_can_be_finished_in_order() {
    let library = Library::of(&["a", "b", "c"]);
    let session = library.session_of(2).await;
    let call = |tool, name| prepared_call(&session, tool, json!({"skill_name": name}));
    let (c, b, a) = tokio::join!(call("load_skill", "c"), call("load_skill", "b"), call("load_skill", "a"));
    let unload = call("unload_skill", "a").await;
    assert!(!session.finish(a).is_error && !session.finish(b).is_error);
    assert!(session.finish(c).text.contains("Maximum number"));
    assert!(!session.finish(unload).is_error);
    assert_eq!(loaded(&session), ["b"]);
}
