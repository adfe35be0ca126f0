//! Scans a root in a backend, with one search for all manifests and one batch to read them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use prowess_backend::cap::Cap;
use prowess_backend::{Backend, BackendError, EntryKind, GlobQuery, ReadRange, VirtualPath};

use crate::catalog::SkillEntry;
use crate::diagnostic::{Code, Diagnostic};
use crate::frontmatter::MAX_FRONTMATTER;
use crate::manifest_errors::{too_large, wrong_case};
use crate::resource::{ResourceDirectory, Resources};
use crate::root::{Root, RootKind, Storage};
use crate::scan::{FoundManifest, Manifest, RootScan, ScanOptions, Stamp, join};
use crate::skill::{self, Location, MANIFEST, MAX_MANIFEST};
use crate::text::{ReadError, SkillText};

/// How many bytes of a manifest a scan reads: the largest frontmatter, and a little more.
const HEAD: u64 = MAX_FRONTMATTER as u64 + 8 * 1024;
/// A manifest's name in any letter case, at any depth.
const PATTERN: &str = "**/[sS][kK][iI][lL][lL].[mM][dD]";

/// Scans `root`, whose path is a path of `backend`. The rules of a local scan about names, depth and manifests apply.
///
/// The backend decides about links, `.gitignore` and how much it searches. Manifests that did not change since `previous` are
/// not read again. [`Catalog::assembled`](crate::Catalog::assembled) puts the scan into a catalog, beside other scans. A
/// [`LiveCatalog`](crate::LiveCatalog) takes it with [`put_scan`](crate::LiveCatalog::put_scan).
///
/// ```
/// use std::sync::Arc;
/// use prowess_backend::{Backend, MemoryBackend, VirtualPath, WriteMode};
/// use prowess_catalog::{Catalog, Root, ScanOptions, scan_backend};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let backend = MemoryBackend::new();
/// let text = "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n";
/// backend.write(&VirtualPath::parse("/skills/greet/SKILL.md")?, text.into(), WriteMode::CreateNew).await?;
///
/// let root = Arc::new(Root::explicit("/skills").in_backend());
/// let scan = scan_backend(&backend, &root, &ScanOptions::default(), None).await;
/// let catalog = Catalog::empty().assembled([scan]);
/// let greet = catalog.get("greet").unwrap();
/// assert_eq!(greet.read_text_in(&backend).await?.body(), "Wave.");
/// # Ok(())
/// # }
/// ```
pub async fn scan_backend(
    backend: &dyn Backend,
    root: &Arc<Root>,
    options: &ScanOptions,
    previous: Option<&RootScan>,
) -> RootScan {
    // However the root was made, its files are in this backend.
    let root = &match root.storage {
        Storage::Backend => Arc::clone(root),
        Storage::Local | Storage::Server => Arc::new(Root::clone(root).in_backend()),
    };
    let mut scan = RootScan::new(root, options);
    match search(backend, root, options).await {
        Ok((base, report)) => {
            scan.diagnostics.extend(report.skipped.iter().map(|error| {
                Diagnostic::new(
                    Code::Unreadable,
                    path_of(&base),
                    format!("cannot read a part of it: {error}"),
                )
            }));
            if let Some(cap) = report.stopped {
                scan.diagnostics.push(capped(&base, cap));
            }
            let candidates = select(report.entries, &base, root, options, &mut scan.diagnostics);
            // A scan with other options found other things.
            let previous = previous.filter(|previous| previous.options == *options);
            scan.found = read(backend, &base, candidates, options, previous).await;
        }
        Err(error) => {
            scan.exists = false;
            let missing = matches!(error, BackendError::NotFound { .. });
            let code = if missing { Code::RootMissing } else { Code::Unreadable };
            scan.diagnostics.push(Diagnostic::new(code, root.path.to_string_lossy(), error.to_string()));
        }
    }
    scan
}

fn path_of(base: &VirtualPath) -> &str {
    base.as_str().trim_end_matches('/')
}

