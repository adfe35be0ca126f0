//! Scans files that a caller supplies, by the rules of a directory on the disk.

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

/// Scans files that a caller supplies, each with its path below `root`, by the rules of a local scan. Does no I/O.
///
/// Give every file, or only the manifests: the scan reads the contents of manifests and, if they have effect, of `.gitignore`
/// files. It keeps no bytes; give them again to [`SkillEntry::text_from`](crate::SkillEntry::text_from) and similar functions.
/// Manifests with the same bytes as in `previous` keep their entries. Only the caller can scan such a root again.
///
/// A path that no file can have is left out, with a diagnostic: for example an absolute path, or one with `..` or a backslash.
/// A SKILL.md that is given twice is not a skill.
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
    // However the root was made, only the caller can read its files.
    let root = match root.storage {
        Storage::Backend => Arc::clone(root),
        Storage::Local | Storage::Server => Arc::new(Root::clone(root).in_backend()),
    };
    // Share the root with the previous scan, because entries are compared by its pointer.
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
    // Sorted, the files of a directory are together.
    given.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
    let known = previous.filter(|previous| previous.options == *options).map(|previous| {
        previous.found.iter().map(|found| (&*found.directory, found)).collect::<HashMap<_, _>>()
    });
    let walk = GivenWalk { files: GivenFiles(&given), rules, known: known.unwrap_or_default() };
    walk.tree(&mut scan);
    scan
}

/// The files, sorted by path.
struct GivenFiles<'a, P, B>(&'a [(P, B)]);

impl<P: AsRef<str>, B: AsRef<[u8]>> GivenFiles<'_, P, B> {
    fn path(&self, at: usize) -> &str {
        self.0[at].0.as_ref()
    }

    /// The files in `range` whose paths begin with `prefix`.
    fn with_prefix(&self, range: &Range<usize>, prefix: &str) -> Range<usize> {
        let files = &self.0[range.clone()];
        let start = files.partition_point(|(path, _)| path.as_ref() < prefix);
        let length = files[start..].partition_point(|(path, _)| path.as_ref().starts_with(prefix));
        range.start + start..range.start + start + length
    }

    /// The files in `range` with exactly this path.
    fn at(&self, range: &Range<usize>, path: &str) -> Range<usize> {
        let files = &self.0[range.clone()];
        let start = files.partition_point(|(other, _)| other.as_ref() < path);
        let length = files[start..].partition_point(|(other, _)| other.as_ref() == path);
        range.start + start..range.start + start + length
    }
}

/// A directory: its path below the root, and the files below it.
type Directory = (Arc<str>, Range<usize>);

struct GivenWalk<'a, P, B> {
    files: GivenFiles<'a, P, B>,
    rules: Rules<'a>,
    /// The manifests of the previous scan, by directory.
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

    /// Probes one directory, and lists it if it is not a skill.
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

    /// Reads the SKILL.md of `directory`, if it has one of any kind.
    fn probe(&self, directory: &Arc<str>, files: &Range<usize>) -> Option<FoundManifest> {
        let path = join(directory, MANIFEST);
        let location = Location::in_directory(self.rules.root_path, directory);
        let known = self.known.get(&**directory).copied();
        let found = |stamp: Option<Stamp>, manifest: Manifest| {
            // Share an equal manifest, even if it could not be read before either.
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
            // It is unknown which one counts.
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

/// Parses a manifest. Reads as much of it as a scan of the disk.
fn read(bytes: &[u8], location: &Location, missing_name: MissingName) -> Manifest {
    let first = |most: usize| (&bytes[..bytes.len().min(most)], bytes.len() <= most);
    let (mut head, mut complete) = first(HEAD);
    if !complete && frontmatter::split(head, false).is_err() {
        (head, complete) = first(HEAD + MAX_FRONTMATTER);
    }
    Manifest::of(skill::parse_head(head, complete, location, missing_name), head)
}

fn given_twice(location: &Location) -> Diagnostic {
    let message = "SKILL.md was given twice, so it is unknown which one counts";
    let mut diagnostic = Diagnostic::new(Code::Unreadable, location.shared(), message).hint("give it once");
    diagnostic.severity = Severity::Error;
    diagnostic
}
