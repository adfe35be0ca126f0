//! The SQLite file: opens or makes it, checks its head, and moves a damaged one away.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Read as _};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use super::{connection, migrate, wal};
use crate::error::DatabaseError;

/// The files of SQLite beside a database: the log, and its index.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// How often opening is tried while other processes make the same database.
const MAX_TRIES: u32 = 1_000;

const CUT: &str = "it is truncated";

/// The head of a SQLite file: its first bytes, and the positions of the page size, the number of changes, the number of
/// pages, the application id, and the number of changes at the last count of pages; then its length. No page is shorter
/// than [`MIN_PAGE`], and the page at [`NEVER_WRITTEN`] is for locks.
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_SIZE_AT: usize = 16;
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const APPLICATION_AT: usize = 68;
const CHANGES_THEN_AT: usize = 92;
const NEVER_WRITTEN: u64 = 1 << 30;
const HEAD: usize = 100;
const MIN_PAGE: u64 = 512;

/// The file of a database.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    /// Its name in messages.
    pub(super) place: Arc<str>,
    /// Shared by all who have the database open, so that nobody moves it away.
    lock: Option<fs::File>,
    /// The device and the number of the file that was opened.
    opened: Option<(u64, u64)>,
}

/// A damaged database that was moved away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// Its old path.
    pub from: PathBuf,
    /// Its new path.
    pub to: PathBuf,
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from.display(), self.to.display());
        write!(f, "the damaged database {from} is now {to}, unchanged; a new one starts in its place")
    }
}

impl DatabaseFile {
    pub(super) fn at(path: &Path) -> Self {
        let place = Arc::from(format!("the database {}", path.display()));
        Self { path: path.to_owned(), place, lock: None, opened: None }
    }

    /// Opens the database, or makes it.
    pub(super) fn open(mut self) -> Result<(Self, Connection), DatabaseError> {
        self.make_directory()?;
        self.lock = Some(self.ready()?);
        let mut connection = connection::open(&self.path, &self.place)?;
        self.opened = identity(&self.path).map_err(|error| self.io("be inspected", error))?;
        migrate::migrate(&mut connection, &self.place)?;
        Ok((self, connection))
    }

