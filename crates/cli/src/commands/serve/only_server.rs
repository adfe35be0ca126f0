//! Only one server uses a directory and a database: the files of threads are in its directory, and it alone knows what a turn in
//! progress says.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_store::{Database, DatabaseError, PostgresStore, ServerLock};

use crate::shell::quote_if_needed;
use crate::terminal::printable;

/// The file in the server's directory that is locked. It names the process.
const FILE: &str = "server.lock";
/// The longest name of a process that is read.
const MAX_NAME: u64 = 300;
/// How often a lock is tried, and the pause between two tries. A server that was just killed may still have it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// How often the server looks whether it still has the lock of its database.
const LOOK: Duration = Duration::from_secs(5);

/// The lock of a server's directory. It ends with the process.
#[must_use]
pub(super) struct DirectoryLock {
    _file: File,
}

/// The lock of a server's database. A file is in the server's directory, and needs no lock of its own.
#[must_use]
pub(super) struct DatabaseLock(Option<(PostgresStore, ServerLock)>);

/// Takes the directory of a server that starts.
pub(super) async fn lock_directory(directory: &Path) -> Result<DirectoryLock> {
    let path = directory.join(FILE);
    let cannot = || format!("{} cannot be locked", path.display());
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let cannot_write = || format!("cannot write {}; choose another --data DIR", path.display());
    let mut file = opened.with_context(cannot_write)?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => {
                let noted = file.set_len(0).and_then(|()| writeln!(file, "{}", this_process()));
                noted.with_context(cannot_write)?;
                return Ok(DirectoryLock { _file: file });
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
    }
    let mut name = String::new();
    // Without a name, the message is still true.
    let _ = file.rewind().and_then(|()| file.take(MAX_NAME).read_to_string(&mut name));
    bail!(
        "another server uses {}: {}; stop it first, or name another directory with --data",
        quote_if_needed(&printable(&directory.to_string_lossy())),
        printable(name.trim())
    )
}

/// Takes the database of a server that starts.
pub(super) async fn lock_database(database: &Database) -> Result<DatabaseLock> {
    let Database::Postgres(store) = database else { return Ok(DatabaseLock(None)) };
    let lock = store.lock_for_server(&this_process()).await.map_err(|error| told(&error))?;
    Ok(DatabaseLock(Some((store.clone(), lock))))
}

impl DatabaseLock {
    /// Waits until another server has the database. That happens only if the lock was lost with its connection.
    pub(super) async fn lost(&mut self) -> anyhow::Error {
        let Some((store, lock)) = &mut self.0 else { return std::future::pending().await };
        loop {
            tokio::time::sleep(LOOK).await;
            if lock.is_held() {
                continue;
            }
            match store.lock_for_server(&this_process()).await {
                Ok(again) => *lock = again,
                Err(error @ DatabaseError::Served { .. }) => return told(&error),
                Err(error) => tracing::warn!(%error, "The database cannot be locked"),
            }
        }
    }
}

fn told(error: &DatabaseError) -> anyhow::Error {
    let told = printable(&error.to_string());
    match error {
        DatabaseError::Served { .. } => {
            anyhow!("{told}; stop it first, or name another database with --database or PROWESS_DATABASE")
        }
        _ => anyhow!(told),
    }
}

/// The name of this process, for people.
fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let place = if host.is_empty() { String::new() } else { format!(" on {host}") };
    format!("process {}{place}", std::process::id())
}
