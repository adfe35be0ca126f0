//! Denied requests of a command, for the report.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::warning::RunWarning;

/// How many denied requests are named; more are only counted.
const MAX_NAMED: usize = 20;

/// The denied requests of one run, each once.
#[derive(Debug, Default)]
pub(super) struct DeniedRequests(Mutex<DeniedList>);

#[derive(Debug, Default)]
struct DeniedList {
    sentences: BTreeSet<String>,
    /// How many denied requests are not named.
    others: u64,
}

impl DeniedRequests {
    /// Adds a sentence. It must contain only checked text.
    pub(super) fn note(&self, sentence: &str) {
        let mut seen = self.lock();
        if seen.sentences.len() < MAX_NAMED || seen.sentences.contains(sentence) {
            seen.sentences.insert(sentence.to_owned());
        } else {
            seen.others += 1;
        }
    }

    /// Warnings for the report.
    pub(super) fn warnings(&self) -> Vec<RunWarning> {
        let seen = self.lock();
        let named = seen.sentences.iter().map(|what| RunWarning::Denied { what: what.clone() });
        let mut warnings: Vec<RunWarning> = named.collect();
        if seen.others > 0 {
            warnings.push(RunWarning::MoreDenied { count: seen.others });
        }
        warnings
    }

    fn lock(&self) -> MutexGuard<'_, DeniedList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_and_not_too_many() {
        let denied = DeniedRequests::default();
        for number in 0..30 {
            denied.note(&format!("{number:02}"));
            denied.note("00");
        }
        let warnings = denied.warnings();
        assert_eq!(warnings.len(), MAX_NAMED + 1);
        assert_eq!(warnings[0], RunWarning::Denied { what: "00".to_owned() });
        assert_eq!(warnings[MAX_NAMED], RunWarning::MoreDenied { count: 10 });
    }
}
