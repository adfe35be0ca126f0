//! What a project brings, entry by entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use hmac_sha256::Hash;
use prowess_base::beneath::{self, FILE, Follow};
use prowess_base::hex::encode;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::entry::{Allowance, Entry, contents, names};
use super::places::{Lead, Place, Places};
use super::{FileKind, Item, ItemKind};
use crate::config::FILE_NAME;
use crate::project::Project;

/// How many files and directories a project may bring.
pub(super) const MAX_FILES: usize = 10_000;
/// How many bytes they may have together.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// How many files and directories are counted to find out which entries fit.
const MAX_COUNTED: usize = 10 * MAX_FILES;

/// What a look at a project is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To compare digests.
    Compare,
    /// To show a person what there is: texts are kept as they were hashed.
    Show,
}

/// What the project brings, by its path below the project's top.
///
/// Its entries share one allowance of files and bytes. What is remembered is taken in first, and then the smallest, so
/// that neither a huge entry nor many new ones keep others from being known. What does not fit cannot be trusted.
pub(super) fn items(
    project: &Project,
    purpose: Purpose,
    remembered: &BTreeSet<&str>,
) -> BTreeMap<String, Item> {
    let is_new = |candidate: &Candidate<'_>| !remembered.contains(candidate.path.as_str());
    let mut found = BTreeMap::new();
    if let Some(item) = configuration(project) {
        found.insert(FILE_NAME.to_owned(), item);
    }
    let places = match Places::of(project) {
        Ok(places) => places,
        Err(error) => {
            found.insert(".".to_owned(), Item::unfit(ItemKind::Directory, unread(error)));
            return found;
        }
    };
    for (path, error) in &places.unread {
        // What cannot be looked at is not known to be as it was.
        found.insert(path.clone(), Item::unfit(ItemKind::Directory, unread(*error)));
    }
    let mut candidates: Vec<Candidate<'_>> = memory(places.top(), project.memory()).into_iter().collect();
    for root in &places.roots {
        candidates.append(&mut entries(&places, root, remembered, &mut found));
    }
    candidates.sort_by_key(|candidate| (is_new(candidate), candidate.path.clone()));
    let mut counted = MAX_COUNTED;
    let mut measured: Vec<(Allowance, Candidate<'_>)> = Vec::new();
    for candidate in candidates {
        match candidate.measure(places.top(), &mut counted) {
            Ok(size) => measured.push((size, candidate)),
            Err(problem) => candidate.put(Item::unfit(candidate.kind(), problem), &mut found),
        }
    }
    measured.sort_by_key(|(size, candidate)| (is_new(candidate), size.bytes, size.files));
    let mut left = Allowance { files: MAX_FILES, bytes: MAX_BYTES };
    for (size, candidate) in measured {
        let item = match left.without(size) {
            Err(problem) => Item::unfit(candidate.kind(), problem),
            Ok(rest) => {
                left = rest;
                candidate.item(&places, size, purpose)
            }
        };
        candidate.put(item, &mut found);
    }
    found
}

fn unread(error: Errno) -> String {
    format!("cannot be read: {error}")
}

/// The digest of a file that is an item by itself.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    encode(&Hash::hash(bytes))
}

fn configuration(project: &Project) -> Option<Item> {
    Some(match project.configuration() {
        Ok(None) => return None,
        Ok(Some(source)) => Item {
            digest: Ok(digest_of(&source.bytes)),
            bytes: source.bytes.len() as u64,
            ..Item::new(ItemKind::Configuration)
        },
        Err(error) => {
            // The item says itself which file it is.
            let problem = error.to_string();
            let name = project.top().join(FILE_NAME).display().to_string();
            let problem = problem.strip_prefix(&name).map_or(problem.as_str(), str::trim_start);
            Item::unfit(ItemKind::Configuration, problem.to_owned())
        }
    })
}

/// Something that may be an item, once it is known how large it is.
struct Candidate<'a> {
    path: String,
    what: What<'a>,
}

enum What<'a> {
    Memory,
    /// What has this name in a directory of skills.
    Entry(&'a Place, String),
}

