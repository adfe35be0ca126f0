//! The processes of a server.

use std::time::{Duration, SystemTime};

use crate::database::Database;
use crate::error::DatabaseError;
use crate::lease::micros;
use crate::rows::{Cell, Row, Statement};
use crate::sql::serve as sql;

/// The processes of a server that use a database.
///
/// ```
/// use std::time::Duration;
/// use prowess_store::serve::NewProcess;
/// use prowess_store::{Database, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let processes = Database::from(SqliteStore::in_memory()?).processes();
/// let worker = NewProcess { id: "1".into(), role: "worker".into(), host: "mars".into(), pid: 7, version: "1.0".into(), files: vec![1] };
/// processes.seen(&worker).await?;
/// assert_eq!(processes.list(Duration::from_secs(60)).await?[0].host, "mars");
///
/// assert_eq!(processes.drain(Some("mars"), Duration::from_secs(60)).await?, 1);
/// assert!(processes.seen(&worker).await?.drains);
/// processes.gone(&worker.id).await?;
/// assert!(processes.list(Duration::from_secs(60)).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Processes(Database);

/// A process that says that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProcess {
    /// Its name among the others.
    pub id: String,
    /// What it does.
    pub role: String,
    /// Its host.
    pub host: String,
    /// Its number on the host.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// The SHA-256 of where it keeps files.
    pub files: Vec<u8>,
}

/// A process of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Its name among the others.
    pub id: String,
    /// What it does.
    pub role: String,
    /// Its host.
    pub host: String,
    /// Its number on the host.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// The SHA-256 of where it keeps files.
    pub files: Vec<u8>,
    /// When it started.
    pub started: SystemTime,
    /// When it was seen last.
    pub seen: SystemTime,
    /// Whether it should hand its threads over and stop.
    pub drains: bool,
}

/// What a process must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessOrders {
    /// Whether it should hand its threads over and stop.
    pub drains: bool,
}

impl Processes {
    pub(crate) fn new(database: Database) -> Self {
        Self(database)
    }

    /// Notes that a process is there, and returns what it must know.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn seen(&self, process: &NewProcess) -> Result<ProcessOrders, DatabaseError> {
        let values: [Cell; 6] = [
            process.id.as_str().into(),
            process.role.as_str().into(),
            process.host.as_bytes().into(),
            i64::from(process.pid).into(),
            process.version.as_str().into(),
            process.files.clone().into(),
        ];
        let rows = self.0.transact(vec![Statement::new(sql::SEEN, values)]).await?.unwrap_or_default();
        let drains = rows.iter().flatten().next().map(|row| row.number(0)).transpose()?;
        Ok(ProcessOrders { drains: drains.is_some_and(|drains| drains != 0) })
    }

    /// Forgets a process that stops.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn gone(&self, id: &str) -> Result<(), DatabaseError> {
        self.0.transact(vec![Statement::new(sql::GONE, [id.into()])]).await.map(drop)
    }

    /// The processes that were seen in this time, the first one first. Those that were not seen for a day are forgotten.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn list(&self, within: Duration) -> Result<Vec<ProcessInfo>, DatabaseError> {
        let rows = self.0.query(Statement::new(sql::PROCESSES, [micros(within).into()])).await?;
        rows.iter().map(process).collect()
    }

    /// Orders the processes of a host, or all, that were seen in this time, to hand their threads over and stop. Returns how many
    /// there are.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn drain(&self, host: Option<&str>, within: Duration) -> Result<usize, DatabaseError> {
        let within: Cell = micros(within).into();
        let statement = match host {
            Some(host) => Statement::new(sql::DRAIN_HOST, [within, host.as_bytes().into()]),
            None => Statement::new(sql::DRAIN, [within]),
        };
        let rows = self.0.transact(vec![statement]).await?.unwrap_or_default();
        Ok(rows.iter().map(Vec::len).sum())
    }
}

fn process(row: &Row) -> Result<ProcessInfo, DatabaseError> {
    Ok(ProcessInfo {
        id: row.text(0)?,
        role: row.text(1)?,
        host: row.chosen_text(2)?,
        pid: u32::try_from(row.count(3)?).unwrap_or_default(),
        version: row.text(4)?,
        files: row.bytes(5)?,
        started: row.time(6)?,
        seen: row.time(7)?,
        drains: row.number(8)? != 0,
    })
}
