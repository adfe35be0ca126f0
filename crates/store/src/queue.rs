//! The queue of turns, for both databases.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hmac_sha256::Hash;
use prowess_agent::ThreadId;
use prowess_agent::queue::{
    Claim, ClaimLimits, Failed, Finished, Inbox, InboxEntry, MAX_ATTEMPTS, Post, PostIf, Posted, Priority,
    QueueError, QueueNumbers, QueueState, QueuedThread, TurnQueue,
};
use prowess_agent::thread::Lease;
use uuid::Uuid;

use crate::action::QueueAction;
use crate::acts_for::ActsFor;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::{checksum, json, signed, time, unsigned};
use crate::lease::micros;
use crate::list::thread_id;
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::{self, queue};

/// How deep the JSON of a post can be nested: less than that of an event, because a post becomes part of an event.
const MAX_POST_DEPTH: usize = 120;

/// How many threads that became dead letters are kept for [`TurnQueue::take_dead_letters`].
const MAX_DEAD_LETTERS: usize = 1000;

/// The digest of a post's name. A name can be longer than what an index holds.
fn name(key: &str) -> Vec<u8> {
    Hash::hash(key.as_bytes()).to_vec()
}

/// The longest reason that is kept for a failed attempt, in bytes.
const MAX_PROBLEM: usize = 2000;

/// What a look for a thread to claim found.
#[derive(Debug, Default)]
pub(crate) struct ClaimLook {
    pub(crate) claim: Option<ClaimRow>,
    /// Threads that became dead letters because their workers vanished.
    pub(crate) died: Vec<String>,
}

/// A row of a new claim.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRow {
    pub(crate) thread: String,
    pub(crate) attempt: i64,
    pub(crate) takes_over: bool,
    pub(crate) epoch: i64,
}

/// The state of a thread in the queue.
pub(crate) fn state(number: Option<i64>) -> QueueState {
    match number {
        None => QueueState::Rests,
        Some(0) => QueueState::Queued,
        Some(1) => QueueState::Claimed,
        Some(_) => QueueState::Dead,
    }
}

/// The owner of a new claim, which no other claim has.
fn new_owner(worker: &str) -> String {
    format!("{worker}/{}", Uuid::now_v7().simple())
}

/// The statement that queues a thread. `queue` is one of two.
fn queue_thread(queue: &'static str, thread: &ThreadId, priority: Priority, revives: bool) -> Statement {
    let values: [Cell; 3] = [thread.as_str().into(), priority.rank().into(), i64::from(revives).into()];
    Statement::new(queue, values)
}

/// The statement that puts a post into an inbox in which fewer than `most` wait.
fn put(thread: &ThreadId, post: &Post, most: u64) -> Result<Statement, QueueError> {
    let body = json(post, MAX_POST_DEPTH).map_err(|source| QueueError::Store {
        action: "could not write a post as JSON".to_owned(),
        source,
    })?;
    let name: Cell = name(&post.key()).into();
    let values: [Cell; 5] =
        [thread.as_str().into(), name, checksum(&[], &body).into(), body.into(), signed(most).into()];
    Ok(Statement::required(queue::POST, values))
}

/// The thread and the owner of a claim, which all statements about a claim begin with.
fn held(claim: &Claim) -> [Cell; 2] {
    [claim.lease.thread.as_str().into(), claim.lease.owner.as_bytes().into()]
}

fn held_with(claim: &Claim, value: i64) -> [Cell; 3] {
    let [thread, owner] = held(claim);
    [thread, owner, value.into()]
}

/// The statement that looks for a post by its name.
pub(crate) fn waits(claim: &Claim, key: &str) -> Statement {
    let [thread, owner] = held(claim);
    Statement::new(queue::WAITS, [thread, owner, name(key).into()])
}

/// The statement that ends the lease of a claim.
fn release(claim: &Claim) -> Statement {
    let Lease { thread, owner, epoch, .. } = &claim.lease;
    Statement::new(sql::RELEASE, [thread.as_str().into(), signed(*epoch).into(), owner.as_bytes().into()])
}

fn lost(claim: &Claim) -> QueueError {
    QueueError::ClaimLost(claim.lease.thread.clone())
}

/// A row of [`queue::LIST`].
fn queued_thread(row: &Row) -> Result<QueuedThread, DatabaseError> {
    let count = |column| Ok::<_, DatabaseError>(u32::try_from(row.count(column)?).unwrap_or(u32::MAX));
    let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut listed = QueuedThread::new(row.thread(0)?, state(row.maybe_number(1)?), time(row.number(4)?));
    listed.user = Some(row.text(2)?).filter(|user| !user.is_empty());
    listed.worker = row.maybe_bytes(3)?.map(words);
    listed.not_before = row.maybe_number(5)?.map(time);
    (listed.attempts, listed.failures) = (count(6)?, count(7)?);
    if listed.state == QueueState::Claimed {
        // The attempt in progress counts from its beginning: its worker may vanish.
        listed.failures = listed.failures.saturating_sub(1);
    }
    listed.problem = row.maybe_bytes(8)?.map(words);
    Ok(listed)
}

