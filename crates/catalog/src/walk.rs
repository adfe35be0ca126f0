//! Scans a root on the local disk.
//!
//! The walk goes level by level. It probes every directory of a level for a SKILL.md with one `openat2`, and lists only those
//! without one. It follows links after all real directories, so that it finds a skill in its own place first (`links.rs`).

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::frontmatter::{self, MAX_FRONTMATTER};
use crate::listing::{Listing, Rules};
use crate::local::{self, Clock, FileStamp, Follow, OpenError};
use crate::manifest_errors::{refusal, too_large, unreadable};
use crate::progress::Progress;
use crate::root::{Root, RootKind};
use crate::scan::{FoundManifest, Links, Manifest, RootScan, ScanOptions, Stamp};
use crate::skill::{self, Location, MANIFEST, MAX_MANIFEST};

/// How many bytes of a manifest are read first. The frontmatter of nearly every skill is shorter.
pub(crate) const HEAD: usize = 8 * 1024;
/// One thread walks a level that has fewer directories than this.
const PARALLEL_LEVEL: usize = 256;

/// Scans `root` on the local disk. Manifests that did not change since `previous` are not read again.
///
/// ```
/// use std::sync::Arc;
/// use prowess_catalog::{Catalog, Root, ScanOptions, scan_local};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// std::fs::create_dir(root.join("greet"))?;
/// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// let (root, options) = (Arc::new(Root::explicit(root)), ScanOptions::default());
/// let first = scan_local(&root, &options, None);
/// let second = scan_local(&root, &options, Some(&first));
/// assert!(Catalog::empty().assembled([second]).get("greet").is_some());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn scan_local(root: &Arc<Root>, options: &ScanOptions, previous: Option<&RootScan>) -> RootScan {
    let mut scan = RootScan::new(root, options);
    let root_path = root.path.to_string_lossy().trim_end_matches('/').to_owned();
    let base = match local::open_root(root) {
        Ok(base) => base,
        Err(error) => {
            scan.exists = false;
            scan.diagnostics.push(unopened_root(root, &error));
            return scan;
        }
    };
    let mut walk = RootWalk {
        rules: Rules {
            options,
            root_path: &root_path,
            accepts_root: root.kind == RootKind::Explicit,
            #[cfg(feature = "gitignore")]
            ignores: crate::gitignore::Ignores::of(&root.path, options.gitignore),
        },
        clock: Clock::now(),
        // A scan with other options found other things.
        previous: previous.filter(|previous| previous.options == *options),
        index: OnceLock::new(),
        progress: Progress::new(options),
        scan: &mut scan,
        entered: HashSet::new(),
        links: Vec::new(),
    };
    walk.tree(Tree { base: base.as_fd(), link: &"".into() });
    walk.follow_links(&base);
    scan
}

fn unopened_root(root: &Root, error: &std::io::Error) -> Diagnostic {
    let shown = root.path.to_string_lossy();
    if error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) {
        let message = "the directory is an absolute link, or leads out of its project";
        return Diagnostic::new(Code::LinkOutsideRoot, shown, message)
            .hint("name its target with --root if you want it");
    }
    if error.kind() != std::io::ErrorKind::NotFound {
        return Diagnostic::new(Code::Unreadable, shown, format!("cannot open the directory: {error}"));
    }
    let mut diagnostic = Diagnostic::new(Code::RootMissing, shown, "the directory does not exist");
    if root.kind == RootKind::Explicit {
        diagnostic.severity = Severity::Warning;
        diagnostic = diagnostic.hint("check the path, or create it");
    }
    diagnostic
}

pub(crate) struct RootWalk<'a> {
    pub(crate) rules: Rules<'a>,
    pub(crate) clock: Clock,
    pub(crate) previous: Option<&'a RootScan>,
    /// The position of each directory in the previous scan. Built only if the order of this scan differs.
    pub(crate) index: OnceLock<HashMap<&'a str, usize>>,
    pub(crate) progress: Progress,
    pub(crate) scan: &'a mut RootScan,
    /// The listed directories, by device and inode.
    pub(crate) entered: HashSet<(u64, u64)>,
    /// The links to follow after all real directories.
    pub(crate) links: Vec<Arc<str>>,
}

/// What a thread found in the directories of one level.
#[derive(Default)]
struct LevelResult {
    found: Vec<FoundManifest>,
    listings: Vec<(Arc<str>, Arc<Listing>)>,
    entered: Vec<(u64, u64)>,
    diagnostics: Vec<Diagnostic>,
    out_of_time: bool,
}

