//! The vectors of many texts, and their stored form.

use std::collections::HashMap;
use std::sync::Arc;

use prowess_catalog::Digest;
use prowess_catalog::digest::{with_checksum, without_checksum};

use super::vector::{MAX_DIMENSIONS, Vector};

/// How many vectors are kept.
pub(super) const MAX_VECTORS: usize = 20_000;
/// The longest stored form, in bytes.
pub(super) const MAX_BYTES: u64 = (MAX_VECTORS * (MAX_DIMENSIONS + DIGEST) + 1_024) as u64;
/// The first bytes of the stored form. Change the number when the format, or the text that is sent for a skill, changes.
const FORMAT: &[u8] = b"prowess vectors 1\n";
const DIGEST: usize = 32;

/// The vectors of texts, by the digests of the texts. All have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Vectors {
    by_text: HashMap<Digest, Arc<Vector>>,
    /// The texts, the newest last.
    order: Vec<Digest>,
}

impl Vectors {
    pub(super) fn get(&self, text: &Digest) -> Option<&Arc<Vector>> {
        self.by_text.get(text)
    }

    /// How many numbers each vector has.
    pub(super) fn dimensions(&self) -> Option<usize> {
        self.by_text.values().next().map(|vector| vector.dimensions())
    }

    /// Adds a vector. `false` if it has another length than the others.
    pub(super) fn insert(&mut self, text: Digest, vector: Vector) -> bool {
        if self.dimensions().is_some_and(|known| known != vector.dimensions()) {
            return false;
        }
        if self.by_text.insert(text, Arc::new(vector)).is_none() {
            self.order.push(text);
        }
        true
    }

    /// Keeps the vectors of these texts, and as many others as there is room for, the newest first.
    pub(super) fn keep(&mut self, used: &[Digest]) {
        if self.order.len() <= MAX_VECTORS {
            return;
        }
        let used: std::collections::HashSet<&Digest> = used.iter().collect();
        let mut room = MAX_VECTORS.saturating_sub(used.len());
        let order = std::mem::take(&mut self.order);
        let mut kept: Vec<Digest> = order
            .into_iter()
            .rev()
            .filter(|text| {
                used.contains(text) || {
                    let fits = room > 0;
                    room = room.saturating_sub(1);
                    fits
                }
            })
            .collect();
        kept.reverse();
        self.order = kept;
        let kept: std::collections::HashSet<&Digest> = self.order.iter().collect();
        self.by_text.retain(|text, _| kept.contains(text));
    }

    /// The stored form: the length of a vector, then each text's digest and vector, then a checksum.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let dimensions = u32::try_from(self.dimensions().unwrap_or(0)).unwrap_or(0);
        let mut bytes = FORMAT.to_vec();
        bytes.extend_from_slice(&dimensions.to_le_bytes());
        for text in &self.order {
            if let Some(vector) = self.by_text.get(text) {
                bytes.extend_from_slice(text.as_bytes());
                bytes.extend(vector.bytes());
            }
        }
        with_checksum(bytes)
    }

    /// `None` if the bytes are damaged or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored = without_checksum(bytes)?;
        let (dimensions, rest) = stored.strip_prefix(FORMAT)?.split_first_chunk()?;
        let dimensions = u32::from_le_bytes(*dimensions) as usize;
        let length = DIGEST + dimensions;
        if dimensions > MAX_DIMENSIONS || rest.len() % length != 0 || rest.len() / length > MAX_VECTORS {
            return None;
        }
        let mut vectors = Self::default();
        for entry in rest.chunks_exact(length) {
            let (text, vector) = entry.split_first_chunk::<DIGEST>()?;
            vectors.insert(Digest::from_bytes(*text), Vector::from_bytes(vector)?).then_some(())?;
        }
        Some(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vectors {
        let mut vectors = Vectors::default();
        for number in 0..5_u8 {
            let vector = Vector::new(&[1.0, f32::from(number), -0.5]).unwrap();
            assert!(vectors.insert(Digest::of(&[number]), vector));
        }
        vectors
    }

    #[test]
    fn stored_vectors_come_back_and_damaged_ones_do_not() {
        let vectors = some();
        let bytes = vectors.to_bytes();
        assert_eq!(Vectors::from_bytes(&bytes), Some(vectors));
        assert_eq!(Vectors::from_bytes(&Vectors::default().to_bytes()), Some(Vectors::default()));
        for end in 0..bytes.len() {
            assert_eq!(Vectors::from_bytes(&bytes[..end]), None);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Vectors::from_bytes(&damaged), None);
            // With a checksum that fits, it is refused or something else. It never panics.
            damaged.truncate(bytes.len() - DIGEST);
            let _ = Vectors::from_bytes(&with_checksum(damaged));
        }
    }

    #[test]
    fn a_vector_of_another_length_is_refused() {
        assert!(!some().insert(Digest::of(b"x"), Vector::new(&[1.0]).unwrap()));
    }

    #[test]
    fn the_newest_and_the_used_are_kept() {
        let mut vectors = Vectors::default();
        let text = |number: usize| Digest::of(&number.to_le_bytes());
        for number in 0..MAX_VECTORS + 10 {
            vectors.insert(text(number), Vector::new(&[1.0]).unwrap());
        }
        vectors.keep(&[text(3)]);
        assert_eq!((vectors.order.len(), vectors.by_text.len()), (MAX_VECTORS, MAX_VECTORS));
        assert!(vectors.get(&text(3)).is_some() && vectors.get(&text(4)).is_none());
        assert!(vectors.get(&text(MAX_VECTORS + 9)).is_some());
    }
}
