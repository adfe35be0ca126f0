//! Checks the whole database for damage.

use rusqlite::{Connection, OptionalExtension as _};

use super::SqliteStore;
use crate::error::DatabaseError;
use crate::event::{EventRow, checksum};

/// How many findings are reported.
const MAX_FINDINGS: usize = 5;

impl SqliteStore {
    /// Reads the whole database and finds damage. It takes as long as reading the file. Approvals and artifacts are checked
    /// if their features are enabled.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Damaged`], or the database failed otherwise.
    pub async fn check(&self) -> Result<(), DatabaseError> {
        match self.read(findings).await?.as_slice() {
            [] => Ok(()),
            findings => Err(DatabaseError::damaged(&self.0.place, findings.join("; "))),
        }
    }
}

fn findings(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // One consistent state, even if others write meanwhile.
    let connection = connection.unchecked_transaction()?;
    let mut findings = Vec::new();
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_FINDINGS})"))?;
    for line in statement.query_map([], |row| row.get::<_, String>(0))? {
        findings.push(line?);
    }
    findings.retain(|line| line != "ok");
    if !findings.is_empty() {
        return Ok(findings);
    }
    let orphan = connection.query_row(
        "SELECT thread FROM prowess_events WHERE thread NOT IN (SELECT id FROM prowess_threads) LIMIT 1",
        [],
        |row| row.get::<_, String>(0),
    );
    findings
        .extend(orphan.optional()?.map(|thread| format!("the thread `{thread}` is missing, but has events")));
    let wrong = connection.query_row(
        "SELECT id FROM prowess_threads AS known WHERE events <> (
             SELECT COUNT(*) FROM prowess_events WHERE thread = known.id
         ) OR events <> (
             SELECT COUNT(*) FROM prowess_events
             WHERE thread = known.id AND number BETWEEN 1 AND known.events
         ) LIMIT 1",
        [],
        |row| row.get::<_, String>(0),
    );
    findings.extend(
        wrong
            .optional()?
            .map(|thread| format!("the thread `{thread}` has more or fewer events than it should")),
    );
    posts(&connection, &mut findings)?;
    #[cfg(feature = "approvals")]
    approvals(&connection, &mut findings)?;
    #[cfg(feature = "artifacts")]
    artifacts(&connection, &mut findings)?;
    let mut statement = connection.prepare(
        "SELECT thread, number, stored, version, checksum, body FROM prowess_events ORDER BY rowid",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let event = EventRow {
            number: row.get(1)?,
            stored: row.get(2)?,
            version: row.get(3)?,
            checksum: row.get(4)?,
            body: row.get(5)?,
        };
        if !event.is_whole() {
            let thread: String = row.get(0)?;
            findings.push(format!("the checksum of event {} of `{thread}` is wrong", event.number));
        }
        if findings.len() >= MAX_FINDINGS {
            break;
        }
    }
    Ok(findings)
}

fn posts(connection: &Connection, findings: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare("SELECT thread, number, checksum, body FROM prowess_inbox WHERE body IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (thread, number): (String, i64) = (row.get(0)?, row.get(1)?);
        if checksum(&[], &row.get::<_, Vec<u8>>(3)?) != row.get::<_, i64>(2)? {
            findings.push(format!("the checksum of post {number} to `{thread}` is wrong"));
            break;
        }
    }
    Ok(())
}

#[cfg(feature = "approvals")]
fn approvals(connection: &Connection, findings: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT project, digest, body FROM prowess_approvals")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row =
            crate::approval::ApprovalRow { project: row.get(0)?, digest: row.get(1)?, body: row.get(2)? };
        if !row.is_whole() {
            findings.push("the digest of an approval is wrong".to_owned());
            break;
        }
    }
    Ok(())
}

#[cfg(feature = "artifacts")]
fn artifacts(connection: &Connection, findings: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT name, version, checksum, body FROM prowess_scoped_artifacts")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if let Err(error) = crate::artifact::record(row) {
            findings.push(error.to_string());
            break;
        }
    }
    let ungiven = connection.query_row(
        "SELECT name FROM prowess_scoped_artifacts AS one WHERE version >= COALESCE(
             (SELECT given FROM prowess_scoped_names AS known
              WHERE known.scope = one.scope AND known.name = one.name), 0
         ) LIMIT 1",
        [],
        |row| row.get::<_, String>(0),
    );
    let problem = |name| format!("the artifact `{name}` has a version whose number was never used");
    findings.extend(ungiven.optional()?.map(problem));
    Ok(())
}