/// A post of [`queue::INBOX`].
fn entry(thread: &ThreadId, row: &Row) -> Result<InboxEntry, QueueError> {
    let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(thread));
    let number = row.count(1).map_err(failed)?;
    let damaged = |problem| QueueError::Damaged { thread: thread.clone(), number, problem };
    let body = row.bytes(4).map_err(failed)?;
    if checksum(&[], &body) != row.number(3).map_err(failed)? {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    let post: Post = serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
    if name(&post.key()) != row.bytes(2).map_err(failed)? {
        return Err(damaged("it has the name of another post".to_owned()));
    }
    Ok(InboxEntry::new(number, post))
}

/// Threads that became dead letters in claims, until somebody takes them.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters(Mutex<Vec<ThreadId>>);

impl DeadLetters {
    fn lock(&self) -> MutexGuard<'_, Vec<ThreadId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, died: Vec<ThreadId>) {
        // Whoever claims and never asks does not collect them without end.
        let mut known = self.lock();
        let room = MAX_DEAD_LETTERS.saturating_sub(known.len());
        known.extend(died.into_iter().take(room));
    }

    fn take(&self) -> Vec<ThreadId> {
        std::mem::take(&mut *self.lock())
    }
}

/// The rows of [`queue::INBOX`].
fn read_inbox(claim: &Claim, rows: &[Row]) -> Result<Inbox, QueueError> {
    let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(claim.thread()));
    let Some(first) = rows.first() else { return Err(lost(claim)) };
    let posted = first.count(0).map_err(failed)?;
    let mut entries = Vec::new();
    for row in rows {
        if row.maybe_number(1).map_err(failed)?.is_some() {
            entries.push(entry(claim.thread(), row)?);
        }
    }
    Ok(Inbox::new(entries, posted))
}

