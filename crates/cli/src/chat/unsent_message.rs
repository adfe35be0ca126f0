//! The message that a person is typing, kept in case the program is told to end.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::history::History;

/// A copy of the message that is being typed, which a signal finds.
#[derive(Default)]
pub(super) struct UnsentMessage(Mutex<String>);

impl UnsentMessage {
    /// Notes what is typed now.
    pub(super) fn note(&self, text: &str) {
        let mut noted = self.text();
        if *noted != text {
            text.clone_into(&mut noted);
        }
    }

    /// Puts the message among the earlier lines. A signal does not end the program in the middle of it.
    pub(super) fn settle(&self, history: &mut History, text: &str) {
        let mut noted = self.text();
        history.add(text);
        noted.clear();
    }

    /// Puts what is noted among the earlier lines of a file, for a program that ends. Nobody writes there while the result
    /// lives.
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
