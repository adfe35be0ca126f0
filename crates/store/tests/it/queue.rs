//! Tests of the queue of turns: both databases pass the suite, and several handles work like one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::queue::{
    Claim, ClaimLimits, Failed, Finished, Inbox, InboxEntry, Post, PostIf, Posted, Priority, QueueError,
    QueueNumbers, QueueState, QueuedThread, TurnQueue,
};
use prowess_agent::testing::turn_queue_suite;
use prowess_agent::thread_state::StateChange;
use prowess_agent::{CallReply, Message, ThreadId};
use prowess_store::{Database, DatabaseError, SqliteStore};

use crate::support::{LONG, client, databases, execute, places, postgres_url, thread_of, waiting};

/// Several stores with one database, like several processes: each call goes to the next.
#[derive(Debug)]
struct InTurn(Vec<Arc<dyn TurnQueue>>, AtomicUsize);

impl InTurn {
    /// Three stores with the database of this name.
    async fn at(place: &str) -> Arc<Self> {
        let mut queues = Vec::new();
        for _ in 0..3 {
            queues.push(Database::open(place).await.unwrap().queue());
        }
        Arc::new(Self(queues, AtomicUsize::new(0)))
    }

    fn next(&self) -> &dyn TurnQueue {
        &*self.0[self.1.fetch_add(1, Ordering::Relaxed) % self.0.len()]
    }
}

#[async_trait]
impl TurnQueue for InTurn {
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError> {
        self.next().post_if(thread, post, condition).await
    }
    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.next().wake(thread).await
    }
    async fn claim(
        &self,
        worker: &str,
        lasts: Duration,
        limits: ClaimLimits,
    ) -> Result<Option<Claim>, QueueError> {
        self.next().claim(worker, lasts, limits).await
    }
    fn take_dead_letters(&self) -> Vec<ThreadId> {
        self.0.iter().flat_map(|queue| queue.take_dead_letters()).collect()
    }
    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        self.next().claim_thread(thread, worker, lasts).await
    }
    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError> {
        self.next().waits(claim, key).await
    }
    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError> {
        self.next().waiting(thread).await
    }
    async fn keep(&self, claim: &Claim) -> Result<(), QueueError> {
        self.next().keep(claim).await
    }
    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError> {
        self.next().inbox(claim).await
    }
    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError> {
        self.next().taken(claim, number).await
    }
    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError> {
        self.next().finish(claim, posted).await
    }
    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError> {
        self.next().give_back(claim, delay).await
    }

    async fn postpone(&self, claim: &Claim, posted: u64, delay: Duration) -> Result<Finished, QueueError> {
        self.next().postpone(claim, posted, delay).await
    }
    async fn fail(&self, claim: &Claim, delay: Duration, problem: &str) -> Result<Failed, QueueError> {
        self.next().fail(claim, delay, problem).await
    }
    async fn progressed(&self, claim: &Claim) -> Result<(), QueueError> {
        self.next().progressed(claim).await
    }
    async fn retry(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        self.next().retry(thread).await
    }
    async fn drop_work(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        self.next().drop_work(thread).await
    }
    async fn list(&self, most: usize) -> Result<Vec<QueuedThread>, QueueError> {
        self.next().list(most).await
    }
    async fn numbers(&self, limits: ClaimLimits) -> Result<QueueNumbers, QueueError> {
        self.next().numbers(limits).await
    }
    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError> {
        self.next().state(thread).await
    }
    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.next().forget(thread).await
    }
}

async fn suite(database: &Database) {
    turn_queue_suite(database.queue(), database.threads()).await;
}

async fn several_pass_the_suite(place: &str) {
    let store = Database::open(place).await.unwrap().threads();
    turn_queue_suite(InTurn::at(place).await, store).await;
}

