//! `copy_file`: copies one file, such as a result of a run into the project.
//!
//! The call reads the bytes once. The person sees these bytes and the real path of the target, and exactly these bytes are
//! written. If source or target changed since the person replied, the question is a new one.

use bytes::Bytes;
use hmac_sha256::Hash;
use prowess_backend::entry::Target;
use prowess_backend::{BackendError, ReadRange, VirtualPath, WriteMode};
use prowess_base::hex;
use prowess_permission::action::{CopyAction, ReplacedFile};

use super::access::FileAccess;
use super::arguments::CopyFile;
use super::preview::preview;
use super::{FileTool, Stop};
use crate::tool::{ChangeKind, ToolAnswer, ToolOutput};

/// The largest file that is copied, in bytes. All of it is in memory.
const MAX_COPY_BYTES: u64 = 64 * 1024 * 1024;

impl FileTool {
    pub(super) async fn copy(&self, copy: CopyFile, access: &FileAccess<'_>) -> Result<ToolAnswer, Stop> {
        let from = self.backend.known_as(&VirtualPath::parse(&copy.from)?);
        let to = self.backend.known_as(&destination(&copy.to, &from)?);
        access.read(&from).await?;
        let bytes = self.whole(&from).await?;
        let target = access.place_to_write(&to).await?;
        // The question shows the file that is replaced, and its absence also tells something.
        access.check_may_look(&to, &target)?;
        let before = match self.whole(&to).await {
            Ok(_) if !copy.replace => return Err(BackendError::AlreadyExists { path: to }.into()),
            Ok(before) => Some(before),
            Err(Stop::Backend(BackendError::NotFound { .. })) => None,
            Err(stop) => return Err(stop),
        };
        let action = CopyAction {
            from: shown(&self.backend.target(&from).await),
            bytes: bytes.len() as u64,
            digest: digest(&bytes),
            replaces: before
                .as_ref()
                .map(|before| ReplacedFile { bytes: before.len() as u64, digest: digest(before) }),
            shown: preview(&bytes, before.as_deref()),
        };
        let is_shown_whole = action.shown.is_whole();
        let permit = access.copy(&to, target, action).await?;
        let planned = match &self.changes {
            // Nobody approved what the question left out.
            Some(changes) if is_shown_whole => {
                let (before, after) = (before.clone(), bytes.clone());
                changes.plan_copy(&*self.backend, &to, before, after, permit).await
            }
            _ => None,
        };
        let (entry, change) = match before {
            None => (self.backend.write(&to, bytes, WriteMode::CreateNew).await?, ChangeKind::Created),
            Some(before) => (self.backend.swap(&to, before, bytes).await?, ChangeKind::Replaced),
        };
        if let Some(planned) = planned {
            planned.made().await;
        }
        let text = format!("Copied {from} to {} ({} bytes).", entry.path, entry.size);
        Ok(self.changed(text, &entry, change).await)
    }

    /// All bytes of a file.
    async fn whole(&self, path: &VirtualPath) -> Result<Bytes, Stop> {
        let contents = self.backend.read(path, ReadRange::first(MAX_COPY_BYTES)).await?;
        if contents.more {
            let limit = MAX_COPY_BYTES / (1024 * 1024);
            let text = format!("Error: {path} is larger than {limit} MiB, the limit for copies.");
            return Err(ToolOutput::from(ToolAnswer::error(text)).into());
        }
        Ok(contents.bytes)
    }
}

/// The path of the copy. In a directory, which ends with a slash, the file keeps its name.
fn destination(to: &str, from: &VirtualPath) -> Result<VirtualPath, BackendError> {
    let path = VirtualPath::parse(to)?;
    match from.name() {
        Some(name) if to.ends_with('/') => path.join(name),
        _ => Ok(path),
    }
}

/// The path of a file for a person: its real path, if it is on this machine.
fn shown(target: &Target) -> String {
    match target.on_disk.last() {
        Some(path) => path.to_string_lossy().into_owned(),
        None => target.path.to_string(),
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(&Hash::hash(bytes))
}
