//! The queue of turns, for both databases.

use std::time::Duration;

use async_trait::async_trait;
use hmac_sha256::Hash;
use prowess_agent::ThreadId;
use prowess_agent::queue::{
    Claim, Finished, Inbox, InboxEntry, Post, PostIf, Posted, QueueError, QueueState, TurnQueue,
};
use uuid::Uuid;

use crate::action::QueueAction;
use crate::acts_for::ActsFor;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::{checksum, json, signed};
use crate::lease::micros;
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::queue as sql;

/// How deep the JSON of a post can be nested: less than that of an event, because a post becomes part of an event.
const MAX_POST_DEPTH: usize = 120;

/// The digest of a post's name. A name can be longer than what an index holds.
fn name(key: &str) -> Vec<u8> {
    Hash::hash(key.as_bytes()).to_vec()
}

/// The thread and the owner of a claim, which all statements about a claim begin with.
fn held(claim: &Claim) -> [Cell; 2] {
    [claim.thread.as_str().into(), claim.owner.as_bytes().into()]
}

fn held_with(claim: &Claim, value: i64) -> [Cell; 3] {
    let [thread, owner] = held(claim);
    [thread, owner, value.into()]
}

fn lost(claim: &Claim) -> QueueError {
    QueueError::ClaimLost(claim.thread.clone())
}

/// A post of [`sql::INBOX`].
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

impl Database {
    /// The same database for statements about a thread. They run for the owner of the thread, unless they run for a user.
    fn of_thread(&self, thread: &ThreadId) -> Self {
        if self.acts_for_user() {
            self.clone()
        } else {
            self.acting(ActsFor::ThreadOwner(thread.to_string()))
        }
    }

    /// Runs a statement about a claim. No row means that the claim is lost.
    async fn of_claim(
        &self,
        claim: &Claim,
        action: QueueAction<'_>,
        statements: Vec<Statement>,
    ) -> Result<(), QueueError> {
        let done = self.of_thread(&claim.thread).transact_later(statements).await;
        done.map_err(|error| error.in_queue(action))?.map(drop).map_err(|_| lost(claim))
    }
}

