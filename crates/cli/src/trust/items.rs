//! Finds the items of a project that need trust.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use hmac_sha256::Hash;
use prowess_agent::middleware::MAX_MEMORY_BYTES;
use prowess_base::beneath::{self, FILE, Follow};
use prowess_base::hex::encode;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Kind, Policy, RuleSource};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::approved_change::{ApprovedChange, Changed};
use super::digest::{Allowance, Entry, contents, names};
use super::links::{End, LinkTarget, SkillDirectories, SkillDirectory};
use super::{BeforeChange, FileKind, Item, ItemKind};
use crate::agent_files;
use crate::config::FILE_NAME;
use crate::project::Project;

/// How many files and directories the items may have together.
pub(super) const MAX_FILES: usize = 10_000;
/// How many bytes they may have together.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// How many files and directories are counted to find out which items fit.
const MAX_COUNTED: usize = 10 * MAX_FILES;

/// Why the items are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose<'a> {
    /// To compare digests.
    Compare,
    /// To show them to a person: texts are kept as they were hashed.
    Show,
    /// To compare digests, and to compute them as they were before this change.
    Verify(&'a ApprovedChange),
}

impl Purpose<'_> {
    pub(super) fn shows(self) -> bool {
        matches!(self, Self::Show)
    }

    pub(super) fn verifies(self) -> bool {
        matches!(self, Self::Verify(_))
    }
}

/// The items of a project, by their paths below its top.
///
/// The items share one limit of files and bytes. Known items come first, then the smallest, so that neither a huge
/// item nor many new ones push out others. What does not fit cannot be trusted.
pub(super) fn find_items(
    project: &Project,
    purpose: Purpose<'_>,
    remembered: &BTreeSet<&str>,
) -> BTreeMap<String, Item> {
    let is_new = |candidate: &Candidate<'_>| !remembered.contains(candidate.path.as_str());
    let mut found = BTreeMap::new();
    if let Some(item) = configuration(project, purpose) {
        found.insert(FILE_NAME.to_owned(), item);
    }
    let directories = match SkillDirectories::of(project) {
        Ok(directories) => directories,
        Err(error) => {
            found.insert(".".to_owned(), Item::unfit(ItemKind::Directory, unread(error)));
            return found;
        }
    };
    for (path, error) in &directories.unread {
        // What cannot be read may have changed.
        found.insert(path.clone(), Item::unfit(ItemKind::Directory, unread(*error)));
    }
    let mut candidates: Vec<Candidate<'_>> =
        project.memory().iter().filter_map(|path| memory(directories.top(), path)).collect();
    for root in &directories.roots {
        candidates.append(&mut entries(&directories, root, remembered, &mut found));
    }
    candidates.sort_by_key(|candidate| (is_new(candidate), candidate.path.clone()));
    let mut counted = MAX_COUNTED;
    let mut measured: Vec<(Allowance, Candidate<'_>)> = Vec::new();
    for candidate in candidates {
        match candidate.measure(directories.top(), &mut counted) {
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
                candidate.item(&directories, size, purpose)
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

fn configuration(project: &Project, purpose: Purpose<'_>) -> Option<Item> {
    Some(match project.configuration() {
        Ok(None) => return None,
        Ok(Some(source)) => Item {
            digest: Ok(digest_of(&source.bytes)),
            before: before(purpose, FILE_NAME, &Hash::hash(&source.bytes)),
            bytes: source.bytes.len() as u64,
            ..Item::new(ItemKind::Configuration)
        },
        Err(error) => {
            // The item already names the file.
            let problem = error.to_string();
            let name = project.top().join(FILE_NAME).display().to_string();
            let problem = problem.strip_prefix(&name).map_or(problem.as_str(), str::trim_start);
            Item::unfit(ItemKind::Configuration, problem.to_owned())
        }
    })
}

/// A possible item, whose size is not known yet.
struct Candidate<'a> {
    path: String,
    what: What<'a>,
}

enum What<'a> {
    Memory,
    /// The entry of this name in a skill directory.
    Entry(&'a SkillDirectory, String),
}

impl Candidate<'_> {
    fn kind(&self) -> ItemKind {
        match self.what {
            What::Memory => ItemKind::Memory,
            What::Entry(root, _) => root.kind,
        }
    }

    /// Its size, without reading it.
    fn measure(&self, top: BorrowedFd<'_>, counted: &mut usize) -> Result<Allowance, String> {
        let (base, name) = match &self.what {
            What::Memory => (top, self.path.as_str()),
            What::Entry(root, name) => (root.directory.as_fd(), name.as_str()),
        };
        let mut size = Allowance { files: 0, bytes: 0 };
        if let What::Memory = self.what {
            // It can be a link to a file of the project.
            let found = rustix::fs::statat(base, name, AtFlags::empty());
            size = Allowance { files: 1, bytes: found.map_or(0, |found| found.st_size.unsigned_abs()) };
        } else {
            size.measure(base, name, 0, counted)?;
        }
        Allowance { files: MAX_FILES, bytes: MAX_BYTES }.without(size).map(|_| size)
    }

    fn item(&self, directories: &SkillDirectories, allowed: Allowance, purpose: Purpose<'_>) -> Item {
        match &self.what {
            What::Memory => memory_item(directories, &self.path, allowed, purpose),
            What::Entry(root, name) => {
                let mut entry = Entry::new(directories, root, allowed, purpose);
                let walked = entry.walk(name);
                entry.finish(walked, &self.path)
            }
        }
    }

    /// If AGENTS.md is also an entry of a skill directory, that entry wins, because its digest covers more.
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

/// The entries of a skill directory. Entries that cannot be trusted go into `found`. Links to skills in other skill
/// directories are left out, because they are trusted there.
fn entries<'a>(
    directories: &SkillDirectories,
    root: &'a SkillDirectory,
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
        // If there are too many entries, only the known ones are read.
        let problem =
            format!("has more than {MAX_FILES} entries; only the ones that you decided about are read");
        unfit(ItemKind::Directory, &root.path, problem);
        let known = remembered.iter().filter_map(|path| path.strip_prefix(&root.path)?.strip_prefix('/'));
        let known = known.filter(|name| beneath::stat(directory, *name).is_ok());
        all.names = known.map(OsString::from).collect();
    }
    let mut candidates = Vec::new();
    for name in all.names {
        let path = format!("{}/{}", root.path, name.to_string_lossy());
        let Ok(name) = name.into_string() else {
            unfit(root.kind, &path, "has a name that is not valid text".to_owned());
            continue;
        };
        if root.kind == ItemKind::Agent && !agent_files::is_candidate(directory, &name) {
            continue;
        }
        match link_of(directories, root, &name) {
            Some(LinkTarget::Within(entries))
                if !entries.is_empty() && !entries.iter().any(|path| root.has(path)) => {}
            Some(LinkTarget::Out) => {
                let problem = "is a link that leads out of the project's skill directories";
                unfit(root.kind, &path, problem.to_owned());
            }
            _ => candidates.push(Candidate { path, what: What::Entry(root, name) }),
        }
    }
    candidates
}

impl SkillDirectory {
    /// Whether `path` is this directory or one of its entries.
    fn has(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// Where the entry of this name leads, if it is a link.
fn link_of(directories: &SkillDirectories, root: &SkillDirectory, name: &str) -> Option<LinkTarget> {
    let found = beneath::stat(&root.directory, name).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return None;
    }
    let target = rustix::fs::readlinkat(&root.directory, name, Vec::new()).ok()?;
    Some(directories.target_of(root, name, target.as_bytes()))
}

/// A memory file, if it exists.
fn memory<'a>(top: BorrowedFd<'_>, path: &Path) -> Option<Candidate<'a>> {
    // If only its way cannot be followed, opening it later says why.
    if matches!(beneath::stat(top, path), Err(Errno::NOENT | Errno::NOTDIR)) {
        return None;
    }
    Some(Candidate { path: path.to_string_lossy().into_owned(), what: What::Memory })
}