async fn search(
    backend: &dyn Backend,
    root: &Root,
    options: &ScanOptions,
) -> Result<(VirtualPath, prowess_backend::GlobReport), BackendError> {
    let base = VirtualPath::parse(&root.path.to_string_lossy())?;
    let query = GlobQuery::new(PATTERN)?.max_results(options.max_skills);
    let report = backend.glob(&base, &query).await?;
    Ok((base, report))
}

fn capped(base: &VirtualPath, cap: Cap) -> Diagnostic {
    let code = if matches!(cap, Cap::Results(_)) { Code::SkillCap } else { Code::DirectoryCap };
    Diagnostic::new(code, path_of(base), cap.to_string()).hint("raise the limit, or give a narrower root")
}

/// A manifest to read.
struct ManifestFile {
    directory: String,
    entry: prowess_backend::Entry,
}

/// The manifests that the rules accept, in the order of a walk.
fn select(
    entries: Vec<prowess_backend::Entry>,
    base: &VirtualPath,
    root: &Root,
    options: &ScanOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<ManifestFile> {
    let mut candidates = Vec::new();
    let mut reported = BTreeSet::new();
    let mut report = |code: Code, path: &str, diagnostic: &dyn Fn(String) -> Diagnostic| {
        if reported.insert((code, path.to_owned())) {
            diagnostics.push(diagnostic(join(path_of(base), path)));
        }
    };
    for entry in entries {
        let Some(relative) = entry.path.strip_prefix(base) else { continue };
        let (directory, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let excluded = prefixes(directory).find_map(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            options.excludes(name).map(|code| (code, path))
        });
        if let Some((code, path)) = excluded {
            report(code, path, &|shown| Diagnostic::new(code, shown, code.explanation()));
        } else if directory.split('/').count() > options.max_depth && !directory.is_empty() {
            let message = format!("prowess does not scan directories below level {}", options.max_depth);
            report(Code::DepthCap, directory, &|shown| {
                Diagnostic::new(Code::DepthCap, shown, message.clone())
                    .hint("raise the limit, or give a deeper root")
            });
        } else if name != MANIFEST {
            report(Code::FileNameCase, relative, &|shown| wrong_case(&shown));
        } else if directory.is_empty() && root.kind != RootKind::Explicit {
            report(Code::ManifestInRoot, relative, &|shown| {
                Diagnostic::new(Code::ManifestInRoot, shown, Code::ManifestInRoot.explanation())
                    .hint("move it into a directory named after the skill")
            });
        } else {
            candidates.push(ManifestFile { directory: directory.to_owned(), entry });
        }
    }
    let level =
        |candidate: &ManifestFile| candidate.directory.split('/').filter(|part| !part.is_empty()).count();
    candidates.sort_by(|a, b| (level(a), &a.directory).cmp(&(level(b), &b.directory)));
    if !options.nested {
        let skills: BTreeSet<String> =
            candidates.iter().map(|candidate| candidate.directory.clone()).collect();
        candidates.retain(|candidate| {
            let inside = |path: &str| path != candidate.directory && skills.contains(path);
            let nested = prefixes(&candidate.directory).any(inside) || inside("");
            if nested {
                report(Code::NestedSkill, &candidate.directory, &|shown| {
                    Diagnostic::new(Code::NestedSkill, shown, Code::NestedSkill.explanation())
                });
            }
            !nested
        });
    }
    candidates
}

/// `a`, `a/b` and `a/b/c` for `a/b/c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|prefix| !prefix.is_empty())
}

