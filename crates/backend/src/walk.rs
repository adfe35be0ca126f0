//! Walks a directory tree of any backend.

use crate::cap::Cap;
use crate::glob::MAX_SKIPPED;
use crate::{BackendError, Entry, EntryKind, GlobQuery, GlobReport, Listing, VirtualPath};

/// A walk over directories without I/O. It names the next directory, and the caller passes the listing. Blocking,
/// asynchronous and merged trees follow the same rules this way.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    base: &'a VirtualPath,
    query: &'a GlobQuery,
    /// The entries still to visit, the next one last.
    pending: Vec<Entry>,
    visited: usize,
    report: GlobReport,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(base: &'a VirtualPath, query: &'a GlobQuery) -> Self {
        Self { base, query, pending: Vec::new(), visited: 0, report: GlobReport::default() }
    }

    /// Adds the entries of the last directory.
    pub(crate) fn enter(&mut self, listing: Listing) {
        for error in listing.skipped {
            self.skip(error);
        }
        if self.report.stopped.is_none() {
            self.report.stopped = listing.stopped;
        }
        self.pending.extend(listing.entries.into_iter().rev());
    }

    /// Records that a directory could not be listed.
    pub(crate) fn skip(&mut self, error: BackendError) {
        if self.report.skipped.len() < MAX_SKIPPED {
            self.report.skipped.push(error);
        }
    }

    /// The next directory to list; `None` at the end of the walk.
    pub(crate) fn next_directory(&mut self) -> Option<VirtualPath> {
        while let Some(entry) = self.pending.pop() {
            if self.visited == self.query.max_visited {
                self.stop(Cap::Visited(self.query.max_visited));
                return None;
            }
            self.visited += 1;
            let Some(relative) = entry.path.strip_prefix(self.base) else { continue };
            match entry.kind {
                EntryKind::Directory if self.query.may_match_below(relative) => return Some(entry.path),
                EntryKind::File if self.query.matches(relative) => {
                    if self.report.entries.len() == self.query.max_results {
                        self.stop(Cap::Results(self.query.max_results));
                        return None;
                    }
                    self.report.entries.push(entry);
                }
                _ => {}
            }
        }
        None
    }

    fn stop(&mut self, cap: Cap) {
        self.report.stopped = Some(cap);
        self.pending.clear();
    }

    /// Walks over all files below `base`, already sorted, of a backend that has them at hand.
    pub(crate) fn over_files(base: &'a VirtualPath, query: &'a GlobQuery, entries: Vec<Entry>) -> GlobReport {
        let mut walk = Self::new(base, query);
        walk.enter(Listing { entries, ..Listing::default() });
        while walk.next_directory().is_some() {}
        walk.finish()
    }

    pub(crate) fn finish(self) -> GlobReport {
        self.report
    }
}