fn memory_item(
    directories: &SkillDirectories,
    path: &str,
    mut allowed: Allowance,
    purpose: Purpose<'_>,
) -> Item {
    let unfit = |problem: String| Item::unfit(ItemKind::Memory, problem);
    let located = directories.locate(path);
    let is_link = located.is_link();
    let real = match located.end {
        End::There(real) => real,
        End::Nothing(real) if is_link => {
            return unfit(format!("is a link to {real}, which does not exist"));
        }
        End::Nothing(_) => return unfit(unread(Errno::NOENT)),
        End::Loop => return unfit(unread(Errno::LOOP)),
        End::Out => return unfit("is a link that leads out of the project".to_owned()),
        End::Unknown(error) => return unfit(unread(error)),
    };
    // A project must not bring a secret into a conversation under the name of a memory file.
    if is_link && is_secret(&real) {
        return unfit(format!("is a link to {real}, which may hold secrets"));
    }
    // The place that was checked is the place that is read: no link that appears meanwhile is followed.
    let file = match beneath::open(directories.top(), &real, FILE, Follow::Never) {
        Ok(file) => file,
        Err(error) => return unfit(unread(error)),
    };
    let link = is_link.then(|| (String::new(), FileKind::Link(real.clone())));
    // Also kept without a person to show it to: the text that was checked is the text that is used.
    let mut text = Vec::new();
    match contents(file, &mut allowed, Some(&mut text)) {
        Ok((digest, bytes)) => Item {
            digest: Ok(encode(&digest)),
            before: before(purpose, &real, &digest),
            files: link.into_iter().collect(),
            bytes,
            texts: BTreeMap::from([(String::new(), kept(text, purpose))]),
            ..Item::new(ItemKind::Memory)
        },
        Err(problem) => unfit(problem),
    }
}

/// Whether a file below the top is one that usually holds secrets.
fn is_secret(path: &str) -> bool {
    let policy = Policy::new().rules(RuleSource::Defaults, secret_files());
    policy.decide(&Kind::READ, &format!("/{path}")).rule.is_some()
}

/// The part of a memory file that is kept: all of it for a person, else what a prompt may have.
fn kept(mut text: Vec<u8>, purpose: Purpose<'_>) -> Vec<u8> {
    if !purpose.shows() {
        // One byte more says that there is more.
        text.truncate(usize::try_from(MAX_MEMORY_BYTES).unwrap_or(usize::MAX).saturating_add(1));
        text.shrink_to_fit();
    }
    text
}

/// What is known about a single file before an approved change.
fn before(purpose: Purpose<'_>, real: &str, digest: &[u8; 32]) -> BeforeChange {
    let Purpose::Verify(change) = purpose else { return BeforeChange::Unaffected };
    if !change.is_of(real) {
        return BeforeChange::Unaffected;
    }
    match change.judge(digest) {
        Changed::Approved(Some(digest)) => BeforeChange::Digest(encode(&digest)),
        Changed::Approved(None) => BeforeChange::Missing,
        Changed::Foreign => BeforeChange::Unknown,
    }
}

impl Item {
    pub(super) fn new(kind: ItemKind) -> Self {
        Self {
            kind,
            digest: Err(String::new()),
            before: BeforeChange::Unaffected,
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
