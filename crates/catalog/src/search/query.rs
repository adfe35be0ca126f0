//! Ranks the skills of a view for a query.
//!
//! The ranking is BM25F: a word counts more the rarer it is, more in the name than in the description, less in a long
//! description, and each further repetition counts less. A query word also matches similar and related words, with less
//! weight. Of all matches of one query word in a skill, only the best counts. So a skill gains nothing by listing synonyms.

use std::collections::HashMap;

use super::index::{Index, Occurrence, WHOLE};
use super::related::{MAX_PHRASE, Related, Role, roles};
use super::stem::stem;
use super::words::{Piece, each_word};

/// How many different words of a query are used.
pub const MAX_QUERY_WORDS: usize = 64;
/// How many bytes of a query are read.
const MAX_QUERY_BYTES: usize = 4 * 1024;

/// How much more a word in the name counts than a word in the description.
const NAME_WEIGHT: f32 = 2.0;
/// How soon repetition stops to count. Descriptions are short, so this is less than the usual 1.2.
const SATURATION: f32 = 0.9;
/// How much the length of a description counts.
const LENGTH_WEIGHT: f32 = 0.75;

/// How much a match with a mistyped word counts, if the words were equally similar.
const TYPO_WEIGHT: f32 = 0.7;
/// How much a match with a similar word counts, such as the same word in another language.
const COGNATE_WEIGHT: f32 = 0.5;
/// How much a match counts if the query word is only the beginning of a word.
const PREFIX_WEIGHT: f32 = 0.5;
/// The shortest beginning.
const SHORTEST_PREFIX: usize = 3;
/// How many words with the same beginning are used.
const MAX_PREFIXED: usize = 32;
/// How much a match counts if two words are written as one, or one as two.
const JOINED_WEIGHT: f32 = 0.8;
/// The shortest word that may be two.
const SHORTEST_JOINED: usize = 6;
/// How much a match with a related word counts.
const RELATED_WEIGHT: f32 = 0.7;
/// For how many unknown words of a query similar words are looked for. This takes the most time.
const MAX_UNKNOWN_WORDS: usize = 12;
/// How much a function word counts.
const FUNCTION_WEIGHT: f32 = 0.2;

/// The skills of a view, by their numbers in the index.
#[derive(Debug)]
pub(crate) struct Members {
    /// The place of each indexed skill in the view. [`Members::ABSENT`] if the view does not have it.
    pub(super) places: Vec<u32>,
    count: usize,
    /// The average length of a description in the view.
    average: f32,
}

impl Members {
    pub(crate) const ABSENT: u32 = u32::MAX;

    pub(crate) fn new(index: &Index, places: Vec<u32>) -> Self {
        let lengths = places.iter().zip(&index.lengths).filter(|(place, _)| **place != Self::ABSENT);
        let (count, sum) =
            lengths.fold((0, 0), |(count, sum), (_, length)| (count + 1, sum + u64::from(*length)));
        let average = sum as f32 / count.max(1) as f32;
        Self { places, count, average: average.max(1.0) }
    }

    fn has(&self, occurrence: &Occurrence) -> bool {
        self.places.get(occurrence.skill as usize).is_some_and(|place| *place != Self::ABSENT)
    }
}

/// Stems that match a query word together, and how much the match counts.
struct Variant {
    stems: Vec<u32>,
    weight: f32,
}

/// A word of the query, and everything that matches it.
struct Wanted {
    weight: f32,
    /// How rare the word itself is. A match with another word counts as at most as rare.
    rarity: f32,
    variants: Vec<Variant>,
}

impl Wanted {
    fn add(&mut self, stems: Vec<u32>, weight: f32) {
        match self.variants.iter_mut().find(|variant| variant.stems == stems) {
            Some(variant) => variant.weight = variant.weight.max(weight),
            None => self.variants.push(Variant { stems, weight }),
        }
    }
}

/// How well a skill matches a query word, or the whole query.
#[derive(Clone, Copy, Default)]
struct Match {
    score: f32,
    /// How much of the word, or of the query, the skill has.
    covered: f32,
    /// How many words of the query the skill has, without function words.
    words: usize,
}

/// A skill that matches a query.
pub(super) struct Ranked {
    /// Its place in the view.
    pub(super) place: u32,
    pub(super) score: f32,
    /// The share of the query that it covers, from 0 to 1.
    pub(super) coverage: f32,
    /// How many words of the query it has.
    pub(super) words: usize,
}

