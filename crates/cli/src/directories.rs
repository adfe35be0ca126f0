//! The directories of a user in which prowess keeps its files: state, cache and data.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The state directory: `$XDG_STATE_HOME/prowess`, or `~/.local/state/prowess`.
pub(crate) fn state() -> Option<PathBuf> {
    Some(user_directory("XDG_STATE_HOME", ".local/state")?.join("prowess"))
}

/// The cache directory: `$XDG_CACHE_HOME/prowess`, or `~/.cache/prowess`.
pub(crate) fn cache() -> Option<PathBuf> {
    Some(user_directory("XDG_CACHE_HOME", ".cache")?.join("prowess"))
}

/// The directory of search indexes.
pub(crate) fn search_cache() -> Option<PathBuf> {
    Some(cache()?.join("search"))
}

/// The directory of vectors that an embedding model made.
pub(crate) fn vectors() -> Option<PathBuf> {
    Some(cache()?.join("vectors"))
}

/// The data directory of all programs: `$XDG_DATA_HOME`, or `~/.local/share`.
pub(crate) fn data() -> Option<PathBuf> {
    user_directory("XDG_DATA_HOME", ".local/share")
}

/// The directory in a variable, if it is absolute; else a directory in the home directory.
pub(crate) fn user_directory(variable: &str, relative: &str) -> Option<PathBuf> {
    absolute(variable).or_else(|| Some(home()?.join(relative)))
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME")
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The directory for workspaces if commands cannot reach the state directory.
pub(crate) fn shared_workspaces() -> PathBuf {
    PathBuf::from(format!("/var/tmp/prowess-{}", rustix::process::geteuid().as_raw()))
}

/// Creates a directory. As root, other users may enter it, because commands run as another user.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Checks that a directory in a shared place belongs to this user alone.
pub(crate) fn check_owned(path: &Path) -> Result<()> {
    let found =
        std::fs::symlink_metadata(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        bail!(
            "{} must belong to you alone: remove it, or use --workspace DIR to keep workspaces elsewhere",
            path.display()
        );
    }
    Ok(())
}

/// The path without links and `..`, as the system reports it.
pub(crate) fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    use rustix::fs::{Mode, OFlags, open};
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
}
