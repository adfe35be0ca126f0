//! What a project brings, with a digest of each part.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use hmac_sha256::Hash;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::config::FILE_NAME;
use crate::project::Project;
use crate::terminal::shown;

/// How many files and directories a project may bring.
pub(crate) const MAX_FILES: usize = 10_000;
/// How many bytes they may have together.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// How deep they may lie below a directory of skills.
const MAX_DEPTH: usize = 32;

/// What an item of a project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// An entry of a directory of skills: mostly a skill.
    Skill,
    /// The project's prowess.toml.
    Configuration,
    /// What is told to the model about the project.
    Memory,
}

/// One thing that a project brings.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// The digest of all there is to it, or why it cannot be trusted.
    pub(crate) digest: Result<String, String>,
    /// Its files, by their paths below the item; whether they can be started.
    pub(crate) files: BTreeMap<String, bool>,
    pub(crate) bytes: u64,
}

/// What the project brings, by its path below the project's top.
pub(crate) fn items(project: &Project) -> BTreeMap<String, Item> {
    let mut walk = Walk { files: MAX_FILES, bytes: MAX_BYTES, found: BTreeMap::new() };
    match project.configuration() {
        Ok(None) => {}
        Ok(Some(source)) => {
            let digest = Ok(file_digest(&Hash::hash(&source.bytes)));
            walk.put(FILE_NAME, Item::of_file(ItemKind::Configuration, digest, source.bytes.len() as u64));
        }
        Err(error) => {
            // The item says itself which file it is.
            let problem = error.to_string();
            let name = project.top().join(FILE_NAME).display().to_string();
            let problem = problem.strip_prefix(&name).map_or(problem.as_str(), str::trim_start);
            walk.put(FILE_NAME, Item::of_file(ItemKind::Configuration, Err(problem.to_owned()), 0));
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(top) = rustix::fs::openat(CWD, project.top(), flags, Mode::empty()) {
        walk.memory(top.as_fd(), project.memory());
        for root in project.roots() {
            let Ok(relative) = root.path.strip_prefix(project.top()) else { continue };
            // A directory that leads out of the project is not scanned either.
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&top, relative, flags, Mode::empty(), resolve) {
                Ok(directory) => walk.root(directory.as_fd(), relative),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => {}
                // What cannot be looked at is not known to be as it was.
                Err(error) => walk.unfit(relative, &format!("cannot be read: {error}")),
            }
        }
    } else {
        walk.unfit(Path::new("."), "cannot be read");
    }
    walk.found
}

impl Item {
    fn of_file(kind: ItemKind, digest: Result<String, String>, bytes: u64) -> Self {
        Self { kind, digest, files: BTreeMap::new(), bytes }
    }
}

/// A walk with what is left of its bounds.
struct Walk {
    files: usize,
    bytes: u64,
    found: BTreeMap<String, Item>,
}

/// One item while it is looked at.
struct Seen {
    hash: Hash,
    files: BTreeMap<String, bool>,
    bytes: u64,
}

impl Walk {
    fn put(&mut self, path: &str, item: Item) {
        self.found.insert(path.to_owned(), item);
    }

    fn unfit(&mut self, path: &Path, problem: &str) {
        let item = Item::of_file(ItemKind::Skill, Err(problem.to_owned()), 0);
        self.put(&path.to_string_lossy(), item);
    }

    fn memory(&mut self, top: BorrowedFd<'_>, path: &Path) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(top, path, file_flags(), Mode::empty(), resolve);
        let (digest, bytes) = match opened {
            Err(Errno::NOENT) => return,
            Err(Errno::XDEV) => (Err("is a link that leads out of the project".to_owned()), 0),
            Err(error) => (Err(format!("cannot be read: {error}")), 0),
            Ok(file) => match self.contents(file) {
                Ok((contents, size)) => (Ok(file_digest(&contents)), size),
                Err(problem) => (Err(problem), 0),
            },
        };
        let digest = path.to_str().map_or_else(|| Err("has a name that is no text".to_owned()), |_| digest);
        self.put(&path.to_string_lossy(), Item::of_file(ItemKind::Memory, digest, bytes));
    }

    fn root(&mut self, root: BorrowedFd<'_>, relative: &Path) {
        let names = match names(root, ".") {
            Ok(names) => names,
            Err(problem) => return self.unfit(relative, &problem),
        };
        for name in names {
            let shown_name = name.to_string_lossy();
            let path = relative.join(&*shown_name).to_string_lossy().into_owned();
            let mut seen = Seen { hash: Hash::new(), files: BTreeMap::new(), bytes: 0 };
            seen.hash.update(b"prowess trust 1\0");
            let walked = match name.to_str() {
                Ok(name) => self.entry(root, name, "", 0, &mut seen),
                Err(_) => Err("has a name that is no text".to_owned()),
            };
            let digest = walked.map(|()| hex(&seen.hash.finalize()));
            self.put(&path, Item { kind: ItemKind::Skill, digest, files: seen.files, bytes: seen.bytes });
        }
    }

    /// Takes in what is at `path` below `root`; `below` is its path below the item.
    fn entry(
        &mut self,
        root: BorrowedFd<'_>,
        path: &str,
        below: &str,
        depth: usize,
        seen: &mut Seen,
    ) -> Result<(), String> {
        let place = if below.is_empty() { "it" } else { below };
        let unread = |error: Errno| format!("cannot be read whole: {}: {error}", shown(place));
        self.files = self.files.checked_sub(1).ok_or_else(|| too_large("files", MAX_FILES))?;
        if depth > MAX_DEPTH {
            return Err(format!("is more than {MAX_DEPTH} directories deep"));
        }
        let found = rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?;
        // No link on the way is followed, whatever is put there meanwhile.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                seen.add(b'd', false, below, &[]);
                for name in names(root, path)? {
                    let name = name.to_str().map_err(|_| "has a name that is no text".to_owned())?;
                    let inner = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
                    self.entry(root, &format!("{path}/{name}"), &inner, depth + 1, seen)?;
                }
            }
            FileType::RegularFile => {
                let file =
                    rustix::fs::openat2(root, path, file_flags(), Mode::empty(), resolve).map_err(unread)?;
                let mode = rustix::fs::fstat(&file).map_err(unread)?.st_mode;
                let is_program = mode & 0o111 != 0;
                let (contents, size) = self.contents(file)?;
                seen.add(b'f', is_program, below, &contents);
                seen.bytes += size;
                seen.files.insert(below.to_owned(), is_program);
            }
            FileType::Symlink => {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
                    // What it leads to is taken in where it is.
                    Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
                    Err(Errno::XDEV) if below.is_empty() => {
                        return Err("is a link that leads out of the directory of skills".to_owned());
                    }
                    Err(Errno::XDEV) => {
                        let place = shown(place);
                        return Err(format!("has a link that leads out of the directory of skills: {place}"));
                    }
                    Err(error) => return Err(unread(error)),
                }
                let target = rustix::fs::readlinkat(root, path, Vec::new()).map_err(unread)?;
                seen.add(b'l', false, below, target.as_bytes());
                seen.files.insert(below.to_owned(), false);
            }
            _ => return Err(format!("has something that is no file, directory or link: {}", shown(place))),
        }
        Ok(())
    }

    /// The digest of a file's contents, and how many bytes they are.
    fn contents(&mut self, file: OwnedFd) -> Result<([u8; 32], u64), String> {
        let mut file = File::from(file);
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err("is not a file".to_owned());
        }
        let (mut hash, mut size, mut buffer) = (Hash::new(), 0, vec![0; 64 * 1024]);
        loop {
            let read = file.read(&mut buffer).map_err(|error| format!("cannot be read: {error}"))?;
            if read == 0 {
                return Ok((hash.finalize(), size));
            }
            self.bytes = self.bytes.checked_sub(read as u64).ok_or_else(|| too_large("bytes", MAX_BYTES))?;
            size += read as u64;
            hash.update(&buffer[..read]);
        }
    }
}

impl Seen {
    fn add(&mut self, kind: u8, is_program: bool, path: &str, contents: &[u8]) {
        self.hash.update([kind, u8::from(is_program)]);
        for part in [path.as_bytes(), contents] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }
}

fn too_large(what: &str, most: impl std::fmt::Display) -> String {
    format!("makes the project's skills larger than {most} {what}")
}

fn file_flags() -> OFlags {
    // Without O_NONBLOCK a FIFO would wait for its writer.
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// The names in a directory, in order.
fn names(root: BorrowedFd<'_>, path: &str) -> Result<Vec<CString>, String> {
    let unread = |error: Errno| format!("cannot be read whole: {}: {error}", shown(path));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let directory = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).map_err(unread)?;
    let mut names = Vec::new();
    for entry in Dir::new(directory).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
        if names.len() > MAX_FILES {
            return Err(too_large("files", MAX_FILES));
        }
    }
    names.sort();
    Ok(names)
}

fn file_digest(contents: &[u8; 32]) -> String {
    hex(contents)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
