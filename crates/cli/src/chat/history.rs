//! The history of typed lines, also from earlier chats.

use std::path::PathBuf;

use rustyline::history::{FileHistory, History as _, SearchDirection};

/// How many lines are kept.
const MAX_LINES: usize = 1_000;

/// Earlier lines, and the one that is shown now.
pub(super) struct History {
    lines: FileHistory,
    file: PathBuf,
    /// The line that is shown, and the draft from before.
    at: Option<(usize, String)>,
}

impl History {
    /// Reads the history from a file, if possible.
    pub(super) fn new(file: PathBuf) -> Self {
        let mut lines = FileHistory::new();
        // A chat works without its history.
        let _ = lines.set_max_len(MAX_LINES);
        let _ = lines.load(&file);
        Self { lines, file, at: None }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) {
        self.at = None;
        if line.trim().is_empty() {
            return;
        }
        let _ = self.lines.add(line);
        // The file is private. A chat works even if the disk is full.
        let _ = self.lines.append(&self.file);
    }

    /// The person types: Up starts from the end again.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// The line before the one that is shown.
    pub(super) fn older(&mut self, typed: &str) -> Option<String> {
        let (at, draft) = match &self.at {
            Some((at, draft)) => (*at, draft.clone()),
            None => (self.lines.len(), typed.to_owned()),
        };
        let before = at.checked_sub(1)?;
        let line = self.get(before)?;
        self.at = Some((before, draft));
        Some(line)
    }

    /// The line after the one that is shown; after the last, the draft.
    pub(super) fn newer(&mut self) -> Option<String> {
        let (at, draft) = self.at.take()?;
        match self.get(at + 1) {
            Some(line) => {
                self.at = Some((at + 1, draft));
                Some(line)
            }
            None => Some(draft),
        }
    }

    /// The newest line that contains `words` before a position, and its position.
    pub(super) fn find(&self, words: &str, before: Option<usize>) -> Option<(usize, String)> {
        let from = before.unwrap_or(self.lines.len()).checked_sub(1)?;
        let found = self.lines.search(words, from, SearchDirection::Reverse).ok()??;
        Some((found.idx, found.entry.into_owned()))
    }

    fn get(&self, at: usize) -> Option<String> {
        let found = self.lines.get(at, SearchDirection::Reverse).ok()??;
        Some(found.entry.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_looked_at_from_the_last() {
        let place = tempfile::tempdir().unwrap();
        let mut past = History::new(place.path().join("history"));
        for line in ["one tide", " ", "two\nlines", "three"] {
            past.add(line);
        }
        let mut past = History::new(place.path().join("history"));
        assert_eq!(past.newer(), None);
        let older: Vec<String> = std::iter::from_fn(|| past.older("draft")).collect();
        assert_eq!(older, ["three", "two\nlines", "one tide"]);
        assert_eq!(past.newer().as_deref(), Some("two\nlines"));
        past.newer();
        assert_eq!(past.newer().as_deref(), Some("draft"));
        assert_eq!(past.newer(), None);
        assert_eq!(past.find("i", None), Some((1, "two\nlines".to_owned())));
        assert_eq!(past.find("i", Some(1)), Some((0, "one tide".to_owned())));
        assert_eq!(past.find("i", Some(0)), None);
        assert_eq!(past.find("moon", None), None);
    }
}
