//! Whose each thread is, and what lists of threads show.

use std::time::{Duration, SystemTime};

use prowess_agent::ThreadId;
use prowess_agent::queue::{Claim, QueueState};
use serde_json::Value;

use super::accounts::{User, user as read_user};
use super::usage::{Usage, UsageSum, counted, note_usage, read_usage, usage};
use super::{id, user, without_nul};
use crate::acts_for::ActsFor;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::{MAX_DEPTH, json, signed};
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::{self, queue, serve};

/// How the JSON of a change of a middleware's state begins.
const CHANGE: &[u8] = br#"{"post":"change""#;
/// How many characters of a search count.
const MAX_SEARCH: usize = 500;
/// How long a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(1);

/// A thread of a user.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnedThread {
    /// The thread.
    pub id: ThreadId,
    /// The id of its user.
    pub owner: String,
    /// The name of the agent that works on it.
    pub agent: String,
    /// What the user calls it.
    pub title: String,
    /// When it was created.
    pub created: SystemTime,
    /// When its summary last changed.
    pub changed: SystemTime,
    /// What lists show of it. The text is empty: only searches look in it.
    pub summary: Summary,
}

/// What lists show of a thread, so that they need not read its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The open questions, in the form in which a server shows them.
    pub waiting: Vec<Value>,
    /// How many tokens the thread has used.
    pub tokens: u64,
    /// What the thread has cost, as a decimal number of dollars. `None` if a price is unknown.
    pub cost: Option<String>,
    /// What a search looks in: the first [`OwnedThreads::SEARCHED_BYTES`] count.
    pub text: String,
    /// What fills the context window after these events, in the form in which a server keeps it. `None` leaves what is stored.
    pub window_use: Option<Value>,
    /// How many events it covers. A summary of fewer events than the stored one is late, and dropped.
    pub events: u64,
}

/// What waits in the threads of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingPosts {
    /// Messages, replies and wishes to cancel.
    pub messages: u64,
    /// Changes of files.
    pub changes: u64,
}

/// What a worker must know from time to time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorkerLook {
    /// Whether nobody else has claimed the thread.
    pub is_claimed: bool,
    /// The number of the post in question, if it waits.
    pub waits: Option<u64>,
    /// The owner of the thread.
    pub user: Option<User>,
    /// What the owner used.
    pub usage: Usage,
}

/// Why a change of an owned thread failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnedThreadError {
    /// The thread belongs to somebody else, or is none of a server's threads.
    #[error("there is no thread `{0}`")]
    NotFound(ThreadId),
    /// A process works on the thread.
    #[error("a process works on the thread `{0}`: cancel its turn first")]
    InUse(ThreadId),
    /// No list gave this place to go on from.
    #[error("the place to continue the list from is not valid")]
    InvalidPlace,
    /// A search took too long.
    #[error("the search took too long")]
    SearchTimedOut,
    /// The database failed.
    #[error("could not {action}: {source}")]
    Database {
        /// What failed.
        action: &'static str,
        /// The error of the database.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    action: &'static str,
) -> impl Fn(E) -> OwnedThreadError {
    move |source| OwnedThreadError::Database { action, source: source.into() }
}

/// Whose each thread is, and what lists of threads show.
///
/// Each method that a user can reach names the user, and finds nothing of others.
///
/// ```
/// use prowess_agent::ThreadId;
/// use prowess_store::serve::Summary;
/// use prowess_store::{Database, SqliteStore};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Database::from(SqliteStore::in_memory()?);
/// let anna = database.accounts().add_user("anna", false).await?;
/// let threads = database.owned_threads();
/// let thread = threads.create(&anna.id, &ThreadId::new(), "default", "Tides").await?;
///
/// // A worker that stored the third event of the thread:
/// let waiting = vec![json!({"tool": "execute"})];
/// threads.summarise(&thread.id, &Summary { waiting, events: 3, ..Summary::default() }).await?;
/// assert_eq!(threads.waiting(&anna.id).await?[0].id, thread.id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OwnedThreads(Database);

fn owned(row: &Row) -> Result<OwnedThread, DatabaseError> {
    let questions = row.bytes(7)?;
    let waiting = serde_json::from_slice(&questions)
        .map_err(|error| row.damaged(format!("the questions of a thread cannot be read: {error}")))?;
    Ok(OwnedThread {
        id: row.thread(0)?,
        owner: row.text(1)?,
        agent: row.chosen_text(2)?,
        title: row.chosen_text(3)?,
        created: row.time(4)?,
        changed: row.time(5)?,
        summary: Summary {
            waiting,
            tokens: row.count(8)?,
            cost: row.maybe_text(9)?,
            text: String::new(),
            window_use: None,
            events: row.count(6)?,
        },
    })
}