    /// Checks that the path still leads to the file that was opened. Else nobody who opens it later finds what is written.
    pub(super) fn check_in_place(&self) -> Result<(), DatabaseError> {
        match identity(&self.path) {
            Ok(found) if found == self.opened => Ok(()),
            Ok(_) => Err(DatabaseError::Replaced { place: self.place.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(DatabaseError::Replaced { place: self.place.to_string() })
            }
            Err(error) => Err(self.io("be inspected", error)),
        }
    }

    /// Takes the shared lock of an existing database. If the database is missing, the first process makes it.
    fn ready(&self) -> Result<fs::File, DatabaseError> {
        let failed = |error| self.io("be locked", error);
        let lock = self.lock_file()?;
        for _ in 0..MAX_TRIES {
            match lock.try_lock() {
                // The first process checks what the last one left.
                Ok(()) => {
                    self.check_left()?;
                    if !self.is_there()? {
                        self.begin()?;
                    }
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Wait for a process that makes it or moves it away.
            lock.lock_shared().map_err(failed)?;
            if self.is_there()? {
                return Ok(lock);
            }
            lock.unlock().map_err(failed)?;
            std::thread::yield_now();
        }
        // It is open, but its file is gone. A new file would be another database.
        Err(DatabaseError::InUse { place: self.place.to_string() })
    }

    /// Whether there is a database. An empty file is damage, because databases are made elsewhere and then renamed. A log
    /// without a database is damage too.
    fn is_there(&self) -> Result<bool, DatabaseError> {
        match fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(self.damaged("it is not a regular file")),
            Ok(found) => self.check_head(found.len()).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fs::metadata(self.beside("-wal")) {
                    Ok(log) if log.len() > 0 => Err(self.damaged("its file is missing, but its log exists")),
                    _ => Ok(false),
                }
            }
            Err(error) => Err(self.io("be inspected", error)),
        }
    }

    fn check_left(&self) -> Result<(), DatabaseError> {
        let failed = |error| self.io("be read", error);
        let left = wal::read(&self.beside("-wal")).map_err(failed)?;
        if left.is_damaged {
            return Err(self.damaged("its log is damaged in the middle"));
        }
        match self.lacks_pages(&left.pages) {
            Ok(false) => Ok(()),
            Ok(true) => Err(self.damaged(CUT)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether pages are missing from both the file and the log. Pages can be only in the log if a process was killed during
    /// a checkpoint.
    fn lacks_pages(&self, in_log: &BTreeSet<u32>) -> io::Result<bool> {
        let mut file = fs::File::open(&self.path)?;
        let (found, mut head) = (file.metadata()?, [0; HEAD]);
        let length = found.len();
        if !found.is_file() || length < MIN_PAGE {
            // The check of its head reports this.
            return Ok(false);
        }
        file.read_exact(&mut head)?;
        let size = match wal::number(&head, PAGE_SIZE_AT) >> 16 {
            1 => 1 << 16,
            size => u64::from(size),
        };
        // Files of old SQLite versions do not store the number of pages.
        let is_told = wal::number(&head, CHANGES_AT) == wal::number(&head, CHANGES_THEN_AT);
        if !head.starts_with(MAGIC) || size < MIN_PAGE || !is_told {
            return Ok(false);
        }
        let has = u32::try_from(length / size).unwrap_or(u32::MAX);
        let is_never_written = |page: u32| u64::from(page) == NEVER_WRITTEN / size + 1;
        let mut lacking = has.saturating_add(1)..=wal::number(&head, PAGES_AT);
        Ok(lacking.any(|page| !in_log.contains(&page) && !is_never_written(page)))
    }

    /// Checks the first bytes before SQLite does. SQLite would remove the log of a file that looks empty.
    fn check_head(&self, length: u64) -> Result<(), DatabaseError> {
        let mut head = [0; HEAD];
        if length < MIN_PAGE {
            return Err(self.damaged(if length == 0 { "it is empty" } else { CUT }));
        }
        let opened = fs::File::open(&self.path).and_then(|mut file| file.read_exact(&mut head));
        opened.map_err(|error| self.io("be read", error))?;
        if !head.starts_with(MAGIC) {
            return Err(self.damaged("it is not a database"));
        }
        let application = head.get(APPLICATION_AT..).and_then(|rest| rest.first_chunk().copied());
        if application.map(u32::from_be_bytes) != Some(connection::APPLICATION) {
            return Err(DatabaseError::Foreign { place: self.place.to_string() });
        }
        Ok(())
    }

    /// Makes a new database under a temporary name, and renames it when it is complete. The caller holds the exclusive lock,
    /// so that no other process does the same.
    fn begin(&self) -> Result<(), DatabaseError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let fresh = self.beside(&format!(".new-{}-{number}", std::process::id()));
        let made = self.make(&fresh).and_then(|()| match fs::hard_link(&fresh, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Some file systems have no hard links.
            Err(_) if !self.path.exists() => {
                fs::rename(&fresh, &self.path).map_err(|error| self.io("be made", error))
            }
            Err(error) => Err(self.io("be made", error)),
            Ok(()) => Ok(()),
        });
        // A leftover does no harm.
        for name in [fresh.clone(), appended(&fresh, "-wal"), appended(&fresh, "-shm")] {
            let _ = fs::remove_file(name);
        }
        made?;
        self.flush_directory()
    }

    fn make(&self, fresh: &Path) -> Result<(), DatabaseError> {
        // SQLite gives the log the same permissions.
        private()
            .write(true)
            .create(true)
            .truncate(true)
            .open(fresh)
            .map_err(|error| self.io("be made", error))?;
        connection::begin(fresh, &self.place)
    }

    /// Moves the database and the files beside it to a new name.
    pub(super) fn set_aside(&self) -> Result<SetAside, DatabaseError> {
        let failed = |error| self.io("be set aside", error);
        let lock = self.lock_file()?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DatabaseError::InUse { place: self.place.to_string() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let is_free =
            |path: &Path| !path.exists() && BESIDE.iter().all(|suffix| !appended(path, suffix).exists());
        let mut names = (1..u32::MAX).map(|number| self.beside(&format!(".damaged-{number}")));
        let to =
            names.find(|name| is_free(name)).ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))?;
        // The database first: if the process dies here, the remaining log shows it.
        for suffix in ["", BESIDE[0], BESIDE[1]] {
            match fs::rename(self.beside(suffix), appended(&to, suffix)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                moved => moved.map_err(failed)?,
            }
        }
        self.flush_directory()?;
        Ok(SetAside { from: self.path.clone(), to })
    }

    fn lock_file(&self) -> Result<fs::File, DatabaseError> {
        let opened = private().write(true).create(true).truncate(false).open(self.beside(".lock"));
        opened.map_err(|error| self.io("be locked", error))
    }

    fn make_directory(&self) -> Result<(), DatabaseError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        builder.mode(0o700);
        builder.create(self.directory()).map_err(|error| self.io("get a directory", error))
    }

    /// Flushes the directory, so that a new name survives a crash.
    fn flush_directory(&self) -> Result<(), DatabaseError> {
        #[cfg(unix)]
        fs::File::open(self.directory())
            .and_then(|directory| directory.sync_all())
            .map_err(|error| self.io("be made", error))?;
        Ok(())
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        appended(&self.path, suffix)
    }

    fn damaged(&self, problem: &str) -> DatabaseError {
        DatabaseError::damaged(&self.place, problem)
    }

    fn io(&self, action: &'static str, error: io::Error) -> DatabaseError {
        DatabaseError::failed(&self.place, action, error)
    }
}

fn appended(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The device and the number of a file. `None` on systems that have none.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    let found = fs::metadata(path)?;
    #[cfg(unix)]
    let identity = Some((found.dev(), found.ino()));
    #[cfg(not(unix))]
    let identity = found.is_file().then_some((0, 0));
    Ok(identity)
}

/// Options for a file that only this user can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    options
}
