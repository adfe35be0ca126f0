//! Replaces secrets in a stream, also those that are split across pieces.

use memchr::memmem;
use secrecy::{ExposeSecret, SecretString};

/// The replacement for a secret.
const MARK: &[u8] = b"[redacted]";
/// Shorter values are not replaced: they would make the output unreadable.
const SHORTEST: usize = 4;

/// Replaces secrets in one stream.
pub(crate) struct Redactor<'a> {
    secrets: Vec<&'a [u8]>,
    /// The end of the stream so far, if a secret may start in it.
    held: Vec<u8>,
}

impl<'a> Redactor<'a> {
    pub(crate) fn new(secrets: &'a [SecretString]) -> Self {
        let long = |secret: &&[u8]| secret.len() >= SHORTEST;
        Self {
            secrets: secrets.iter().map(|secret| secret.expose_secret().as_bytes()).filter(long).collect(),
            held: Vec::new(),
        }
    }

    /// A whole text without its secrets; `None` if there are none.
    pub(crate) fn redacted(&mut self, whole: &[u8]) -> Option<Vec<u8>> {
        self.first(whole)?;
        let mut shown = self.push(whole);
        shown.extend(self.finish());
        Some(shown)
    }

    /// Adds a piece, and returns the bytes that can be passed on.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return piece.to_vec();
        }
        self.held.extend_from_slice(piece);
        self.take(false)
    }

    /// Ends the stream, and returns the rest.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, last: bool) -> Vec<u8> {
        let all = std::mem::take(&mut self.held);
        let mut shown = Vec::with_capacity(all.len());
        let mut rest = &all[..];
        while let Some((at, length)) = self.first(rest) {
            // `abcd` was found, but it may become the secret `abcdef`.
            if !last && self.may_grow(&rest[at..], length) {
                break;
            }
            shown.extend_from_slice(&rest[..at]);
            shown.extend_from_slice(MARK);
            rest = &rest[at + length..];
        }
        let held = if last { 0 } else { self.open_end(rest) };
        let (show, hold) = rest.split_at(rest.len() - held);
        shown.extend_from_slice(show);
        self.held = hold.to_vec();
        shown
    }

    /// The first secret; the longest one, if several start there.
    fn first(&self, text: &[u8]) -> Option<(usize, usize)> {
        self.secrets
            .iter()
            .filter_map(|secret| memmem::find(text, secret).map(|at| (at, secret.len())))
            .min_by_key(|(at, length)| (*at, usize::MAX - length))
    }

    fn may_grow(&self, text: &[u8], length: usize) -> bool {
        self.secrets
            .iter()
            .any(|secret| secret.len() > length && secret.len() > text.len() && secret.starts_with(text))
    }

    /// How many bytes at the end could be the start of a secret.
    fn open_end(&self, text: &[u8]) -> usize {
        let longest = self.secrets.iter().map(|secret| secret.len()).max().unwrap_or(0);
        (0..=longest.min(text.len()))
            .rev()
            .find(|length| {
                let end = &text[text.len() - length..];
                self.secrets.iter().any(|secret| secret.starts_with(end))
            })
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn through(secrets: &[&str], pieces: &[&[u8]]) -> String {
        let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        let mut redactor = Redactor::new(&secrets);
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| redactor.push(piece)).collect();
        shown.extend(redactor.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_secret_is_replaced() {
        assert_eq!(through(&["hunter22"], &[b"a hunter22 b"]), "a [redacted] b");
    }

    #[test]
    fn a_secret_that_contains_another_goes_whole() {
        assert_eq!(through(&["abcd", "abcdef"], &[b"x abcd", b"ef y abcd z"]), "x [redacted] y [redacted] z");
    }

    #[test]
    fn a_beginning_that_goes_nowhere_is_shown() {
        assert_eq!(through(&["hunter22"], &[b"hunt", b"ing hun"]), "hunting hun");
    }

    #[test]
    fn short_secrets_are_ignored() {
        assert_eq!(through(&["abc", ""], &[b"abcabc"]), "abcabc");
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_secret_does_not_show(cuts in proptest::collection::vec(1usize..6, 1..40)) {
            let text = "aab sesame sesasesame-open sesamesesame end sesame-op";
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(
                through(&["sesame", "sesame-open"], &pieces),
                "aab [redacted] sesa[redacted] [redacted][redacted] end [redacted]-op"
            );
        }
    }
}
