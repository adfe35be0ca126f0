//! A sorted set of words, with a search for similar ones.

use super::number_of;

/// The shortest word for which similar ones are searched, in characters.
const SHORTEST: usize = 5;
/// From this length on, two typing errors are accepted instead of one.
const LONG: usize = 8;
/// The least share of common trigrams (Dice's coefficient) that makes two words similar.
const LEAST_SHARE: f32 = 0.55;
/// A word counts only if it is nearly as similar as the most similar one.
const MARGIN: f32 = 0.1;
/// How many similar words are used.
const MAX_SIMILAR: usize = 8;
/// How many words with common trigrams are compared letter by letter. Those with the most common trigrams come first.
const MAX_COMPARED: usize = 4096;

/// A set of words. A word's number is its place in the order of the words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Vocabulary {
    text: String,
    /// Where each word ends in `text`.
    ends: Vec<u32>,
    /// The trigrams in order, and where the words of each end in `having`.
    trigrams: Vec<(u64, u32)>,
    having: Vec<u32>,
}

/// How a word is similar to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Similar {
    /// The number of the similar word.
    pub(super) word: u32,
    /// From 0 to 1.
    pub(super) similarity: f32,
    /// Whether the difference can be a typing error.
    pub(super) typo: bool,
}

impl Vocabulary {
    /// The vocabulary of these words, which are sorted and different.
    pub(super) fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut vocabulary = Self::default();
        for word in words {
            vocabulary.text.push_str(word);
            vocabulary.ends.push(number_of(vocabulary.text.len()));
        }
        let mut pairs: Vec<(u64, u32)> = Vec::with_capacity(vocabulary.text.len());
        let all = 0..number_of(vocabulary.len());
        for number in all.filter(|&number| is_comparable(vocabulary.word(number))) {
            let from = pairs.len();
            pairs.extend(trigrams(vocabulary.word(number)).map(|trigram| (trigram, number)));
            pairs[from..].sort_unstable();
        }
        pairs.sort_unstable();
        pairs.dedup();
        vocabulary.having = pairs.iter().map(|(_, number)| *number).collect();
        for (at, (trigram, _)) in (1..).zip(&pairs) {
            match vocabulary.trigrams.last_mut() {
                Some((last, end)) if last == trigram => *end = at,
                _ => vocabulary.trigrams.push((*trigram, at)),
            }
        }
        vocabulary.trigrams.shrink_to_fit();
        vocabulary.text.shrink_to_fit();
        vocabulary
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The word with this number. Empty if there is none.
    pub(super) fn word(&self, number: u32) -> &str {
        let number = number as usize;
        let start =
            number.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        self.ends.get(number).and_then(|end| self.text.get(start..*end as usize)).unwrap_or_default()
    }

