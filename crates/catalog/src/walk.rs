//! Scans a root on the local disk.
//!
//! Level by level: every directory of a level is probed for a SKILL.md with one `openat2`, and only
//! those without one are listed. Links wait until all real directories are done, so that a skill is
//! found in its own place first; each then becomes a walk of its own.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::frontmatter::MAX_FRONTMATTER;
use crate::local::{self, EntryKind, FileStamp, Follow, OpenError};
use crate::root::{Root, RootKind};
use crate::scan::{Found, Links, Manifest, RootScan, ScanOptions, Stamp, join};
use crate::skill::{self, Location, MANIFEST, MAX_MANIFEST};

/// The first bytes of a manifest that are read; the frontmatter of nearly every skill is shorter.
const HEAD: usize = 8 * 1024;
/// A level with fewer directories than this is walked by one thread.
const PARALLEL_LEVEL: usize = 256;

/// Scans `root`. Manifests that `previous` knows in the same version are not read again.
pub fn scan_local(root: &Arc<Root>, options: &ScanOptions, previous: Option<&RootScan>) -> RootScan {
    let mut scan = RootScan { root: Arc::clone(root), exists: true, found: Vec::new(), diagnostics: Vec::new() };
    let shown = root.path.to_string_lossy().trim_end_matches('/').to_owned();
    let base = match local::open_directory(&root.path) {
        Ok(base) => base,
        Err(error) => {
            scan.exists = false;
            scan.diagnostics.push(unopened_root(root, &shown, &error));
            return scan;
        }
    };
    let mut walk = Walk {
        options,
        shown: &shown,
        accepts_root: root.kind == RootKind::Explicit,
        known: previous.map(|scan| scan.found.iter().map(|found| (found.directory.as_str(), found)).collect()).unwrap_or_default(),
        deadline: Instant::now().checked_add(options.time_budget),
        scan: &mut scan,
        directories: 0,
        entered: HashSet::new(),
        links: Vec::new(),
        stopped: false,
        #[cfg(feature = "gitignore")]
        ignores: crate::gitignore::Ignores::above(&root.path, options.gitignore),
    };
    walk.tree(&base, "", vec![String::new()]);
    walk.follow_links(&base);
    scan
}

fn unopened_root(root: &Root, shown: &str, error: &std::io::Error) -> Diagnostic {
    if error.kind() == std::io::ErrorKind::NotFound {
        let mut diagnostic = Diagnostic::new(Code::RootMissing, shown, "the directory does not exist");
        if root.kind == RootKind::Explicit {
            diagnostic.severity = Severity::Warning;
            diagnostic = diagnostic.hint("check the path, or create it");
        }
        diagnostic
    } else {
        Diagnostic::new(Code::Unreadable, shown, format!("the directory cannot be opened: {error}"))
    }
}

struct Walk<'a> {
    options: &'a ScanOptions,
    shown: &'a str,
    accepts_root: bool,
    known: HashMap<&'a str, &'a Found>,
    deadline: Option<Instant>,
    scan: &'a mut RootScan,
    directories: usize,
    /// Directories that were listed, by device and inode.
    entered: HashSet<(u64, u64)>,
    /// Links to follow when all else is done.
    links: Vec<String>,
    stopped: bool,
    #[cfg(feature = "gitignore")]
    ignores: crate::gitignore::Ignores,
}

/// What one directory turned out to be.
#[derive(Default)]
struct Visit {
    found: Option<Found>,
    identity: Option<(u64, u64)>,
    children: Vec<String>,
    links: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    out_of_time: bool,
}