/// The last column of a list.
fn queue_state(row: &Row) -> Result<QueueState, DatabaseError> {
    Ok(crate::queue::state(row.maybe_number(10)?))
}

fn all(rows: Result<Vec<Row>, DatabaseError>) -> Result<Vec<OwnedThread>, DatabaseError> {
    rows?.iter().map(owned).collect()
}

/// Lower case letter by letter, so that the case of a letter does not depend on the letters around it.
fn lower(text: &str) -> String {
    without_nul(text).chars().flat_map(char::to_lowercase).collect()
}

/// The letters that a search looks for.
fn letters(search: &str) -> String {
    lower(search).chars().take(MAX_SEARCH).collect()
}

/// The text that a search looks in.
fn found_text(text: &str) -> String {
    lower(&text[..text.floor_char_boundary(OwnedThreads::SEARCHED_BYTES)])
}

/// Where a list goes on: after the thread with this change and id.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    changed: i64,
    thread: String,
}

impl Place {
    /// Before all threads.
    fn first() -> Self {
        Self { changed: i64::MAX, thread: String::new() }
    }

    fn of(row: &Row) -> Result<Self, DatabaseError> {
        Ok(Self { changed: row.number(5)?, thread: row.text(0)? })
    }

    fn parse(text: &str) -> Result<Self, OwnedThreadError> {
        let parsed = text.split_once('.').and_then(|(changed, thread)| {
            let thread: ThreadId = thread.parse().ok()?;
            Some(Self { changed: i64::from_str_radix(changed, 16).ok()?, thread: thread.into() })
        });
        parsed.ok_or(OwnedThreadError::InvalidPlace)
    }

    fn into_text(self) -> String {
        format!("{:x}.{}", self.changed, self.thread)
    }
}

impl OwnedThreads {
    /// How many bytes of a thread's text a search looks in.
    pub const SEARCHED_BYTES: usize = 64 << 10;

    pub(crate) fn new(database: Database) -> Self {
        Self(database)
    }

    /// Statements run for this user.
    fn of(&self, owner: &str) -> Database {
        self.0.acting(user(owner))
    }

    /// Statements run for the owner of this thread.
    fn of_owner(&self, thread: &ThreadId) -> Database {
        self.0.acting(ActsFor::ThreadOwner(thread.to_string()))
    }

    /// Gives a new thread to a user. If the user has the thread, it stays as it is.
    ///
    /// Call it before the thread has events or a lease: nobody can get a thread that exists without an owner, such as that of
    /// a sub-agent.
    ///
    /// # Errors
    ///
    /// [`OwnedThreadError::NotFound`] if the thread exists and is not the user's, or if there is no such user; or the database
    /// failed.
    pub async fn create(
        &self,
        owner: &str,
        id: &ThreadId,
        agent: &str,
        title: &str,
    ) -> Result<OwnedThread, OwnedThreadError> {
        let failed = failed("create a thread");
        let values: [Cell; 6] = [
            id.as_str().into(),
            super::id(owner),
            agent.as_bytes().into(),
            title.as_bytes().into(),
            b"[]".as_slice().into(),
            lower(title).as_str().into(),
        ];
        let done = self.of(owner).transact(vec![Statement::required(serve::CREATE, values)]).await;
        match done.map_err(&failed)? {
            Ok(rows) => first(&rows, 0).and_then(owned).map_err(failed),
            Err(_) => {
                let has = self.get(owner, id).await?;
                has.ok_or_else(|| OwnedThreadError::NotFound(id.clone()))
            }
        }
    }

