//! Tests of turns between users: whose thread is claimed next.

use std::sync::Arc;

use prowess_agent::queue::{Claim, ClaimLimits, Post, Priority};
use prowess_agent::{Message, ThreadId};
use prowess_store::Database;
use prowess_store::serve::User;

use super::thread;
use crate::support::{LONG, databases, execute, places};

async fn user(database: &Database, name: &str) -> User {
    database.accounts().add_user(name, false).await.unwrap()
}

async fn post(database: &Database, user: &User, thread: &ThreadId, priority: Priority) {
    let post = Post::Say { message: Message::user("a"), priority };
    database.acting_for(&user.id).queue().post(thread, &post).await.unwrap();
}

/// New threads of a user, in the queue.
async fn queued(database: &Database, user: &User, count: usize, priority: Priority) -> Vec<ThreadId> {
    let mut threads = Vec::new();
    for _ in 0..count {
        let own = thread(database, user, "Tides").await.id;
        post(database, user, &own, priority).await;
        threads.push(own);
    }
    threads
}

async fn claim(database: &Database, limits: ClaimLimits) -> Option<Claim> {
    database.queue().claim("worker", LONG, limits).await.unwrap()
}

async fn finish(database: &Database, claim: &Claim) {
    let posted = database.queue().inbox(claim).await.unwrap().posted;
    database.queue().finish(claim, posted).await.unwrap();
}

/// Of two users who post, rest and post again, and one with a backlog, nobody waits forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_148_users_who_come_again_and_again_hold_up_nobody() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (ada, eve) = (user(&database, "ada").await, user(&database, "eve").await);
        let busy = [user(&database, "ben").await, user(&database, "cid").await, user(&database, "dan").await];
        let mut theirs = Vec::new();
        for user in &busy {
            theirs.push(queued(&database, user, 1, Priority::Normal).await.remove(0));
        }
        let mut waiting = queued(&database, &ada, 5, Priority::Normal).await;
        waiting.extend(queued(&database, &eve, 1, Priority::Low).await);
        let mut claims = 0;
        let mut last_of_ada = 0;
        while !waiting.is_empty() {
            let claim = claim(&database, ClaimLimits::default()).await.unwrap();
            finish(&database, &claim).await;
            claims += 1;
            assert!(claims < 4 * 120, "{waiting:?} wait");
            match theirs.iter().position(|thread| thread == claim.thread()) {
                Some(user) => post(&database, &busy[user], &theirs[user], Priority::Normal).await,
                None => {
                    waiting.retain(|thread| thread != claim.thread());
                    last_of_ada = if waiting.len() == 1 { claims } else { last_of_ada };
                }
            }
        }
        assert!(last_of_ada <= 5 * 4, "{last_of_ada}");
    }
}

/// A user who comes after others have worked for long does not go before them each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_comes_late_gets_no_turns_of_earlier_times() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (ada, ben) = (user(&database, "ada").await, user(&database, "ben").await);
        for own in queued(&database, &ada, 10, Priority::Normal).await {
            let claim = claim(&database, ClaimLimits::default()).await.unwrap();
            assert_eq!(claim.thread(), &own);
            finish(&database, &claim).await;
        }
        queued(&database, &ben, 5, Priority::Normal).await;
        let hers = queued(&database, &ada, 1, Priority::Normal).await;
        let mut before = 0;
        while claim(&database, ClaimLimits::default()).await.unwrap().thread() != &hers[0] {
            before += 1;
        }
        assert!(before <= 2, "{before} of the other user's threads came first");
    }
}