/// Buffers that one thread reuses for every directory.
struct Scratch {
    head: Vec<u8>,
    path: String,
    /// The expected position of the next directory in the previous scan.
    expected: usize,
}

/// A tree to walk: the root's, or that of a link below it.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) base: BorrowedFd<'a>,
    /// The link's path below the root; empty for the root's own tree.
    pub(crate) link: &'a Arc<str>,
}

impl Tree<'_> {
    /// Turns a path below the root into a path below this tree's base.
    fn below<'d>(&self, directory: &'d str) -> &'d str {
        directory[self.link.len()..].trim_start_matches('/')
    }
}

impl RootWalk<'_> {
    pub(crate) fn tree(&mut self, tree: Tree<'_>) {
        let mut level = vec![Arc::clone(tree.link)];
        while !level.is_empty() && !self.progress.is_stopped() {
            self.progress.cap_level(&mut level, &self.rules, self.scan);
            let seen = self.visit_level(tree, &level);
            let out_of_time = seen.iter().any(|part| part.out_of_time);
            level = Vec::new();
            for part in seen {
                if self.scan.found.is_empty() {
                    self.scan.found = part.found;
                } else {
                    self.scan.found.reserve_exact(part.found.len());
                    self.scan.found.extend(part.found);
                }
                self.scan.diagnostics.extend(part.diagnostics);
                self.entered.extend(part.entered);
                for (directory, listing) in part.listings {
                    level.extend(listing.children.iter().cloned());
                    self.links.extend(listing.links.iter().cloned());
                    self.scan.diagnostics.extend(listing.diagnostics.iter().cloned());
                    self.scan.listings.insert(directory, listing);
                }
            }
            if out_of_time {
                self.progress.end_late(&self.rules, self.scan);
            }
            self.progress.cap_skills(&self.rules, self.scan);
            level.sort_unstable();
        }
    }

    pub(crate) fn report(&mut self, code: Code, path: &str, message: impl Into<String>, hint: &str) {
        let found = self.rules.diagnostic(code, path, message).hint(hint);
        self.scan.diagnostics.push(found);
    }

    fn visit_level(&self, tree: Tree<'_>, level: &[Arc<str>]) -> Vec<LevelResult> {
        let threads = if level.len() < PARALLEL_LEVEL { 1 } else { self.rules.options.threads.max(1) };
        let work = |part: &[Arc<str>], expected| {
            // In a repeated scan, most directories are skills.
            let expected_skills = if self.previous.is_some() { part.len() } else { 0 };
            let mut seen =
                LevelResult { found: Vec::with_capacity(expected_skills), ..LevelResult::default() };
            let mut scratch = Scratch { head: vec![0; HEAD], path: String::new(), expected };
            for directory in part {
                if self.progress.is_late() {
                    seen.out_of_time = true;
                    break;
                }
                self.visit(tree, directory, &mut seen, &mut scratch);
            }
            seen
        };
        if threads == 1 {
            return vec![work(level, 0)];
        }
        std::thread::scope(|scope| {
            let size = level.len().div_ceil(threads);
            let mut parts = level.chunks(size).zip((0..).step_by(size));
            let first = parts.next();
            let handles: Vec<_> = parts.map(|(part, at)| scope.spawn(move || work(part, at))).collect();
            let mut seen: Vec<_> = first.into_iter().map(|(part, at)| work(part, at)).collect();
            for handle in handles {
                match handle.join() {
                    Ok(part) => seen.push(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            seen
        })
    }

    /// Probes one directory, and lists it if it is not a skill.
    fn visit(&self, tree: Tree<'_>, directory: &Arc<str>, seen: &mut LevelResult, scratch: &mut Scratch) {
        let may_be_skill = !directory.is_empty() || self.rules.accepts_root;
        let found = if may_be_skill { self.probe(tree, directory, scratch) } else { None };
        if found.is_none() || self.rules.options.nested {
            match self.list(tree, directory) {
                Ok((identity, listing)) => {
                    seen.entered.push(identity);
                    seen.listings.push((Arc::clone(directory), listing));
                }
                Err(error) => {
                    let message = format!("cannot read the directory: {error}");
                    let unreadable = self.rules.diagnostic(Code::Unreadable, directory, message);
                    seen.diagnostics.push(unreadable.hint("check its permissions"));
                }
            }
        }
        seen.found.extend(found);
    }

    fn list(&self, tree: Tree<'_>, directory: &Arc<str>) -> std::io::Result<((u64, u64), Arc<Listing>)> {
        let handle = local::open_directory_at(tree.base, tree.below(directory), Follow::Never)?;
        let stamp = local::stamp_of(&handle)?;
        let identity = (stamp.device, stamp.inode);
        let known = self.previous.and_then(|previous| previous.listings.get(directory));
        if let Some(known) = known
            && known.stamp == Some(stamp)
            && !self.rules.options.reads_gitignore()
        {
            return Ok((identity, Arc::clone(known)));
        }
        Ok((identity, Arc::new(self.rules.list(directory, &handle, self.clock.settled(stamp)))))
    }

    /// Reads the SKILL.md of `directory`, if it has one of any kind.
    fn probe(&self, tree: Tree<'_>, directory: &Arc<str>, scratch: &mut Scratch) -> Option<FoundManifest> {
        let Scratch { head, path, expected } = scratch;
        path.clear();
        let below = tree.below(directory);
        path.push_str(below);
        path.push_str(if below.is_empty() { "" } else { "/" });
        path.push_str(MANIFEST);

        let known = self.known(directory, expected).filter(|known| known.link == *tree.link);
        if let Some(known) = known
            && known.settled
            && local::stamp(tree.base, path).map(Stamp::File) == known.stamp
        {
            return Some(known.clone());
        }
        let opened = match local::open_file(tree.base, path, Follow::Never) {
            Err(OpenError::Absent) => return None,
            Err(OpenError::Link) if self.rules.options.links != Links::Never => {
                local::open_file(tree.base, path, Follow::Beneath)
            }
            opened => opened,
        };
        let location = Location::in_directory(self.rules.root_path, directory);
        let found = |stamp: Option<FileStamp>, manifest: Manifest| {
            let (directory, link) = (Arc::clone(directory), Arc::clone(tree.link));
            let settled = stamp.is_some_and(|stamp| self.clock.settled(stamp).is_some());
            let stamp = stamp.map(Stamp::File);
            // Share an equal manifest of the same version, although it was read again.
            let manifest = match known {
                Some(known) if known.stamp == stamp && *known.manifest == manifest => {
                    Arc::clone(&known.manifest)
                }
                _ => Arc::new(manifest),
            };
            Some(FoundManifest { directory, link, stamp, settled, manifest })
        };
        match opened {
            Ok((file, stamp)) => {
                let manifest = self.read(&file, stamp.size, &location, head);
                found(Some(stamp), manifest)
            }
            // If not even the existence of the file is known, the directory is closed. Listing it reports that.
            Err(OpenError::Io(error))
                if error.kind() == std::io::ErrorKind::PermissionDenied
                    && local::stamp(tree.base, path).is_none() =>
            {
                None
            }
            Err(error) => found(None, Manifest::refused(refusal(&error, &location))),
        }
    }

    /// The manifest that the previous scan found in `directory`. Scans have the same order, so it is nearly always at the
    /// expected position.
    fn known(&self, directory: &str, expected: &mut usize) -> Option<&FoundManifest> {
        let previous = self.previous?;
        if directory.is_empty() {
            // A root that is itself a skill comes first.
            return previous.found.first().filter(|found| found.directory.is_empty());
        }
        if previous.found.get(*expected).is_none_or(|found| *found.directory != *directory) {
            let index = self.index.get_or_init(|| {
                previous.found.iter().enumerate().map(|(at, found)| (&*found.directory, at)).collect()
            });
            *expected = *index.get(directory)?;
        }
        *expected += 1;
        previous.found.get(*expected - 1)
    }

    fn read(&self, file: &OwnedFd, size: u64, location: &Location, head: &mut [u8]) -> Manifest {
        if size > MAX_MANIFEST {
            return Manifest::refused(too_large(location));
        }
        let parse = |source: &[u8], complete| {
            let parsed = skill::parse_head(source, complete, location, self.rules.options.missing_name);
            Manifest::of(parsed, source)
        };
        let read = match local::read_up_to(file, size, head) {
            Ok(read) => read,
            Err(error) => return Manifest::refused(unreadable(location, &error)),
        };
        let complete = read as u64 >= size;
        if complete || frontmatter::split(&head[..read], false).is_ok() {
            return parse(&head[..read], complete);
        }
        let mut longer = head[..read].to_vec();
        longer.resize(MAX_FRONTMATTER + HEAD, 0);
        match local::read_up_to(file, size.saturating_sub(read as u64), &mut longer[read..]) {
            Ok(more) => {
                let complete = (read + more) as u64 >= size;
                longer.truncate(read + more);
                parse(&longer, complete)
            }
            Err(error) => Manifest::refused(unreadable(location, &error)),
        }
    }
}