/// The skills that match `query`, best first.
pub(super) fn rank(index: &Index, members: &Members, query: &str) -> Vec<Ranked> {
    let mut ranking = Ranking { index, members, rarities: HashMap::new(), similar_left: MAX_UNKNOWN_WORDS };
    let words = query_words(query);
    let mut roles = roles(&words);
    // Function words say nothing about a task. If there are no others, they find skills but cover nothing.
    let is_about_something = roles.contains(&Role::Content);
    if !is_about_something {
        roles.fill(Role::Content);
    }
    let stems: Vec<String> = words.iter().map(|word| stemmed(word)).collect();
    let mut totals = vec![Match::default(); members.places.len()];
    let mut best = vec![Match::default(); members.places.len()];
    // A query without a single rare word says little, so no skill covers all of it.
    let (mut weight, least_weight) = (0.0, rarity(1, members.count));
    // Function words come last: they count only in skills that have other words of the query.
    for wanted_role in [Role::Content, Role::Function] {
        for at in (0..words.len()).filter(|at| roles[*at] == wanted_role) {
            let wanted = ranking.wanted(&words, &stems, at, wanted_role);
            let counts = wanted_role == Role::Content && is_about_something;
            let rarity = if counts { wanted.rarity } else { 0.0 };
            weight += rarity;
            for skill in ranking.matches(&wanted, &mut best) {
                let found = std::mem::take(&mut best[skill as usize]);
                let total = &mut totals[skill as usize];
                if wanted_role == Role::Content || total.score > 0.0 {
                    total.score += wanted.weight * found.score;
                    total.covered += rarity * found.covered;
                    total.words += usize::from(counts);
                }
            }
        }
    }
    let weight = f32::max(weight, least_weight);
    let found = members.places.iter().zip(totals).filter(|(_, total)| total.score > 0.0);
    let mut ranked: Vec<Ranked> = found
        .map(|(place, Match { score, covered, words })| Ranked {
            place: *place,
            score,
            words,
            coverage: (covered / weight).min(1.0),
        })
        .collect();
    ranked.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
    ranked
}

/// The different words of a query.
fn query_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    each_word(&query[..query.floor_char_boundary(MAX_QUERY_BYTES)], |word, piece| {
        if piece == Piece::Whole && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
        words.len() < MAX_QUERY_WORDS
    });
    words
}

fn stemmed(word: &str) -> String {
    let mut word = word.to_owned();
    stem(&mut word);
    word
}

struct Ranking<'a> {
    index: &'a Index,
    members: &'a Members,
    /// How rare the stems are that were looked at.
    rarities: HashMap<u32, f32>,
    /// For how many more words similar words are looked for.
    similar_left: usize,
}

