//! The unsent message, saved if a signal ends the program.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::history::History;

/// A copy of the message being typed, for the signal handler.
#[derive(Default)]
pub(super) struct UnsentMessage(Mutex<String>);

impl UnsentMessage {
    /// Updates the copy.
    pub(super) fn note(&self, text: &str) {
        let mut noted = self.text();
        if *noted != text {
            text.clone_into(&mut noted);
        }
    }

    /// Adds the message to the history. A signal cannot end the program in between.
    pub(super) fn settle(&self, history: &mut History, text: &str) {
        let mut noted = self.text();
        history.add(text);
        noted.clear();
    }

    /// Adds the copy to a history file when the program ends. The lock is held until the result is dropped.
    pub(super) fn rescue(&self, history: &Path) -> MutexGuard<'_, String> {
        let noted = self.text();
        if !noted.trim().is_empty() {
            History::new(history.to_owned()).add(&noted);
        }
        noted
    }

    fn text(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