impl Walk<'_> {
    /// Walks the tree below `base`, which is `link` below the root, or the root itself.
    fn tree(&mut self, base: &OwnedFd, link: &str, mut level: Vec<String>) {
        while !level.is_empty() && !self.stopped {
            self.cap_level(&mut level);
            let visits = self.visit_level(base.as_fd(), link, &level);
            level = Vec::new();
            for visit in visits {
                self.scan.diagnostics.extend(visit.diagnostics);
                self.entered.extend(visit.identity);
                level.extend(visit.children);
                self.links.extend(visit.links);
                if let Some(found) = visit.found {
                    self.take(found);
                }
                if visit.out_of_time && !self.stopped {
                    self.stopped = true;
                    let message = format!("the scan was stopped after {:?}", self.options.time_budget);
                    self.report(Code::TimeBudget, "", message, "raise the time budget, or give a narrower root");
                }
            }
            level.sort_unstable();
        }
    }

    fn cap_level(&mut self, level: &mut Vec<String>) {
        let left = self.options.max_directories.saturating_sub(self.directories);
        if level.len() > left {
            let message = format!("only {} directories were looked at; {} or more were not", self.options.max_directories, level.len() - left);
            self.report(Code::DirectoryCap, "", message, "raise the limit, or give a narrower root");
            level.truncate(left);
            self.stopped = true;
        }
        self.directories += level.len();
    }

    fn take(&mut self, found: Found) {
        if self.scan.found.len() < self.options.max_skills {
            self.scan.found.push(found);
        } else if !self.stopped {
            self.stopped = true;
            let message = format!("only the first {} skills were taken", self.options.max_skills);
            self.report(Code::SkillCap, "", message, "raise the limit, or give a narrower root");
        }
    }

    fn report(&mut self, code: Code, path: &str, message: impl Into<String>, hint: &str) {
        self.scan.diagnostics.push(Diagnostic::new(code, join(self.shown, path), message).hint(hint));
    }

    fn visit_level(&self, base: BorrowedFd<'_>, link: &str, level: &[String]) -> Vec<Visit> {
        let threads = if level.len() < PARALLEL_LEVEL { 1 } else { self.options.threads.max(1) };
        let work = |part: &[String]| {
            let mut buffer = vec![0; HEAD];
            part.iter().map(|directory| self.visit(base, link, directory, &mut buffer)).collect::<Vec<_>>()
        };
        if threads == 1 {
            return work(level);
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> = level.chunks(level.len().div_ceil(threads)).collect();
            let handles: Vec<_> = parts[1..].iter().map(|part| scope.spawn(|| work(part))).collect();
            let mut visits = work(parts[0]);
            for handle in handles {
                match handle.join() {
                    Ok(part) => visits.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            visits
        })
    }

    /// Looks at one directory: `directory` below the root, of which `link` is below `base`.
    fn visit(&self, base: BorrowedFd<'_>, link: &str, directory: &str, buffer: &mut [u8]) -> Visit {
        let mut visit = Visit::default();
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            visit.out_of_time = true;
            return visit;
        }
        let below = if link.is_empty() { directory } else { directory[link.len()..].trim_start_matches('/') };
        let in_root = directory.is_empty() && !self.accepts_root;
        if !in_root {
            visit.found = self.probe(base, link, below, directory, buffer);
        }
        if visit.found.is_none() || self.options.nested {
            self.list(base, below, directory, &mut visit);
        }
        visit
    }

    /// The skill in `directory`, if it has a SKILL.md of any kind.
    fn probe(
        &self,
        base: BorrowedFd<'_>,
        link: &str,
        below: &str,
        directory: &str,
        buffer: &mut [u8],
    ) -> Option<Found> {
        let path = join(below, MANIFEST);
        let found = |stamp, manifest| {
            Some(Found { directory: directory.to_owned(), link: link.to_owned(), stamp, manifest })
        };
        if let Some(known) = self.known.get(directory)
            && known.stamp.is_some()
            && local::stamp(base, &path).map(Stamp::File) == known.stamp
        {
            return found(known.stamp.clone(), Arc::clone(&known.manifest));
        }
        let location = Location::new(format!("{}/{}", self.shown, join(directory, MANIFEST)));
        let opened = match local::open_file(base, &path, Follow::Never) {
            Err(OpenError::Link) if self.options.links != Links::Never => local::open_file(base, &path, Follow::Beneath),
            opened => opened,
        };
        let refused = |diagnostic: Diagnostic| Arc::new(Manifest { skill: None, diagnostics: vec![diagnostic] });
        match opened {
            Ok((file, stamp, size)) => {
                let manifest = self.read(&file, size, &location, buffer);
                found(Some(Stamp::File(stamp)), Arc::new(manifest))
            }
            Err(OpenError::Absent) => None,
            // When not even the file's existence can be told, it is the directory that is closed;
            // listing it says so.
            Err(OpenError::Io(error))
                if error.kind() == std::io::ErrorKind::PermissionDenied && local::stamp(base, &path).is_none() =>
            {
                None
            }
            Err(error) => found(None, refused(refusal(&error, &location))),
        }
    }

    fn read(&self, file: &OwnedFd, size: u64, location: &Location, buffer: &mut [u8]) -> Manifest {
        if size > MAX_MANIFEST {
            return Manifest { skill: None, diagnostics: vec![too_large(location)] };
        }
        let parse = |source: &[u8], complete| {
            let parsed = skill::parse_head(source, complete, location, self.options.missing_name);
            Manifest { skill: parsed.skill.map(Arc::new), diagnostics: parsed.diagnostics }
        };
        let read = match local::read_up_to(file, buffer) {
            Ok(read) => read,
            Err(error) => return Manifest { skill: None, diagnostics: vec![unreadable(location, &error)] },
        };
        let complete = read < buffer.len();
        if complete || crate::frontmatter::split(&buffer[..read]).is_ok() {
            return parse(&buffer[..read], complete);
        }
        let mut longer = buffer[..read].to_vec();
        longer.resize(MAX_FRONTMATTER + HEAD, 0);
        match local::read_up_to(file, &mut longer[read..]) {
            Ok(more) => {
                let complete = read + more < longer.len();
                longer.truncate(read + more);
                parse(&longer, complete)
            }
            Err(error) => Manifest { skill: None, diagnostics: vec![unreadable(location, &error)] },
        }
    }

    /// Lists `directory`, which is `below` the base, for the next level.
    fn list(&self, base: BorrowedFd<'_>, below: &str, directory: &str, visit: &mut Visit) {
        let report = |code, path: &str, message: String| Diagnostic::new(code, join(self.shown, path), message);
        let opened = local::open_directory_at(base, below, Follow::Never);
        let (handle, identity) = match opened.map_err(std::io::Error::from).and_then(|fd| Ok((local::identity(&fd)?, fd))) {
            Ok((identity, handle)) => (handle, identity),
            Err(error) => {
                let message = format!("the directory cannot be read: {error}");
                visit.diagnostics.push(report(Code::Unreadable, directory, message).hint("check its permissions"));
                return;
            }
        };
        visit.identity = Some(identity);
        let mut names: Vec<(String, EntryKind)> = Vec::new();
        let listed = local::list(&handle, |name, kind| {
            if matches!(kind, EntryKind::Other) {
                return;
            }
            match std::str::from_utf8(name) {
                Ok(name) => names.push((name.to_owned(), kind)),
                Err(_) if kind == EntryKind::File => {}
                Err(_) => {
                    let shown = join(directory, &String::from_utf8_lossy(name));
                    visit.diagnostics.push(report(Code::NonUtf8Name, &shown, "the name is not UTF-8; it was skipped".into()));
                }
            }
        });
        if let Err(error) = listed {
            let message = format!("the directory cannot be listed whole: {error}");
            visit.diagnostics.push(report(Code::Unreadable, directory, message));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        #[cfg(feature = "gitignore")]
        self.ignores.enter(&join(self.shown, directory), names.iter().any(|(name, _)| name == ".gitignore"));

        let depth = directory.split('/').filter(|part| !part.is_empty()).count();
        for (name, kind) in names {
            let path = join(directory, &name);
            match kind {
                EntryKind::File if name == MANIFEST && directory.is_empty() => {
                    let message = "a SKILL.md directly in a directory of skills is not a skill".to_owned();
                    visit.diagnostics.push(
                        report(Code::ManifestInRoot, &path, message).hint("move it into a directory named after the skill"),
                    );
                }
                EntryKind::File if name != MANIFEST && name.eq_ignore_ascii_case(MANIFEST) => {
                    visit.diagnostics.push(wrong_case(&join(self.shown, &path), &name));
                }
                EntryKind::File | EntryKind::Other => {}
                EntryKind::Directory | EntryKind::Link => {
                    if let Some(code) = self.options.excludes(&name) {
                        visit.diagnostics.push(report(code, &path, code.explanation().to_owned()));
                        continue;
                    }
                    #[cfg(feature = "gitignore")]
                    if self.ignores.exclude(&join(self.shown, &path)) {
                        visit.diagnostics.push(report(Code::Gitignored, &path, Code::Gitignored.explanation().to_owned()));
                        continue;
                    }
                    if depth >= self.options.max_depth {
                        let message = format!("directories more than {} levels deep are not scanned", self.options.max_depth);
                        visit.diagnostics.push(report(Code::DepthCap, directory, message).hint("raise the limit, or give a deeper root"));
                        return;
                    }
                    if kind == EntryKind::Link { visit.links.push(path) } else { visit.children.push(path) }
                }
            }
        }
    }

    /// Follows the links that were met, and those met on the way, each directory once.
    fn follow_links(&mut self, root: &OwnedFd) {
        let mut manifests: HashSet<(u64, u64)> = self.scan.found.iter().filter_map(inode_of).collect();
        let mut done: HashSet<String> = HashSet::new();
        let mut pending = std::mem::take(&mut self.links);
        pending.sort_unstable();
        pending.reverse();
        while let Some(link) = pending.pop() {
            if self.stopped {
                return;
            }
            // A link may be met again under the name of another; its path says which it is.
            if !done.insert(link.clone()) {
                continue;
            }
            let opened = match self.options.links {
                Links::Never => {
                    self.report(Code::LinkNotFollowed, &link, "links are not followed", "allow links to follow it");
                    continue;
                }
                Links::WithinRoot => local::open_directory_at(root.as_fd(), &link, Follow::Beneath),
                Links::Anywhere => local::open_directory_anywhere(root.as_fd(), &link),
            };
            let directory = match opened {
                Ok(directory) => directory,
                // A link to a file is nothing to a scan.
                Err(Errno::NOTDIR) => continue,
                Err(Errno::XDEV) => {
                    self.report(Code::LinkOutsideRoot, &link, "the link leads out of its root, or is absolute", "allow links anywhere to follow it");
                    continue;
                }
                Err(Errno::LOOP) => {
                    self.report(Code::LinkLoop, &link, "the link leads back to itself", "remove it");
                    continue;
                }
                Err(Errno::NOENT) => {
                    self.report(Code::LinkBroken, &link, "the link's target does not exist", "remove it, or mend its target");
                    continue;
                }
                Err(error) => {
                    self.report(Code::Unreadable, &link, format!("the link cannot be followed: {error}"), "check its target");
                    continue;
                }
            };
            match local::identity(&directory) {
                Ok(identity) if self.entered.contains(&identity) => {
                    self.report(Code::LinkLoop, &link, "the link leads to a directory already scanned", "remove it");
                    continue;
                }
                Ok(_) => {}
                Err(_) => continue,
            }
            let before = self.scan.found.len();
            self.tree(&directory, &link, vec![link.clone()]);
            let reached = self.scan.found.split_off(before);
            for found in reached {
                if inode_of(&found).is_none_or(|inode| manifests.insert(inode)) {
                    self.scan.found.push(found);
                } else {
                    self.report(Code::LinkDuplicate, &found.directory, "the link leads to a skill found in its own place", "nothing needs to be done");
                }
            }
            pending.extend(std::mem::take(&mut self.links).into_iter().rev());
        }
    }
}

