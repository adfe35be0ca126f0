//! The digest of one entry of a skill directory, over everything below it.

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

use super::approved_change::{ApprovedChange, Changed};
use super::items::{MAX_BYTES, MAX_FILES, Purpose};
use super::links::{LinkTarget, SkillDirectories, SkillDirectory};
use super::{BeforeChange, FileKind, Item, ItemKind};
use crate::agent_files;
use crate::terminal::printable;

/// How deep files may be below a skill directory.
const MAX_DEPTH: usize = 32;

/// A number of files and directories, and of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Allowance {
    /// What is left after something of this size.
    pub(super) fn without(self, size: Self) -> Result<Self, String> {
        Ok(Self {
            files: self.files.checked_sub(size.files).ok_or_else(|| too_large("files", MAX_FILES))?,
            bytes: self.bytes.checked_sub(size.bytes).ok_or_else(|| too_large("bytes", MAX_BYTES))?,
        })
    }

    /// Adds the size of what is at `path`. What cannot be read counts as one file; reading it later says why.
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

/// An entry while its digest is computed.
pub(super) struct Entry<'a> {
    directories: &'a SkillDirectories,
    root: &'a SkillDirectory,
    /// What is left of the measured size.
    left: Allowance,
    purpose: Purpose<'a>,
    hash: Hash,
    /// The same without an approved change, if the entry has the changed file.
    hash_before: Hash,
    changed: Option<Changed>,
    files: BTreeMap<String, FileKind>,
    bytes: u64,
    leads_to: BTreeSet<String>,
    texts: BTreeMap<String, Vec<u8>>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        directories: &'a SkillDirectories,
        root: &'a SkillDirectory,
        left: Allowance,
        purpose: Purpose<'a>,
    ) -> Self {
        let mut hash = Hash::new();
        hash.update(b"prowess trust 1\0");
        Self {
            directories,
            root,
            left,
            purpose,
            hash_before: hash,
            hash,
            changed: None,
            files: BTreeMap::new(),
            bytes: 0,
            leads_to: BTreeSet::new(),
            texts: BTreeMap::new(),
        }
    }

    /// Adds the entry of this name, with everything below it.
    pub(super) fn walk(&mut self, name: &str) -> Result<(), String> {
        self.take(name, "", 0)
    }

    /// Adds what is at `path` below the skill directory; `below` is its path below the entry.
    fn take(&mut self, path: &str, below: &str, depth: usize) -> Result<(), String> {
        self.left.files = self.left.files.checked_sub(1).ok_or_else(changing)?;
        if depth > MAX_DEPTH {
            return Err(format!("is more than {MAX_DEPTH} directories deep"));
        }
        let base = self.root.directory.as_fd();
        let found = beneath::stat(base, path).map_err(unread(below))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => self.take_directory(path, below, depth),
            FileType::RegularFile => self.take_file(path, below),
            FileType::Symlink => self.take_link(path, below),
            _ => Err(format!(
                "contains something that is not a file, directory or link: {}",
                printable(name(below))
            )),
        }
    }

    fn take_directory(&mut self, path: &str, below: &str, depth: usize) -> Result<(), String> {
        let is_new = self.change_at(path).is_some_and(|(change, place)| change.made_directory(&place));
        self.add(b'd', false, below, &[], if is_new { Before::Missing } else { Before::Same });
        let all = names(self.root.directory.as_fd(), path)?;
        if all.is_cut {
            return Err(too_large("files", MAX_FILES));
        }
        for name in all.names {
            let name = name.to_str().ok_or("has a name that is not valid text")?;
            let inner = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            self.take(&format!("{path}/{name}"), &inner, depth + 1)?;
        }
        Ok(())
    }

    fn take_file(&mut self, path: &str, below: &str) -> Result<(), String> {
        let base = self.root.directory.as_fd();
        // No link on the way is followed, even if one appears meanwhile.
        let file = beneath::open(base, path, FILE, Follow::Never).map_err(unread(below))?;
        let mode = rustix::fs::fstat(&file).map_err(unread(below))?.st_mode;
        let is_program = mode & 0o111 != 0;
        let is_manifest = below.rsplit('/').next() == Some(MANIFEST);
        // The definition of a sub-agent is used as it was hashed.
        let is_agent = self.root.kind == ItemKind::Agent && agent_files::is_definition(path);
        let mut copy = (is_agent || is_manifest && self.purpose.shows()).then(Vec::new);
        let (contents, size) = contents(file, &mut self.left, copy.as_mut())?;
        let change = self.change_at(path).filter(|(change, place)| change.is_of(place));
        let before = match change.map(|(change, _)| change.judge(&contents)) {
            None => Before::Same,
            Some(seen) => {
                self.changed = Some(seen);
                match seen {
                    Changed::Approved(Some(digest)) => Before::Contents(digest),
                    Changed::Approved(None) | Changed::Foreign => Before::Missing,
                }
            }
        };
        self.add(b'f', is_program, below, &contents, before);
        self.bytes += size;
        self.texts.extend(copy.map(|text| (below.to_owned(), text)));
        let kind = if is_program { FileKind::Program } else { FileKind::Plain };
        self.files.insert(below.to_owned(), kind);
        Ok(())
    }

    fn take_link(&mut self, path: &str, below: &str) -> Result<(), String> {
        let base = self.root.directory.as_fd();
        let target = rustix::fs::readlinkat(base, path, Vec::new()).map_err(unread(below))?;
        let place = printable(name(below));
        match self.directories.target_of(self.root, path, target.as_bytes()) {
            // The target is added where it is.
            LinkTarget::Within(entries) => self.leads_to.extend(entries),
            LinkTarget::NoText => {
                return Err(format!("has a link whose target is not valid text: {place}"));
            }
            LinkTarget::Out => {
                let out = "has a link that leads out of the project's skill directories";
                return Err(format!("{out}: {place}"));
            }
        }
        self.add(b'l', false, below, target.as_bytes(), Before::Same);
        let target = FileKind::Link(target.to_string_lossy().into_owned());
        self.files.insert(below.to_owned(), target);
        Ok(())
    }

    /// The approved change, with the path of `path` below the top.
    fn change_at(&self, path: &str) -> Option<(&'a ApprovedChange, String)> {
        let Purpose::Verify(change) = self.purpose else { return None };
        Some((change, format!("{}/{path}", self.root.real)))
    }

    /// Adds one entry to the digest, and to the digest before the change.
    fn add(&mut self, kind: u8, is_program: bool, path: &str, contents: &[u8], before: Before) {
        update(&mut self.hash, kind, is_program, path, contents);
        if !self.purpose.verifies() {
            return;
        }
        match before {
            Before::Missing => {}
            Before::Same => update(&mut self.hash_before, kind, is_program, path, contents),
            Before::Contents(digest) => update(&mut self.hash_before, kind, is_program, path, &digest),
        }
    }

    /// The item at `path` below the project's top, after everything was added.
    pub(super) fn finish(mut self, walked: Result<(), String>, path: &str) -> Item {
        self.leads_to.remove(path);
        Item {
            kind: self.root.kind,
            before: match self.changed {
                Some(Changed::Approved(_)) if walked.is_ok() => {
                    BeforeChange::Digest(encode(&self.hash_before.finalize()))
                }
                Some(_) => BeforeChange::Unknown,
                None => BeforeChange::Unaffected,
            },
            digest: walked.map(|()| encode(&self.hash.finalize())),
            files: self.files,
            bytes: self.bytes,
            leads_to: self.leads_to,
            texts: self.texts,
        }
    }
}

