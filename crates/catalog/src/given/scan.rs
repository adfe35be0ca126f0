//! Scans files that a caller brought, by the rules of a directory on the disk.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rustix::fs::FileType;

use super::path::{self, RefusedPaths};
use super::stamp::GivenStamp;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::frontmatter::{self, MAX_FRONTMATTER};
use crate::listing::{Listing, Rules, is_relevant};
use crate::local::{EntryKind, OpenError};
use crate::manifest_errors::{refusal, too_large};
use crate::progress::Progress;
use crate::root::{Root, RootKind, Storage};
use crate::scan::{FoundManifest, Manifest, RootScan, ScanOptions, Stamp, join};
use crate::skill::{self, Location, MANIFEST, MAX_MANIFEST, MissingName};
use crate::walk::HEAD;

/// Scans files that a caller brought, each with its path below `root`, by the rules of a local scan. Does no I/O.
///
/// Manifests that `previous` knows with the same bytes stay the very same entries. Of other files only the path matters, and
/// of a `.gitignore` what it says if that is honoured: a caller may bring every file, or nothing but the manifests. The scan
/// keeps none of the bytes. [`SkillEntry::text_from`](crate::SkillEntry::text_from) and its kin take them when they are
/// wanted; only the caller can read such a root again.
///
/// A path that no file can have is left out, with a diagnostic: one that is absolute, has a `..` or a backslash, or is spelled
/// in another odd way. A SKILL.md that was given twice is not a skill.
///
/// ```
/// use std::sync::Arc;
/// use prowess_catalog::{Catalog, Root, ScanOptions, scan_given};
///
/// let manifest = "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n";
/// let files = [("greet/SKILL.md", manifest), ("greet/scripts/wave.py", "print('o/')\n"), ("../SKILL.md", manifest)];
/// let root = Arc::new(Root::explicit("/skills").in_backend());
/// let scan = scan_given(&root, files, &ScanOptions::default(), None);
/// let catalog = Catalog::empty().assembled([scan]);
/// assert_eq!((catalog.entries().len(), catalog.diagnostics().count()), (1, 1));
///
/// let greet = catalog.get("greet").unwrap();
/// assert_eq!(greet.skill.location.as_str(), "/skills/greet/SKILL.md");
/// assert_eq!(greet.text_from(manifest.into()).unwrap().body(), "Wave.");
/// ```
pub fn scan_given<P: AsRef<str>, B: AsRef<[u8]>>(
    root: &Arc<Root>,
    files: impl IntoIterator<Item = (P, B)>,
    options: &ScanOptions,
    previous: Option<&RootScan>,
) -> RootScan {
    // Whoever made the root, only the caller can read its files.
    let root = match root.place {
        Storage::Backend => Arc::clone(root),
        Storage::Local | Storage::Server => Arc::new(Root::clone(root).in_backend()),
    };
    // The entries of two scans are compared by the root that they share.
    let root = previous.map(|scan| &scan.root).filter(|known| **known == root).unwrap_or(&root);
    let mut scan = RootScan::new(root, options);
    let root_path = root.path.to_string_lossy().trim_end_matches('/').to_owned();
    let rules = Rules {
        options,
        root_path: &root_path,
        accepts_root: root.kind == RootKind::Explicit,
        #[cfg(feature = "gitignore")]
        ignores: crate::gitignore::Ignores::given(options.gitignore),
    };
    let mut refused = RefusedPaths::default();
    let mut given: Vec<(P, B)> = files
        .into_iter()
        .filter(|(path, _)| {
            path::check(path.as_ref()).map_err(|why| refused.add(path.as_ref(), &why)).is_ok()
        })
        .collect();
    scan.diagnostics = refused.into_diagnostics(&rules.display_path(""));
    // Then what lies below a directory stands together.
    given.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
    let known = previous.filter(|previous| previous.options == *options).map(|previous| {
        previous.found.iter().map(|found| (&*found.directory, found)).collect::<HashMap<_, _>>()
    });
    let walk = GivenWalk { files: GivenFiles(&given), rules, known: known.unwrap_or_default() };
    walk.tree(&mut scan);
    scan
}

/// GivenFiles, sorted by path.
struct GivenFiles<'a, P, B>(&'a [(P, B)]);

impl<P: AsRef<str>, B: AsRef<[u8]>> GivenFiles<'_, P, B> {
    fn path(&self, at: usize) -> &str {
        self.0[at].0.as_ref()
    }

    /// Which of the files in `range` begin with `prefix`.
    fn with_prefix(&self, range: &Range<usize>, prefix: &str) -> Range<usize> {
        let files = &self.0[range.clone()];
        let start = files.partition_point(|(path, _)| path.as_ref() < prefix);
        let length = files[start..].partition_point(|(path, _)| path.as_ref().starts_with(prefix));
        range.start + start..range.start + start + length
    }

    /// Which of the files in `range` lie at `path`.
    fn at(&self, range: &Range<usize>, path: &str) -> Range<usize> {
        let files = &self.0[range.clone()];
        let start = files.partition_point(|(other, _)| other.as_ref() < path);
        let length = files[start..].partition_point(|(other, _)| other.as_ref() == path);
        range.start + start..range.start + start + length
    }
}

/// A directory, by its path below the root and the files below it.
type Directory = (Arc<str>, Range<usize>);