impl Database {
    fn dead_letters(&self) -> &DeadLetters {
        match self {
            Self::Sqlite(store) => store.dead_letters(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.dead_letters(),
        }
    }

    /// The same database for statements about a thread. They run for the owner of the thread, unless they run for a user.
    fn of_thread(&self, thread: &ThreadId) -> Self {
        if self.acts_for_user() {
            self.clone()
        } else {
            self.acting(ActsFor::ThreadOwner(thread.to_string()))
        }
    }

    /// Runs statements about a claim, in one transaction. If none of them returns a row, the claim is lost. Returns the rows of each.
    async fn of_claim(
        &self,
        claim: &Claim,
        action: QueueAction<'_>,
        statements: Vec<Statement>,
    ) -> Result<Vec<Vec<Row>>, QueueError> {
        let done = self.of_thread(claim.thread()).transact(statements).await;
        let rows = done.map_err(|error| error.in_queue(action))?.map_err(|_| lost(claim))?;
        if rows.iter().all(Vec::is_empty) { Err(lost(claim)) } else { Ok(rows) }
    }

    /// Ends a claim and its lease with this statement. If it returns no row, somebody posted, and the thread is queued again.
    async fn unless_posted(
        &self,
        claim: &Claim,
        action: QueueAction<'_>,
        end: Statement,
    ) -> Result<Finished, QueueError> {
        let again = Statement::new(queue::QUEUE_AGAIN, held(claim));
        let rows = self.of_claim(claim, action, vec![end, again, release(claim)]).await?;
        Ok(if rows.first().is_some_and(Vec::is_empty) { Finished::Queued } else { Finished::Rests })
    }

    /// The claim of a row.
    fn claimed(&self, row: &ClaimRow, owner: String, lasts: Duration) -> Result<Claim, DatabaseError> {
        let place = self.place();
        let (thread, epoch) = (thread_id(place, &row.thread)?, unsigned(place, row.epoch)?);
        let attempt = u32::try_from(row.attempt).unwrap_or(u32::MAX);
        Ok(Claim::new(Lease::new(thread, owner, epoch, lasts), attempt, row.takes_over))
    }
}

#[async_trait]
impl TurnQueue for Database {
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Post(thread));
        let most = match condition {
            PostIf::FewerWait(most) => most,
            PostIf::Always | PostIf::Rests => u64::MAX,
        };
        let post_it = put(thread, post, most)?;
        let queue_it = |sql| queue_thread(sql, thread, post.priority(), post.revives());
        let queue_it = match condition {
            PostIf::Rests => Statement { is_required: true, ..queue_it(queue::QUEUE_AT_REST) },
            PostIf::Always | PostIf::FewerWait(_) => queue_it(queue::QUEUE),
        };
        let database = self.of_thread(thread);
        if database.transact(vec![queue_it, post_it]).await.map_err(failed)?.is_ok() {
            return Ok(Posted::New);
        }
        let known: [Cell; 2] = [thread.as_str().into(), name(&post.key()).into()];
        let known = Statement::new(queue::IS_KNOWN, known);
        let is_known = !database.query(known).await.map_err(failed)?.is_empty();
        Ok(if is_known { Posted::Known } else { Posted::Refused })
    }

    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError> {
        let queue = queue_thread(queue::QUEUE, thread, Priority::Normal, false);
        let done = self.of_thread(thread).transact(vec![queue]).await;
        done.map(drop).map_err(|error| error.in_queue(QueueAction::Wake(thread)))
    }

    async fn claim(
        &self,
        worker: &str,
        lasts: Duration,
        limits: ClaimLimits,
    ) -> Result<Option<Claim>, QueueError> {
        let owner = new_owner(worker);
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Claim);
        let look = match self {
            Self::Sqlite(store) => store.claim(&owner, micros(lasts), limits).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.claim(&owner, micros(lasts), limits).await,
        };
        let ClaimLook { claim, died } = look.map_err(failed)?;
        let died: Result<Vec<_>, _> = died.iter().map(|thread| thread_id(self.place(), thread)).collect();
        self.dead_letters().add(died.map_err(failed)?);
        claim.map(|row| self.claimed(&row, owner, lasts)).transpose().map_err(failed)
    }

    fn take_dead_letters(&self) -> Vec<ThreadId> {
        self.dead_letters().take()
    }

    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::ClaimThread(thread));
        let owner = new_owner(worker);
        let values: [Cell; 3] = [thread.as_str().into(), owner.as_bytes().into(), micros(lasts).into()];
        let claim = Statement::required(queue::CLAIM_THREAD, values.clone());
        let lease = Statement::required(sql::LEASE, values);
        let done = self.of_thread(thread).transact(vec![claim, lease]).await.map_err(failed)?;
        let Ok(rows) = done else { return Ok(None) };
        let row = || {
            let (claimed, epoch) = (first(&rows, 0)?, first(&rows, 1)?.number(0)?);
            let (attempt, takes_over) = (claimed.number(0)?, claimed.number(1)? != 0);
            Ok(ClaimRow { thread: thread.to_string(), attempt, takes_over, epoch })
        };
        row().and_then(|row| self.claimed(&row, owner, lasts)).map(Some).map_err(failed)
    }

    async fn keep(&self, claim: &Claim) -> Result<(), QueueError> {
        let lasts = held_with(claim, micros(claim.lease.lasts));
        let keep = vec![Statement::new(queue::KEEP, lasts.clone()), Statement::new(queue::KEEP_LEASE, lasts)];
        self.of_claim(claim, QueueAction::Keep(claim.thread()), keep).await.map(drop)
    }

    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(claim.thread()));
        let inbox = Statement::new(queue::INBOX, held(claim));
        let rows = self.of_thread(claim.thread()).query_briefly(inbox).await.map_err(failed)?;
        read_inbox(claim, &rows)
    }

    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(claim.thread()));
        let rows = self.of_thread(claim.thread()).query_briefly(waits(claim, key)).await.map_err(failed)?;
        let row = rows.first().ok_or_else(|| lost(claim))?;
        let number = row.maybe_number(0).map_err(failed)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError> {
        let waiting = Statement::new(queue::WAITING, [thread.as_str().into()]);
        let rows = self.of_thread(thread).query(waiting).await;
        let rows = rows.map_err(|error| error.in_queue(QueueAction::Read(thread)))?;
        rows.iter().map(|row| entry(thread, row)).collect()
    }

    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError> {
        let take = Statement::new(queue::TAKE, held_with(claim, signed(number)));
        self.of_claim(claim, QueueAction::Take(claim.thread()), vec![take]).await.map(drop)
    }

    async fn taken_then_inbox(&self, claim: &Claim, number: u64) -> Result<Inbox, QueueError> {
        let take = Statement::new(queue::TAKE, held_with(claim, signed(number)));
        let inbox = Statement::new(queue::INBOX, held(claim));
        let rows = self.of_claim(claim, QueueAction::Take(claim.thread()), vec![take, inbox]).await?;
        read_inbox(claim, rows.get(1).map_or(&[][..], Vec::as_slice))
    }

    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError> {
        let rest = Statement::new(queue::REST, held_with(claim, signed(posted)));
        self.unless_posted(claim, QueueAction::Finish(claim.thread()), rest).await
    }

    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError> {
        let give = Statement::new(queue::GIVE_BACK, held_with(claim, micros(delay)));
        let action = QueueAction::GiveBack(claim.thread());
        self.of_claim(claim, action, vec![give, release(claim)]).await.map(drop)
    }

    async fn postpone(&self, claim: &Claim, posted: u64, delay: Duration) -> Result<Finished, QueueError> {
        let [thread, owner] = held(claim);
        let values: [Cell; 4] = [thread, owner, micros(delay).into(), signed(posted).into()];
        let postpone = Statement::new(queue::POSTPONE, values);
        self.unless_posted(claim, QueueAction::GiveBack(claim.thread()), postpone).await
    }

    async fn fail(&self, claim: &Claim, delay: Duration, problem: &str) -> Result<Failed, QueueError> {
        let action = QueueAction::GiveBack(claim.thread());
        let [thread, owner] = held(claim);
        let problem = &problem[..problem.floor_char_boundary(MAX_PROBLEM)];
        let values: [Cell; 5] =
            [thread, owner, micros(delay).into(), problem.as_bytes().into(), i64::from(MAX_ATTEMPTS).into()];
        let fail = vec![Statement::new(queue::FAIL, values), release(claim)];
        let rows = self.of_claim(claim, action, fail).await?;
        let is_dead = first(&rows, 0).and_then(|row| row.number(0));
        Ok(if is_dead.map_err(|error| error.in_queue(action))? == 0 { Failed::Again } else { Failed::Dead })
    }

    async fn progressed(&self, claim: &Claim) -> Result<(), QueueError> {
        let progressed = vec![Statement::new(queue::PROGRESSED, held(claim))];
        self.of_claim(claim, QueueAction::Keep(claim.thread()), progressed).await.map(drop)
    }

    async fn retry(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        let retry = Statement::required(queue::RETRY, [thread.as_str().into()]);
        let done = self.of_thread(thread).transact(vec![retry]).await;
        done.map(|done| done.is_ok()).map_err(|error| error.in_queue(QueueAction::Retry(thread)))
    }

    async fn drop_work(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        let id: Cell = thread.as_str().into();
        let end = Post::End { id: Uuid::now_v7().simple().to_string() };
        let statements = vec![
            Statement::required(queue::RETRY, [id.clone()]),
            Statement::new(queue::DROP_POSTS, [id]),
            queue_thread(queue::QUEUE, thread, Priority::Normal, true),
            put(thread, &end, u64::MAX)?,
        ];
        let done = self.of_thread(thread).transact(statements).await;
        done.map(|done| done.is_ok()).map_err(|error| error.in_queue(QueueAction::Drop(thread)))
    }

    async fn list(&self, most: usize) -> Result<Vec<QueuedThread>, QueueError> {
        let list = Statement::new(queue::LIST, [signed(most as u64).into()]);
        let rows = self.query(list).await.and_then(|rows| rows.iter().map(queued_thread).collect());
        rows.map_err(|error| error.in_queue(QueueAction::List))
    }

    async fn numbers(&self, limits: ClaimLimits) -> Result<QueueNumbers, QueueError> {
        let read = async {
            let most: [Cell; 2] = [signed(limits.per_user).into(), signed(limits.in_all).into()];
            let rows = vec![self.query(Statement::new(queue::NUMBERS, most)).await?];
            let row = first(&rows, 0)?;
            let mut numbers = QueueNumbers::new();
            (numbers.queued, numbers.waiting) = (row.count(0)?, row.count(1)?);
            (numbers.working, numbers.dead) = (row.count(2)?, row.count(3)?);
            // The clock may have been set back.
            numbers.age = Duration::from_micros(u64::try_from(row.number(4)?).unwrap_or_default());
            Ok(numbers)
        };
        read.await.map_err(|error: DatabaseError| error.in_queue(QueueAction::List))
    }

    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::State(thread));
        let look = Statement::new(queue::QUEUE_STATE, [thread.as_str().into()]);
        let rows = self.of_thread(thread).query_briefly(look).await.map_err(failed)?;
        rows.first().map(|row| row.number(0)).transpose().map(state).map_err(failed)
    }

    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError> {
        let statement = |sql| Statement::new(sql, [thread.as_str().into()]);
        let statements = vec![statement(queue::UNQUEUE), statement(queue::EMPTY_INBOX)];
        let done = self.of_thread(thread).transact(statements).await;
        done.map(drop).map_err(|error| error.in_queue(QueueAction::Forget(thread)))
    }
}
