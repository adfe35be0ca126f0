//! Transactions: all statements of one are sent before the first answer comes.
//!
//! Statements have no names and come with the types of their values, and every setting ends with its transaction. So they work
//! through a pooler that gives each transaction another connection.

use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::FutureExt as _;
use futures_util::future::{join_all, join3};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::error::{database_error, unreachable_because};
use super::{PostgresStore, for_postgres};
use crate::error::DatabaseError;

/// The value of a parameter, with its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement with its values.
pub(super) struct Query<'a> {
    pub(super) sql: &'a str,
    pub(super) values: Vec<Value<'a>>,
}

/// How long the server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// Begins a transaction. Each statement sees what others committed before it, and waits for locks have a limit.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'";
/// The same if the server would answer before it flushes.
const BEGIN_FLUSHED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'; \
    SET LOCAL synchronous_commit = on";
/// A process that stops in a transaction does not block others forever.
const STAYS_OPEN: &str = "SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// A transaction that waits for its end. Without one, it is rolled back.
pub(super) struct OpenTransaction {
    client: Option<Object>,
    store: PostgresStore,
}

/// The rows of each statement, or its error.
pub(super) type Answers = Vec<Result<Vec<Row>, DatabaseError>>;

impl PostgresStore {
    /// Runs statements in one transaction, and returns their rows.
    pub(super) async fn run(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, DatabaseError> {
        let (mut client, part) = (Some(self.client().await?), Part::Whole);
        self.send(&mut client, part, queries).await?.into_iter().collect()
    }

    /// Begins a transaction with these statements.
    pub(super) async fn begin(
        &self,
        queries: &[Query<'_>],
    ) -> Result<(OpenTransaction, Answers), DatabaseError> {
        let mut open = OpenTransaction { client: Some(self.client().await?), store: self.clone() };
        let answers = self.send(&mut open.client, Part::First, queries).await?;
        Ok((open, answers))
    }

    /// Sends a part of a transaction: one round trip. A connection that does not answer is not used again.
    async fn send(
        &self,
        client: &mut Option<Object>,
        part: Part,
        queries: &[Query<'_>],
    ) -> Result<Answers, DatabaseError> {
        let Some(connected) = client.as_ref() else { return Err(self.unanswered()) };
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, self.send_on(connected, part, queries)).await;
        sent.unwrap_or_else(|_| {
            client.take().map(Object::take);
            Err(self.unanswered())
        })
    }

    async fn send_on(
        &self,
        client: &Client,
        part: Part,
        queries: &[Query<'_>],
    ) -> Result<Answers, DatabaseError> {
        let says = if part.begins() { self.says_for_whom() } else { None };
        let says = says.as_ref().map(|says| Query { sql: says.sql, values: super::rows::values(says) });
        let all: Vec<(String, &[Value<'_>])> =
            says.iter().chain(queries).map(|query| (for_postgres(query.sql), &*query.values)).collect();
        let begin = if self.0.flushes.get() == Some(&false) { BEGIN_FLUSHED } else { BEGIN };
        let begin = match part {
            Part::Whole => Some(begin.to_owned()),
            Part::First => Some(format!("{begin}; {STAYS_OPEN}")),
            Part::Next | Part::Last => None,
        };
        self.0.counters.sent(all.len() as u64 + u64::from(part.begins()) + u64::from(part.ends()));
        let beginning = async {
            match &begin {
                Some(begin) => client.batch_execute(begin).await,
                None => Ok(()),
            }
        };
        let running = join_all(all.iter().map(|(sql, values)| client.query_typed(sql, values)));
        let ending = async { if part.ends() { client.batch_execute("COMMIT").await } else { Ok(()) } };
        // Each is sent when it is first polled, in this order. After an error, PostgreSQL ignores the rest, and the end of the
        // transaction rolls it back.
        let (begun, ran, ended) = join3(beginning, running, ending).await;
        begun.map_err(|error| self.failed(error))?;
        let is_whole = ran.iter().all(Result::is_ok);
        let mut answers: Answers =
            ran.into_iter().map(|answer| answer.map_err(|error| self.failed(error))).collect();
        if is_whole {
            ended.map_err(|error| self.failed(error))?;
        }
        if says.is_some() {
            answers.remove(0)?;
        }
        Ok(answers)
    }

    /// Waits for an answer, but not without end. After an error, do not use the connection again.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DatabaseError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|error| self.failed(error)),
            Err(_) => Err(self.unanswered()),
        }
    }

    fn unanswered(&self) -> DatabaseError {
        self.0.counters.failed();
        unreachable_because(&self.0.place, format!("it did not answer within {} s", ANSWER_TIMEOUT.as_secs()))
    }

    /// The error of a statement.
    pub(super) fn failed(&self, error: Error) -> DatabaseError {
        self.0.counters.failed();
        database_error(&self.0.place, error)
    }
}

/// Which part of a transaction is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Next,
    Last,
}

impl Part {
    fn begins(self) -> bool {
        matches!(self, Self::Whole | Self::First)
    }

    fn ends(self) -> bool {
        matches!(self, Self::Whole | Self::Last)
    }
}

impl OpenTransaction {
    /// Runs more statements.
    pub(super) async fn run(&mut self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, DatabaseError> {
        self.store.send(&mut self.client, Part::Next, queries).await?.into_iter().collect()
    }

    /// Runs the last statements, and commits.
    pub(super) async fn commit(mut self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, DatabaseError> {
        let mut client = self.client.take();
        self.store.send(&mut client, Part::Last, queries).await?.into_iter().collect()
    }
}

impl OpenTransaction {
    /// Rolls the transaction back, and returns when nobody waits for its locks any more.
    pub(super) async fn roll_back(mut self) -> Result<(), DatabaseError> {
        let Some(client) = self.client.take() else { return Ok(()) };
        self.store.0.counters.sent(1);
        let done = self.store.in_time(client.batch_execute("ROLLBACK")).await;
        if done.is_err() {
            drop(Object::take(client));
        }
        done
    }
}

/// Rolls the transaction back, unless it was committed.
impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            self.store.0.counters.sent(1);
            // The first poll sends it. The next user of the connection waits for its answer.
            drop(client.batch_execute("ROLLBACK").now_or_never());
        }
    }
}