impl Ranking<'_> {
    /// Whether a skill of the view has this stem.
    fn is_known(&self, stem: u32) -> bool {
        self.index.occurrences(stem).iter().any(|occurrence| self.members.has(occurrence))
    }

    /// The number of this stem, if a skill of the view has it.
    fn known(&self, stem: &str) -> Option<u32> {
        self.index.vocabulary.find(stem).filter(|number| self.is_known(*number))
    }

    /// The numbers of all these stems, if the view has them all.
    fn all_known(&self, stems: &[Box<str>]) -> Option<Vec<u32>> {
        stems.iter().map(|stem| self.known(stem)).collect()
    }

    fn rarity(&mut self, stem: u32) -> f32 {
        let (index, members) = (self.index, self.members);
        *self.rarities.entry(stem).or_insert_with(|| {
            let occurrences = index.occurrences(stem);
            let having = if members.count == members.places.len() {
                occurrences.len()
            } else {
                occurrences.iter().filter(|occurrence| members.has(occurrence)).count()
            };
            rarity(having, members.count)
        })
    }

    /// The query word at this place, with everything that matches it.
    fn wanted(&mut self, words: &[String], stems: &[String], at: usize, role: Role) -> Wanted {
        let own = self.known(&stems[at]);
        let rarity = own.map_or_else(|| rarity(0, self.members.count), |own| self.rarity(own));
        let weight = if role == Role::Function { FUNCTION_WEIGHT } else { 1.0 };
        let mut wanted = Wanted { weight, rarity, variants: Vec::new() };
        if let Some(own) = own {
            wanted.add(vec![own], 1.0);
        }
        if role == Role::Function {
            return wanted;
        }
        let mut is_related = false;
        for end in at + 1..=words.len().min(at + MAX_PHRASE) {
            let phrase: Vec<&str> = words[at..end].iter().map(String::as_str).collect();
            let reduced: Vec<&str> = stems[at..end].iter().map(String::as_str).collect();
            for related in Related::get().to(&phrase, &reduced) {
                is_related = true;
                if let Some(stems) = self.all_known(related) {
                    wanted.add(stems, RELATED_WEIGHT);
                }
            }
        }
        if let Some(next) = words.get(at + 1)
            && let Some(joined) = self.known(&stemmed(&format!("{}{next}", words[at])))
        {
            wanted.add(vec![joined], JOINED_WEIGHT);
        }
        if own.is_none() {
            self.add_parts(&words[at], &mut wanted);
            self.add_prefixed(&words[at], &mut wanted);
            if !is_related && self.similar_left > 0 {
                self.similar_left -= 1;
                self.add_similar(&words[at], &stems[at], &mut wanted);
            }
        }
        wanted
    }

    /// Two words that are written as one in the query.
    fn add_parts(&self, word: &str, wanted: &mut Wanted) {
        if word.len() < SHORTEST_JOINED || !word.is_ascii() {
            return;
        }
        for middle in 2..word.len() - 1 {
            let (a, b) = word.split_at(middle);
            if (a.len() > 2 || b.len() > 2)
                && let (Some(a), Some(b)) = (self.known(&stemmed(a)), self.known(&stemmed(b)))
            {
                wanted.add(vec![a, b], JOINED_WEIGHT);
            }
        }
    }

    fn add_prefixed(&self, word: &str, wanted: &mut Wanted) {
        if word.chars().count() < SHORTEST_PREFIX {
            return;
        }
        let longer = self.index.vocabulary.beginning_with(word).filter(|stem| self.is_known(*stem));
        for stem in longer.take(MAX_PREFIXED) {
            wanted.add(vec![stem], PREFIX_WEIGHT);
        }
    }

    /// Words of the catalog, and words of other languages, that are similar to this one.
    fn add_similar(&self, word: &str, stem: &str, wanted: &mut Wanted) {
        let similar = self.index.vocabulary.similar(stem, |stem| self.is_known(stem));
        let least = similar.first().map_or(0.0, |best| best.similarity);
        for found in similar {
            let weight = if found.typo { TYPO_WEIGHT } else { COGNATE_WEIGHT };
            wanted.add(vec![found.word], weight * found.similarity);
        }
        for (related, similarity) in Related::get().to_similar(word).filter(|found| found.1 >= least) {
            if let Some(stems) = self.all_known(related) {
                wanted.add(stems, RELATED_WEIGHT * similarity);
            }
        }
    }

    /// The skills of the view that match a query word. `best` gets the best match of each.
    fn matches(&mut self, wanted: &Wanted, best: &mut [Match]) -> Vec<u32> {
        let mut matching = Vec::new();
        let mut note = |skill: u32, score: f32, weight: f32| {
            let best = &mut best[skill as usize];
            if best.score == 0.0 {
                matching.push(skill);
            }
            best.score = best.score.max(score);
            best.covered = best.covered.max(weight);
        };
        for variant in &wanted.variants {
            let rarities: Vec<f32> =
                variant.stems.iter().map(|stem| self.rarity(*stem).min(wanted.rarity)).collect();
            let Some((first, others)) = variant.stems.split_first() else { continue };
            for occurrence in self.index.occurrences(*first).iter().filter(|found| self.members.has(found)) {
                let mut score = rarities[0] * self.prominence(occurrence);
                let has_others = others.iter().zip(&rarities[1..]).all(|(stem, rarity)| {
                    let occurrences = self.index.occurrences(*stem);
                    match occurrences.binary_search_by_key(&occurrence.skill, |other| other.skill) {
                        Ok(place) => {
                            score = score.max(rarity * self.prominence(&occurrences[place]));
                            true
                        }
                        Err(_) => false,
                    }
                });
                if has_others {
                    note(occurrence.skill, variant.weight * score, variant.weight);
                }
            }
        }
        matching
    }

    /// How prominent a word is in a skill: more than 0, and less than `SATURATION + 1`.
    fn prominence(&self, occurrence: &Occurrence) -> f32 {
        let length = self.index.lengths.get(occurrence.skill as usize).map_or(0.0, |length| *length as f32);
        let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / self.members.average;
        let weight = NAME_WEIGHT * f32::from(occurrence.name) + f32::from(occurrence.text) / length;
        let weight = weight / f32::from(WHOLE);
        weight * (SATURATION + 1.0) / (weight + SATURATION)
    }
}

/// How rare a word is that `having` of `all` skills have.
fn rarity(having: usize, all: usize) -> f32 {
    (1.0 + (all as f32 - having as f32 + 0.5) / (having as f32 + 0.5)).ln()
}
