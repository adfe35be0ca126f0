//! What is known of a workspace beside its files.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::dir::{Dir, NoFile};
use crate::error::WorkspaceError;

/// The file, in the workspace's home.
const FILE: &str = "workspace.json";
const VERSION: u64 = 1;
/// The most that is read of it.
const MAX_BYTES: u64 = 64 * 1024;
/// How much of a session's identity is kept for people to read.
const MAX_SESSION: usize = 1024;

/// A workspace's metadata file. Times are seconds since 1970.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Metadata {
    version: u64,
    session: String,
    created: u64,
    pub(super) last_used: u64,
}

impl Metadata {
    /// What the file says; `None` when a crash left none, or a damaged one.
    pub(super) fn read(home: &Dir, path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let failed = |error| WorkspaceError::io("reading the metadata of", path, error);
        let file = match home.file(FILE) {
            Ok((file, _)) => file,
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(metadata) if metadata.version > VERSION => {
                Err(WorkspaceError::NewerVersion { path: path.to_owned(), version: metadata.version })
            }
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "damaged metadata; made anew");
                Ok(None)
            }
        }
    }

    /// The metadata of a workspace that is used now, new or not.
    pub(super) fn used_now(before: Option<Self>, session: &str) -> Self {
        let now = seconds(SystemTime::now());
        let session = session.chars().take(MAX_SESSION).collect();
        let created = before.map_or(now, |before| before.created);
        Self { version: VERSION, session, created, last_used: now }
    }

    pub(super) fn write(&self, home: &Dir) -> io::Result<()> {
        home.replace(FILE, &serde_json::to_vec_pretty(self)?, 0o600, None)
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