fn say(text: &str) -> Post {
    Post::say(Message::user(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(place.path().join("a.db")).await.unwrap();
    suite(&Database::from(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_in_memory_passes_the_suite() {
    suite(&Database::from(SqliteStore::in_memory().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_on_one_file_pass_the_suite() {
    let place = tempfile::tempdir().unwrap();
    several_pass_the_suite(place.path().join("a.db").to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes_the_suite() {
    suite(&Database::open(&postgres_url().await).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_on_one_server_pass_the_suite() {
    several_pass_the_suite(&postgres_url().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_that_is_not_committed_yet_is_not_overlooked() {
    let url = postgres_url().await + "&application_name=to-be-finished";
    let queue = Database::open(&url).await.unwrap().queue();
    let thread = ThreadId::new();
    queue.post(&thread, &say("first")).await.unwrap();
    let claim = queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().unwrap();
    let posted = queue.inbox(&claim).await.unwrap().posted;
    // Somebody else is in the middle of a post.
    let other = client(&url).await;
    other.batch_execute("BEGIN; UPDATE prowess_queue SET posted = posted + 1").await.unwrap();
    let (finishing, by) = (Arc::clone(&queue), claim.clone());
    let finished = tokio::spawn(async move { finishing.finish(&by, posted).await });
    waiting(&other).await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(finished.await.unwrap().unwrap(), Finished::Queued);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_pass_over_a_thread_that_another_is_about_to_claim() {
    let url = postgres_url().await;
    let queue = Database::open(&url).await.unwrap().queue();
    let threads = [ThreadId::new(), ThreadId::new()];
    for thread in &threads {
        queue.wake(thread).await.unwrap();
    }
    let other = client(&url).await;
    other
        .batch_execute("BEGIN; SELECT * FROM prowess_queue ORDER BY until LIMIT 1 FOR UPDATE")
        .await
        .unwrap();
    assert_eq!(
        queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().unwrap().lease.thread,
        threads[1]
    );
    assert!(queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_go_with_their_thread() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (store, queue) = (database.threads(), database.queue());
        let lease = thread_of(&*store, 1).await;
        let reply = Post::Reply { call: "c".into(), number: 1, reply: CallReply::Approve };
        queue.post(&lease.thread, &reply).await.unwrap();
        store.release(&lease).await.unwrap();
        store.delete(&lease.thread).await.unwrap();
        assert!(queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().is_none());
        assert_eq!(queue.post(&lease.thread, &reply).await.unwrap(), Posted::New);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_names_are_told_apart() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (queue, thread) = (database.queue(), ThreadId::new());
        let post = |end: &str| {
            let change = StateChange { owner: "a \u{0}".to_owned(), delta: serde_json::Value::Null };
            Post::Change { id: "\u{0}x".repeat(20_000) + end, change }
        };
        assert_eq!(queue.post(&thread, &post("a")).await.unwrap(), Posted::New);
        assert_eq!(queue.post(&thread, &post("b")).await.unwrap(), Posted::New);
        assert_eq!(queue.post(&thread, &post("a")).await.unwrap(), Posted::Known);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_deep_for_an_event_is_not_posted() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (queue, thread) = (database.queue(), ThreadId::new());
        let delta = (0..120).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
        let change = StateChange { owner: "a".to_owned(), delta };
        let refused = queue.post(&thread, &Post::Change { id: "1".to_owned(), change }).await.unwrap_err();
        assert!(refused.to_string().contains("levels deep"), "{refused}");
        assert_eq!(queue.state(&thread).await.unwrap(), QueueState::Rests);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_passes_over_a_long_line_of_a_user_at_the_limit() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (accounts, threads, queue) = (database.accounts(), database.owned_threads(), database.queue());
        let anna = accounts.add_user("anna", false).await.unwrap().id;
        let ben = accounts.add_user("ben", false).await.unwrap().id;
        // More than one look at the line finds.
        for _ in 0..130 {
            let own = threads.create(&anna, &ThreadId::new(), "default", "").await.unwrap().id;
            queue.wake(&own).await.unwrap();
        }
        let limits = ClaimLimits { per_user: 1, ..ClaimLimits::default() };
        let first = queue.claim("one", LONG, limits).await.unwrap().unwrap();
        let last = threads.create(&ben, &ThreadId::new(), "default", "").await.unwrap().id;
        let say = Post::Say { message: Message::user("Hi."), priority: Priority::Low };
        queue.post(&last, &say).await.unwrap();
        let claimed = queue.claim("one", LONG, limits).await.unwrap().expect("ben has none yet");
        assert_eq!(claimed.thread(), &last);
        assert!(queue.claim("one", LONG, limits).await.unwrap().is_none(), "each has one");
        queue.give_back(&first, LONG).await.unwrap();
        let next = queue.claim("one", LONG, limits).await.unwrap().expect("anna has none now");
        assert_ne!(next.thread(), first.thread(), "it waits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_a_time_when_the_clock_was_wrong_is_over() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let queue = Database::open(&at).await.unwrap().queue();
        queue.wake(&ThreadId::new()).await.unwrap();
        queue.claim("early", Duration::MAX, ClaimLimits::default()).await.unwrap().unwrap();
        assert!(
            queue.claim("late", LONG, ClaimLimits::default()).await.unwrap().is_none(),
            "no claim lasts longer than a day"
        );
        for table in ["prowess_queue", "prowess_threads"] {
            execute(&at, &format!("UPDATE {table} SET until = until + 259200000000")).await;
        }
        assert_eq!(queue.claim("late", LONG, ClaimLimits::default()).await.unwrap().unwrap().attempt, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_post_is_told_and_can_be_dropped() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let (queue, thread) = (database.queue(), ThreadId::new());
        for text in ["one", "two", "three"] {
            queue.post(&thread, &say(text)).await.unwrap();
        }
        let claim = queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        let problem = async |number| match queue.inbox(&claim).await {
            Err(QueueError::Damaged { number: damaged, problem, .. }) if damaged == number => problem,
            other => panic!("{other:?}"),
        };
        execute(&at, "UPDATE prowess_inbox SET checksum = checksum + 1 WHERE number = 2").await;
        assert_eq!(problem(2).await, "its checksum is wrong");
        if let Database::Sqlite(store) = &database {
            let damaged = store.check().await.unwrap_err();
            assert!(matches!(damaged, DatabaseError::Damaged { .. }), "{damaged:?}");
            assert!(damaged.to_string().contains("the checksum of post 2"), "{damaged}");
        }
        queue.taken(&claim, 2).await.unwrap();
        assert_eq!(queue.inbox(&claim).await.unwrap().entries.len(), 2);
        let swapped = "UPDATE prowess_inbox SET (checksum, body) =
            (SELECT checksum, body FROM prowess_inbox WHERE number = 3) WHERE number = 1";
        execute(&at, swapped).await;
        assert_eq!(problem(1).await, "it has the name of another post");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_stops_no_queue() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let queue = Database::open(&at).await.unwrap().queue();
        queue.wake(&ThreadId::new()).await.unwrap();
        // As if the clock had been ahead: no row is written when it is set back.
        let ahead = "UPDATE prowess_queue SET until = until + 300000000, queued = queued + 300000000";
        let quiet = if at.starts_with("postgres:") { "SET session_replication_role = replica;" } else { "" };
        execute(&at, &format!("{quiet}{ahead}")).await;
        let numbers = queue.numbers(ClaimLimits::default()).await.unwrap();
        assert_eq!((numbers.queued, numbers.waiting, numbers.age), (1, 0, Duration::ZERO));
        let claim = queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        // A delay that no worker asked for is over.
        queue.give_back(&claim, LONG).await.unwrap();
        assert!(queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().is_none());
        execute(&at, "UPDATE prowess_queue SET not_before = not_before + 259200000000").await;
        assert!(queue.claim("one", LONG, ClaimLimits::default()).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_lost_claim_is_not_kept() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let queue = database.queue();
        queue.wake(&ThreadId::new()).await.unwrap();
        let brief = Duration::from_millis(20);
        let mut lost = queue.claim("one", brief, ClaimLimits::default()).await.unwrap().unwrap();
        tokio::time::sleep(brief * 2).await;
        // Another worker found that the claim has ended, but may not claim now.
        let none = ClaimLimits { in_all: 0, ..ClaimLimits::default() };
        assert!(queue.claim("two", LONG, none).await.unwrap().is_none());
        lost.lease.lasts = LONG;
        assert!(matches!(queue.keep(&lost).await, Err(QueueError::ClaimLost(_))));
        assert!(queue.claim("two", LONG, ClaimLimits::default()).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_version_12_delays_threads_beside_this_one() {
    let url = postgres_url().await;
    let queue = Database::open(&url).await.unwrap().queue();
    let thread = ThreadId::new();
    queue.wake(&thread).await.unwrap();
    let older = client(&url).await;
    let claimed = "SELECT claimed FROM prowess_claim('older', 600000000, 9, 9, 'why', 9)";
    let claim = async || older.query_opt(claimed, &[]).await.unwrap().map(|row| row.get::<_, String>(0));
    assert_eq!(claim().await.as_deref(), Some(thread.as_str()));
    let give_back = "UPDATE prowess_queue SET owner = NULL, until = prowess_now() + 600000000, lost = 0;
        UPDATE prowess_threads SET owner = NULL, until = 0";
    older.batch_execute(give_back).await.unwrap();
    assert_eq!(claim().await, None);
    assert!(queue.claim("newer", LONG, ClaimLimits::default()).await.unwrap().is_none());
    let post = "UPDATE prowess_queue SET posted = posted + 1, until = prowess_now()";
    older.batch_execute(post).await.unwrap();
    let newer = queue.claim("newer", LONG, ClaimLimits::default()).await.unwrap().unwrap();
    queue.give_back(&newer, LONG).await.unwrap();
    assert_eq!(claim().await, None);
    // It claims the thread by its name.
    let named = "UPDATE prowess_queue SET owner = 'older', until = prowess_now() + 600000000, attempts = attempts + 1";
    older.batch_execute(named).await.unwrap();
    assert_eq!(queue.state(&thread).await.unwrap(), QueueState::Claimed);
    assert!(queue.claim("newer", LONG, ClaimLimits::default()).await.unwrap().is_none());
    let numbers = older.query_one("SELECT working FROM prowess_queue_numbers()", &[]).await.unwrap();
    assert_eq!(numbers.get::<_, i64>(0), 1);
}

/// The tables of version 9, for PostgreSQL or SQLite.
pub(crate) fn version_9(own: &str) -> String {
    let texts = [
        include_str!("../../src/migrations/1.sql"),
        include_str!("../../src/migrations/2.sql"),
        include_str!("../../src/migrations/3.sql"),
        include_str!("../../src/migrations/4.sql"),
        include_str!("../../src/migrations/5.sql"),
        include_str!("../../src/migrations/6.sql"),
        include_str!("../../src/migrations/7.sql"),
        include_str!("../../src/migrations/8.sql"),
        include_str!("../../src/migrations/9.sql"),
    ];
    let only_postgres = |text: &&str| own == "postgres" || !text.starts_with("-- Only for PostgreSQL.");
    let texts: Vec<_> = texts.into_iter().filter(only_postgres).collect();
    texts.join("\n").replace(&format!("-- {own}:"), "")
}

/// An older server left threads that are claimed, that wait for a delay, that are queued, and whose claim has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_version_9_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.db").display().to_string();
    for at in [file, postgres_url().await] {
        if at.starts_with("postgres:") {
            let tables = version_9("postgres")
                + "CREATE TABLE prowess_schema (version BIGINT NOT NULL);
                INSERT INTO prowess_schema VALUES (9)";
            execute(&at, &tables).await;
        } else {
            SqliteStore::open(&at).await.unwrap().close().await.unwrap();
            let connection = rusqlite::Connection::open(&at).unwrap();
            connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
            let made = "SELECT format('DROP %s IF EXISTS %s', type, name) FROM main.sqlite_master
                WHERE name LIKE 'prowess_%' AND type IN ('table', 'trigger')";
            let drops: Result<Vec<String>, _> =
                connection.prepare(made).unwrap().query_map([], |row| row.get(0)).unwrap().collect();
            for drop in drops.unwrap() {
                connection.execute_batch(&drop).unwrap();
            }
            connection.execute_batch(&(version_9("sqlite") + "PRAGMA user_version = 9")).unwrap();
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
        let older = if at.starts_with("postgres:") { "'older'" } else { "X'6f6c646572'" };
        let row = |thread: &str, owner: &str, until: u128| {
            format!("INSERT INTO prowess_queue VALUES ('{thread}', 1, 1, {owner}, {until});")
        };
        let rows = [
            row("claimed", older, now + 600_000_000),
            row("delayed", "NULL", now + 600_000_000),
            row("ended", older, now - 1_000_000),
            row("queued", "NULL", now - 2_000_000),
        ];
        execute(&at, &rows.concat()).await;
        let queue = Database::open(&at).await.unwrap().queue();
        let listed = queue.list(9).await.unwrap();
        let found = |name: &str| listed.iter().find(|listed| listed.thread.as_str() == name).unwrap();
        assert_eq!(found("claimed").state, QueueState::Claimed);
        assert!(found("delayed").not_before.is_some() && found("queued").not_before.is_none());
        let mut claimed = Vec::new();
        while let Some(claim) = queue.claim("newer", LONG, ClaimLimits::default()).await.unwrap() {
            claimed.push((claim.thread().to_string(), claim.takes_over));
        }
        claimed.sort();
        assert_eq!(claimed, [("ended".to_owned(), true), ("queued".to_owned(), false)]);
        queue.wake(&"delayed".parse().unwrap()).await.unwrap();
        let claim = queue.claim("newer", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        assert_eq!(claim.thread().as_str(), "delayed");
    }
}
