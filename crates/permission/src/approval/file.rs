//! Approvals in a JSON file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Approval, ApprovalStore, StoreError, merge};

/// The largest file of approvals, in bytes.
pub const MAX_APPROVALS_BYTES: u64 = 8 << 20;

/// The version of the file that this crate reads and writes.
const VERSION: u64 = 1;

/// Approvals in one JSON file, which several processes can use at the same time.
///
/// A change goes to a new file, which then replaces the old one. So readers and crashes see the old approvals or the new
/// ones. Writers take turns with a lock file beside it.
///
/// ```
/// use std::sync::Arc;
/// use prowess_permission::{Broker, FileApprovals, Kind, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::approval::StoreError> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let path = scratch.path().join("approvals.json");
/// let broker = Broker::open(Arc::new(FileApprovals::at(&path)), "atlas").await?;
/// broker.remember(&Question::new(Kind::RUN, "make")).await?;
///
/// // In the next process:
/// let broker = Broker::open(Arc::new(FileApprovals::at(&path)), "atlas").await?;
/// assert_eq!(broker.remembered()[0].pattern.as_str(), "make");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FileApprovals {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with a version and approvals")]
struct StoredApprovals {
    version: u64,
    approvals: Vec<Approval>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a version")]
struct Versioned {
    version: u64,
}

impl FileApprovals {
    /// The approvals in the file at `path`. The file and its directory need not exist: the first addition creates them, for
    /// the user only.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn read(&self) -> Result<Vec<Approval>, StoreError> {
        // Check before opening: opening a FIFO would wait for a writer.
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(self.damaged("it is not a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io("read", error)),
        }
        let file = File::open(&self.path).map_err(|error| self.io("read", error))?;
        self.check_mode(&file)?;
        let mut bytes = Vec::new();
        file.take(MAX_APPROVALS_BYTES + 1).read_to_end(&mut bytes).map_err(|error| self.io("read", error))?;
        if bytes.len() as u64 > MAX_APPROVALS_BYTES {
            return Err(self.damaged(format!("it is larger than {MAX_APPROVALS_BYTES} bytes")));
        }
        let Versioned { version } =
            serde_json::from_slice(&bytes).map_err(|error| self.damaged(error.to_string()))?;
        if version != VERSION {
            return Err(StoreError::UnknownVersion {
                path: self.path.clone(),
                found: version,
                known: VERSION,
            });
        }
        let stored: StoredApprovals =
            serde_json::from_slice(&bytes).map_err(|error| self.damaged(error.to_string()))?;
        Ok(stored.approvals)
    }

    #[cfg(unix)]
    fn check_mode(&self, file: &File) -> Result<(), StoreError> {
        let metadata = file.metadata().map_err(|error| self.io("read", error))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o022 == 0 {
            Ok(())
        } else {
            Err(StoreError::WritableByOthers { path: self.path.clone(), mode })
        }
    }

    #[cfg(not(unix))]
    fn check_mode(&self, _: &File) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes the approvals while no other process does. `change` returns whether to write the file.
    fn update(&self, change: impl FnOnce(&mut Vec<Approval>) -> bool) -> Result<(), StoreError> {
        let directory = self.directory();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        builder.mode(0o700);
        builder.create(directory).map_err(|error| self.io("create the directory of", error))?;

        let lock =
            private_file().create(true).open(self.beside(".lock")).map_err(|error| self.io("lock", error))?;
        lock.lock().map_err(|error| self.io("lock", error))?;
        let mut approvals = self.read()?;
        if change(&mut approvals) {
            self.replace(&StoredApprovals { version: VERSION, approvals })?;
        }
        Ok(())
    }

    fn replace(&self, stored: &StoredApprovals) -> Result<(), StoreError> {
        let write = |error| self.io("write", error);
        let mut bytes = serde_json::to_vec_pretty(stored).map_err(|error| write(error.into()))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_APPROVALS_BYTES {
            return Err(StoreError::Full { path: self.path.clone(), limit: MAX_APPROVALS_BYTES });
        }
        // One name is enough while the lock is held. A file that exists is left over from a crash.
        let fresh = self.beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write(error)),
            _ => {}
        }
        let mut file = private_file().create_new(true).open(&fresh).map_err(write)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(write)?;
        fs::rename(&fresh, &self.path).map_err(write)?;
        // The rename is durable only after the directory is synced.
        #[cfg(unix)]
        File::open(self.directory()).and_then(|directory| directory.sync_all()).map_err(write)?;
        Ok(())
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn damaged(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), reason: reason.into() }
    }

    fn io(&self, operation: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { operation, path: self.path.clone(), source }
    }

    /// Runs blocking work on a thread for it, not on a thread of the runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(stopped) => Err(StoreError::Other(Box::new(stopped))),
        }
    }
}

/// Options for a file that only the user can read and write.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

#[async_trait]
impl ApprovalStore for FileApprovals {
    async fn load(&self, project: &str) -> Result<Vec<Approval>, StoreError> {
        let mut approvals = self.blocking(Self::read).await?;
        approvals.retain(|approval| approval.project == project);
        Ok(approvals)
    }

    async fn add(&self, approvals: &[Approval]) -> Result<(), StoreError> {
        let added = approvals.to_vec();
        self.blocking(move |store| store.update(|approvals| merge(approvals, &added))).await
    }

    async fn remove(&self, approval: &Approval) -> Result<(), StoreError> {
        let removed = approval.clone();
        self.blocking(move |store| {
            store.update(|approvals| {
                let before = approvals.len();
                approvals.retain(|known| *known != removed);
                approvals.len() < before
            })
        })
        .await
    }
}
