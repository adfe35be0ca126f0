//! The text of a listing: names or lines, and notes about what is missing.

use prowess_backend::BackendError;

use super::MAX_SHOWN;
use super::access::ReadAccess;

/// How many names or lines a listing shows.
pub(super) const MAX_NAMES: usize = 1000;
/// How many notes of one kind a listing has.
pub(super) const MAX_NOTES: usize = 10;

/// Names or lines, as many as fit.
#[derive(Default)]
pub(super) struct ListingText {
    text: String,
    lines: usize,
    is_full: bool,
    notes: Vec<String>,
}

impl ListingText {
    /// Whether another line fits.
    pub(super) fn has_room(&self) -> bool {
        !self.is_full
    }

    /// Adds a line, if there is room.
    pub(super) fn add(&mut self, line: &str) {
        self.is_full |= self.lines == MAX_NAMES || self.text.len() + line.len() > MAX_SHOWN;
        if !self.is_full {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += 1;
        }
    }

    /// Adds notes after the lines.
    pub(super) fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes.into_iter().take(MAX_NOTES));
    }

    /// Adds notes about files that could not be read.
    pub(super) async fn note_skipped(&mut self, errors: &[BackendError], readable: &ReadAccess<'_>) {
        let mut notes = Vec::new();
        for error in errors {
            let is_named = match error.path() {
                Some(path) => readable.may_name(path).await,
                None => true,
            };
            if is_named && notes.len() < MAX_NOTES {
                notes.push(format!("left out: {error}"));
            }
        }
        self.note(notes);
    }

    /// The text. `nothing` is shown if there are no lines.
    pub(super) fn finish(mut self, nothing: &str) -> String {
        if self.lines == 0 {
            self.text = format!("({nothing})\n");
        }
        if self.is_full {
            self.text.push_str(&format!("[only the first {} are shown]\n", self.lines));
        }
        for note in &self.notes {
            self.text.push_str(&format!("[{note}]\n"));
        }
        self.text.pop();
        self.text
    }
}
