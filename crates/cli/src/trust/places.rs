//! Where links of a project lead.
//!
//! A link is followed by hand, name by name below the project's top, so that everything on its way is known: what is
//! trusted with a link in it depends on all of that.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::project::Project;

/// How many links are followed on one way, as the system does.
const MAX_LINKS: usize = 40;

/// The project's top and its directories of skills, opened once.
pub(super) struct Places {
    top: OwnedFd,
    pub(super) roots: Vec<Place>,
    /// Directories of skills that are there and cannot be opened, with the reason.
    pub(super) unread: Vec<(String, Errno)>,
}

/// A directory of skills.
pub(super) struct Place {
    /// Its path below the top, as the catalog knows it.
    pub(super) path: String,
    /// The same without links in it.
    real: String,
    pub(super) directory: OwnedFd,
}

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Only through the project's directories of skills. These are the entries on the way and at its end, by their paths
    /// below the top; a directory of skills as a whole is named by its own.
    Within(Vec<String>),
    /// Somewhere else, at least on its way.
    Out,
    /// To a name that is no text.
    NoText,
}

impl Places {
    /// Opens the project's directories of skills. One that leads out of the project is left out, as the catalog does.
    pub(super) fn of(project: &Project) -> Result<Self, Errno> {
        let top = beneath::open_directory(project.top())?;
        let mut places = Self { top, roots: Vec::new(), unread: Vec::new() };
        for root in project.roots() {
            let Ok(relative) = root.path.strip_prefix(project.top()) else { continue };
            let path = relative.to_string_lossy().into_owned();
            match beneath::open(&places.top, relative, DIRECTORY, Follow::Beneath) {
                Ok(directory) => match places.way("", &path) {
                    Way { end: End::There(real), .. } => places.roots.push(Place { path, real, directory }),
                    // It was there a moment ago.
                    _ => places.unread.push((path, Errno::AGAIN)),
                },
                Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => {}
                Err(error) => places.unread.push((path, error)),
            }
        }
        Ok(places)
    }

    /// The project's top.
    pub(super) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Where the link at `path` below a directory of skills leads, which has this target.
    pub(super) fn lead(&self, root: &Place, path: &str, target: &[u8]) -> Lead {
        let Ok(target) = std::str::from_utf8(target) else { return Lead::NoText };
        let from = Path::new(&root.real).join(path);
        let from = from.parent().map(Path::to_string_lossy).unwrap_or_default();
        let way = self.way(&from, target);
        let mut entries = Vec::new();
        let places = way.links.iter().chain(match &way.end {
            End::There(place) | End::Nothing(place) => Some(place),
            End::Loop => None,
            End::Out => return Lead::Out,
        });
        for place in places {
            let owners = self.owners(place);
            if owners.is_empty() {
                return Lead::Out;
            }
            // What is not there brings nothing yet.
            if way.end != End::Nothing(place.clone()) {
                entries.extend(owners);
            }
        }
        Lead::Within(entries)
    }

    /// The entries that a place belongs to. A directory of skills may lie within another one.
    fn owners(&self, place: &str) -> Vec<String> {
        let owner = |root: &Place| {
            let below = place.strip_prefix(&root.real)?;
            if below.is_empty() {
                return Some(root.path.clone());
            }
            let name = below.strip_prefix('/')?.split('/').next()?;
            Some(format!("{}/{name}", root.path))
        };
        self.roots.iter().filter_map(owner).collect()
    }

    /// Follows `path` from a directory below the top that has no link in it.
    fn way(&self, from: &str, path: &str) -> Way {
        let mut links = Vec::new();
        let mut at: Vec<String> = names(from).map(str::to_owned).collect();
        // In reverse, so that the next name is the last.
        let mut next: Vec<String> = Vec::new();
        let push = |next: &mut Vec<String>, path: &str| next.extend(names(path).rev().map(str::to_owned));
        if path.starts_with('/') {
            return Way { links, end: End::Out };
        }
        push(&mut next, path);
        while let Some(name) = next.pop() {
            if name == ".." {
                if at.pop().is_none() {
                    return Way { links, end: End::Out };
                }
                continue;
            }
            at.push(name);
            let place = at.join("/");
            let found = beneath::stat(&self.top, &place);
            let is_link =
                found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            if is_link {
                let target = rustix::fs::readlinkat(&self.top, &place, Vec::new());
                let target = target.ok().and_then(|target| target.into_string().ok());
                links.push(place);
                // A target that is no text is nowhere that is known.
                let Some(target) = target.filter(|target| !target.starts_with('/')) else {
                    return Way { links, end: End::Out };
                };
                if links.len() > MAX_LINKS {
                    return Way { links, end: End::Loop };
                }
                at.pop();
                push(&mut next, &target);
            } else if found.is_err() {
                // What follows a name that is not there is not there either, but may lead out of here.
                if next.iter().any(|name| name == "..") {
                    return Way { links, end: End::Out };
                }
                at.extend(next.into_iter().rev());
                return Way { links, end: End::Nothing(at.join("/")) };
            }
        }
        Way { links, end: End::There(at.join("/")) }
    }
}

/// What is on the way of a link: all other links, and its end. Places are paths below the top without links in them.
struct Way {
    links: Vec<String>,
    end: End,
}

#[derive(PartialEq, Eq)]
enum End {
    There(String),
    /// Nothing is there.
    Nothing(String),
    Loop,
    /// It is not below the top.
    Out,
}

fn names(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}
