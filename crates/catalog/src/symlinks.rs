//! Follows the links of a root to further directories of skills.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::diagnostic::{Code, Diagnostic};
use crate::local::{self, Follow};
use crate::root::Root;
use crate::scan::{FoundManifest, Links, OutsideLink, join};
use crate::skill::MANIFEST;
use crate::walk::{RootWalk, Tree};

impl RootWalk<'_> {
    /// Follows the links that the walk found, and the links below them. Scans each directory once.
    pub(crate) fn follow_links(&mut self, root: &OwnedFd) {
        if self.links.is_empty() {
            return;
        }
        let mut manifests: HashSet<(u64, u64)> =
            self.scan.found.iter().filter_map(FoundManifest::inode).collect();
        let mut pending = std::mem::take(&mut self.links);
        pending.sort_unstable_by(|a, b| b.cmp(a));
        while let Some(link) = pending.pop() {
            if self.progress.is_stopped() {
                return;
            }
            let Some(directory) = self.follow(root, &link) else { continue };
            let before = self.scan.found.len();
            self.tree(Tree { base: directory.as_fd(), link: &link });
            for found in self.scan.found.split_off(before) {
                if found.inode().is_none_or(|inode| manifests.insert(inode)) {
                    self.scan.found.push(found);
                } else {
                    let duplicate = link_duplicate(&self.scan.root, &found.directory);
                    self.scan.diagnostics.push(duplicate);
                }
            }
            pending.extend(std::mem::take(&mut self.links).into_iter().rev());
        }
    }

    /// The manifest at the target of a link out of its root, by device and inode. In a project, the target must be in the
    /// project. The manifest is not read: it only tells whether the skill is found in its own place.
    fn target_of(&self, opened: &OwnedFd, link: &str) -> Option<(u64, u64)> {
        let root = &self.scan.root;
        if !root.kind.belongs_to_project() {
            let target = local::open_directory_anywhere(opened.as_fd(), link).ok()?;
            let stamp = local::stamp(target.as_fd(), MANIFEST)?;
            return Some((stamp.device, stamp.inode));
        }
        let within = root.within.as_ref()?;
        let relative = root.path.strip_prefix(within).ok()?.to_str()?;
        let base = local::open_directory(within).ok()?;
        let manifest = join(&join(relative, link), MANIFEST);
        let (_, stamp) = local::open_file(base.as_fd(), &manifest, Follow::Beneath).ok()?;
        Some((stamp.device, stamp.inode))
    }

    /// Opens the target of a link, if links are followed and the target was not scanned already.
    fn follow(&mut self, root: &OwnedFd, link: &str) -> Option<OwnedFd> {
        let opened = match self.rules.options.links {
            Links::Never => {
                self.report(
                    Code::LinkNotFollowed,
                    link,
                    "prowess does not follow links here",
                    "allow links in the configuration to follow it",
                );
                return None;
            }
            Links::WithinRoot => local::open_directory_at(root.as_fd(), link, Follow::Beneath),
            Links::Anywhere => local::open_directory_anywhere(root.as_fd(), link),
        };
        let (code, message, hint) = match opened {
            Ok(directory) => match local::stamp_of(&directory) {
                Ok(stamp) if self.entered.contains(&(stamp.device, stamp.inode)) => {
                    (Code::LinkLoop, "the link leads to a directory already scanned".to_owned(), "remove it")
                }
                Ok(_) => return Some(directory),
                Err(error) => {
                    (Code::Unreadable, format!("cannot follow the link: {error}"), "check its target")
                }
            },
            // Ignore a link to a file.
            Err(Errno::NOTDIR) => return None,
            Err(Errno::XDEV) => {
                let manifest = self.target_of(root, link);
                self.scan.outside_links.push(OutsideLink { link: link.into(), manifest });
                return None;
            }
            Err(Errno::LOOP) => (Code::LinkLoop, "the link leads back to itself".to_owned(), "remove it"),
            Err(Errno::NOENT) => (
                Code::LinkBroken,
                "the link's target does not exist".to_owned(),
                "remove it, or repair its target",
            ),
            Err(error) => (Code::Unreadable, format!("cannot follow the link: {error}"), "check its target"),
        };
        self.report(code, link, message, hint);
        None
    }
}

/// The diagnostic of a link to a skill that is found without the link.
pub(crate) fn link_duplicate(root: &Root, link: &str) -> Diagnostic {
    let message = "the link leads to a skill found in its own place";
    Diagnostic::new(Code::LinkDuplicate, below(root, link), message).hint("nothing needs to be done")
}

/// The diagnostic of a link that leads out of its root.
pub(crate) fn link_outside_root(root: &Root, link: &str) -> Diagnostic {
    let message = "the link is absolute, or leads out of its root";
    Diagnostic::new(Code::LinkOutsideRoot, below(root, link), message)
        .hint("allow links to lead anywhere to follow it")
}

fn below(root: &Root, path: &str) -> String {
    join(root.path.to_string_lossy().trim_end_matches('/'), path)
}
