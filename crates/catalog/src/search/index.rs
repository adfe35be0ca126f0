//! The search index of a catalog: which word is in which skill, and how prominent it is there.

use std::collections::HashMap;
use std::sync::Arc;

use super::file_names::{FileNames, Listed};
use super::number_of;
use super::stem::stem;
use super::vocabulary::Vocabulary;
use super::words::{Piece, each_word};
use crate::catalog::SkillEntry;
use crate::digest::{Digest, Digester};

/// How many different words of one skill are indexed. A description of 1,024 characters has fewer than 200.
pub const MAX_WORDS: usize = 256;

/// How many bytes of one field of a skill are indexed.
pub const MAX_FIELD_BYTES: usize = 8 * 1024;

/// How many different words of all skills are indexed. 5,000 real skills have about 9,000. Words of names are indexed first,
/// and always: a skill with strange words never hides the name of another one.
pub const MAX_VOCABULARY: usize = 100_000;

/// How prominent one word of a text is. Prominence is counted in quarters of a word.
pub(super) const WHOLE: u16 = 4;
/// A part of a CamelCase word. `GitHub` is hardly about hubs.
const PART: u16 = 1;
/// A word that is only in a heading, a file name or the metadata. It counts once, so that long instructions are no advantage.
const ASIDE: u16 = 2;

/// The search index of a catalog. [`Catalog::index`](crate::Catalog::index) builds it.
///
/// It covers every skill that a view can contain. A search uses only the skills of its view, also for statistics such as how
/// rare a word is. So the result is the same as if the catalog had no other skills, unless all skills have more than
/// [`MAX_VOCABULARY`] words.
#[derive(Clone, PartialEq)]
pub struct Index {
    /// The length of each skill's description, in quarters of a word.
    pub(super) lengths: Vec<u32>,
    /// The stems of all words.
    pub(super) vocabulary: Vocabulary,
    /// Where the occurrences of each stem end.
    pub(super) ends: Vec<u32>,
    /// The occurrences of all stems. Those of one stem are in the order of the skills.
    pub(super) occurrences: Vec<Occurrence>,
    /// The digest of the texts, to recognise the catalog that a stored index belongs to.
    pub(super) texts: Digest,
    /// The same for the file names.
    pub(super) listed: Listed,
}

/// That a word is in a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// The number of the skill.
    pub(super) skill: u32,
    /// How prominent the word is in the name.
    pub(super) name: u16,
    /// How prominent it is in the other texts.
    pub(super) text: u16,
}

/// A text of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Description,
    Aside,
}

/// The texts of a skill that are in its manifest, the most important first.
fn fields(entry: &SkillEntry) -> impl Iterator<Item = (Field, &str)> {
    let skill = &entry.skill;
    let metadata = skill.metadata.iter().filter_map(|(_, value)| value.as_text());
    [
        (Field::Name, skill.name.as_str()),
        (Field::Description, &*skill.description),
        (Field::Description, skill.extensions.when_to_use.as_deref().unwrap_or_default()),
        (Field::Aside, &*entry.manifest.headings),
    ]
    .into_iter()
    .chain(metadata.map(|text| (Field::Aside, text)))
    .map(|(field, text)| (field, start(text, MAX_FIELD_BYTES)))
}

/// The digest of all texts that are in manifests.
fn digest_of_texts(entries: &[Arc<SkillEntry>]) -> Digest {
    let mut digester = Digester::default();
    for entry in entries {
        for (_, text) in fields(entry) {
            digester.update(&(text.len() as u64).to_le_bytes());
            digester.update(text.as_bytes());
        }
        digester.update(&u64::MAX.to_le_bytes());
    }
    digester.digest()
}

impl Index {
    /// The index of these skills. Also returns whether it can be stored: not if a directory changed a moment ago, because the
    /// next change might not show.
    pub(super) fn build(entries: &[Arc<SkillEntry>]) -> (Self, bool) {
        let mut builder = Builder::default();
        let mut files = FileNames::new();
        for entry in entries {
            builder.add_name(entry.skill.name.as_str());
        }
        for (skill, entry) in (0..).zip(entries) {
            builder.begin(skill);
            for (field, text) in fields(entry) {
                builder.add(field, text);
            }
            builder.add(Field::Aside, &files.of(entry));
            builder.end();
        }
        let (listed, is_settled) = files.finish();
        (builder.finish(digest_of_texts(entries), listed), is_settled)
    }

    /// Whether this is the index of these skills, as they are now.
    pub(super) fn is_of(&self, entries: &[Arc<SkillEntry>]) -> bool {
        self.lengths.len() == entries.len()
            && self.texts == digest_of_texts(entries)
            && self.listed.is_current(entries)
    }

    /// How many different words the indexed skills have.
    ///
    /// ```
    /// assert_eq!(prowess_catalog::Catalog::empty().index().words(), 0);
    /// ```
    pub fn words(&self) -> usize {
        self.vocabulary.len()
    }

