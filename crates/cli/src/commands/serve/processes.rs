//! The processes of a server: they share a database, and a directory or an object store.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use hmac_sha256::Hash;
use prowess_serve::Role;
use prowess_store::serve::{NewProcess, ProcessInfo, Processes};
use prowess_store::{Database, DatabaseError};

use crate::shell::quote_if_needed;
use crate::terminal::printable;

/// The file in the server's directory that is locked.
const FILE: &str = "server.lock";
/// How often a lock is tried, and the pause between two tries. A server that was just killed may still have it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// How often a process says that it is there.
const BEAT: Duration = Duration::from_secs(2);
/// After what time without word a process is gone.
const GONE: Duration = Duration::from_secs(15);
/// How long `--drain` waits.
const PATIENCE: Duration = Duration::from_secs(90);

/// The lock of a server's directory. It ends with the process.
#[must_use]
pub(super) struct DirectoryLock {
    _file: File,
}

/// Shares the directory of a server with its other processes. A server of an earlier version has it alone.
pub(super) async fn lock_directory(directory: &Path) -> Result<DirectoryLock> {
    let path = directory.join(FILE);
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file =
        opened.with_context(|| format!("cannot write {}; choose another --data DIR", path.display()))?;
    for _ in 0..TRIES {
        match file.try_lock_shared() {
            Ok(()) => return Ok(DirectoryLock { _file: file }),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("{} cannot be locked", path.display()));
            }
        }
    }
    bail!(
        "a server of an older version uses {}: stop it first, or name another directory with --data",
        quote_if_needed(&printable(&directory.to_string_lossy()))
    )
}

/// The name of this host.
pub(super) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().to_owned()
}

/// The name of a role, as it is typed.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::All => "all",
        Role::Web => "web",
        Role::Worker => "worker",
    }
}

/// A running process, which says that it is there until it is dropped.
pub(super) struct RunningProcess {
    processes: Processes,
    database: Database,
    own: NewProcess,
}

impl RunningProcess {
    /// Joins the other processes of a database. `object_store` is where all of them keep files; without one, they share a directory.
    pub(super) async fn join(
        database: &Database,
        role: Role,
        directory: &Path,
        object_store: Option<&str>,
    ) -> Result<Self> {
        let processes = database.processes();
        let own = NewProcess {
            id: uuid::Uuid::now_v7().simple().to_string(),
            role: role_name(role).to_owned(),
            host: host(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            files: files(directory, object_store)?,
        };
        let told = |error: DatabaseError| anyhow!("{error}");
        // First its own word, and then a look: of two that start together, one sees the other.
        processes.seen(&own).await.map_err(told)?;
        let others = processes.list(GONE).await.map_err(told)?;
        let keeps_elsewhere = |other: &&ProcessInfo| other.files != own.files && !other.drains && runs(other);
        // The list begins with the first one.
        let earlier = others.iter().take_while(|other| other.id != own.id);
        if let Some(other) = earlier.clone().find(keeps_elsewhere) {
            let problem = anyhow!(
                "the {} keeps files elsewhere: start all processes of a database with the same --files s3://BUCKET, or on one machine \
                 with the same --data",
                name(other)
            );
            processes.gone(&own.id).await.map_err(told)?;
            return Err(problem);
        }
        Ok(Self { processes, database: database.clone(), own })
    }

    /// Says that it is there, until it should stop. `Err`: a newer process changed the tables so that this one cannot go on.
    pub(super) async fn until_ordered(&self) -> Result<()> {
        loop {
            tokio::time::sleep(BEAT).await;
            match self.processes.seen(&self.own).await {
                Ok(orders) if orders.drains => return Ok(()),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "The database does not know that this process is there"),
            }
            if let Err(error @ DatabaseError::Newer { .. }) = self.database.check_tables().await {
                return Err(anyhow!("{error}"));
            }
        }
    }

    /// Tells the others that it is gone.
    pub(super) async fn leave(self) {
        // Otherwise they notice soon.
        if let Err(error) = self.processes.gone(&self.own.id).await {
            tracing::debug!(%error, "Could not say that this process stops");
        }
    }
}

/// What tells whether processes keep files in the same place.
fn files(directory: &Path, object_store: Option<&str>) -> Result<Vec<u8>> {
    let text = match object_store {
        Some(place) => format!("object store {place}"),
        None => {
            let found = std::fs::metadata(directory)
                .with_context(|| format!("{} cannot be read", directory.display()))?;
            format!("directory {} {} {}", host(), found.dev(), found.ino())
        }
    };
    Ok(Hash::hash(text.as_bytes()).to_vec())
}

/// Whether a process may run. One that was killed cannot say that it is gone.
fn runs(process: &ProcessInfo) -> bool {
    process.host != host() || Path::new("/proc").join(process.pid.to_string()).exists()
}

/// A process, for people.
fn name(process: &ProcessInfo) -> String {
    let (role, pid, host) = (&process.role, process.pid, printable(&process.host));
    format!("process {pid} on {host} with the role `{role}`")
}

fn counted(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Orders the processes of a host, or all, to hand their threads over, and waits until they are gone.
pub(super) async fn drain(database: &Database, host: Option<&str>) -> Result<String> {
    let processes = database.processes();
    let told = |error: DatabaseError| anyhow!("{error}");
    let ordered = processes.drain(host, GONE).await.map_err(told)?;
    let place = host.map(|host| format!(" on {}", printable(host))).unwrap_or_default();
    if ordered == 0 {
        return Ok(format!("no process of this server runs{place}"));
    }
    let begun = tokio::time::Instant::now();
    loop {
        let left = processes.list(GONE).await.map_err(told)?;
        let left: Vec<_> = left.iter().filter(|process| process.drains).collect();
        let Some(first) = left.first() else {
            // Who said farewell is in no list.
            let silent = processes.list(GONE + 2 * PATIENCE).await.map_err(told)?;
            let silent = silent.iter().filter(|process| process.drains).count();
            let stopped = counted(ordered.saturating_sub(silent), "process", "processes");
            let ended = format!("{stopped}{place} handed over all threads");
            if silent == 0 {
                return Ok(ended);
            }
            let silent = counted(silent, "does", "do");
            return Ok(format!(
                "{ended}; {silent} not answer: others take their threads when the leases end"
            ));
        };
        if begun.elapsed() > PATIENCE {
            bail!("{} of {ordered} processes still run, such as the {}", left.len(), name(first));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
