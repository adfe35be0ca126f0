//! What prowess has on this machine, and its removal.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::size::Size;
use crate::complete::MARK;
use crate::config::user_path;
use crate::directories::{self, check_owned};
use crate::server_lock;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// How many bytes of a file are read to recognize it.
const LOOKED_AT: u64 = 4096;
/// How many manual pages are checked.
const MAX_PAGES: usize = 10_000;

/// An item to remove.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) size: Size,
}

impl Item {
    /// The item at `path`, if it exists.
    fn at(what: &'static str, path: PathBuf) -> Option<Self> {
        path.symlink_metadata().ok()?;
        Some(Self { what, size: Size::of(&path), path })
    }

    /// The program itself.
    pub(crate) fn of_program(path: PathBuf) -> Option<Self> {
        Self::at("the program", path)
    }

    /// Removes the item. A link is removed, but not its target.
    pub(crate) fn remove(&self) -> Result<()> {
        let removed = prowess_workspace::dir::remove_tree(&self.path);
        removed.with_context(|| format!("{} cannot be removed", printable(&self.path.to_string_lossy())))
    }
}

/// Everything of prowess, except the program.
pub(crate) fn items(keep_config: bool) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |what, path: Option<PathBuf>| items.extend(path.and_then(|path| Item::at(what, path)));
    let state = directories::state();
    let has_server = state.as_ref().is_some_and(|state| state.join("serve").symlink_metadata().is_ok());
    let what = "threads, workspaces, artifacts, trust";
    let with_server = "threads, workspaces, artifacts, trust, the server's database, users and files";
    add(if has_server { with_server } else { what }, state);
    add("workspaces", Some(directories::shared_workspaces()).filter(|path| check_owned(path).is_ok()));
    add("cache", directories::cache());
    if !keep_config {
        add("configuration", user_path());
    }
    for path in completions() {
        add("completions", Some(path).filter(|path| begins_with_mark(path)));
    }
    for path in pages() {
        add("manual page", Some(path));
    }
    items
}

/// Where completion scripts are, according to the documents.
fn completions() -> Vec<PathBuf> {
    let config = directories::user_directory("XDG_CONFIG_HOME", ".config");
    let home = crate::directories::home();
    [
        directories::data().map(|data| data.join("bash-completion/completions/prowess")),
        directories::data().map(|data| data.join("zsh/site-functions/_prowess")),
        home.map(|home| home.join(".zfunc/_prowess")),
        config.map(|config| config.join("fish/completions/prowess.fish")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether a file was printed by `prowess completions`.
fn begins_with_mark(path: &Path) -> bool {
    beginning(path).is_some_and(|text| text.contains(MARK))
}

/// The manual pages of prowess, where the documents say to put them.
fn pages() -> Vec<PathBuf> {
    let Some(directory) = directories::data().map(|data| data.join("man/man1")) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_name = |name: &OsStr| {
        let name = name.to_str().and_then(|name| name.strip_suffix(".1"));
        name.is_some_and(|name| name == "prowess" || name.starts_with("prowess-"))
    };
    let named = entries.take(MAX_PAGES).flatten().filter(|entry| is_name(&entry.file_name()));
    let is_ours = |path: &PathBuf| beginning(path).is_some_and(|text| text.contains("\n.TH prowess"));
    let mut pages: Vec<PathBuf> = named.map(|entry| entry.path()).filter(is_ours).collect();
    pages.sort();
    pages
}

/// The start of a regular file.
fn beginning(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
    Some(format!("\n{}", String::from_utf8_lossy(&bytes)))
}

/// Prevents others from opening the threads, and servers from starting, while it lives.
#[must_use]
pub(crate) struct StateLock {
    _server: Option<File>,
    _threads: Option<File>,
}

/// Locks the state directory. Fails while a server or another prowess process uses it, or runs a command.
pub(crate) fn lock_state() -> Result<StateLock> {
    const IN_USE: &str = "prowess is in use: end conversations and runs first; nothing was removed";
    const SERVES: &str = "a server runs: stop `prowess serve` first; nothing was removed";
    let server = exclusive(server_lock::path(), SERVES)?;
    for workspaces in WorkspaceDir::default().existing_workspaces()? {
        if workspaces.in_use()? > 0 {
            bail!(IN_USE);
        }
    }
    let threads = directories::state().map(|state| state.join(format!("{}.lock", crate::threads::FILE)));
    Ok(StateLock { _server: server, _threads: exclusive(threads, IN_USE)? })
}

/// Takes a lock for this process alone, if its file exists.
fn exclusive(lock: Option<PathBuf>, in_use: &'static str) -> Result<Option<File>> {
    let Some(lock) = lock else { return Ok(None) };
    match File::open(&lock) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => bail!(in_use),
            Err(TryLockError::Error(error)) => Err(error).context("cannot tell whether prowess is in use"),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", lock.display())),
    }
}

/// Removes directories of prowess that are empty now.
pub(crate) fn remove_empty_parents(keep_config: bool) {
    let config = user_path().filter(|_| !keep_config);
    if let Some(directory) = config.as_deref().and_then(Path::parent) {
        // Only an empty directory is removed.
        let _ = std::fs::remove_dir(directory);
    }
}

/// The directory with the user's own skills, which stay.
pub(crate) fn skills() -> Option<PathBuf> {
    let own = crate::directories::home()?.join(".prowess");
    own.is_dir().then_some(own)
}
