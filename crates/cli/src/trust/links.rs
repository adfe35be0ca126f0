//! Finds out where the links of a project lead.
//!
//! Links are followed step by step below the top of the project, so that every step is known. Trust in an item
//! depends on everything that its links pass through.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::ItemKind;
use crate::project::Project;

/// How many links are followed in a row, as in the system.
const MAX_LINKS: usize = 40;

/// The top of the project and its skill directories, opened once. Directories with sub-agents count as well.
pub(super) struct SkillDirectories {
    top: OwnedFd,
    pub(super) roots: Vec<SkillDirectory>,
    /// Skill directories that exist but cannot be opened, with the reason.
    pub(super) unread: Vec<(String, Errno)>,
}

/// A skill directory.
pub(super) struct SkillDirectory {
    /// What its entries are.
    pub(super) kind: ItemKind,
    /// Its path below the top, as the catalog knows it.
    pub(super) path: String,
    /// The same path without links.
    pub(super) real: String,
    pub(super) directory: OwnedFd,
}

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkTarget {
    /// Only through skill directories of the project. These are the entries on the way and at the end, by their paths
    /// below the top. A whole skill directory is named by its own path.
    Within(Vec<String>),
    /// Elsewhere, at least on the way.
    Out,
    /// To a name that is not valid text.
    NoText,
}

/// The links that a path passes through, and its end. Paths are below the top and without links.
pub(super) struct LinkPath {
    links: Vec<String>,
    pub(super) end: End,
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// To a file or a directory.
    There(String),
    /// Nothing exists there.
    Nothing(String),
    /// Links lead in a circle.
    Loop,
    /// Outside of the top.
    Out,
    /// The way there cannot be looked at.
    Unknown(Errno),
}

impl LinkPath {
    /// Whether a link leads there.
    pub(super) fn is_link(&self) -> bool {
        !self.links.is_empty()
    }
}

impl SkillDirectories {
    /// Opens the skill directories of a project. Those that lead out of it are left out, as in the catalog.
    pub(super) fn of(project: &Project) -> Result<Self, Errno> {
        let top = beneath::open_directory(project.top())?;
        let mut directories = Self { top, roots: Vec::new(), unread: Vec::new() };
        let skills = project.roots().iter().map(|root| (root, ItemKind::Skill));
        let agents = project.agent_roots().iter().map(|root| (root, ItemKind::Agent));
        for (root, kind) in skills.chain(agents) {
            let Ok(relative) = root.path.strip_prefix(project.top()) else { continue };
            let path = relative.to_string_lossy().into_owned();
            match beneath::open(&directories.top, relative, DIRECTORY, Follow::Beneath) {
                Ok(directory) => match directories.follow_path("", &path) {
                    LinkPath { end: End::There(real), .. } => {
                        directories.roots.push(SkillDirectory { kind, path, real, directory })
                    }
                    LinkPath { end: End::Unknown(error), .. } => directories.unread.push((path, error)),
                    // It existed a moment ago.
                    _ => directories.unread.push((path, Errno::AGAIN)),
                },
                Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => {}
                Err(error) => directories.unread.push((path, error)),
            }
        }
        Ok(directories)
    }

    /// The top of the project.
    pub(super) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Where the file at `path` really is.
    pub(super) fn locate(&self, path: &str) -> LinkPath {
        self.follow_path("", path)
    }

    /// Where the link at `path` below a skill directory leads.
    pub(super) fn target_of(&self, root: &SkillDirectory, path: &str, target: &[u8]) -> LinkTarget {
        let Ok(target) = std::str::from_utf8(target) else { return LinkTarget::NoText };
        let from = Path::new(&root.real).join(path);
        let from = from.parent().map(Path::to_string_lossy).unwrap_or_default();
        let way = self.follow_path(&from, target);
        let mut entries = Vec::new();
        let directories = way.links.iter().chain(match &way.end {
            End::There(place) | End::Nothing(place) => Some(place),
            End::Loop => None,
            // The system may still follow a link that cannot be looked at here.
            End::Out | End::Unknown(_) => return LinkTarget::Out,
        });
        for place in directories {
            let owners = self.owners(place);
            if owners.is_empty() {
                return LinkTarget::Out;
            }
            // A missing target has no content yet.
            if way.end != End::Nothing(place.clone()) {
                entries.extend(owners);
            }
        }
        LinkTarget::Within(entries)
    }

    /// The entries that contain a path. Skill directories can be nested.
    fn owners(&self, place: &str) -> Vec<String> {
        let owner = |root: &SkillDirectory| {
            let below = place.strip_prefix(&root.real)?;
            if below.is_empty() {
                return Some(root.path.clone());
            }
            let name = below.strip_prefix('/')?.split('/').next()?;
            Some(format!("{}/{name}", root.path))
        };
        self.roots.iter().filter_map(owner).collect()
    }

    /// Follows `path` from a directory below the top, whose own path has no links.
    fn follow_path(&self, from: &str, path: &str) -> LinkPath {
        let mut links = Vec::new();
        let mut at: Vec<String> = names(from).map(str::to_owned).collect();
        // In reverse order: the next name is the last.
        let mut next: Vec<String> = Vec::new();
        let push = |next: &mut Vec<String>, path: &str| next.extend(names(path).rev().map(str::to_owned));
        if path.starts_with('/') {
            return LinkPath { links, end: End::Out };
        }
        push(&mut next, path);
        while let Some(name) = next.pop() {
            if name == ".." {
                if at.pop().is_none() {
                    return LinkPath { links, end: End::Out };
                }
                continue;
            }
            at.push(name);
            let place = at.join("/");
            let found = beneath::stat(&self.top, &place);
            if let Err(error) = found
                && !matches!(error, Errno::NOENT | Errno::NOTDIR)
            {
                // A directory cannot be searched, the path is too long, or somebody put a link on the way meanwhile.
                return LinkPath { links, end: End::Unknown(error) };
            }
            let is_link =
                found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            if is_link {
                let target = rustix::fs::readlinkat(&self.top, &place, Vec::new());
                let target = target.ok().and_then(|target| target.into_string().ok());
                links.push(place);
                // A target that is not valid text counts as outside.
                let Some(target) = target.filter(|target| !target.starts_with('/')) else {
                    return LinkPath { links, end: End::Out };
                };
                if links.len() > MAX_LINKS {
                    return LinkPath { links, end: End::Loop };
                }
                at.pop();
                push(&mut next, &target);
            } else if found.is_err() {
                // A path after a missing name is also missing, but it may lead out.
                if next.iter().any(|name| name == "..") {
                    return LinkPath { links, end: End::Out };
                }
                at.extend(next.into_iter().rev());
                return LinkPath { links, end: End::Nothing(at.join("/")) };
            }
        }
        LinkPath { links, end: End::There(at.join("/")) }
    }
}

fn names(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}
