//! Searches for a skill's documents, directory by directory. The caller lists the directories.
//!
//! Documents near the SKILL.md come first, and each directory is sorted by name. So a limit leaves out the same documents
//! every time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::path::{self, PathRefusal};
use super::{DOCUMENT_DEPTH, Document, Documents, MAX_DOCUMENTS};
use crate::diagnostic::{Code, Diagnostic, MAX_FINDINGS};
use crate::local::EntryKind;
use crate::scan::join;
use crate::skill::MANIFEST;
use crate::untrusted::escaped_start;

/// How many directories of one skill are searched.
const MAX_DIRECTORIES: usize = 1000;

/// The relevant entries of one directory.
#[derive(Debug, Default)]
pub(super) struct DocumentLevel {
    /// Documents by name, with their sizes.
    pub(super) documents: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
    /// The entries that are left out, and why.
    odd: Vec<(Code, String, String)>,
    /// Whether the directory has more entries than were kept.
    pub(super) capped: bool,
    has_manifest: bool,
}

impl DocumentLevel {
    /// Adds an entry of the directory.
    pub(super) fn add(&mut self, name: &[u8], kind: EntryKind, size: u64) {
        let lossy = String::from_utf8_lossy(name);
        let wanted = match kind {
            EntryKind::Directory => true,
            EntryKind::File => path::is_document(&lossy),
            EntryKind::Link | EntryKind::Other => false,
        };
        self.has_manifest |= *lossy == *MANIFEST;
        if !wanted || name.starts_with(b".") {
            return;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return self.leave_out(Code::NonUtf8Name, &lossy, Code::NonUtf8Name.explanation());
        };
        if let Err(refusal) = path::check_part(name) {
            let code = match refusal {
                PathRefusal::Unprintable(_) => Code::SuspiciousUnicode,
                _ => Code::Unreadable,
            };
            return self.leave_out(code, name, format!("prowess cannot use this name: {refusal}"));
        }
        // Keep only the first by name, however many there are.
        if kind == EntryKind::Directory {
            self.directories.insert(name.to_owned());
            self.capped |= self.directories.len() > MAX_DIRECTORIES && self.directories.pop_last().is_some();
        } else {
            self.documents.insert(name.to_owned(), size);
            self.capped |= self.documents.len() > MAX_DOCUMENTS && self.documents.pop_last().is_some();
        }
    }

    /// Reports an entry that is left out. Without a name, the report is about the directory.
    pub(super) fn leave_out(&mut self, code: Code, name: &str, message: impl Into<String>) {
        if self.odd.len() <= MAX_FINDINGS {
            self.odd.push((code, escaped_start(name), message.into()));
        }
    }
}

/// A search for documents: the directories that are left, and the documents so far.
#[derive(Debug)]
pub(super) struct DocumentWalk<'a> {
    /// The skill's directory, for diagnostics.
    shown: &'a str,
    /// The directories to list, with their depths.
    pending: VecDeque<(String, usize)>,
    seen: usize,
    full: bool,
    documents: Documents,
}

impl<'a> DocumentWalk<'a> {
    pub(super) fn new(shown: &'a str) -> Self {
        let pending = VecDeque::from([(String::new(), 0)]);
        Self { shown, pending, seen: 1, full: false, documents: Documents::default() }
    }

    /// The next directory to list: its path in the skill, and its depth.
    pub(super) fn next_directory(&mut self) -> Option<(String, usize)> {
        if self.full { None } else { self.pending.pop_front() }
    }

    /// Adds the entries of a directory.
    pub(super) fn enter(&mut self, path: &str, depth: usize, level: DocumentLevel) {
        if level.has_manifest && depth > 0 {
            return;
        }
        self.documents.capped |= level.capped;
        for (code, name, message) in level.odd {
            let at = if name.is_empty() { path.to_owned() } else { join(path, &name) };
            self.report(code, &at, message);
        }
        for (name, size) in level.documents {
            if self.documents.files.len() == MAX_DOCUMENTS {
                (self.full, self.documents.capped) = (true, true);
                return;
            }
            self.documents.files.push(Document { path: join(path, &name), size });
        }
        for name in level.directories {
            let below = join(path, &name);
            let cap = if depth == DOCUMENT_DEPTH {
                let message =
                    format!("prowess lists no documents more than {DOCUMENT_DEPTH} directories deep");
                Some((Code::DepthCap, message))
            } else if self.seen == MAX_DIRECTORIES {
                let message = format!("prowess searches only {MAX_DIRECTORIES} directories for documents");
                Some((Code::DirectoryCap, message))
            } else {
                None
            };
            let Some((code, message)) = cap else {
                self.seen += 1;
                self.pending.push_back((below, depth + 1));
                continue;
            };
            self.documents.capped = true;
            // One diagnostic per limit is enough.
            if !self.documents.diagnostics.iter().any(|found| found.code == code) {
                self.report(code, &below, message);
            }
            break;
        }
    }

    /// Skips a directory that cannot be listed.
    pub(super) fn skip(&mut self, path: &str, error: &dyn fmt::Display) {
        self.report(Code::Unreadable, path, format!("cannot list the directory: {error}"));
    }

    fn report(&mut self, code: Code, path: &str, message: String) {
        let found = &mut self.documents.diagnostics;
        if found.len() < MAX_FINDINGS {
            let file = match path {
                "" => self.shown.to_owned(),
                path => format!("{}/{path}", self.shown.trim_end_matches('/')),
            };
            found.push(Diagnostic::new(code, file, message));
        } else if found.len() == MAX_FINDINGS {
            let message = format!("only the first {MAX_FINDINGS} findings are listed");
            found.push(Diagnostic::new(Code::FindingsCapped, self.shown, message));
        }
    }

    pub(super) fn finish(mut self) -> Documents {
        self.documents.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.documents
    }
}
