//! The metadata file of a workspace: its id, and when it was used.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::dir::{Dir, NoFile};
use crate::error::WorkspaceError;

/// The name of the file.
const FILE: &str = "workspace.json";
const VERSION: u64 = 1;
/// The most bytes that are read of it.
const MAX_BYTES: u64 = 64 * 1024;
/// How many characters of a workspace id are stored, for people to read.
const MAX_ID: usize = 1024;

/// How old the time in the file may be, in seconds. The time of the file itself is exact.
const REWRITTEN_AFTER: u64 = 60 * 60;

/// The metadata of a workspace. Times are seconds since 1970.
///
/// Each use sets the time of the file, which is cheap. The time in the file is updated once an hour.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Metadata {
    version: u64,
    /// The id of the workspace.
    #[serde(rename = "session")]
    id: String,
    created: u64,
    last_used: u64,
    /// The time of the file.
    #[serde(skip)]
    touched: u64,
}

impl Metadata {
    /// Reads the file; `None` if a crash left none, or a damaged one.
    pub(super) fn read(home: &Dir, path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let failed = |error| WorkspaceError::io("reading the metadata of", path, error);
        let (file, stat) = match home.file(FILE) {
            Ok(found) => found,
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(metadata) if metadata.version > VERSION => {
                Err(WorkspaceError::NewerVersion { path: path.to_owned(), version: metadata.version })
            }
            Ok(metadata) => Ok(Some(Self { touched: u64::try_from(stat.st_mtime).unwrap_or(0), ..metadata })),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "replaced damaged metadata");
                Ok(None)
            }
        }
    }

    /// When the workspace was last used.
    pub(super) fn last_used(&self) -> u64 {
        self.last_used.max(self.touched)
    }

    /// Records that the workspace is used now.
    pub(super) fn note_use(before: Option<Self>, id: &str, home: &Dir) -> io::Result<()> {
        let now = seconds(SystemTime::now());
        let id: String = id.chars().take(MAX_ID).collect();
        if let Some(before) = &before
            && before.id == id
            && now.saturating_sub(before.last_used) < REWRITTEN_AFTER
            && let Ok((file, _)) = home.file(FILE)
        {
            return file.set_modified(SystemTime::now());
        }
        let created = before.map_or(now, |before| before.created);
        let metadata = Self { version: VERSION, id, created, last_used: now, touched: now };
        home.replace(FILE, &serde_json::to_vec_pretty(&metadata)?, 0o600, None)
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
