//! Reads a local directory: listings, metadata and bounded reads. All functions block.

use std::io::{Read, Seek, SeekFrom};
use std::path::Component;

use cap_fs_ext::{MetadataExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, DirEntry, OpenOptions};

use super::system::{check_regular, entry, failed, relative, stamp};
use crate::cap::Cap;
use crate::entry::MAX_LISTING_ENTRIES;
use crate::path::debug_start;
use crate::walk::Walk;
use crate::{
    BackendError, Contents, Entry, EntryKind, GlobQuery, GlobReport, Listing, PathProblem, ReadRange, Result,
    VirtualPath,
};

/// The most memory that a read reserves before it knows the true length of a file.
const MAX_RESERVED_BYTES: u64 = 1024 * 1024;

/// The most links without a target that `real` follows, one after another.
const MAX_LINKS: usize = 8;

pub(super) fn list(root: &Dir, path: &VirtualPath) -> Result<Listing> {
    list_where(root, path, |_, _| Detail::Full)
}

pub(super) fn stat(root: &Dir, path: &VirtualPath) -> Result<Entry> {
    match root.metadata(relative(path)) {
        Ok(metadata) => Ok(entry(path.clone(), &metadata)),
        Err(error) => Err(failed(path, "looking up", error)),
    }
}

/// The path with its links followed, and whether the disk ignores case there. A missing file is below its nearest
/// existing parent.
pub(super) fn target(root: &Dir, path: &VirtualPath) -> (VirtualPath, bool) {
    let real = real(root, path, MAX_LINKS);
    let ignores_case = ignores_case(root, &real);
    (real, ignores_case)
}

fn real(root: &Dir, path: &VirtualPath, links: usize) -> VirtualPath {
    let Ok(found) = root.canonicalize(relative(path)) else {
        // The root has no parent, and it always exists.
        return match (path.parent(), path.name()) {
            (Some(parent), Some(name)) => missing(root, path, (&parent, name), links),
            _ => path.clone(),
        };
    };
    let names = found.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    let found = names.into_iter().try_fold(VirtualPath::root(), |place, name| place.join(&name));
    found.unwrap_or_else(|_| path.clone())
}