async fn read(
    backend: &dyn Backend,
    base: &VirtualPath,
    candidates: Vec<ManifestFile>,
    options: &ScanOptions,
    previous: Option<&RootScan>,
) -> Vec<FoundManifest> {
    let known: HashMap<&str, &FoundManifest> = previous
        .map(|scan| scan.found.iter().map(|found| (&*found.directory, found)).collect())
        .unwrap_or_default();
    let unchanged = |candidate: &ManifestFile| {
        let stamp = version(candidate.entry.stamp.as_ref())?;
        known.get(candidate.directory.as_str()).filter(|found| found.stamp.as_ref() == Some(&stamp)).copied()
    };
    let wanted =
        |candidate: &&ManifestFile| unchanged(candidate).is_none() && candidate.entry.size <= MAX_MANIFEST;
    let paths: Vec<VirtualPath> =
        candidates.iter().filter(wanted).map(|candidate| candidate.entry.path.clone()).collect();
    let contents = if paths.is_empty() { Vec::new() } else { backend.read_many(&paths, HEAD).await };
    let mut contents = contents.into_iter();

    let mut all = Vec::with_capacity(candidates.len());
    for candidate in &candidates {
        if let Some(found) = unchanged(candidate) {
            all.push(found.clone());
            continue;
        }
        let location = Location::in_directory(path_of(base), &candidate.directory);
        let (stamp, manifest) = if wanted(&candidate) {
            match contents.next() {
                Some(Ok(contents)) => {
                    let complete = contents.is_whole();
                    let parsed =
                        skill::parse_head(&contents.bytes, complete, &location, options.missing_name);
                    let manifest = Manifest::of(parsed, &contents.bytes);
                    (version(contents.stamp.as_ref()), manifest)
                }
                Some(Err(error)) => (None, Manifest::refused(unreadable(&location, &error.to_string()))),
                None => {
                    (None, Manifest::refused(unreadable(&location, "the backend returned nothing for it")))
                }
            }
        } else {
            (version(candidate.entry.stamp.as_ref()), Manifest::refused(too_large(&location)))
        };
        let directory = candidate.directory.as_str().into();
        let (settled, manifest) = (stamp.is_some(), Arc::new(manifest));
        all.push(FoundManifest { directory, link: "".into(), stamp, settled, manifest });
    }
    all
}

fn version(stamp: Option<&prowess_backend::Stamp>) -> Option<Stamp> {
    stamp.map(|stamp| Stamp::Version(stamp.as_str().to_owned()))
}

fn unreadable(location: &Location, error: &str) -> Diagnostic {
    crate::manifest_errors::unreadable(location, &io::Error::other(error.to_owned()))
}

impl SkillEntry {
    /// Reads the manifest from the backend in which it was found.
    pub async fn read_text_in(&self, backend: &dyn Backend) -> Result<SkillText, ReadError> {
        let location = &self.skill.location;
        let failed = |error: BackendError| match error {
            BackendError::NotAFile { .. } | BackendError::IsDirectory { .. } => {
                ReadError::NotAFile { location: location.clone() }
            }
            error => ReadError::Io { location: location.clone(), error: io::Error::other(error) },
        };
        let path = VirtualPath::parse(location.as_str()).map_err(failed)?;
        let contents = backend.read(&path, ReadRange::first(MAX_MANIFEST + 1)).await.map_err(failed)?;
        let version = version(contents.stamp.as_ref());
        let mut text = self.text_from(contents.bytes.into())?;
        text.changed |= self.stamp.is_some() && self.stamp != version;
        Ok(text)
    }

    /// Like [`SkillEntry::resources`], from the backend in which the skill was found. Lists each directory once.
    pub async fn resources_in(&self, backend: &dyn Backend, depth: usize) -> Resources {
        let mut resources = Resources::default();
        let directory = self.skill.location.directory();
        let mut pending = vec![(String::new(), ResourceDirectory::own(depth))];
        while let Some((path, inside)) = pending.pop() {
            let full = match path.as_str() {
                "" => directory.to_owned(),
                path => format!("{}/{path}", directory.trim_end_matches('/')),
            };
            let listed = match VirtualPath::parse(&full) {
                Ok(full) => backend.ls(&full).await,
                Err(error) => Err(error),
            };
            let listing = match listed {
                Ok(listing) => listing,
                Err(error) => {
                    let message = format!("cannot list the directory: {error}");
                    resources.diagnostics.push(Diagnostic::new(Code::Unreadable, full, message));
                    continue;
                }
            };
            resources.capped |= listing.stopped.is_some();
            for entry in listing {
                let Some(name) = entry.path.name() else { continue };
                match entry.kind {
                    EntryKind::Directory => {
                        pending.extend(inside.enter(name).map(|below| (join(&path, name), below)));
                    }
                    EntryKind::File => resources.add(&path, inside, name, || Some(entry.size)),
                    EntryKind::Other => {}
                }
            }
        }
        resources.sorted()
    }
}
