//! The lock of running servers. `prowess uninstall` removes nothing while one runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::directories;

/// The file in the state directory. A server has files there also if its own directory is elsewhere.
const FILE: &str = "serve.lock";

/// A running server. Its lock ends with the process.
#[must_use]
pub(crate) struct RunningServer {
    _lock: Option<File>,
}

/// Where the lock is.
pub(crate) fn path() -> Option<PathBuf> {
    directories::state().map(|state| state.join(FILE))
}

/// Says that a server runs. Several can.
pub(crate) fn hold() -> Result<RunningServer> {
    let Some(path) = path() else { return Ok(RunningServer { _lock: None }) };
    let cannot = || format!("{} cannot be locked", path.display());
    if let Some(state) = path.parent() {
        directories::make_directory(state).with_context(cannot)?;
    }
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = opened.with_context(cannot)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(RunningServer { _lock: Some(file) }),
        Err(TryLockError::WouldBlock) => bail!("prowess is being uninstalled"),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}