#[async_trait]
impl TurnQueue for Database {
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Post(thread));
        let body = json(post, MAX_POST_DEPTH).map_err(|source| QueueError::Store {
            action: "could not write a post as JSON".to_owned(),
            source,
        })?;
        let id: Cell = thread.as_str().into();
        let checksum: Cell = checksum(&[], &body).into();
        let name: Cell = name(&post.key()).into();
        let most = match condition {
            PostIf::FewerWait(most) => signed(most),
            PostIf::Always | PostIf::Rests => i64::MAX,
        };
        let queue = match condition {
            PostIf::Rests => Statement::required(sql::QUEUE_AT_REST, [id.clone()]),
            PostIf::Always | PostIf::FewerWait(_) => Statement::new(sql::QUEUE, [id.clone()]),
        };
        let values: [Cell; 5] = [id.clone(), name.clone(), checksum, body.into(), most.into()];
        let database = self.of_thread(thread);
        let done = database.transact(vec![queue, Statement::required(sql::POST, values)]).await;
        if done.map_err(failed)?.is_ok() {
            return Ok(Posted::New);
        }
        let known = Statement::new(sql::IS_KNOWN, [id, name]);
        let is_known = !database.query(known).await.map_err(failed)?.is_empty();
        Ok(if is_known { Posted::Known } else { Posted::Refused })
    }

    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError> {
        let queue = Statement::new(sql::QUEUE, [thread.as_str().into()]);
        let done = self.of_thread(thread).transact(vec![queue]).await;
        done.map(drop).map_err(|error| error.in_queue(QueueAction::Wake(thread)))
    }

    async fn claim(&self, worker: &str, lasts: Duration) -> Result<Option<Claim>, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Claim);
        // Workers look often. A read does not disturb those who write.
        if self.query(Statement::new(sql::CAN_CLAIM, [])).await.map_err(failed)?.is_empty() {
            return Ok(None);
        }
        let owner = format!("{worker}/{}", Uuid::now_v7().simple());
        let values: [Cell; 2] = [owner.as_bytes().into(), micros(lasts).into()];
        let done =
            self.transact_later(vec![Statement::required(sql::CLAIM, values)]).await.map_err(failed)?;
        // Another worker may have taken the last thread meanwhile.
        let Ok(rows) = done else { return Ok(None) };
        let row = first(&rows, 0).map_err(failed)?;
        let thread = row.thread(0).map_err(failed)?;
        let attempt = u32::try_from(row.count(1).map_err(failed)?).unwrap_or(u32::MAX);
        Ok(Some(Claim::new(thread, owner, lasts, attempt)))
    }

    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::ClaimThread(thread));
        let owner = format!("{worker}/{}", Uuid::now_v7().simple());
        let values: [Cell; 3] = [thread.as_str().into(), owner.as_bytes().into(), micros(lasts).into()];
        let claim = Statement::required(sql::CLAIM_THREAD, values);
        let done = self.of_thread(thread).transact_later(vec![claim]).await.map_err(failed)?;
        let Ok(rows) = done else { return Ok(None) };
        let attempt = first(&rows, 0).and_then(|row| row.count(1)).map_err(failed)?;
        let attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
        Ok(Some(Claim::new(thread.clone(), owner, lasts, attempt)))
    }

    async fn keep(&self, claim: &Claim) -> Result<(), QueueError> {
        let keep = Statement::required(sql::KEEP, held_with(claim, micros(claim.lasts)));
        self.of_claim(claim, QueueAction::Keep(&claim.thread), vec![keep]).await
    }

    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(&claim.thread));
        let inbox = Statement::new(sql::INBOX, held(claim));
        let rows = self.of_thread(&claim.thread).query(inbox).await.map_err(failed)?;
        let Some(first) = rows.first() else { return Err(lost(claim)) };
        let posted = first.count(0).map_err(failed)?;
        let mut entries = Vec::new();
        for row in &rows {
            if row.maybe_number(1).map_err(failed)?.is_some() {
                entries.push(entry(&claim.thread, row)?);
            }
        }
        Ok(Inbox::new(entries, posted))
    }

    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::Read(&claim.thread));
        let [thread, owner] = held(claim);
        let waits = Statement::new(sql::WAITS, [thread, owner, name(key).into()]);
        let rows = self.of_thread(&claim.thread).query(waits).await.map_err(failed)?;
        let row = rows.first().ok_or_else(|| lost(claim))?;
        let number = row.maybe_number(0).map_err(failed)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError> {
        let waiting = Statement::new(sql::WAITING, [thread.as_str().into()]);
        let rows = self.of_thread(thread).query(waiting).await;
        let rows = rows.map_err(|error| error.in_queue(QueueAction::Read(thread)))?;
        rows.iter().map(|row| entry(thread, row)).collect()
    }

    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError> {
        let hold = Statement::required(sql::HOLD, held(claim));
        let take = Statement::new(sql::TAKE, [claim.thread.as_str().into(), signed(number).into()]);
        self.of_claim(claim, QueueAction::Take(&claim.thread), vec![hold, take]).await
    }

    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError> {
        let action = QueueAction::Finish(&claim.thread);
        let rest = Statement::required(sql::REST, held_with(claim, signed(posted)));
        let done = self.of_thread(&claim.thread).transact_later(vec![rest]).await;
        if done.map_err(|error| error.in_queue(action))?.is_ok() {
            return Ok(Finished::Rests);
        }
        let again = Statement::required(sql::QUEUE_AGAIN, held(claim));
        self.of_claim(claim, action, vec![again]).await.map(|()| Finished::Queued)
    }

    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError> {
        let give = Statement::required(sql::GIVE_BACK, held_with(claim, micros(delay)));
        self.of_claim(claim, QueueAction::GiveBack(&claim.thread), vec![give]).await
    }

    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError> {
        let failed = |error: DatabaseError| error.in_queue(QueueAction::State(thread));
        let state = Statement::new(sql::QUEUE_STATE, [thread.as_str().into()]);
        let rows = self.of_thread(thread).query(state).await.map_err(failed)?;
        Ok(match rows.first().map(|row| row.number(0)).transpose().map_err(failed)? {
            None => QueueState::Rests,
            Some(0) => QueueState::Queued,
            Some(_) => QueueState::Claimed,
        })
    }

    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError> {
        let statement = |sql| Statement::new(sql, [thread.as_str().into()]);
        let statements = vec![statement(sql::UNQUEUE), statement(sql::EMPTY_INBOX)];
        let done = self.of_thread(thread).transact(statements).await;
        done.map(drop).map_err(|error| error.in_queue(QueueAction::Forget(thread)))
    }
}
