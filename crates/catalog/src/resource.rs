//! The files that a skill brings along.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::catalog::SkillEntry;
use crate::diagnostic::{Code, Diagnostic};
use crate::local::{self, EntryKind, Follow};
use crate::scan::join;
use crate::skill::MANIFEST;

/// The most resources that are listed for one skill; [`Resources::capped`] says that there are more.
pub const MAX_RESOURCES: usize = 2000;

/// How many files and directories of one skill are looked at to find them.
const MAX_LOOKED_AT: usize = 20_000;

/// What a resource is, by the directory it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum ResourceKind {
    /// In `assets/`.
    Asset,
    /// Beside SKILL.md.
    Other,
    /// In `references/`.
    Reference,
    /// In `scripts/`.
    Script,
}

impl ResourceKind {
    /// The word for one of them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asset => "asset",
            Self::Other => "other",
            Self::Reference => "reference",
            Self::Script => "script",
        }
    }

    /// The kind of what lies in a directory of this name.
    pub fn of_directory(name: &str) -> Option<Self> {
        match name {
            "assets" => Some(Self::Asset),
            "references" => Some(Self::Reference),
            "scripts" => Some(Self::Script),
            _ => None,
        }
    }
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Resource {
    /// Its path in the skill, such as `scripts/fib.py`.
    pub path: String,
    /// What it is.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: ResourceKind,
    /// How many bytes it has, where that was asked for or came with the listing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub size: Option<u64>,
}

/// The files of a skill, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// The files.
    pub files: Vec<Resource>,
    /// Whether there are more than [`MAX_RESOURCES`].
    pub capped: bool,
    /// Directories that could not be listed.
    pub diagnostics: Vec<Diagnostic>,
}

impl Resources {
    /// How many there are of each kind.
    pub fn counts(&self) -> ResourceCounts {
        let mut counts = BTreeMap::new();
        for file in &self.files {
            *counts.entry(file.kind).or_insert(0) += 1;
        }
        ResourceCounts(counts)
    }
}

/// How many resources of each kind a skill has; shown as `2 scripts, 1 reference`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ResourceCounts(pub BTreeMap<ResourceKind, usize>);

impl fmt::Display for ResourceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for (kind, count) in &self.0 {
            let separator = if line.is_empty() { "" } else { ", " };
            let plural = if *count > 1 { "s" } else { "" };
            write!(line, "{separator}{count} {}{plural}", kind.as_str())?;
        }
        f.write_str(&line)
    }
}

impl SkillEntry {
    /// Lists the skill's files on the local disk, or as its server lists them: those beside SKILL.md, and those in the standard
    /// directories to `depth` levels (1: their own files only).
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// std::fs::create_dir_all(root.join("greet/scripts"))?;
    /// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// std::fs::write(root.join("greet/scripts/wave.py"), "print('o/')\n")?;
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let resources = catalog.get("greet").unwrap().resources(1);
    /// assert_eq!(resources.files[0].path, "scripts/wave.py");
    /// assert_eq!(resources.counts().to_string(), "1 script");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn resources(&self, depth: usize) -> Resources {
        if let Some(published) = self.published() {
            return Self::published_resources(published, depth);
        }
        self.listed(self.open_own_directory(), depth, &Listing::whole())
    }

    pub(crate) fn resources_below(&self, base: &OwnedFd, depth: usize, listing: &Listing<'_>) -> Resources {
        self.listed(self.open_directory_below(base), depth, listing)
    }

    /// [`SkillEntry::resources`] with the size of each file, which has to be asked for one by one.
    pub fn resources_with_sizes(&self, depth: usize) -> Resources {
        if self.published().is_some() {
            return self.resources(depth);
        }
        let size = |directory: &OwnedFd, name: &str| Some(local::size(directory, name));
        let listing = Listing { size: &size, ..Listing::whole() };
        self.listed(self.open_own_directory(), depth, &listing)
    }

    fn listed(&self, directory: io::Result<OwnedFd>, depth: usize, listing: &Listing<'_>) -> Resources {
        let mut resources = Resources::default();
        match directory {
            Ok(directory) => {
                collect(&directory, self.skill.location.directory(), depth, listing, &mut resources)
            }
            Err(error) => resources.diagnostics.push(unlisted(self.skill.location.directory(), &error)),
        }
        resources.capped |= listing.is_exhausted();
        resources.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        resources
    }
}

