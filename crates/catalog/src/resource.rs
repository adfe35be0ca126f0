//! The resources of a skill: the files beside its SKILL.md.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::catalog::SkillEntry;
use crate::diagnostic::{Code, Diagnostic};
use crate::given::{self, RefusedPaths, TWICE};
use crate::local::{self, EntryKind, Follow};
use crate::scan::join;
use crate::skill::MANIFEST;

/// How many resources of one skill are listed. [`Resources::capped`] says if there are more.
pub const MAX_RESOURCES: usize = 2000;

/// How many entries of one skill's directories are searched for resources.
const MAX_ENTRIES: usize = 20_000;

/// The kind of a resource, by its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
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
    /// The word for this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asset => "asset",
            Self::Other => "other",
            Self::Reference => "reference",
            Self::Script => "script",
        }
    }

    /// The kind of resources in a directory with this name.
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
    /// Its kind.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: ResourceKind,
    /// Its size in bytes, if it was requested or came with the listing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub size: Option<u64>,
}

/// The resources of a skill, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// The files.
    pub files: Vec<Resource>,
    /// Whether there are more than [`MAX_RESOURCES`].
    pub capped: bool,
    /// Directories that could not be listed, and given paths that cannot be used.
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

/// How many resources of each kind a skill has, displayed as `2 scripts, 1 reference`.
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
    /// Lists the skill's files: those beside SKILL.md, and those in the standard directories up to `depth` levels (1: only
    /// their own files). Reads the local disk, or the list of the skill's server.
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
            let files = published.files.iter().map(|file| (&file.path, Some(file.size)));
            return self.resources_from(files, depth);
        }
        self.listed(self.open_own_directory(), depth, &ListingOptions::whole())
    }

    /// Like [`SkillEntry::resources`], among these files with their paths in the skill and, if known, their sizes. Does no
    /// I/O. A caller may give all files of the skill.
    ///
    /// A path that no file can have is left out, with a diagnostic, and so is a path that was given before.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// # std::fs::create_dir(root.join("greet"))?;
    /// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let greet = catalog.get("greet").unwrap();
    /// let files = [("SKILL.md", None), ("scripts/wave.py", Some(12)), ("scripts/deep/bow.py", None)];
    /// let resources = greet.resources_from(files, 1);
    /// assert_eq!(resources.files.len(), 1);
    /// assert_eq!(resources.files[0].path, "scripts/wave.py");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn resources_from<P: AsRef<str>>(
        &self,
        files: impl IntoIterator<Item = (P, Option<u64>)>,
        depth: usize,
    ) -> Resources {
        let mut resources = Resources::default();
        let mut refused = RefusedPaths::default();
        for (path, size) in files {
            let path = path.as_ref();
            if let Err(why) = given::check(path) {
                refused.add(path, &why);
                continue;
            }
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut parts = parent.split('/').filter(|part| !part.is_empty());
            if let Some(inside) = parts.try_fold(ResourceDirectory::own(depth), ResourceDirectory::enter) {
                resources.add(parent, inside, name, || size);
            }
        }
        // A stable sort keeps the order of equal paths.
        resources.files.sort_by(|a, b| a.path.cmp(&b.path));
        resources.files.dedup_by(|again, first| {
            let is_again = again.path == first.path;
            if is_again {
                refused.add(&again.path, &TWICE);
            }
            is_again
        });
        resources.diagnostics = refused.into_diagnostics(self.skill.location.directory());
        resources
    }

    pub(crate) fn resources_below(
        &self,
        base: &OwnedFd,
        depth: usize,
        listing: &ListingOptions<'_>,
    ) -> Resources {
        self.listed(self.open_directory_below(base), depth, listing)
    }

    /// Like [`SkillEntry::resources`], with the size of each file, which takes a system call for each.
    pub fn resources_with_sizes(&self, depth: usize) -> Resources {
        if self.published().is_some() {
            return self.resources(depth);
        }
        let size = |directory: &OwnedFd, name: &str| Some(local::size(directory, name));
        let listing = ListingOptions { size: &size, ..ListingOptions::whole() };
        self.listed(self.open_own_directory(), depth, &listing)
    }

    fn listed(
        &self,
        directory: io::Result<OwnedFd>,
        depth: usize,
        listing: &ListingOptions<'_>,
    ) -> Resources {
        let mut resources = Resources::default();
        match directory {
            Ok(directory) => {
                collect(&directory, self.skill.location.directory(), depth, listing, &mut resources)
            }
            Err(error) => resources.diagnostics.push(unlisted(self.skill.location.directory(), &error)),
        }
        resources.capped |= listing.is_exhausted();
        resources.sorted()
    }
}

