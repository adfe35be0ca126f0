//! Looks for a skill's documents, one directory after another, whoever lists the directories.
//!
//! What lies nearest to the SKILL.md comes first, and in each directory the order is that of the names:
//! when a cap bites, the same documents are left out every time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::path::{self, PathRefusal};
use super::{DOCUMENT_DEPTH, Document, Documents, MAX_DOCUMENTS};
use crate::diagnostic::{Code, Diagnostic, MAX_FINDINGS};
use crate::local::EntryKind;
use crate::scan::join;
use crate::skill::MANIFEST;

/// The most directories of one skill that are looked at.
const MAX_DIRECTORIES: usize = 1000;

/// What one directory holds that matters here.
#[derive(Debug, Default)]
pub(super) struct DocumentLevel {
    /// Documents by name, with their sizes.
    pub(super) documents: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
    /// Why which entries are left out.
    odd: Vec<(Code, String, String)>,
    /// Whether there are more entries than were kept.
    pub(super) capped: bool,
    has_manifest: bool,
}

impl DocumentLevel {
    /// Takes in an entry of the directory.
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
            return self.leave_out(code, name, format!("the name cannot be used: {refusal}"));
        }
        // However many there are, only the first by name are held.
        if kind == EntryKind::Directory {
            self.directories.insert(name.to_owned());
            self.capped |= self.directories.len() > MAX_DIRECTORIES && self.directories.pop_last().is_some();
        } else {
            self.documents.insert(name.to_owned(), size);
            self.capped |= self.documents.len() > MAX_DOCUMENTS && self.documents.pop_last().is_some();
        }
    }

    /// Reports an entry that would have been wanted; without a name, something in the directory.
    pub(super) fn leave_out(&mut self, code: Code, name: &str, message: impl Into<String>) {
        if self.odd.len() <= MAX_FINDINGS {
            self.odd.push((code, path::printable(name), message.into()));
        }
    }
}

/// A search for documents: what is still to be looked at, and what was found.
#[derive(Debug)]
pub(super) struct DocumentWalk<'a> {
    /// The skill's directory, as findings name it.
    shown: &'a str,
    /// Directories to be listed, with how deep they lie.
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

    /// The next directory to list, by its path below the skill's, and how deep it lies.
    pub(super) fn next_directory(&mut self) -> Option<(String, usize)> {
        if self.full { None } else { self.pending.pop_front() }
    }

    /// Takes in what the directory holds.
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
                let message = format!("documents more than {DOCUMENT_DEPTH} directories deep are not listed");
                Some((Code::DepthCap, message))
            } else if self.seen == MAX_DIRECTORIES {
                let message = format!("documents are looked for in {MAX_DIRECTORIES} directories only");
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
            // Of each cap one finding tells; the rest would say the same.
            if !self.documents.diagnostics.iter().any(|found| found.code == code) {
                self.report(code, &below, message);
            }
            break;
        }
    }

    /// Passes over a directory that cannot be listed.
    pub(super) fn skip(&mut self, path: &str, error: &dyn fmt::Display) {
        self.report(Code::Unreadable, path, format!("the directory cannot be listed: {error}"));
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
            let message = format!("only the first {MAX_FINDINGS} findings are told");
            found.push(Diagnostic::new(Code::FindingsCapped, self.shown, message));
        }
    }

    pub(super) fn finish(mut self) -> Documents {
        self.documents.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.documents
    }
}
