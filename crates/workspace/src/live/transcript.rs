//! The end of a command's output, by position.

use std::collections::VecDeque;

/// The end of a command's output. The position of a byte counts from the start of all output.
#[derive(Debug)]
pub(super) struct Transcript {
    bytes: VecDeque<u8>,
    /// The position of the first byte that is kept.
    begin: u64,
    room: usize,
}

/// An excerpt of a transcript.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Where it starts. It starts later than requested if the requested bytes are gone.
    pub(super) from: u64,
    /// Where the next excerpt starts.
    pub(super) next: u64,
}

impl Transcript {
    /// Keeps at most `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { bytes: VecDeque::new(), begin: 0, room }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let kept = &piece[piece.len().saturating_sub(self.room)..];
        let surplus = (self.bytes.len() + kept.len()).saturating_sub(self.room);
        self.bytes.drain(..surplus);
        self.bytes.extend(kept);
        self.begin += (surplus + piece.len() - kept.len()) as u64;
    }

    /// The position of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// The bytes from a position on, as far as they are kept.
    pub(super) fn bytes_from(&self, from: u64) -> Vec<u8> {
        let from = from.clamp(self.begin, self.end());
        let skipped = usize::try_from(from - self.begin).unwrap_or(usize::MAX);
        self.bytes.range(skipped.min(self.bytes.len())..).copied().collect()
    }

    /// About `most` bytes from a position on, in whole characters. Bytes that are not UTF-8 become replacement characters.
    /// An unfinished character at the end is left for the next excerpt.
    pub(super) fn excerpt(&self, from: u64, most: usize, over: bool) -> Excerpt {
        let from = from.clamp(self.begin, self.end());
        let skipped = usize::try_from(from - self.begin).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = self.bytes.iter().skip(skipped).take(most.max(4)).copied().collect();
        let cut = skipped + bytes.len() < self.bytes.len();
        if cut || !over {
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        let next = from + bytes.len() as u64;
        Excerpt { text: String::from_utf8_lossy(&bytes).into_owned(), from, next }
    }

    /// The unfinished last line, if it is short.
    pub(super) fn open_line(&self) -> Option<String> {
        const LONGEST: usize = 500;
        let line: Vec<u8> =
            self.bytes.iter().rev().take(LONGEST).take_while(|byte| **byte != b'\n').copied().collect();
        (line.len() < LONGEST)
            .then(|| String::from_utf8_lossy(&line.into_iter().rev().collect::<Vec<_>>()).into_owned())
    }
}

/// How many bytes at the end are an unfinished character.
fn unfinished(bytes: &[u8]) -> usize {
    (1..=3.min(bytes.len()))
        .find(|length| {
            let tail = &bytes[bytes.len() - length..];
            std::str::from_utf8(tail)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_stay_when_the_beginning_goes() {
        let mut transcript = Transcript::new(10);
        transcript.push(b"0123456789");
        transcript.push(b"abc");
        assert_eq!(
            transcript.excerpt(0, 100, true),
            Excerpt { text: "3456789abc".to_owned(), from: 3, next: 13 }
        );
        assert_eq!(transcript.excerpt(11, 100, true), Excerpt { text: "bc".to_owned(), from: 11, next: 13 });
        assert_eq!(transcript.excerpt(99, 100, true), Excerpt { text: String::new(), from: 13, next: 13 });
        transcript.push(&[b'x'; 100]);
        assert_eq!((transcript.begin, transcript.end()), (103, 113));
    }

    #[test]
    fn a_character_comes_whole() {
        let mut transcript = Transcript::new(100);
        transcript.push("a🦀".as_bytes().split_at(3).0);
        assert_eq!(transcript.excerpt(0, 100, false).text, "a");
        transcript.push("a🦀".as_bytes().split_at(3).1);
        assert_eq!(transcript.excerpt(1, 100, false).text, "🦀");
    }

    #[test]
    fn only_the_last_line_is_open() {
        let mut transcript = Transcript::new(1000);
        transcript.push(b"one\nName? ");
        assert_eq!(transcript.open_line().as_deref(), Some("Name? "));
        transcript.push(b"\n");
        assert_eq!(transcript.open_line().as_deref(), Some(""));
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(text in ".{0,60}", most in 1usize..20, pieces in 1usize..9) {
            let mut transcript = Transcript::new(1000);
            let (mut seen, mut at) = (String::new(), 0);
            let bytes = text.as_bytes();
            for piece in bytes.chunks(pieces) {
                transcript.push(piece);
                let excerpt = transcript.excerpt(at, most, false);
                seen.push_str(&excerpt.text);
                at = excerpt.next;
            }
            while at < transcript.end() {
                let excerpt = transcript.excerpt(at, most, true);
                prop_assert!(excerpt.next > at);
                seen.push_str(&excerpt.text);
                at = excerpt.next;
            }
            prop_assert_eq!(seen, text);
        }
    }
}