    /// All words in order.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        (0..number_of(self.len())).map(|number| self.word(number))
    }

    /// The number of `word`.
    pub(super) fn find(&self, word: &str) -> Option<u32> {
        let at = self.first_from(word);
        (self.word(at) == word && !word.is_empty()).then_some(at)
    }

    /// The numbers of the words that begin with `start`.
    pub(super) fn beginning_with<'a>(&'a self, start: &'a str) -> impl Iterator<Item = u32> + 'a {
        (self.first_from(start)..number_of(self.len()))
            .take_while(move |&at| self.word(at).starts_with(start))
    }

    /// The number of the first word that is not before `word`.
    fn first_from(&self, word: &str) -> u32 {
        let (mut low, mut high) = (0, number_of(self.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.word(middle) < word { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The words that are most similar to `word` and that `accept` accepts. If one of them may be what was meant before a
    /// typing error, only such words.
    pub(super) fn similar(&self, word: &str, accept: impl Fn(u32) -> bool) -> Vec<Similar> {
        if !is_comparable(word) {
            return Vec::new();
        }
        let mut own: Vec<u64> = trigrams(word).collect();
        own.sort_unstable();
        own.dedup();
        let mut counts = vec![0_u8; self.len()];
        let mut touched = Vec::new();
        for trigram in &own {
            for &number in self.words_with(*trigram) {
                if let Some(count) = counts.get_mut(number as usize) {
                    if *count == 0 {
                        // Words that nobody may know of must not crowd out others.
                        if !accept(number) {
                            continue;
                        }
                        touched.push(number);
                    }
                    *count = count.saturating_add(1);
                }
            }
        }
        let letters: Vec<char> = word.chars().collect();
        // Two swapped letters in a short word leave one common trigram. In a long word, one is too little.
        let mut least = if letters.len() < LONG { 1 } else { 2 };
        let counts = &counts;
        let compared = |least: u8| touched.iter().filter(move |number| counts[**number as usize] >= least);
        while compared(least).count() > MAX_COMPARED && usize::from(least) < own.len() {
            least += 1;
        }
        let mut similar: Vec<Similar> = Vec::new();
        for &number in compared(least).take(MAX_COMPARED) {
            let common = counts[number as usize];
            let other = self.word(number);
            // The number of trigrams of a word is the number of its characters, except for repeated ones.
            let share = 2.0 * f32::from(common) / (own.len() + other.chars().count()) as f32;
            let found = match typing_errors(&letters, other) {
                Some(errors) => {
                    let similarity = 1.0 - errors as f32 / letters.len() as f32;
                    Similar { word: number, similarity, typo: true }
                }
                None if share >= LEAST_SHARE => {
                    Similar { word: number, similarity: share.min(1.0), typo: false }
                }
                None => continue,
            };
            if other != word {
                similar.push(found);
            }
        }
        if similar.iter().any(|found| found.typo) {
            similar.retain(|found| found.typo);
        }
        similar.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.word.cmp(&b.word)));
        let least = similar.first().map_or(0.0, |best| best.similarity - MARGIN);
        similar.retain(|found| found.similarity >= least);
        similar.truncate(MAX_SIMILAR);
        similar
    }

    fn words_with(&self, trigram: u64) -> &[u32] {
        let Ok(at) = self.trigrams.binary_search_by_key(&trigram, |(trigram, _)| *trigram) else {
            return &[];
        };
        let start = at.checked_sub(1).map_or(0, |before| self.trigrams[before].1 as usize);
        self.having.get(start..self.trigrams[at].1 as usize).unwrap_or_default()
    }
}

/// Whether a word is long enough to be compared, and not a number.
fn is_comparable(word: &str) -> bool {
    word.chars().nth(SHORTEST - 1).is_some() && word.contains(|c: char| !c.is_numeric())
}

/// Three neighbouring characters each. The beginning and the end of the word count as characters.
fn trigrams(word: &str) -> impl Iterator<Item = u64> {
    let edged = || std::iter::once('\0').chain(word.chars()).chain(std::iter::once('\0'));
    let pack = |(a, (b, c)): (char, (char, char))| (u64::from(a) << 42) | (u64::from(b) << 21) | u64::from(c);
    edged().zip(edged().skip(1).zip(edged().skip(2))).map(pack)
}

/// How many typing errors make `b` of `a`: a character too many, missing, wrong, or swapped with the next. `None` if there are
/// more than a word of this length usually has.
fn typing_errors(a: &[char], b: &str) -> Option<usize> {
    let most = if a.len() < LONG { 1 } else { 2 };
    if a.len().abs_diff(b.chars().count()) > most {
        return None;
    }
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        if next.iter().all(|errors| *errors > most) {
            return None;
        }
        before = std::mem::replace(&mut row, next);
    }
    let errors = row[b.len()];
    // People rarely mistype the first letter; two words that differ there are usually two words.
    let same_start = a.first() == b.first() || (errors == 1 && a.len() > 5);
    (errors <= most && same_start).then_some(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar(word: &str) -> Vec<String> {
        let words =
            ["analyz", "chart", "deploy", "diagram", "kubernetes", "presentation", "terraform", "transform"];
        let vocabulary = Vocabulary::of(words);
        let numbers = vocabulary.similar(word, |_| true);
        numbers.iter().map(|found| vocabulary.word(found.word).to_owned()).collect()
    }

    #[test]
    fn typing_errors_are_found() {
        assert_eq!(similar("teraform"), ["terraform"]);
        assert_eq!(similar("kuberentes"), ["kubernetes"]);
        assert_eq!(similar("depoly"), ["deploy"]);
        assert_eq!(similar("chrat"), ["chart"]);
    }

    #[test]
    fn cognates_of_other_languages_are_found() {
        assert_eq!(similar("diagramm"), ["diagram"]);
        assert_eq!(similar("prasentation"), ["presentation"]);
        assert_eq!(similar("analizar"), Vec::<String>::new(), "too different without its stem");
    }

    #[test]
    fn short_words_numbers_and_strange_words_have_no_similar_ones() {
        for word in ["", "cha", "2024", "zzzzzzzz", "潮汐", "xylophone"] {
            assert_eq!(similar(word), Vec::<String>::new(), "{word}");
        }
    }

    #[test]
    fn words_are_found_by_their_beginning() {
        let vocabulary = Vocabulary::of(["a", "spread", "spreadsheet", "tide"]);
        assert_eq!(vocabulary.beginning_with("spr").collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            (vocabulary.find("tide"), vocabulary.find("tid"), vocabulary.find("")),
            (Some(3), None, None)
        );
        assert_eq!(vocabulary.words().collect::<Vec<_>>(), ["a", "spread", "spreadsheet", "tide"]);
    }
}