struct GivenWalk<'a, P, B> {
    files: GivenFiles<'a, P, B>,
    rules: Rules<'a>,
    /// What the previous scan found, by directory.
    known: HashMap<&'a str, &'a FoundManifest>,
}

impl<P: AsRef<str>, B: AsRef<[u8]>> GivenWalk<'_, P, B> {
    fn tree(&self, scan: &mut RootScan) {
        let mut progress = Progress::new(self.rules.options);
        let mut level: Vec<Directory> = vec![("".into(), 0..self.files.0.len())];
        while !level.is_empty() && !progress.is_stopped() {
            progress.cap_level(&mut level, &self.rules, scan);
            let mut next = Vec::new();
            let mut is_late = false;
            for directory in &level {
                is_late = progress.is_late();
                if is_late {
                    break;
                }
                self.visit(directory, scan, &mut next);
            }
            if is_late {
                progress.end_late(&self.rules, scan);
            }
            progress.cap_skills(&self.rules, scan);
            next.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            level = next;
        }
    }

    /// Looks at one directory.
    fn visit(&self, (directory, files): &Directory, scan: &mut RootScan, next: &mut Vec<Directory>) {
        let may_be_skill = !directory.is_empty() || self.rules.accepts_root;
        let found = if may_be_skill { self.probe(directory, files) } else { None };
        if found.is_none() || self.rules.options.nested {
            let listing = self.list(directory, files);
            scan.diagnostics.extend(listing.diagnostics);
            next.extend(listing.children.into_iter().map(|child| {
                let below = self.files.with_prefix(files, &format!("{child}/"));
                (child, below)
            }));
        }
        scan.found.extend(found);
    }

    /// The skill in `directory`, if it has a SKILL.md of any kind.
    fn probe(&self, directory: &Arc<str>, files: &Range<usize>) -> Option<FoundManifest> {
        let path = join(directory, MANIFEST);
        let location = Location::in_directory(self.rules.root_path, directory);
        let known = self.known.get(&**directory).copied();
        let found = |stamp: Option<Stamp>, manifest: Manifest| {
            // What could not be read before either is the same as long as the same is said of it.
            let manifest = match known {
                Some(known) if known.stamp == stamp && *known.manifest == manifest => {
                    Arc::clone(&known.manifest)
                }
                _ => Arc::new(manifest),
            };
            let (directory, settled) = (Arc::clone(directory), stamp.is_some());
            Some(FoundManifest { directory, link: "".into(), stamp, settled, manifest })
        };
        let at = self.files.at(files, &path);
        if !self.files.with_prefix(files, &format!("{path}/")).is_empty() {
            let is_directory = OpenError::NotAFile(FileType::Directory);
            return found(None, Manifest::refused(refusal(&is_directory, &location)));
        }
        match self.files.0.get(at.clone())? {
            [] => None,
            [(_, bytes)] => {
                let bytes = bytes.as_ref();
                if bytes.len() as u64 > MAX_MANIFEST {
                    return found(None, Manifest::refused(too_large(&location)));
                }
                let stamp = Some(Stamp::Given(GivenStamp::of(bytes)));
                match known {
                    Some(known) if known.stamp == stamp => Some(known.clone()),
                    _ => found(stamp, read(bytes, &location, self.rules.options.missing_name)),
                }
            }
            // Nobody can tell which one counts.
            _ => found(None, Manifest::refused(given_twice(&location))),
        }
    }

    fn list(&self, directory: &Arc<str>, files: &Range<usize>) -> Listing {
        let mut names: Vec<(Arc<str>, EntryKind)> = Vec::new();
        let skip = if directory.is_empty() { 0 } else { directory.len() + 1 };
        let mut at = files.start;
        while at < files.end {
            let below = &self.files.path(at)[skip..];
            match below.split_once('/') {
                Some((name, _)) => {
                    names.push((name.into(), EntryKind::Directory));
                    let prefix = &self.files.path(at)[..skip + name.len() + 1];
                    at = self.files.with_prefix(&(at..files.end), prefix).end;
                }
                None => {
                    let is_again = names.last().is_some_and(|(name, _)| **name == *below);
                    if is_relevant(below.as_bytes()) && !is_again {
                        names.push((below.into(), EntryKind::File));
                    }
                    at += 1;
                }
            }
        }
        #[cfg(feature = "gitignore")]
        if let [(_, rules), ..] =
            &self.files.0[self.files.at(files, &join(directory, crate::listing::GITIGNORE))]
        {
            self.rules.ignores.enter_with(directory, rules.as_ref());
        }
        let mut listing = Listing::default();
        self.rules.classify(directory, names, &mut listing);
        listing
    }
}

/// What a manifest says: as much of it is looked at as on the disk.
fn read(bytes: &[u8], location: &Location, missing_name: MissingName) -> Manifest {
    let first = |most: usize| (&bytes[..bytes.len().min(most)], bytes.len() <= most);
    let (mut head, mut complete) = first(HEAD);
    if !complete && frontmatter::split(head, false).is_err() {
        (head, complete) = first(HEAD + MAX_FRONTMATTER);
    }
    Manifest::of(skill::parse_head(head, complete, location, missing_name))
}

fn given_twice(location: &Location) -> Diagnostic {
    let message = "SKILL.md was given twice; nobody can tell which one counts";
    let mut diagnostic = Diagnostic::new(Code::Unreadable, location.shared(), message).hint("give it once");
    diagnostic.severity = Severity::Error;
    diagnostic
}