fn unlisted(path: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Unreadable, path, format!("cannot list the directory: {error}"))
}

/// How to list directories.
pub(crate) struct ListingOptions<'a> {
    /// Returns the size of a file in a directory, if sizes are wanted.
    size: &'a dyn Fn(&OwnedFd, &str) -> Option<u64>,
    /// How many entries may still be read.
    room: Cell<usize>,
}

impl ListingOptions<'_> {
    pub(crate) fn whole() -> Self {
        Self::of_at_most(MAX_ENTRIES)
    }

    pub(crate) fn of_at_most(entries: usize) -> Self {
        Self { size: &|_, _| None, room: Cell::new(entries) }
    }

    /// Whether there are more entries than may be read.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.room.get() == 0
    }
}

/// A directory of a skill, for listing its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceDirectory {
    /// The kind of its files. `None` for the skill's own directory.
    kind: Option<ResourceKind>,
    /// How many levels are listed from here on.
    depth: usize,
}

impl ResourceDirectory {
    /// The skill's own directory, with `depth` levels of the standard directories, and at least one.
    pub(crate) fn own(depth: usize) -> Self {
        Self { kind: None, depth: depth.max(1).saturating_add(1) }
    }

    /// The directory `name` in this one. `None` if its files are not listed.
    pub(crate) fn enter(self, name: &str) -> Option<Self> {
        let depth = self.depth.checked_sub(1).filter(|depth| *depth > 0)?;
        let kind = self.kind.or_else(|| ResourceKind::of_directory(name))?;
        Some(Self { kind: Some(kind), depth })
    }
}

impl Resources {
    /// Adds the file `name` of the directory at `path`.
    pub(crate) fn add(
        &mut self,
        path: &str,
        inside: ResourceDirectory,
        name: &str,
        size: impl FnOnce() -> Option<u64>,
    ) {
        if inside.kind.is_none() && name == MANIFEST {
            return;
        }
        if self.files.len() >= MAX_RESOURCES {
            self.capped = true;
            return;
        }
        let kind = inside.kind.unwrap_or(ResourceKind::Other);
        self.files.push(Resource { path: join(path, name), kind, size: size() });
    }

    pub(crate) fn sorted(mut self) -> Self {
        self.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self
    }
}

/// A directory of a skill that is not listed yet, with its path in the skill.
type Pending = (String, ResourceDirectory);

fn collect(
    directory: &OwnedFd,
    shown: &str,
    depth: usize,
    listing: &ListingOptions<'_>,
    resources: &mut Resources,
) {
    let mut pending = Vec::new();
    let own = (String::new(), ResourceDirectory::own(depth));
    if let Err(error) = list(directory, &own, listing, &mut pending, resources) {
        resources.diagnostics.push(unlisted(shown, &error));
    }
    while let Some(next) = pending.pop() {
        let listed = local::open_directory_at(directory.as_fd(), &next.0, Follow::Never)
            .map_err(io::Error::from)
            .and_then(|handle| list(&handle, &next, listing, &mut pending, resources));
        if let Err(error) = listed {
            resources.diagnostics.push(unlisted(&join(shown, &next.0), &error));
        }
    }
}

fn list(
    handle: &OwnedFd,
    (path, inside): &Pending,
    listing: &ListingOptions<'_>,
    pending: &mut Vec<Pending>,
    resources: &mut Resources,
) -> io::Result<()> {
    local::list_while(handle, |name, kind| {
        listing.room.set(listing.room.get().saturating_sub(1));
        let Ok(name) = std::str::from_utf8(name) else { return !listing.is_exhausted() };
        match kind {
            EntryKind::Directory => {
                pending.extend(inside.enter(name).map(|below| (join(path, name), below)));
            }
            EntryKind::File => resources.add(path, *inside, name, || (listing.size)(handle, name)),
            EntryKind::Link | EntryKind::Other => {}
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