fn unlisted(path: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Unreadable, path, format!("the directory cannot be listed: {error}"))
}

/// How directories are listed.
pub(crate) struct Listing<'a> {
    /// Tells how large a file in a directory is, or does not care.
    size: &'a dyn Fn(&OwnedFd, &str) -> Option<u64>,
    /// How many entries may still be looked at.
    room: Cell<usize>,
}

impl Listing<'_> {
    pub(crate) fn whole() -> Self {
        Self::of_at_most(MAX_LOOKED_AT)
    }

    pub(crate) fn of_at_most(entries: usize) -> Self {
        Self { size: &|_, _| None, room: Cell::new(entries) }
    }

    /// Whether there was more than could be looked at.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.room.get() == 0
    }
}

/// A directory of a skill that is still to be listed.
struct Pending {
    path: String,
    /// None for the skill's own directory.
    kind: Option<ResourceKind>,
    /// How many levels there are, from this one on.
    depth: usize,
}

fn collect(directory: &OwnedFd, shown: &str, depth: usize, listing: &Listing<'_>, resources: &mut Resources) {
    let mut pending = Vec::new();
    let own = Pending { path: String::new(), kind: None, depth: depth.saturating_add(1) };
    if let Err(error) = list(directory, &own, listing, &mut pending, resources) {
        resources.diagnostics.push(unlisted(shown, &error));
    }
    while let Some(next) = pending.pop() {
        let listed = local::open_directory_at(directory.as_fd(), &next.path, Follow::Never)
            .map_err(io::Error::from)
            .and_then(|handle| list(&handle, &next, listing, &mut pending, resources));
        if let Err(error) = listed {
            resources.diagnostics.push(unlisted(&join(shown, &next.path), &error));
        }
    }
}

fn list(
    handle: &OwnedFd,
    at: &Pending,
    listing: &Listing<'_>,
    pending: &mut Vec<Pending>,
    resources: &mut Resources,
) -> io::Result<()> {
    let Pending { path, kind, depth } = at;
    local::list_while(handle, |name, entry| {
        listing.room.set(listing.room.get().saturating_sub(1));
        let Ok(name) = std::str::from_utf8(name) else { return !listing.is_exhausted() };
        match (entry, *kind) {
            (EntryKind::Directory, None) => {
                pending.extend(ResourceKind::of_directory(name).map(|kind| Pending {
                    path: name.to_owned(),
                    kind: Some(kind),
                    depth: depth - 1,
                }))
            }
            (EntryKind::Directory, kind) if *depth > 1 => {
                pending.push(Pending { path: join(path, name), kind, depth: depth - 1 });
            }
            (EntryKind::File, None) if name == MANIFEST => {}
            (EntryKind::File, _) if resources.files.len() >= MAX_RESOURCES => resources.capped = true,
            (EntryKind::File, kind) => {
                let size = (listing.size)(handle, name);
                let kind = kind.unwrap_or(ResourceKind::Other);
                resources.files.push(Resource { path: join(path, name), kind, size });
            }
            _ => {}
        }
        !listing.is_exhausted()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_sorted_and_plural() {
        let counts =
            ResourceCounts(BTreeMap::from([(ResourceKind::Script, 2), (ResourceKind::Reference, 1)]));
        assert_eq!(counts.to_string(), "1 reference, 2 scripts");
        assert_eq!(ResourceCounts::default().to_string(), "");
    }
}
