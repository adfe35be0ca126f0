//! A look at a database that changes nothing, not even beside it.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use prowess_agent::thread::ThreadInfo;
use rusqlite::{Connection, OpenFlags};

use super::SqliteStore;
use super::connection::explained;
use crate::error::DatabaseError;
use crate::list::info;
use crate::sql;

/// How long a look waits for others. Who only looks would rather see nothing.
const PATIENCE: Duration = Duration::from_millis(200);

impl SqliteStore {
    /// The threads in a file, the one that changed last first, at most `most` of them, for those who only want to know
    /// what there is. Nothing is written: neither file, log nor lock is made or changed. No file is no threads.
    ///
    /// What another process writes at this moment may be missing.
    ///
    /// # Errors
    ///
    /// The file is no database of ours, or cannot be read.
    pub fn glance(path: &Path, most: usize) -> Result<Vec<ThreadInfo>, DatabaseError> {
        let place = format!("the database {}", path.display());
        if !path.exists() {
            return Ok(Vec::new());
        }
        let failed = |error| explained(&place, error);
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(address(path), flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        connection.pragma_update(None, "trusted_schema", false).map_err(failed)?;
        let mut statement = connection.prepare(sql::LIST).map_err(failed)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement
            .query_map([most], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .map_err(failed)?;
        rows.map(|row| info(&place, row.map_err(failed)?)).collect()
    }
}

/// The address of a file for those who only read it. Where there is a log, it is read with its index as it is, or as it
/// would be; without one the file is all there is, and SQLite need not make either.
fn address(path: &Path) -> String {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                address.push(char::from(*byte));
            }
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address + "?mode=ro" + if has_log { "&readonly_shm=1" } else { "&immutable=1" }
}