/// Whoever deletes threads claims them by their names. That takes no turn, and does not move the line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_and_what_is_dropped_moves_nobody_back() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (ada, ben) = (user(&database, "ada").await, user(&database, "ben").await);
        let backlog = queued(&database, &ada, 20, Priority::Normal).await;
        for deleted in &backlog[10..] {
            let claim = database.queue().claim_thread(deleted, "deletion", LONG).await.unwrap().unwrap();
            database.queue().forget(claim.thread()).await.unwrap();
        }
        let his = queued(&database, &ben, 1, Priority::Normal).await;
        let mut before = 0;
        while claim(&database, ClaimLimits::default()).await.unwrap().thread() != &his[0] {
            before += 1;
        }
        assert!(before <= 1, "{before} of the other user's threads came first");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_148_the_thousand_threads_of_a_user_at_the_limit_hold_up_nobody() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let (ada, ben) = (user(&database, "ada").await, user(&database, "ben").await);
        queued(&database, &ada, 2, Priority::Normal).await;
        let copies = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
            INSERT INTO prowess_queue (thread, posted, attempts, until, queued, belongs_to, place)
            SELECT 'copy-' || n, 1, 0, until, queued, belongs_to, n FROM numbers, prowess_queue WHERE place = 0";
        execute(&at, copies).await;
        let limits = ClaimLimits { per_user: 1, ..ClaimLimits::default() };
        let first = claim(&database, limits).await.unwrap();
        let his = queued(&database, &ben, 1, Priority::Normal).await;
        let numbers = database.queue().numbers(limits).await.unwrap();
        assert_eq!((numbers.queued, numbers.working), (1, 1), "more workers would not help the other user");
        assert_eq!(claim(&database, limits).await.unwrap().thread(), &his[0]);
        assert_eq!(claim(&database, limits).await, None);
        let numbers = database.queue().numbers(limits).await.unwrap();
        assert_eq!((numbers.queued, numbers.age.as_secs()), (0, 0));
        finish(&database, &first).await;
        assert!(claim(&database, limits).await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_hold_for_claims_of_several_processes_at_once() {
    const PER_USER: u64 = 2;
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(Arc::new(Database::open(&at).await.unwrap()));
        }
        let users = [user(&processes[0], "ada").await, user(&processes[0], "ben").await];
        for user in &users {
            queued(&processes[0], user, 8, Priority::Normal).await;
        }
        for (in_all, expected) in [(u64::MAX, 2 * PER_USER), (3, 3)] {
            let limits = ClaimLimits { per_user: PER_USER, in_all };
            let claiming: Vec<_> = (0..18)
                .map(|number| {
                    let database = Arc::clone(&processes[number % 3]);
                    tokio::spawn(async move { claim(&database, limits).await })
                })
                .collect();
            let mut claims = Vec::new();
            for one in claiming {
                claims.extend(one.await.unwrap());
            }
            // A worker may pass over a user for whom another one claims at this moment.
            while let Some(more) = claim(&processes[0], limits).await {
                claims.push(more);
            }
            assert_eq!(claims.len() as u64, expected, "{in_all}");
            for user in &users {
                let mut own = 0;
                for claim in &claims {
                    let owner = processes[0].owned_threads().owner_of(claim.thread()).await.unwrap();
                    own += u64::from(owner.is_some_and(|owned| owned.owner == user.id));
                }
                assert!(own <= PER_USER, "{own}");
            }
            for claim in &claims {
                finish(&processes[0], claim).await;
            }
        }
    }
}

/// A user's place is no secret of the user, but nobody else can change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_another_place() {
    let url = crate::support::runtime_url().await;
    let database = Database::open(&url).await.unwrap();
    let ada = user(&database, "ada").await;
    queued(&database, &ada, 1, Priority::Normal).await;
    finish(&database, &claim(&database, ClaimLimits::default()).await.unwrap()).await;
    let direct = crate::support::client(&url).await;
    direct.execute("SELECT set_config('prowess.user', $1, false)", &[&ada.id]).await.unwrap();
    assert_eq!(direct.query("SELECT * FROM prowess_places", &[]).await.unwrap().len(), 1);
    assert_eq!(direct.execute("UPDATE prowess_places SET place = -1", &[]).await.unwrap(), 0);
    let refused = direct.execute("INSERT INTO prowess_places VALUES ('', 0, 1000000)", &[]).await;
    assert!(refused.is_err());
}