fn inode_of(found: &Found) -> Option<(u64, u64)> {
    match &found.stamp {
        Some(Stamp::File(FileStamp { device, inode, .. })) => Some((*device, *inode)),
        _ => None,
    }
}

pub(crate) fn wrong_case(file: &str, name: &str) -> Diagnostic {
    Diagnostic::new(Code::FileNameCase, file, format!("the manifest is named `{name}`"))
        .hint(format!("rename it to {MANIFEST}"))
}

pub(crate) fn too_large(location: &Location) -> Diagnostic {
    Diagnostic::new(Code::TooLarge, location.shared(), format!("the file has more than {MAX_MANIFEST} bytes"))
        .hint("move text into documents beside it")
}

pub(crate) fn unreadable(location: &Location, error: &std::io::Error) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(Code::Unreadable, location.shared(), format!("the file cannot be read: {error}"))
        .hint("check its permissions");
    diagnostic.severity = Severity::Error;
    diagnostic
}

pub(crate) fn refusal(error: &OpenError, location: &Location) -> Diagnostic {
    let file = location.shared();
    match error {
        OpenError::Absent => Diagnostic::new(Code::MissingSkillMd, file, "there is no SKILL.md"),
        OpenError::Link | OpenError::Outside => Diagnostic::new(Code::NotAFile, file, "SKILL.md is a link that is not followed")
            .hint("put the file itself there"),
        OpenError::NotAFile(kind) => Diagnostic::new(Code::NotAFile, file, format!("SKILL.md is not a regular file ({kind:?})"))
            .hint("put a regular file there"),
        OpenError::Io(error) => unreadable(location, error),
    }
}
