//! One entry of a directory of skills: everything below it, in one digest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use hmac_sha256::Hash;
use prowess_base::beneath::{self, DIRECTORY, FILE, Follow};
use prowess_base::hex::encode;
use prowess_catalog::skill::MANIFEST;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::places::{Lead, Place, Places};
use super::walk::{MAX_BYTES, MAX_FILES, Purpose};
use super::{FileKind, Item, ItemKind};
use crate::terminal::shown;

/// How deep files may lie below a directory of skills.
const MAX_DEPTH: usize = 32;

/// How many files and directories, and how many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Allowance {
    /// What is left once something of this size is taken in.
    pub(super) fn without(self, size: Self) -> Result<Self, String> {
        Ok(Self {
            files: self.files.checked_sub(size.files).ok_or_else(|| too_large("files", MAX_FILES))?,
            bytes: self.bytes.checked_sub(size.bytes).ok_or_else(|| too_large("bytes", MAX_BYTES))?,
        })
    }

    /// Adds what is at `path`. What cannot be looked at counts as one file: whoever reads it says why.
    pub(super) fn measure(
        &mut self,
        base: BorrowedFd<'_>,
        path: &str,
        depth: usize,
        counted: &mut usize,
    ) -> Result<(), String> {
        self.files += 1;
        *counted = counted.checked_sub(1).ok_or_else(|| too_large("files", MAX_FILES))?;
        if self.files > MAX_FILES {
            return Err(too_large("files", MAX_FILES));
        }
        let Ok(found) = beneath::stat(base, path) else { return Ok(()) };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => self.bytes = self.bytes.saturating_add(found.st_size.unsigned_abs()),
            FileType::Directory if depth <= MAX_DEPTH => {
                let Ok(all) = names(base, path) else { return Ok(()) };
                if all.is_cut {
                    return Err(too_large("files", MAX_FILES));
                }
                for name in all.names {
                    let Some(name) = name.to_str() else { continue };
                    self.measure(base, &format!("{path}/{name}"), depth + 1, counted)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An entry while it is looked at.
pub(super) struct Entry<'a> {
    places: &'a Places,
    root: &'a Place,
    /// What is left of what was measured.
    left: Allowance,
    purpose: Purpose,
    hash: Hash,
    files: BTreeMap<String, FileKind>,
    bytes: u64,
    leads_to: BTreeSet<String>,
    texts: BTreeMap<String, Vec<u8>>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(places: &'a Places, root: &'a Place, left: Allowance, purpose: Purpose) -> Self {
        let mut hash = Hash::new();
        hash.update(b"prowess trust 1\0");
        Self {
            places,
            root,
            left,
            purpose,
            hash,
            files: BTreeMap::new(),
            bytes: 0,
            leads_to: BTreeSet::new(),
            texts: BTreeMap::new(),
        }
    }

    /// Takes in everything that has this name in the directory of skills.
    pub(super) fn walk(&mut self, name: &str) -> Result<(), String> {
        self.take(name, "", 0)
    }

    /// The item at `path` below the project's top, once all of it was taken in.
    pub(super) fn finish(mut self, walked: Result<(), String>, path: &str) -> Item {
        self.leads_to.remove(path);
        Item {
            kind: ItemKind::Skill,
            digest: walked.map(|()| encode(&self.hash.finalize())),
            files: self.files,
            bytes: self.bytes,
            leads_to: self.leads_to,
            texts: self.texts,
        }
    }

    /// Takes in what is at `path` below the directory of skills; `below` is its path below the entry.
    fn take(&mut self, path: &str, below: &str, depth: usize) -> Result<(), String> {
        let place = if below.is_empty() { "it" } else { below };
        let unread = |error: Errno| format!("cannot be read whole: {}: {error}", shown(place));
        let base = self.root.directory.as_fd();
        self.left.files = self.left.files.checked_sub(1).ok_or_else(changing)?;
        if depth > MAX_DEPTH {
            return Err(format!("is more than {MAX_DEPTH} directories deep"));
        }
        let found = beneath::stat(base, path).map_err(unread)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                self.add(b'd', false, below, &[]);
                let all = names(base, path)?;
                if all.is_cut {
                    return Err(too_large("files", MAX_FILES));
                }
                for name in all.names {
                    let name = name.to_str().ok_or("has a name that is no text")?;
                    let inner = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
                    self.take(&format!("{path}/{name}"), &inner, depth + 1)?;
                }
            }
            FileType::RegularFile => {
                // No link on the way is followed, whatever is put there meanwhile.
                let file = beneath::open(base, path, FILE, Follow::Never).map_err(unread)?;
                let mode = rustix::fs::fstat(&file).map_err(unread)?.st_mode;
                let is_program = mode & 0o111 != 0;
                let is_manifest = below.rsplit('/').next() == Some(MANIFEST);
                let mut kept = (is_manifest && self.purpose == Purpose::Show).then(Vec::new);
                let (contents, size) = contents(file, &mut self.left, kept.as_mut())?;
                self.add(b'f', is_program, below, &contents);
                self.bytes += size;
                self.texts.extend(kept.map(|text| (below.to_owned(), text)));
                let kind = if is_program { FileKind::Program } else { FileKind::Plain };
                self.files.insert(below.to_owned(), kind);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(base, path, Vec::new()).map_err(unread)?;
                match self.places.lead(self.root, path, target.as_bytes()) {
                    // What it leads to is taken in where it is.
                    Lead::Within(entries) => self.leads_to.extend(entries),
                    Lead::NoText => {
                        return Err(format!("has a link whose target is no text: {}", shown(place)));
                    }
                    Lead::Out => {
                        let place = shown(place);
                        let out = "has a link that leads out of the project's directories of skills";
                        return Err(format!("{out}: {place}"));
                    }
                }
                self.add(b'l', false, below, target.as_bytes());
                let target = FileKind::Link(target.to_string_lossy().into_owned());
                self.files.insert(below.to_owned(), target);
            }
            _ => return Err(format!("has something that is no file, directory or link: {}", shown(place))),
        }
        Ok(())
    }

    fn add(&mut self, kind: u8, is_program: bool, path: &str, contents: &[u8]) {
        self.hash.update([kind, u8::from(is_program)]);
        for part in [path.as_bytes(), contents] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }
}

