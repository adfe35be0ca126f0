//! Lists threads without changing anything, not even files beside the database.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use prowess_agent::thread::ThreadInfo;
use rusqlite::{Connection, OpenFlags};

use super::SqliteStore;
use super::connection::database_error;
use crate::error::DatabaseError;
use crate::list::info;
use crate::sql;

/// How long the list waits for others. Shell completion needs a quick answer.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

impl SqliteStore {
    /// Lists at most `most` threads in a file, last change first. It creates and changes no files. A missing file has no
    /// threads.
    ///
    /// A change that another process is making may be missing.
    ///
    /// # Errors
    ///
    /// The file is not a prowess database, or cannot be read.
    pub fn list_read_only(path: &Path, most: usize) -> Result<Vec<ThreadInfo>, DatabaseError> {
        let place = format!("the database {}", path.display());
        if !path.exists() {
            return Ok(Vec::new());
        }
        let failed = |error| database_error(&place, error);
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(address(path), flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.pragma_update(None, "trusted_schema", false).map_err(failed)?;
        let mut statement = connection.prepare(sql::LIST).map_err(failed)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement
            .query_map([most], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .map_err(failed)?;
        rows.map(|row| info(&place, row.map_err(failed)?)).collect()
    }
}

/// The SQLite address of a file for reading only. With a log, SQLite reads the log and its index. Without one, the file is
/// complete, and SQLite need not create them.
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