/// What a file or directory was before an approved change.
#[derive(Clone, Copy)]
enum Before {
    Same,
    Missing,
    /// A file whose contents had this digest.
    Contents([u8; 32]),
}

/// Adds one entry to a digest, with the lengths of its fields.
fn update(hash: &mut Hash, kind: u8, is_program: bool, path: &str, contents: &[u8]) {
    hash.update([kind, u8::from(is_program)]);
    for part in [path.as_bytes(), contents] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
}

/// How an entry is named in a problem: by its path below the item, if it has one.
fn name(below: &str) -> &str {
    if below.is_empty() { "it" } else { below }
}

fn unread(below: &str) -> impl Fn(Errno) -> String {
    let place = printable(name(below));
    move |error| format!("cannot be read completely: {place}: {error}")
}

/// The digest and size of a file's contents. If `copy` is given, the contents are copied into it.
pub(super) fn contents(
    file: OwnedFd,
    left: &mut Allowance,
    mut copy: Option<&mut Vec<u8>>,
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
        if let Some(copy) = &mut copy {
            copy.extend_from_slice(&buffer[..read]);
        }
    }
}

/// The problem of an entry that grew while it was read.
fn changing() -> String {
    "changed while it was being read".to_owned()
}

pub(super) fn too_large(what: &str, most: impl std::fmt::Display) -> String {
    format!("makes the project's skills larger than {most} {what}")
}

/// The names in a directory, in order.
pub(super) struct Names {
    pub(super) names: Vec<OsString>,
    /// Whether there are more names than a project may have, so that some are missing here.
    pub(super) is_cut: bool,
}

/// Reads the names in a directory.
pub(super) fn names(base: BorrowedFd<'_>, path: &str) -> Result<Names, String> {
    let unread = |error: Errno| format!("cannot be read completely: {}: {error}", printable(path));
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
