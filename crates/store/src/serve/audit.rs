//! The audit log: who did what.

use std::time::SystemTime;

use prowess_agent::ThreadId;
use serde_json::Value;

use super::without_nul;
use crate::acts_for::ActsFor;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::{MAX_DEPTH, json, signed};
use crate::rows::{Cell, Row, Statement};
use crate::sql::serve as sql;

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its number. A later entry has a higher one.
    pub number: u64,
    /// When it was noted.
    pub at: SystemTime,
    /// Who did it: the id of a user, or [`Audit::COMMAND_LINE`].
    pub user: String,
    /// What was done.
    pub action: String,
    /// The thread that it was done to.
    pub thread: Option<ThreadId>,
    /// More about it.
    pub detail: Value,
}

/// Why the audit log failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} the audit log: {source}")]
pub struct AuditError {
    action: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    action: &'static str,
) -> impl Fn(E) -> AuditError {
    move |source| AuditError { action, source: source.into() }
}

/// The audit log. Nothing removes its entries.
///
/// ```
/// use prowess_store::{Database, SqliteStore};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let audit = Database::from(SqliteStore::in_memory()?).audit();
/// audit.note("anna", "disabled a user", None, &json!({"user": "ben"})).await?;
/// assert_eq!(audit.list(None, 10).await?[0].action, "disabled a user");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Audit(Database);

fn entry(row: &Row) -> Result<AuditEntry, DatabaseError> {
    let thread = row.maybe_text(4)?.map(|_| row.thread(4)).transpose()?;
    let detail = serde_json::from_slice(&row.bytes(5)?)
        .map_err(|error| row.damaged(format!("an entry of the audit log cannot be read: {error}")))?;
    Ok(AuditEntry {
        number: row.count(0)?,
        at: row.time(1)?,
        user: row.text(2)?,
        action: row.text(3)?,
        thread,
        detail,
    })
}

impl Audit {
    /// Who did it, if somebody did it on the command line of the server's machine. No user has this name.
    pub const COMMAND_LINE: &str = "command line";

    pub(crate) fn new(database: Database) -> Self {
        Self(database)
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// The detail is nested too deep, or the database failed.
    pub async fn note(
        &self,
        user: &str,
        action: &str,
        thread: Option<&ThreadId>,
        detail: &Value,
    ) -> Result<(), AuditError> {
        let failed_json = failed("write to");
        let detail = json(detail, MAX_DEPTH).map_err(failed_json)?;
        let values: [Cell; 4] = [
            without_nul(user).as_ref().into(),
            without_nul(action).as_ref().into(),
            Cell::Text(thread.map(ToString::to_string)),
            detail.into(),
        ];
        let database = self.0.acting(ActsFor::User(without_nul(user).into_owned()));
        let done = database.transact(vec![Statement::new(sql::NOTE, values)]).await;
        done.map(drop).map_err(failed("write to"))
    }

    /// At most `limit` entries, last one first. `after` is the number of the last entry of the page before.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn list(&self, after: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, AuditError> {
        let failed = failed("read");
        let values = [signed(after.unwrap_or(u64::MAX)).into(), signed(limit as u64).into()];
        let rows = self.0.query(Statement::new(sql::AUDIT, values)).await.map_err(&failed)?;
        rows.iter().map(entry).collect::<Result<_, _>>().map_err(failed)
    }
}