/// The digest of a file's contents, and how many bytes they are. They are kept where there is something to keep them in.
pub(super) fn contents(
    file: OwnedFd,
    left: &mut Allowance,
    mut kept: Option<&mut Vec<u8>>,
) -> Result<([u8; 32], u64), String> {
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
        left.bytes = left.bytes.checked_sub(read as u64).ok_or_else(changing)?;
        size += read as u64;
        hash.update(&buffer[..read]);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&buffer[..read]);
        }
    }
}

/// What is said of an entry that is larger than it was a moment ago.
fn changing() -> String {
    "changes while it is looked at".to_owned()
}

pub(super) fn too_large(what: &str, most: impl std::fmt::Display) -> String {
    format!("makes the project's skills larger than {most} {what}")
}

/// The names in a directory, in order.
pub(super) struct Names {
    pub(super) names: Vec<OsString>,
    /// Whether there are more than a project may bring, and these are not all.
    pub(super) is_cut: bool,
}

/// Reads the names in a directory.
pub(super) fn names(base: BorrowedFd<'_>, path: &str) -> Result<Names, String> {
    let unread = |error: Errno| format!("cannot be read whole: {}: {error}", shown(path));
    let directory = beneath::open(base, path, DIRECTORY, Follow::Never).map_err(unread)?;
    let mut names: Vec<OsString> = Vec::new();
    let listed = beneath::list(directory, |name, _| {
        names.push(name.to_owned());
        if names.len() > MAX_FILES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    listed.map_err(unread)?;
    names.sort();
    let is_cut = names.len() > MAX_FILES;
    Ok(Names { names, is_cut })
}