    /// A thread of a user.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn get(&self, owner: &str, thread: &ThreadId) -> Result<Option<OwnedThread>, OwnedThreadError> {
        let get = Statement::new(serve::GET, [id(owner), thread.as_str().into()]);
        let found = all(self.of(owner).query_briefly(get).await);
        Ok(found.map_err(failed("find a thread"))?.pop())
    }

    /// How many threads a user has.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn count(&self, owner: &str) -> Result<u64, OwnedThreadError> {
        let failed = failed("count threads");
        let rows = self.of(owner).query(Statement::new(serve::COUNT, [id(owner)])).await.map_err(&failed)?;
        rows.first().map_or(Ok(0), |row| row.count(0)).map_err(failed)
    }

    /// A thread, with its owner. Only workers and administrators may call it: it does not check who asks.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn owner_of(&self, thread: &ThreadId) -> Result<Option<OwnedThread>, OwnedThreadError> {
        let get = Statement::new(serve::OWNED, [thread.as_str().into()]);
        let found = all(self.of_owner(thread).query_briefly(get).await);
        Ok(found.map_err(failed("find the owner of a thread"))?.pop())
    }

    /// The threads of a user, last change first, at most `limit`. If there are more, it also returns where to continue.
    ///
    /// A search finds threads with these letters in their title or their text, in upper or lower case. `after` is where an
    /// earlier call said to continue. A thread that changes meanwhile moves to the front. So a list never repeats a thread.
    ///
    /// # Errors
    ///
    /// [`OwnedThreadError::InvalidPlace`] if no list returned `after`, [`OwnedThreadError::SearchTimedOut`] if a search takes
    /// longer than a second, or the database failed.
    pub async fn list(
        &self,
        owner: &str,
        search: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<(OwnedThread, QueueState)>, Option<String>), OwnedThreadError> {
        let failed = failed("list threads");
        let place = after.map_or_else(|| Ok(Place::first()), Place::parse)?;
        let limit = limit.max(1);
        let most = signed(limit as u64).saturating_add(1);
        let mut values: Vec<Cell> =
            vec![id(owner), place.changed.into(), place.thread.as_str().into(), most.into()];
        let search = search.map(str::trim).filter(|search| !search.is_empty());
        let database = self.of(owner);
        let rows = match search {
            Some(search) => {
                values.push(letters(search).as_str().into());
                database.query_within(Statement::new(serve::SEARCH, values), SEARCH_TIME).await
            }
            None => database.query(Statement::new(serve::LIST, values)).await,
        };
        let rows = match rows {
            Err(DatabaseError::TimedOut { .. }) => return Err(OwnedThreadError::SearchTimedOut),
            rows => rows.map_err(&failed)?,
        };
        let shown = &rows[..rows.len().min(limit)];
        let threads = shown.iter().map(|row| Ok((owned(row)?, queue_state(row)?)));
        let threads = threads.collect::<Result<_, _>>().map_err(&failed)?;
        let next = match shown.last() {
            Some(last) if rows.len() > limit => Some(Place::of(last).map_err(failed)?.into_text()),
            _ => None,
        };
        Ok((threads, next))
    }

    /// What waits in the threads of a user, with what workers work on.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn posts(&self, owner: &str) -> Result<WaitingPosts, OwnedThreadError> {
        let failed = failed("count posts");
        let values: [Cell; 2] = [id(owner), CHANGE.to_vec().into()];
        let rows =
            self.of(owner).query_briefly(Statement::new(serve::POSTS, values)).await.map_err(&failed)?;
        let Some(row) = rows.first() else { return Ok(WaitingPosts::default()) };
        let read = || {
            let (all, changes) = (row.count(0)?, row.count(1)?);
            Ok(WaitingPosts { messages: all - changes.min(all), changes })
        };
        read().map_err(failed)
    }

    /// The threads of a user with open questions, last change first.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn waiting(&self, owner: &str) -> Result<Vec<OwnedThread>, OwnedThreadError> {
        let waiting = Statement::new(serve::WAITING, [id(owner)]);
        all(self.of(owner).query(waiting).await).map_err(failed("list open questions"))
    }

    /// Renames a thread of a user. Returns whether the user has it. The thread keeps its place in lists.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn rename(
        &self,
        owner: &str,
        thread: &ThreadId,
        title: &str,
    ) -> Result<bool, OwnedThreadError> {
        let values: [Cell; 4] =
            [id(owner), thread.as_str().into(), title.as_bytes().into(), lower(title).as_str().into()];
        let done = self.of(owner).transact(vec![Statement::required(serve::RENAME, values)]).await;
        Ok(done.map_err(failed("rename a thread"))?.is_ok())
    }

    /// Gives a thread of a user a title, unless it has one.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn give_title(
        &self,
        owner: &str,
        thread: &ThreadId,
        title: &str,
    ) -> Result<(), OwnedThreadError> {
        let values: [Cell; 4] =
            [id(owner), thread.as_str().into(), title.as_bytes().into(), lower(title).as_str().into()];
        let done = self.of(owner).transact(vec![Statement::new(serve::GIVE_TITLE, values)]).await;
        done.map(drop).map_err(failed("give a thread a title"))
    }

    /// Stores what lists show of a thread. Only workers may call it: it does not check who asks.
    ///
    /// # Errors
    ///
    /// The questions are nested too deep, or the database failed.
    pub async fn summarise(&self, thread: &ThreadId, summary: &Summary) -> Result<(), OwnedThreadError> {
        const ACTION: &str = "summarise a thread";
        let questions = json(&summary.waiting, MAX_DEPTH).map_err(failed(ACTION))?;
        let window_use = summary.window_use.as_ref().map(|used| json(&(summary.events, used), MAX_DEPTH));
        let window_use = window_use.transpose().map_err(failed(ACTION))?;
        let values: [Cell; 8] = [
            thread.as_str().into(),
            signed(summary.events).into(),
            signed(summary.waiting.len() as u64).into(),
            questions.into(),
            signed(summary.tokens).into(),
            Cell::Text(summary.cost.clone()),
            found_text(&summary.text).as_str().into(),
            Cell::Bytes(window_use),
        ];
        let done = self.of_owner(thread).transact(vec![Statement::new(serve::SUMMARISE, values)]).await;
        done.map(drop).map_err(failed(ACTION))
    }

    /// What fills the context window of a user's thread, if that is stored for a log of so many events.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn window_use(
        &self,
        owner: &str,
        thread: &ThreadId,
        events: u64,
    ) -> Result<Option<Value>, OwnedThreadError> {
        let failed = failed("read the use of the window");
        let values: [Cell; 2] = [id(owner), thread.as_str().into()];
        let rows = self.of(owner).query_briefly(Statement::new(serve::WINDOW_USE, values)).await;
        let rows = rows.map_err(&failed)?;
        let Some(row) = rows.first() else { return Ok(None) };
        let stored = row.bytes(0).map_err(&failed)?;
        // An older or a newer process may store another form.
        let stored: Option<(u64, Value)> = serde_json::from_slice(&stored).ok();
        Ok(stored.filter(|(about, _)| *about == events).map(|(_, used)| used))
    }

    /// Deletes a thread of a user, with its events and its posts. Returns whether the user had it.
    ///
    /// # Errors
    ///
    /// [`OwnedThreadError::InUse`] if a process holds the thread's lease, or the database failed. Then nothing is deleted.
    pub async fn delete(&self, owner: &str, thread: &ThreadId) -> Result<bool, OwnedThreadError> {
        let owned = || [id(owner), thread.as_str().into()];
        let of_thread = || [thread.as_str().into()];
        let statements = vec![
            Statement::required(serve::GET, owned()),
            Statement::new(sql::DELETE, of_thread()),
            Statement::required(serve::IS_GONE, of_thread()),
            Statement::new(serve::DISOWN, owned()),
            // A thread without events can have posts.
            Statement::new(queue::UNQUEUE, of_thread()),
            Statement::new(queue::EMPTY_INBOX, of_thread()),
        ];
        match self.of(owner).transact(statements).await.map_err(failed("delete a thread"))? {
            Ok(_) => Ok(true),
            Err(missing) if missing.0 == 0 => Ok(false),
            Err(_) => Err(OwnedThreadError::InUse(thread.clone())),
        }
    }

    /// Adds to what a user used today. Returns whether it was added.
    ///
    /// `event` is the thread and the number of the event that has the usage. An event counts once: nothing is added if this
    /// event of the thread, or a later one, was added before. So events must come in their order. Without an event, the usage
    /// is always added.
    ///
    /// ```
    /// # use prowess_agent::{ThreadId, ThreadStore as _};
    /// use prowess_store::serve::UsageSum;
    /// # use prowess_store::{Database, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = Database::from(SqliteStore::in_memory()?);
    /// # let anna = database.accounts().add_user("anna", false).await?;
    /// # let id = ThreadId::new();
    /// let threads = database.owned_threads();
    /// # threads.create(&anna.id, &id, "default", "").await?;
    /// # database.threads().lease(&id, "a worker", std::time::Duration::from_secs(9)).await?;
    /// let sum = UsageSum { tokens: 610, micro_dollars: 20 };
    /// assert!(threads.note_usage(&anna.id, Some((&id, 3)), sum).await?);
    /// assert!(!threads.note_usage(&anna.id, Some((&id, 3)), sum).await?, "it is counted");
    /// assert_eq!(threads.usage(&anna.id).await?.today, sum);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn note_usage(
        &self,
        owner: &str,
        event: Option<(&ThreadId, u64)>,
        sum: UsageSum,
    ) -> Result<bool, OwnedThreadError> {
        note_usage(&self.of(owner), owner, event, sum).await.map_err(failed("note usage"))
    }

    /// What a worker must know from time to time: whether it still has its claim, whether the post with this name waits, who the
    /// user is, and what the user used today. It is one look at the database.
    ///
    /// ```
    /// use std::time::Duration;
    /// use prowess_agent::queue::{ClaimLimits, Post};
    /// use prowess_agent::ThreadId;
    /// use prowess_store::{Database, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = Database::from(SqliteStore::in_memory()?);
    /// let anna = database.accounts().add_user("anna", false).await?;
    /// let thread = database.owned_threads().create(&anna.id, &ThreadId::new(), "default", "").await?;
    /// let cancel = Post::Cancel { turn: 1 };
    /// database.queue().post(&thread.id, &cancel).await?;
    /// let claimed = database.queue().claim("worker", Duration::from_secs(9), ClaimLimits::default()).await?;
    /// let claim = claimed.expect("a queued thread");
    /// let look = database.owned_threads().look(&anna.id, &claim, &cancel.key()).await?;
    /// assert!(look.is_claimed && look.waits == Some(1));
    /// assert_eq!(look.user.expect("a user").name, "anna");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn look(&self, owner: &str, claim: &Claim, post: &str) -> Result<WorkerLook, OwnedThreadError> {
        let failed = failed("look after a thread");
        let statements = vec![
            crate::queue::waits(claim, post),
            Statement::new(serve::USER, [id(owner), owner.as_bytes().into()]),
            Statement::new(serve::USAGE, [id(owner)]),
        ];
        let rows = self.of(owner).query_all(statements).await.map_err(&failed)?;
        let read = || {
            let rows_of = |number: usize| rows.get(number).map_or(&[][..], Vec::as_slice);
            let waits = rows_of(0).first().map(|row| row.maybe_count(0)).transpose()?;
            Ok(WorkerLook {
                is_claimed: waits.is_some(),
                waits: waits.flatten(),
                user: rows_of(1).first().map(read_user).transpose()?,
                usage: read_usage(rows_of(2))?,
            })
        };
        read().map_err(failed)
    }

    /// Up to which event the usage of a thread is counted. `None` if there is no such thread. It can be the thread of a
    /// sub-agent. Only workers may call it.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn counted(&self, owner: &str, thread: &ThreadId) -> Result<Option<u64>, OwnedThreadError> {
        counted(&self.of(owner), thread).await.map_err(failed("read usage"))
    }

    /// What a user used. A day begins at midnight in UTC.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn usage(&self, owner: &str) -> Result<Usage, OwnedThreadError> {
        usage(&self.of(owner), owner).await.map_err(failed("read usage"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_a_change_is_known_by_its_beginning() {
        let change = prowess_agent::thread_state::StateChange {
            owner: "m".to_owned(),
            delta: serde_json::Value::Null,
        };
        let change = prowess_agent::queue::Post::Change { id: "1".to_owned(), change };
        assert!(serde_json::to_vec(&change).unwrap().starts_with(CHANGE));
    }

    #[test]
    fn a_search_looks_for_small_letters() {
        assert_eq!(letters("50%_\\Tide"), "50%_\\tide");
        assert_eq!(letters(&"\u{0}".repeat(MAX_SEARCH * 2)).chars().count(), MAX_SEARCH);
        assert_eq!(lower("ΣΑΣ"), "σασ");
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(found_text(&"ä".repeat(OwnedThreads::SEARCHED_BYTES)).len(), OwnedThreads::SEARCHED_BYTES);
        assert!(
            found_text(&("a".to_owned() + &"ä".repeat(OwnedThreads::SEARCHED_BYTES))).len()
                < OwnedThreads::SEARCHED_BYTES
        );
    }

    #[test]
    fn a_place_survives_its_text() {
        let place = || Place { changed: 0x1234_5678_9abc, thread: "a-b_c".to_owned() };
        assert_eq!(Place::parse(&place().into_text()).unwrap(), place());
        for wrong in ["", ".", "1", "1.", "x.a", "1.a b", "1.a.b", "ffffffffffffffffff.a"] {
            assert!(matches!(Place::parse(wrong), Err(OwnedThreadError::InvalidPlace)), "{wrong}");
        }
    }
}
