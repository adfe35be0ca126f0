//! Lists the files of local directories, with their digests. Commands wrote these files, so nothing in them is trusted.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::time::SystemTime;

use rustix::fs::{FileType, Stat, fstat};

use super::known::{KnownFile, KnownFiles, changed};
use super::left_out::LeftOuts;
use super::list::MAX_DIRECTORIES;
use super::{
    ContentDigest, Inventory, InventoryFile, LeftOutReason, MAX_BYTES, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES,
    MAX_PATH, MAX_PATH_BYTES,
};
use crate::dir::{Dir, NoFile};
use crate::path::escaped_name;

/// The most entries of directories that are looked at.
const MAX_ENTRIES: usize = 200_000;
/// How much is read at once.
const BUFFER: usize = 64 * 1024;

/// A directory to scan, and where it is in the tree.
#[derive(Debug)]
pub(super) struct ScanRoot<'a> {
    pub(super) at: &'a str,
    pub(super) directory: &'a Dir,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) inventory: Inventory,
    pub(super) known: HashMap<String, KnownFile>,
}

/// Lists these directories, in this order: if there is too much, what comes last is left out. `standing` directories are
/// always there, and not listed if they are empty.
pub(super) fn scan(roots: &[ScanRoot<'_>], standing: &[&str], known: &KnownFiles) -> io::Result<Scan> {
    let mut walk = Walk {
        known,
        standing,
        files: Vec::new(),
        empty: Vec::new(),
        left_out: LeftOuts::default(),
        read: HashMap::new(),
        bytes: 0,
        path_bytes: 0,
        entries: MAX_ENTRIES,
    };
    for root in roots {
        walk.directory(root.directory, root.at, 0)?;
    }
    let inventory = Inventory::new(walk.files, walk.empty, walk.left_out.into_list());
    Ok(Scan { inventory, known: walk.read })
}

struct Walk<'a> {
    known: &'a KnownFiles,
    standing: &'a [&'a str],
    files: Vec<InventoryFile>,
    empty: Vec<String>,
    left_out: LeftOuts,
    read: HashMap<String, KnownFile>,
    bytes: u64,
    /// The bytes of all paths, as an inventory spells them.
    path_bytes: usize,
    /// How many more entries are looked at.
    entries: usize,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Dir, at: &str, depth: usize) -> io::Result<()> {
        let (entries, more) = directory.entries(self.entries)?;
        self.entries -= entries.len();
        if more {
            self.left_out.add(LeftOutReason::TooMany, || format!("/{at}/…"));
        }
        for (name, kind) in entries {
            let Some(path) = path(at, &name) else {
                self.left_out.add(LeftOutReason::Name, || format!("/{at}/{}", escaped_name(&name)));
                continue;
            };
            match kind {
                FileType::Directory if depth == MAX_DEPTH => self.leave_out(LeftOutReason::TooDeep, &path),
                FileType::Directory => self.below(directory, &name, &path, depth)?,
                FileType::RegularFile => self.file(directory, &name, path)?,
                FileType::Symlink => self.leave_out(LeftOutReason::Link, &path),
                _ => self.leave_out(LeftOutReason::Special, &path),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, reason: LeftOutReason, path: &str) {
        self.left_out.add(reason, || format!("/{}", escaped_name(path.as_ref())));
    }

    fn below(&mut self, parent: &Dir, name: &OsStr, path: &str, depth: usize) -> io::Result<()> {
        let below = match parent.dir(name) {
            Ok(below) => below,
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(_) => {
                self.leave_out(LeftOutReason::Unreadable, path);
                return Ok(());
            }
        };
        let before = (self.files.len(), self.empty.len());
        // One that can be opened and not listed is no reason to lose the others.
        if self.directory(&below, path, depth + 1).is_err() {
            self.leave_out(LeftOutReason::Unreadable, path);
        }
        if (self.files.len(), self.empty.len()) == before && !self.standing.contains(&path) {
            if self.empty.len() == MAX_DIRECTORIES {
                self.leave_out(LeftOutReason::TooMany, path);
            } else if self.path_bytes + spelled(path) > MAX_PATH_BYTES {
                self.leave_out(LeftOutReason::LongPaths, path);
            } else {
                self.path_bytes += spelled(path);
                self.empty.push(path.to_owned());
            }
        }
        Ok(())
    }

    fn file(&mut self, directory: &Dir, name: &OsStr, path: String) -> io::Result<()> {
        // It may have vanished.
        let Some(stat) = directory.entry(name)? else { return Ok(()) };
        let bytes = stat.st_size.unsigned_abs();
        let full = if bytes > MAX_FILE_BYTES {
            Some(LeftOutReason::TooLarge)
        } else if self.files.len() == MAX_FILES {
            Some(LeftOutReason::TooMany)
        } else if self.bytes + bytes > MAX_BYTES {
            Some(LeftOutReason::NoRoom)
        } else if self.path_bytes + spelled(&path) > MAX_PATH_BYTES {
            Some(LeftOutReason::LongPaths)
        } else {
            None
        };
        if let Some(reason) = full {
            self.leave_out(reason, &path);
            return Ok(());
        }
        let known = self.known.files.get(&path).filter(|known| known.digest_of(&stat).is_some());
        let (known, bytes, executable) = match known {
            Some(known) => (known.clone(), bytes, is_executable(&stat)),
            None => match read(directory, name) {
                Ok(Some(read)) => (read.known, read.bytes, read.executable),
                Ok(None) => return Ok(()),
                Err(reason) => {
                    self.leave_out(reason, &path);
                    return Ok(());
                }
            },
        };
        self.bytes += bytes;
        self.path_bytes += spelled(&path);
        self.files.push(InventoryFile { path: path.clone(), bytes, digest: known.digest, executable });
        self.read.insert(path, known);
        Ok(())
    }
}

/// The most bytes that a path takes in an inventory.
fn spelled(path: &str) -> usize {
    path.bytes()
        .map(|byte| match byte {
            0..0x20 | 0x7f => 6,
            b'"' | b'\\' => 2,
            _ => 1,
        })
        .sum()
}

/// The path of an entry, if it can have one.
fn path(at: &str, name: &OsStr) -> Option<String> {
    let path = format!("{at}/{}", name.to_str()?);
    (path.len() <= MAX_PATH).then_some(path)
}

pub(super) fn is_executable(stat: &Stat) -> bool {
    stat.st_mode & 0o111 != 0
}

struct ReadFile {
    known: KnownFile,
    bytes: u64,
    executable: bool,
}

/// Reads a file; `None` if it vanished.
fn read(directory: &Dir, name: &OsStr) -> Result<Option<ReadFile>, LeftOutReason> {
    let begun = SystemTime::now();
    let (mut file, before) = match directory.file(name) {
        Ok(opened) => opened,
        Err(NoFile::Link) => return Err(LeftOutReason::Link),
        Err(NoFile::Special(_)) => return Err(LeftOutReason::Special),
        Err(NoFile::Directory) => return Ok(None),
        Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(NoFile::Io(_)) => return Err(LeftOutReason::Unreadable),
    };
    let mut hash = hmac_sha256::Hash::new();
    let (mut bytes, mut buffer) = (0, vec![0; BUFFER]);
    loop {
        let count = file.read(&mut buffer).map_err(|_| LeftOutReason::Unreadable)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        // It grows while it is read.
        if bytes > MAX_FILE_BYTES {
            return Err(LeftOutReason::TooLarge);
        }
        hash.update(&buffer[..count]);
    }
    let after = fstat(&file).map_err(|_| LeftOutReason::Unreadable)?;
    let digest = ContentDigest::from_hash(hash);
    // If it changed meanwhile, a time before the change has it read again.
    let is_whole = changed(&before) == changed(&after) && after.st_size.unsigned_abs() == bytes;
    let read_at = if is_whole { begun } else { SystemTime::UNIX_EPOCH };
    let known = KnownFile::new(&after, read_at, digest);
    Ok(Some(ReadFile { known, bytes, executable: is_executable(&after) }))
}