impl Candidate<'_> {
    fn kind(&self) -> ItemKind {
        match self.what {
            What::Memory => ItemKind::Memory,
            What::Entry(..) => ItemKind::Skill,
        }
    }

    /// How large it is, without reading it.
    fn measure(&self, top: BorrowedFd<'_>, counted: &mut usize) -> Result<Allowance, String> {
        let (base, name) = match &self.what {
            What::Memory => (top, self.path.as_str()),
            What::Entry(root, name) => (root.directory.as_fd(), name.as_str()),
        };
        let mut size = Allowance { files: 0, bytes: 0 };
        if let What::Memory = self.what {
            // It may be a link to a file of the project.
            let found = rustix::fs::statat(base, name, AtFlags::empty());
            size = Allowance { files: 1, bytes: found.map_or(0, |found| found.st_size.unsigned_abs()) };
        } else {
            size.measure(base, name, 0, counted)?;
        }
        Allowance { files: MAX_FILES, bytes: MAX_BYTES }.without(size).map(|_| size)
    }

    fn item(&self, places: &Places, allowed: Allowance, purpose: Purpose) -> Item {
        match &self.what {
            What::Memory => memory_item(places.top(), &self.path, allowed, purpose),
            What::Entry(root, name) => {
                let mut entry = Entry::new(places, root, allowed, purpose);
                let walked = entry.walk(name);
                entry.finish(walked, &self.path)
            }
        }
    }

    /// An entry of a directory of skills stands over a memory in the same place: its digest says more.
    fn put(&self, item: Item, found: &mut BTreeMap<String, Item>) {
        match self.what {
            What::Memory => {
                found.entry(self.path.clone()).or_insert(item);
            }
            What::Entry(..) => {
                found.insert(self.path.clone(), item);
            }
        }
    }
}

/// The entries of a directory of skills, without those that cannot be trusted, which are put where they are found, and
/// without links to skills in other directories of the project, which are trusted there.
fn entries<'a>(
    places: &Places,
    root: &'a Place,
    remembered: &BTreeSet<&str>,
    found: &mut BTreeMap<String, Item>,
) -> Vec<Candidate<'a>> {
    let directory = root.directory.as_fd();
    let mut unfit = |kind: ItemKind, path: &str, problem: String| {
        found.insert(path.to_owned(), Item::unfit(kind, problem));
    };
    let mut all = match names(directory, ".") {
        Ok(all) => all,
        Err(problem) => {
            unfit(ItemKind::Directory, &root.path, problem);
            return Vec::new();
        }
    };
    if all.is_cut {
        // Of more than can be looked at, those are looked at that are remembered.
        let problem = format!("has more than {MAX_FILES} entries; only those that you know are looked at");
        unfit(ItemKind::Directory, &root.path, problem);
        let known = remembered.iter().filter_map(|path| path.strip_prefix(&root.path)?.strip_prefix('/'));
        let known = known.filter(|name| beneath::stat(directory, *name).is_ok());
        all.names = known.map(OsString::from).collect();
    }
    let mut candidates = Vec::new();
    for name in all.names {
        let path = format!("{}/{}", root.path, name.to_string_lossy());
        let Ok(name) = name.into_string() else {
            unfit(ItemKind::Skill, &path, "has a name that is no text".to_owned());
            continue;
        };
        match link_of(places, root, &name) {
            Some(Lead::Within(entries))
                if !entries.is_empty() && !entries.iter().any(|path| root.has(path)) => {}
            Some(Lead::Out) => {
                let problem = "is a link that leads out of the project's directories of skills";
                unfit(ItemKind::Skill, &path, problem.to_owned());
            }
            _ => candidates.push(Candidate { path, what: What::Entry(root, name) }),
        }
    }
    candidates
}

impl Place {
    /// Whether `path` is this directory, or one of its entries.
    fn has(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// Where the entry of this name leads, if it is a link.
fn link_of(places: &Places, root: &Place, name: &str) -> Option<Lead> {
    let found = beneath::stat(&root.directory, name).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return None;
    }
    let target = rustix::fs::readlinkat(&root.directory, name, Vec::new()).ok()?;
    Some(places.lead(root, name, target.as_bytes()))
}

/// The memory of the working directory, if there is one.
fn memory<'a>(top: BorrowedFd<'_>, path: &Path) -> Option<Candidate<'a>> {
    beneath::stat(top, path).ok()?;
    Some(Candidate { path: path.to_string_lossy().into_owned(), what: What::Memory })
}

fn memory_item(top: BorrowedFd<'_>, path: &str, mut allowed: Allowance, purpose: Purpose) -> Item {
    let file = match beneath::open(top, path, FILE, Follow::Beneath) {
        Ok(file) => file,
        Err(Errno::XDEV) => {
            return Item::unfit(ItemKind::Memory, "is a link that leads out of the project".to_owned());
        }
        Err(error) => return Item::unfit(ItemKind::Memory, unread(error)),
    };
    let mut kept = (purpose == Purpose::Show).then(Vec::new);
    match contents(file, &mut allowed, kept.as_mut()) {
        Ok((digest, bytes)) => Item {
            digest: Ok(encode(&digest)),
            bytes,
            texts: kept.into_iter().map(|text| (String::new(), text)).collect(),
            ..Item::new(ItemKind::Memory)
        },
        Err(problem) => Item::unfit(ItemKind::Memory, problem),
    }
}

impl Item {
    pub(super) fn new(kind: ItemKind) -> Self {
        Self {
            kind,
            digest: Err(String::new()),
            files: BTreeMap::<String, FileKind>::new(),
            bytes: 0,
            leads_to: BTreeSet::new(),
            texts: BTreeMap::new(),
        }
    }

    fn unfit(kind: ItemKind, problem: String) -> Self {
        Self { digest: Err(problem), ..Self::new(kind) }
    }
}
