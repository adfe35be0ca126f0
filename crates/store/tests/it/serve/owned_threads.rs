//! Tests of owned threads: what a user sees, and that another user sees nothing of it.

use std::collections::BTreeSet;

use prowess_agent::queue::{ClaimLimits, Post, QueueState};
use prowess_agent::{Message, ThreadId};
use prowess_store::Database;
use prowess_store::serve::{DailyLimits, OwnedThread, OwnedThreadError, Summary, UsageSum, User};
use serde_json::json;

use super::{summary, thread, two_users};
use crate::support::{LONG, databases, execute, places, said, texts};

fn ids(threads: &[OwnedThread]) -> Vec<&ThreadId> {
    threads.iter().map(|thread| &thread.id).collect()
}

/// What a search finds.
async fn found(database: &Database, user: &User, search: &str) -> Vec<ThreadId> {
    let (threads, next) = database.owned_threads().list(&user.id, Some(search), None, 99).await.unwrap();
    assert_eq!(next, None);
    threads.into_iter().map(|(thread, _)| thread.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_every_door_to_another_users_thread_is_shut() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, ben] = two_users(&database).await;
        let own = thread(&database, &anna, "Tides").await;
        let asked = Summary { waiting: vec![json!({"number": 3})], ..summary("high at one", 3) };
        threads.summarise(&own.id, &asked).await.unwrap();
        let before = threads.get(&anna.id, &own.id).await.unwrap().unwrap();
        assert_eq!((before.owner.as_str(), before.title.as_str()), (anna.id.as_str(), "Tides"));

        // The other user, nobody, and what could be taken for a pattern or for SQL.
        for other in [ben.id.as_str(), "", "%", "anna", "a\u{0}b", "' OR 1 = 1 --"] {
            assert_eq!(threads.get(other, &own.id).await.unwrap(), None);
            assert_eq!(threads.list(other, None, None, 99).await.unwrap(), (vec![], None));
            for search in ["tides", "high", "", "%", "_"] {
                let found = threads.list(other, Some(search), None, 99).await.unwrap();
                assert_eq!(found, (vec![], None), "{search}");
            }
            assert_eq!(threads.waiting(other).await.unwrap(), []);
            assert!(!threads.rename(other, &own.id, "Mine").await.unwrap());
            assert!(!threads.delete(other, &own.id).await.unwrap());
            let refused = threads.create(other, &own.id, "default", "Mine").await;
            assert!(matches!(&refused, Err(OwnedThreadError::NotFound(id)) if *id == own.id), "{refused:?}");
        }
        // Where the list of one user continues shows another user nothing.
        thread(&database, &anna, "Second").await;
        let (_, next) = threads.list(&anna.id, None, None, 1).await.unwrap();
        assert_eq!(threads.list(&ben.id, None, next.as_deref(), 9).await.unwrap(), (vec![], None));

        assert_eq!(threads.get(&anna.id, &own.id).await.unwrap().unwrap(), before);
        assert_eq!(threads.waiting(&anna.id).await.unwrap(), [before]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_nobody_gets_a_thread_that_exists_without_an_owner() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (store, threads) = (database.threads(), database.owned_threads());
        let [anna, _] = two_users(&database).await;
        // Such as the thread of a sub-agent, or of somebody who used this file before.
        let lease = store.lease(&ThreadId::new(), "agent", LONG).await.unwrap();
        let refused = threads.create(&anna.id, &lease.thread, "default", "").await;
        assert!(matches!(refused, Err(OwnedThreadError::NotFound(_))), "{refused:?}");
        assert_eq!(threads.owner_of(&lease.thread).await.unwrap(), None);
        assert_eq!(threads.list(&anna.id, None, None, 9).await.unwrap(), (vec![], None));
        assert!(!threads.delete(&anna.id, &lease.thread).await.unwrap());
        store.append(&lease, 0, &[said("still there")]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_created_once() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, _] = two_users(&database).await;
        let own = thread(&database, &anna, "\u{0} 100 % Ö").await;
        assert_eq!((own.agent.as_str(), own.title.as_str()), ("default", "\u{0} 100 % Ö"));
        assert_eq!(own.summary, Summary::default());
        assert!(own.created <= own.changed);
        let again = threads.create(&anna.id, &own.id, "other", "other").await.unwrap();
        assert_eq!(again, own);
        assert_eq!(threads.owner_of(&own.id).await.unwrap(), Some(own));
        assert_eq!(threads.owner_of(&ThreadId::new()).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_summaries() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, ben] = two_users(&database).await;
        let own = thread(&database, &anna, "Tides").await;
        let later = thread(&database, &anna, "Kites").await;
        let question = json!({"number": 7, "details": ["rm \u{0}"]});
        let told = Summary {
            waiting: vec![question],
            tokens: 12_345,
            cost: Some("0.0123".to_owned()),
            text: "At Calais it is high at one.".to_owned(),
            window_use: Some(json!({"parts": []})),
            events: 9,
        };
        threads.summarise(&own.id, &told).await.unwrap();
        let (listed, _) = threads.list(&anna.id, None, None, 9).await.unwrap();
        let listed: Vec<OwnedThread> = listed.into_iter().map(|(thread, _)| thread).collect();
        assert_eq!(ids(&listed), [&own.id, &later.id], "the last change comes first");
        assert_eq!(listed[0].summary, Summary { text: String::new(), window_use: None, ..told.clone() });
        let window_use = async |user: &str, events| threads.window_use(user, &own.id, events).await.unwrap();
        assert_eq!(window_use(&anna.id, 9).await, told.window_use);
        assert_eq!(window_use(&anna.id, 10).await, None, "it is about fewer events");
        assert_eq!(window_use(&ben.id, 9).await, None, "it is not his");
        assert!(listed[0].changed > own.changed && listed[0].created == own.created);
        assert_eq!(ids(&threads.waiting(&anna.id).await.unwrap()), [&own.id]);

        // A worker that lost its lease is late.
        threads.summarise(&own.id, &summary("", 8)).await.unwrap();
        assert_eq!(threads.get(&anna.id, &own.id).await.unwrap().unwrap().summary.tokens, 12_345);
        threads.summarise(&own.id, &summary("", 9)).await.unwrap();
        let now = threads.get(&anna.id, &own.id).await.unwrap().unwrap();
        assert_eq!((now.summary.tokens, now.summary.cost, now.summary.waiting), (0, None, vec![]));
        assert_eq!(threads.waiting(&anna.id).await.unwrap(), []);
        // A thread that nobody owns has no summary.
        threads.summarise(&ThreadId::new(), &told).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_looks_for_letters_in_titles_and_texts() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, _] = two_users(&database).await;
        let own = thread(&database, &anna, "100% Ökostrom").await;
        let other = thread(&database, &anna, "a_b \\ c").await;
        threads.summarise(&own.id, &summary("Wie VIEL?\u{0}", 1)).await.unwrap();
        for (search, finds) in [
            ("100%", vec![&own.id]),
            ("ÖKO", vec![&own.id]),
            ("viel", vec![&own.id]),
            ("viel?\u{0}", vec![&own.id]),
            ("  viel  ", vec![&own.id]),
            ("A_B", vec![&other.id]),
            ("\\", vec![&other.id]),
            ("%b", vec![]),
            ("a%b", vec![]),
            ("10_", vec![]),
            ("'", vec![]),
            ("", vec![&own.id, &other.id]),
        ] {
            assert_eq!(found(&database, &anna, search).await.iter().collect::<Vec<_>>(), finds, "{search:?}");
        }
        // A new title replaces the old one, and the text stays.
        assert!(threads.rename(&anna.id, &own.id, "Wind").await.unwrap());
        assert_eq!(found(&database, &anna, "öko").await, []);
        assert_eq!(found(&database, &anna, "wind").await, std::slice::from_ref(&own.id));
        assert_eq!(found(&database, &anna, "viel").await, [own.id]);
        assert_eq!(found(&database, &anna, &"x".repeat(100_000)).await, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_repeats_nothing_while_threads_change() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, ben] = two_users(&database).await;
        let mut all = BTreeSet::new();
        for number in 0..10 {
            all.insert(thread(&database, &anna, &format!("thread {number}")).await.id);
            thread(&database, &ben, "not hers").await;
        }
        let (mut seen, mut next) = (Vec::new(), None);
        loop {
            let page = threads.list(&anna.id, Some("thread"), next.as_deref(), 3).await.unwrap();
            seen.extend(page.0.iter().map(|(thread, _)| thread.id.clone()));
            // One that was listed changes, and one is new.
            threads.summarise(&page.0[0].0.id, &summary("changed", 1)).await.unwrap();
            thread(&database, &anna, "thread that is new").await;
            next = page.1;
            if next.is_none() {
                break;
            }
        }
        assert_eq!((seen.len(), BTreeSet::from_iter(seen)), (10, all));
        for wrong in ["", "x", "zz.abc", "1.a b", "' OR 1 = 1 --"] {
            let refused = threads.list(&anna.id, None, Some(wrong), 3).await;
            assert!(matches!(refused, Err(OwnedThreadError::InvalidPlace)), "{wrong}: {refused:?}");
        }
        assert_eq!(threads.list(&anna.id, None, None, 0).await.unwrap().0.len(), 1, "a page is never empty");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_changed_together_are_listed_each_once() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let [anna, _] = two_users(&database).await;
        for _ in 0..5 {
            thread(&database, &anna, "").await;
        }
        execute(&at, "UPDATE prowess_owned_threads SET changed = 7").await;
        let (mut seen, mut next) = (BTreeSet::new(), None);
        for _ in 0..5 {
            let page = database.owned_threads().list(&anna.id, None, next.as_deref(), 1).await.unwrap();
            seen.insert(page.0[0].0.id.clone());
            next = page.1;
        }
        assert_eq!((seen.len(), next), (5, None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_deleted_with_all_that_the_store_has_of_it() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (queue, threads) = (database.queue(), database.owned_threads());
        let [anna, ben] = two_users(&database).await;
        let store = database.acting_for(&anna.id).threads();
        let own = thread(&database, &anna, "Tides").await;
        let lease = store.lease(&own.id, "worker", LONG).await.unwrap();
        store.append(&lease, 0, &[said("secret")]).await.unwrap();
        queue.post(&own.id, &Post::say(Message::user("a secret too"))).await.unwrap();

        let refused = threads.delete(&anna.id, &own.id).await;
        assert!(matches!(refused, Err(OwnedThreadError::InUse(_))), "{refused:?}");
        assert_eq!(
            threads.get(&anna.id, &own.id).await.unwrap().map(|thread| thread.id),
            Some(own.id.clone())
        );
        assert_eq!(texts(&*store, &own.id).await, ["secret"], "nothing is deleted");
        store.release(&lease).await.unwrap();

        assert!(threads.delete(&anna.id, &own.id).await.unwrap());
        assert!(!threads.delete(&anna.id, &own.id).await.unwrap());
        assert_eq!(threads.get(&anna.id, &own.id).await.unwrap(), None);
        assert!(queue.claim("worker", LONG, ClaimLimits::default()).await.unwrap().is_none());
        // Another user who takes the id finds nothing of what was there.
        threads.create(&ben.id, &own.id, "default", "").await.unwrap();
        assert!(store.events(&own.id, 0, 9).await.is_err());
        queue.wake(&own.id).await.unwrap();
        let claim = queue.claim("worker", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        assert_eq!(queue.inbox(&claim).await.unwrap().entries, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_was_never_opened_is_deleted_with_its_posts() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (queue, threads) = (database.queue(), database.owned_threads());
        let [anna, _] = two_users(&database).await;
        let own = thread(&database, &anna, "Tides").await;
        queue.post(&own.id, &Post::say(Message::user("a secret"))).await.unwrap();
        assert!(threads.delete(&anna.id, &own.id).await.unwrap());
        assert!(queue.claim("worker", LONG, ClaimLimits::default()).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_deleted_by_other_means_is_nobodys() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, _] = two_users(&database).await;
        let store = database.acting_for(&anna.id).threads();
        let own = thread(&database, &anna, "Tides").await;
        let lease = store.lease(&own.id, "worker", LONG).await.unwrap();
        store.release(&lease).await.unwrap();
        store.delete(&own.id).await.unwrap();
        assert_eq!(threads.list(&anna.id, None, None, 9).await.unwrap(), (vec![], None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_is_summed_by_user_and_day() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let threads = database.owned_threads();
        let [anna, ben] = two_users(&database).await;
        let note = async |user: &str, tokens, micro_dollars| {
            let sum = UsageSum { tokens, micro_dollars };
            assert!(threads.note_usage(user, None, sum).await.unwrap());
        };
        note(&anna.id, 100, 2_500).await;
        execute(&at, "UPDATE prowess_usage SET day = day - 1").await;
        for _ in 0..2 {
            note(&anna.id, 10, 0).await;
        }
        note("nobody", 10, 10).await;
        let used = threads.usage(&anna.id).await.unwrap();
        assert_eq!((used.today.tokens, used.today.micro_dollars), (20, 0));
        assert_eq!((used.total.tokens, used.total.micro_dollars), (120, 2_500));
        for other in [ben.id.as_str(), "nobody"] {
            assert_eq!(threads.usage(other).await.unwrap().total.tokens, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_paid_for_an_event_counts_once() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let threads = database.owned_threads();
        let [anna, _] = two_users(&database).await;
        let own = thread(&database, &anna, "Tides").await;
        assert_eq!(threads.counted(&anna.id, &own.id).await.unwrap(), None, "it has no events");
        let store = database.acting_for(&anna.id).threads();
        // A sub-agent has a thread without an owned one.
        let task: ThreadId = format!("task-{}", own.id).parse().unwrap();
        for id in [&own.id, &task] {
            let lease = store.lease(id, "worker", LONG).await.unwrap();
            store.append(&lease, 0, &[said("high"), said("low"), said("high")]).await.unwrap();
            assert_eq!(threads.counted(&anna.id, id).await.unwrap(), Some(0));
            let sum = UsageSum { tokens: 10, micro_dollars: 3 };
            let mut noted = Vec::new();
            for number in [2, 2, 1, 3, 3] {
                noted.push(threads.note_usage(&anna.id, Some((id, number)), sum).await.unwrap());
            }
            assert_eq!(noted, [true, false, false, true, false]);
            assert_eq!(threads.counted(&anna.id, id).await.unwrap(), Some(3));
        }
        let today = threads.usage(&anna.id).await.unwrap().today;
        assert_eq!(today, UsageSum { tokens: 40, micro_dollars: 12 });
        // A fork begins with events that were paid in the other thread.
        let fork = ThreadId::new();
        store.fork(&own.id, 2, &fork).await.unwrap();
        assert_eq!(threads.counted(&anna.id, &fork).await.unwrap(), Some(2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_says_which_threads_have_work_to_do() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let [anna, ben] = two_users(&database).await;
        let own = thread(&database, &anna, "Tides").await;
        let states = async |user: &User| {
            let (listed, _) = database.owned_threads().list(&user.id, None, None, 9).await.unwrap();
            listed.into_iter().map(|(_, state)| state).collect::<Vec<_>>()
        };
        assert_eq!(states(&anna).await, [QueueState::Rests]);
        database.queue().wake(&own.id).await.unwrap();
        assert_eq!(states(&anna).await, [QueueState::Queued]);
        let claim = database.queue().claim("worker", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        assert_eq!(states(&anna).await, [QueueState::Claimed]);

        // A user who may not go on waits, until an administrator changes that.
        database.queue().give_back(&claim, LONG).await.unwrap();
        let claimed = async || database.queue().claim("worker", LONG, ClaimLimits::default()).await.unwrap();
        assert_eq!(claimed().await, None);
        database.accounts().set_disabled(&ben.id, false).await.unwrap();
        assert_eq!(claimed().await, None, "another user");
        database.accounts().set_disabled(&anna.id, false).await.unwrap();
        let claim = claimed().await.unwrap();
        database.queue().give_back(&claim, LONG).await.unwrap();
        database.accounts().set_daily(&anna.id, DailyLimits::default()).await.unwrap();
        assert_eq!(claimed().await.unwrap().lease.thread, own.id);
    }
}