    /// The occurrences of the stem with this number.
    pub(super) fn occurrences(&self, stem: u32) -> &[Occurrence] {
        let stem = stem as usize;
        let start =
            stem.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        self.ends.get(stem).and_then(|end| self.occurrences.get(start..*end as usize)).unwrap_or_default()
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("skills", &self.lengths.len())
            .field("words", &self.words())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Builder {
    /// The number of the stem of each word, so that each word is reduced once.
    words: HashMap<Box<str>, u32>,
    stems: HashMap<Box<str>, u32>,
    /// For each stem, the last skill that has it, and the place of that occurrence in `found`.
    last: Vec<(u32, u32)>,
    found: Vec<(u32, Occurrence)>,
    lengths: Vec<u32>,
    skill: u32,
    length: u32,
    /// How many different words the skill has so far.
    count: usize,
}

impl Builder {
    fn begin(&mut self, skill: u32) {
        (self.skill, self.length, self.count) = (skill, 0, 0);
    }

    fn end(&mut self) {
        self.lengths.push(self.length);
    }

    /// Adds the words of a name to the vocabulary.
    fn add_name(&mut self, name: &str) {
        each_word(name, |word, _| {
            self.number(word, usize::MAX);
            true
        });
    }

    fn add(&mut self, field: Field, text: &str) {
        each_word(text, |word, piece| {
            if let Some(stem) = self.number(word, MAX_VOCABULARY) {
                self.add_word(field, stem, piece);
            } else {
                self.count += 1;
            }
            self.count < MAX_WORDS
        });
    }

    /// The number of the stem of `word`. `None` if it would be new, and there are `most` stems already.
    fn number(&mut self, word: &str, most: usize) -> Option<u32> {
        if let Some(number) = self.words.get(word) {
            return Some(*number);
        }
        let mut reduced = word.to_owned();
        stem(&mut reduced);
        let number = match self.stems.get(reduced.as_str()) {
            Some(number) => *number,
            None if self.last.len() < most => {
                let number = number_of(self.last.len());
                self.stems.insert(reduced.into(), number);
                self.last.push((u32::MAX, 0));
                number
            }
            None => return None,
        };
        // Other forms of known words are remembered up to a limit, too.
        if self.words.len() < 2 * MAX_VOCABULARY {
            self.words.insert(word.into(), number);
        }
        Some(number)
    }

    fn add_word(&mut self, field: Field, stem: u32, piece: Piece) {
        let prominence = match (field, piece) {
            (Field::Aside, Piece::Whole) => ASIDE,
            (_, Piece::Part) => PART,
            (_, Piece::Whole) => WHOLE,
        };
        if field == Field::Description {
            self.length += u32::from(prominence);
        }
        let (skill, place) = self.last[stem as usize];
        let is_new = skill != self.skill;
        let occurrence = if is_new {
            self.count += 1;
            self.last[stem as usize] = (self.skill, number_of(self.found.len()));
            self.found.push((stem, Occurrence { skill: self.skill, name: 0, text: 0 }));
            self.found.last_mut()
        } else {
            self.found.get_mut(place as usize)
        };
        let Some((_, occurrence)) = occurrence else { return };
        match field {
            Field::Name => occurrence.name = occurrence.name.saturating_add(prominence),
            Field::Description => occurrence.text = occurrence.text.saturating_add(prominence),
            Field::Aside if is_new => occurrence.text = prominence,
            Field::Aside => {}
        }
    }

    /// Numbers the stems in alphabetical order, and sorts the occurrences by stem.
    fn finish(self, texts: Digest, listed: Listed) -> Index {
        let mut stems: Vec<(&str, u32)> =
            self.stems.iter().map(|(stem, number)| (&**stem, *number)).collect();
        stems.sort_unstable();
        let mut places = vec![0_u32; stems.len()];
        for (place, (_, number)) in (0..).zip(&stems) {
            places[*number as usize] = place;
        }
        let mut ends = vec![0_u32; stems.len()];
        for (stem, _) in &self.found {
            ends[places[*stem as usize] as usize] += 1;
        }
        let mut next = Vec::with_capacity(stems.len());
        let mut sum = 0;
        for end in &mut ends {
            next.push(sum as usize);
            sum += *end;
            *end = sum;
        }
        let mut occurrences = vec![Occurrence { skill: 0, name: 0, text: 0 }; self.found.len()];
        for (stem, occurrence) in &self.found {
            let place = &mut next[places[*stem as usize] as usize];
            occurrences[*place] = *occurrence;
            *place += 1;
        }
        let vocabulary = Vocabulary::of(stems.iter().map(|(stem, _)| *stem));
        Index { lengths: self.lengths, vocabulary, ends, occurrences, texts, listed }
    }
}

/// The beginning of a text, at most `most` bytes.
fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
