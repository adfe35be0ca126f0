//! A stored search index.
//!
//! Numbers are stored in as few bytes as they need, seven bits each. Stems are in order, so each is stored as the length of the
//! beginning that it shares with the one before, and the rest. The skills of a stem are stored as differences.

use super::file_names::Listed;
use super::index::{Index, Occurrence};
use super::number_of;
use super::vocabulary::Vocabulary;
use super::words::MAX_WORD;
use crate::catalog::Catalog;
use crate::digest::{Digest, with_checksum, without_checksum};

/// The first bytes of a stored index. Change the number when the format, or the way in which texts become words, changes.
const FORMAT: &[u8] = concat!("prowess search index 2 of ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
const DIGEST: usize = 32;
/// The longest stem, in bytes. A word has at most [`MAX_WORD`] characters, and folding can make a few more.
const MAX_STEM_BYTES: usize = 8 * MAX_WORD;

impl Index {
    /// The index as bytes, for [`Catalog::use_index`].
    ///
    /// ```
    /// use prowess_catalog::Catalog;
    ///
    /// let bytes = Catalog::empty().index().to_bytes();
    /// assert!(Catalog::empty().use_index(&bytes));
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FORMAT.to_vec();
        bytes.extend_from_slice(self.texts.as_bytes());
        bytes.extend_from_slice(self.listed.stamps.as_bytes());
        put(&mut bytes, number_of(self.lengths.len()));
        for length in &self.lengths {
            put(&mut bytes, *length);
        }
        bytes.extend_from_slice(&self.listed.folders);
        put(&mut bytes, number_of(self.vocabulary.len()));
        let mut before = "";
        for (number, stem) in (0..).zip(self.vocabulary.words()) {
            let shared = before.bytes().zip(stem.bytes()).take_while(|(a, b)| a == b).count();
            put(&mut bytes, number_of(shared));
            put(&mut bytes, number_of(stem.len() - shared));
            bytes.extend_from_slice(&stem.as_bytes()[shared..]);
            let occurrences = self.occurrences(number);
            put(&mut bytes, number_of(occurrences.len()));
            let mut last = 0;
            for occurrence in occurrences {
                put(&mut bytes, occurrence.skill - last);
                last = occurrence.skill;
                put(&mut bytes, u32::from(occurrence.name));
                put(&mut bytes, u32::from(occurrence.text));
            }
            before = stem;
        }
        with_checksum(bytes)
    }

    /// The index in `bytes`. `None` if they are damaged or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored = without_checksum(bytes)?;
        let mut rest = stored.strip_prefix(FORMAT)?;
        let texts = Digest::from_bytes(*take(&mut rest, DIGEST)?.first_chunk()?);
        let stamps = Digest::from_bytes(*take(&mut rest, DIGEST)?.first_chunk()?);
        // Every number takes at least a byte.
        let skills = number(&mut rest).filter(|count| *count as usize <= rest.len())?;
        let lengths = (0..skills).map(|_| number(&mut rest)).collect::<Option<Vec<u32>>>()?;
        let listed = Listed { folders: take(&mut rest, lengths.len())?.to_vec(), stamps };
        let count = number(&mut rest).filter(|count| *count as usize <= rest.len())?;
        let mut stems: Vec<String> = Vec::new();
        let (mut ends, mut occurrences) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let shared = number(&mut rest)? as usize;
            let length = number(&mut rest)? as usize;
            // Without a bound, words that share their beginnings with the words before them would take much memory.
            if shared.checked_add(length)? > MAX_STEM_BYTES {
                return None;
            }
            let before = stems.last().map_or("", String::as_str);
            let mut stem = before.as_bytes().get(..shared)?.to_vec();
            stem.extend_from_slice(take(&mut rest, length)?);
            let stem = String::from_utf8(stem).ok()?;
            if stem.as_str() <= before {
                return None;
            }
            stems.push(stem);
            let mut skill = 0_u32;
            for place in 0..number(&mut rest)? {
                let step = number(&mut rest)?;
                skill =
                    skill.checked_add(step).filter(|skill| *skill < skills && (place == 0 || step > 0))?;
                let name = u16::try_from(number(&mut rest)?).ok()?;
                let text = u16::try_from(number(&mut rest)?).ok()?;
                occurrences.push(Occurrence { skill, name, text });
            }
            ends.push(u32::try_from(occurrences.len()).ok()?);
        }
        occurrences.shrink_to_fit();
        let vocabulary = Vocabulary::of(stems.iter().map(String::as_str));
        rest.is_empty().then_some(Self { lengths, vocabulary, ends, occurrences, texts, listed })
    }
}

impl Catalog {
    /// Uses a stored index instead of building one. Returns `false` if the catalog has an index already, or if the bytes are
    /// damaged, of another version, or the index of other texts or files; then the next search builds the index.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// # std::fs::create_dir(root.join("greet"))?;
    /// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let stored = catalog.index().to_bytes();
    ///
    /// let again = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// assert!(again.use_index(&stored));
    /// assert_eq!(again.view_all().search("hello").len(), 1);
    /// assert!(!Catalog::empty().use_index(&stored), "it belongs to other skills");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn use_index(&self, bytes: &[u8]) -> bool {
        let entries = self.everything();
        let Some(index) = Index::from_bytes(bytes) else { return false };
        index.is_of(&entries) && self.index_cell().set(index).is_ok()
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let [low, ..] = (number & 0x7F).to_le_bytes();
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return;
        }
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u32::from(byte & 0x7F).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, 16_384, u32::MAX - 1, u32::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut rest = bytes.as_slice();
            assert_eq!((number(&mut rest), rest), (Some(value), &[][..]));
            assert_eq!(number(&mut &bytes[..bytes.len() - 1]), None, "a cut number");
        }
        assert_eq!(number(&mut &[0xFF; 9][..]), None);
    }

    #[test]
    fn false_counts_are_refused() {
        let index =
            Index { lengths: vec![4], texts: Digest::of(b""), ..Index::from_bytes(&empty()).unwrap() };
        let listed = Listed { folders: vec![1], ..index.listed.clone() };
        let index = Index { listed, ..index };
        let bytes = index.to_bytes();
        assert_eq!(Index::from_bytes(&bytes), Some(index));
        for at in 0..bytes.len() - DIGEST {
            let mut changed = bytes[..bytes.len() - DIGEST].to_vec();
            changed[at] = changed[at].wrapping_add(0x7F);
            // It is refused, or it is another index. It never panics.
            let _ = Index::from_bytes(&with_checksum(changed));
        }
    }

    fn empty() -> Vec<u8> {
        Catalog::empty().index().to_bytes()
    }
}