/// The place of a path that has no target: below its parent, or where its own link leads. A link out of the root is not
/// followed.
fn missing(
    root: &Dir,
    path: &VirtualPath,
    (parent, name): (&VirtualPath, &str),
    links: usize,
) -> VirtualPath {
    let parent = real(root, parent, links);
    let itself = || parent.join(name).unwrap_or_else(|_| path.clone());
    let Ok(link) = root.read_link_contents(relative(&itself())) else { return itself() };
    let mut led: Vec<String> = parent.components().map(ToOwned::to_owned).collect();
    for part in link.components() {
        match part {
            Component::ParentDir => drop(led.pop()),
            Component::Normal(name) => led.push(name.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return itself(),
        }
    }
    let led = led.iter().try_fold(VirtualPath::root(), |place, name| place.join(name));
    match led {
        Ok(led) if links > 0 => real(root, &led, links - 1),
        _ => itself(),
    }
}

/// Whether a part of the path leads to the same file if every letter changes its case.
fn ignores_case(root: &Dir, real: &VirtualPath) -> bool {
    let identity = |path: &VirtualPath| {
        let found = root.symlink_metadata(relative(path)).ok()?;
        Some((found.dev(), found.ino()))
    };
    let turn = |c: char| -> String {
        if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
    };
    let mut next = Some(real.clone());
    while let Some(path) = next {
        next = path.parent();
        let (Some(name), Some(parent)) = (path.name(), &next) else { continue };
        let turned: String = name.chars().map(turn).collect();
        if turned == name {
            continue;
        }
        let other = parent.join(&turned).ok().and_then(|other| identity(&other));
        if other.is_some() && other == identity(&path) {
            return true;
        }
    }
    false
}

pub(super) fn glob(root: &Dir, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
    // Only matches need the extra system call.
    let detail = |path: &VirtualPath, kind| match path.strip_prefix(base) {
        Some(below) if kind == EntryKind::File && query.matches(below) => Detail::Full,
        _ => Detail::Kind,
    };
    let mut walk = Walk::new(base, query);
    walk.enter(list_where(root, base, detail)?);
    while let Some(directory) = walk.next_directory() {
        match list_where(root, &directory, detail) {
            Ok(listing) => walk.enter(listing),
            // Deleted after its parent was listed, so the search ignores it.
            Err(BackendError::NotFound { .. }) => {}
            Err(error) => walk.skip(error),
        }
    }
    Ok(walk.finish())
}

/// Reads a regular file, at most one byte more than asked for.
pub(super) fn read(root: &Dir, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
    let failed = |error| failed(path, "reading", error);
    // Without `nonblock`, opening a FIFO waits until somebody writes to it.
    let file =
        root.open_with(relative(path), OpenOptions::new().read(true).nonblock(true)).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_regular(path, &metadata)?;
    let mut contents = Contents {
        path: path.clone(),
        bytes: bytes::Bytes::new(),
        offset: range.offset(),
        more: false,
        // Taken before the bytes. If the file changes meanwhile, the stamp is the older one, and a later comparison
        // fails.
        stamp: Some(stamp(&metadata)),
    };
    if range.offset() > 0 {
        if range.offset() >= metadata.len() {
            return Ok(contents);
        }
        (&file).seek(SeekFrom::Start(range.offset())).map_err(failed)?;
    }
    let expected = range.max_bytes().min(metadata.len() - range.offset()).min(MAX_RESERVED_BYTES);
    let mut buffer = Vec::with_capacity(usize::try_from(expected).unwrap_or(0) + 1);
    file.take(range.max_bytes().saturating_add(1)).read_to_end(&mut buffer).map_err(failed)?;
    contents.more = buffer.len() as u64 > range.max_bytes();
    if contents.more {
        buffer.pop();
    }
    contents.bytes = buffer.into();
    Ok(contents)
}

/// How much a listing says about each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    Kind,
}

fn list_where<D>(root: &Dir, path: &VirtualPath, detail: D) -> Result<Listing>
where
    D: Fn(&VirtualPath, EntryKind) -> Detail,
{
    let read = root.read_dir(relative(path)).map_err(|error| match stat(root, path) {
        // "Not a directory" can be about `path` or about one of its parents.
        Ok(entry) if entry.kind != EntryKind::Directory => BackendError::not_a_directory(path),
        _ => failed(path, "listing", error),
    })?;
    let mut listing = Listing::default();
    for found in read {
        if listing.entries.len() == MAX_LISTING_ENTRIES {
            listing.stopped = Some(Cap::Visited(MAX_LISTING_ENTRIES));
            break;
        }
        match found
            .map_err(|error| failed(path, "listing", error))
            .and_then(|found| describe(path, &found, &detail))
        {
            Ok(entry) => listing.entries.push(entry),
            // Deleted while the listing was running.
            Err(BackendError::NotFound { .. }) => {}
            Err(error) => listing.skipped.push(error),
        }
    }
    listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(listing)
}

fn describe<D>(directory: &VirtualPath, found: &DirEntry, detail: &D) -> Result<Entry>
where
    D: Fn(&VirtualPath, EntryKind) -> Detail,
{
    let name = found.file_name();
    let Some(name) = name.to_str() else {
        let text = debug_start(&format!("{directory}/{}", name.display()));
        return Err(BackendError::InvalidPath { text, problem: PathProblem::NotUnicode });
    };
    let path = directory.join(name)?;
    let file_type = found.file_type().map_err(|error| failed(&path, "looking up", error))?;
    let kind = match file_type {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Directory,
        _ => EntryKind::Other,
    };
    match detail(&path, kind) {
        Detail::Kind => Ok(Entry { path, kind, size: 0, modified: None, stamp: None }),
        Detail::Full => match found.metadata() {
            Ok(metadata) => Ok(entry(path, &metadata)),
            Err(error) => Err(failed(&path, "looking up", error)),
        },
    }
}
