//! Keeps the start and the end of an output stream.

use std::collections::VecDeque;

use crate::command::Captured;

/// Keeps the start and the end of a stream.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `room` bytes, half from each end.
    pub(super) fn new(room: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room: room.div_ceil(2),
            tail_room: room / 2,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let fits = piece.len().min(self.head_room - self.head.len());
        let (head, rest) = piece.split_at(fits);
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_room)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_room);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// The kept bytes, in one piece if nothing was left out.
    pub(super) fn finish(mut self) -> Captured {
        let tail: Vec<u8> = self.tail.into();
        if (self.head.len() + tail.len()) as u64 == self.total {
            self.head.extend_from_slice(&tail);
            return Captured { head: self.head, tail: Vec::new(), total: self.total };
        }
        Captured { head: self.head, tail, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_whole(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..12),
            room in 0usize..40,
        ) {
            let whole: Vec<u8> = pieces.concat();
            let mut keep = Capture::new(room);
            for piece in &pieces {
                keep.push(piece);
            }
            let kept = keep.finish();
            prop_assert_eq!(kept.total, whole.len() as u64);
            prop_assert!(kept.head.len() + kept.tail.len() <= room);
            prop_assert!(whole.starts_with(&kept.head));
            prop_assert!(whole.ends_with(&kept.tail));
            if whole.len() <= room {
                prop_assert_eq!(kept.head, whole);
            } else {
                prop_assert_eq!(kept.head.len() + kept.tail.len(), room);
            }
        }
    }
}
