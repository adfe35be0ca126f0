//! Lists a directory without a SKILL.md: which entries a scan enters, and which it skips.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::local::{self, EntryKind, FileStamp};
use crate::manifest_errors::wrong_case;
use crate::scan::{ScanOptions, join};
use crate::skill::MANIFEST;

/// The file with the ignore rules of git.
pub(crate) const GITIGNORE: &str = ".gitignore";

/// Whether a scan needs a file with this name.
pub(crate) fn is_relevant(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(MANIFEST.as_bytes()) || name == GITIGNORE.as_bytes()
}

/// The entries of a directory that a scan needs. Paths are below the root.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The version of the directory. `None` if it may have changed meanwhile.
    pub(crate) stamp: Option<FileStamp>,
    /// Sorted.
    pub(crate) children: Vec<Arc<str>>,
    pub(crate) links: Vec<Arc<str>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The rules for listing the directories of one root.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) options: &'a ScanOptions,
    /// The root's path, for messages.
    pub(crate) root_path: &'a str,
    /// Whether the root itself may be a skill.
    pub(crate) accepts_root: bool,
    #[cfg(feature = "gitignore")]
    pub(crate) ignores: crate::gitignore::Ignores,
}

impl Rules<'_> {
    /// Lists `directory`, which is open as `handle` and has the version `stamp`.
    pub(crate) fn list(&self, directory: &Arc<str>, handle: &OwnedFd, stamp: Option<FileStamp>) -> Listing {
        let mut listing = Listing { stamp, children: Vec::new(), links: Vec::new(), diagnostics: Vec::new() };
        let mut names: Vec<(Arc<str>, EntryKind)> = Vec::new();
        let listed = local::list(handle, |name, kind| {
            let is_wanted = match kind {
                EntryKind::Directory | EntryKind::Link => true,
                EntryKind::File => is_relevant(name),
                EntryKind::Other => false,
            };
            match std::str::from_utf8(name) {
                Ok(name) if is_wanted => names.push((name.into(), kind)),
                Err(_) if is_wanted => {
                    let path = join(directory, &String::from_utf8_lossy(name));
                    listing.diagnostics.push(self.diagnostic(
                        Code::NonUtf8Name,
                        &path,
                        "the name is not UTF-8; prowess skips it",
                    ));
                }
                _ => {}
            }
        });
        if let Err(error) = listed {
            let message = format!("cannot list the whole directory: {error}");
            listing.diagnostics.push(self.diagnostic(Code::Unreadable, directory, message));
        }
        #[cfg(feature = "gitignore")]
        self.ignores.enter(directory, names.iter().any(|(name, _)| **name == *GITIGNORE));
        self.classify(directory, names, &mut listing);
        listing
    }

    /// Sorts the entries of `directory` into children, links and diagnostics. Its `.gitignore` is active already.
    pub(crate) fn classify(
        &self,
        directory: &str,
        mut names: Vec<(Arc<str>, EntryKind)>,
        listing: &mut Listing,
    ) {
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let depth = directory.split('/').filter(|part| !part.is_empty()).count();
        for (name, kind) in names {
            match kind {
                EntryKind::File if *name == *MANIFEST => self.manifest(directory, listing),
                EntryKind::File if name.eq_ignore_ascii_case(MANIFEST) => {
                    listing.diagnostics.push(wrong_case(&self.display_path(&join(directory, &name))));
                }
                EntryKind::File | EntryKind::Other => {}
                EntryKind::Directory | EntryKind::Link => {
                    let excluded = self.options.excludes(&name);
                    let path = if directory.is_empty() { name } else { join(directory, &name).into() };
                    if let Some(code) = excluded.or_else(|| self.gitignored(&path)) {
                        listing.diagnostics.push(self.diagnostic(code, &path, code.explanation()));
                    } else if depth >= self.options.max_depth {
                        let message = format!("prowess does not scan directories below level {depth}");
                        let capped = self.diagnostic(Code::DepthCap, directory, message);
                        listing.diagnostics.push(capped.hint("raise the limit, or give a deeper root"));
                        break;
                    } else if kind == EntryKind::Link {
                        listing.links.push(path);
                    } else {
                        listing.children.push(path);
                    }
                }
            }
        }
    }

    /// Reports a SKILL.md in a directory that is not a skill.
    fn manifest(&self, directory: &str, listing: &mut Listing) {
        if directory.is_empty() && !self.accepts_root {
            let message = "a SKILL.md directly in a directory of skills is not a skill";
            let found = self.diagnostic(Code::ManifestInRoot, MANIFEST, message);
            listing.diagnostics.push(found.hint("move it into a directory named after the skill"));
        } else if !directory.is_empty() && !self.options.nested {
            // The probe before this listing could not reach it.
            let found =
                self.diagnostic(Code::Unreadable, &join(directory, MANIFEST), "cannot reach the file");
            listing.diagnostics.push(found.hint("check the permissions of its directory"));
        }
    }

    /// The full path of a path below the root, for messages.
    pub(crate) fn display_path(&self, path: &str) -> String {
        match path {
            "" if self.root_path.is_empty() => "/".to_owned(),
            "" => self.root_path.to_owned(),
            path => format!("{}/{path}", self.root_path),
        }
    }

    pub(crate) fn diagnostic(&self, code: Code, path: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, self.display_path(path), message)
    }

    #[cfg(feature = "gitignore")]
    fn gitignored(&self, path: &str) -> Option<Code> {
        self.ignores.exclude(path).then_some(Code::Gitignored)
    }

    #[cfg(not(feature = "gitignore"))]
    #[expect(clippy::unused_self, reason = "with the feature it asks the rules")]
    fn gitignored(&self, _path: &str) -> Option<Code> {
        None
    }
}
