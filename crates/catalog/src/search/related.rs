//! General knowledge about words: which are function words, and which mean nearly the same.
//!
//! People rarely use the words of a description, and often not its language. Both lists are about words that are common in
//! skills, not about any particular skill.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::stem::stem;
use super::vocabulary::Vocabulary;
use super::words::{Piece, each_word};

/// The most words of a phrase in the list. A Chinese word of four characters is three pairs.
pub(super) const MAX_PHRASE: usize = 3;

/// A word or a phrase, as stems.
pub(super) type Phrase = Box<[Box<str>]>;

/// Words that mean nearly the same.
pub(super) struct Related {
    concepts: Vec<Vec<Phrase>>,
    /// The concepts of an English phrase, by its stems, joined with blanks.
    english: HashMap<Box<str>, Vec<u16>>,
    /// The concepts of a phrase in another language, by its words.
    foreign: HashMap<Box<str>, Vec<u16>>,
    /// The words of other languages that are not phrases.
    words: Vocabulary,
}

impl Related {
    pub(super) fn get() -> &'static Self {
        static RELATED: LazyLock<Related> = LazyLock::new(|| Related::of(include_str!("related.txt")));
        &RELATED
    }

    fn of(list: &str) -> Self {
        let mut related = Self {
            concepts: Vec::new(),
            english: HashMap::new(),
            foreign: HashMap::new(),
            words: Vocabulary::default(),
        };
        for line in list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let concept = u16::try_from(related.concepts.len()).unwrap_or(u16::MAX);
            let (english, foreign) = line.split_once('|').unwrap_or((line, ""));
            let mut phrases = Vec::new();
            for phrase in english.split_whitespace() {
                let stems: Phrase = words_of(phrase)
                    .into_iter()
                    .map(|mut word| {
                        stem(&mut word);
                        word.into_boxed_str()
                    })
                    .collect();
                related.english.entry(stems.join(" ").into()).or_default().push(concept);
                phrases.push(stems);
            }
            for phrase in foreign.split_whitespace() {
                related.foreign.entry(words_of(phrase).join(" ").into()).or_default().push(concept);
            }
            related.concepts.push(phrases);
        }
        let mut words: Vec<&str> =
            related.foreign.keys().map(|word| &**word).filter(|word| !word.contains(' ')).collect();
        words.sort_unstable();
        related.words = Vocabulary::of(words);
        related
    }

    /// The phrases that mean nearly the same as these words, with their stems.
    pub(super) fn to(&self, words: &[&str], stems: &[&str]) -> impl Iterator<Item = &Phrase> {
        let english = self.english.get(stems.join(" ").as_str());
        let foreign = self.foreign.get(words.join(" ").as_str());
        english.into_iter().chain(foreign).flatten().flat_map(|concept| &self.concepts[usize::from(*concept)])
    }

    /// The phrases for the words of other languages that are similar to `word`, and how similar they are.
    pub(super) fn to_similar(&self, word: &str) -> impl Iterator<Item = (&Phrase, f32)> {
        self.words.similar(word, |_| true).into_iter().flat_map(|similar| {
            let concepts = self.foreign.get(self.words.word(similar.word)).into_iter().flatten();
            let phrases = concepts.flat_map(|concept| &self.concepts[usize::from(*concept)]);
            phrases.map(move |phrase| (phrase, similar.similarity))
        })
    }
}

fn words_of(phrase: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(phrase, |word, piece| {
        if piece == Piece::Whole {
            words.push(word.to_owned());
        }
        true
    });
    words
}

/// The function words of some languages, English first.
struct FunctionWords(Vec<HashSet<String>>);

/// How much a function word says about what a person looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is no function word.
    Content,
    /// It is an English function word. Descriptions are mostly in English, so it says a little.
    Function,
    /// It is a function word of another language. It says nothing, and may be rare in the catalog.
    Foreign,
}

/// How many function words of another language make a query one in that language.
const LEAST_FOREIGN: usize = 2;

/// The role of each word of a query.
///
/// A short word is often a function word in one language and a content word in another: `ai`, `os`, `die`. So only one other
/// language counts, and only if the query has more of its function words than of English ones.
pub(super) fn roles(words: &[String]) -> Vec<Role> {
    static FUNCTION_WORDS: LazyLock<FunctionWords> = LazyLock::new(|| {
        let lines = include_str!("function_words.txt").lines().filter(|line| !line.starts_with('#'));
        FunctionWords(
            lines.map(|line| line.split_whitespace().skip(1).flat_map(words_of).collect()).collect(),
        )
    });
    let count = |language: &HashSet<String>| words.iter().filter(|word| language.contains(*word)).count();
    let languages = &FUNCTION_WORDS.0;
    let Some((english, others)) = languages.split_first() else { return vec![Role::Content; words.len()] };
    let other = others.iter().rev().max_by_key(|language| count(language));
    let other = other.filter(|language| count(language) >= LEAST_FOREIGN && count(language) > count(english));
    let role = |word: &String| {
        if other.is_some_and(|language| language.contains(word)) {
            Role::Foreign
        } else if english.contains(word) {
            Role::Function
        } else {
            Role::Content
        }
    };
    words.iter().map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn related(words: &[&str]) -> Vec<String> {
        Related::get().to(words, words).map(|phrase| phrase.join(" ")).collect()
    }

    #[test]
    fn every_line_has_a_use() {
        for (line, phrases) in Related::get().concepts.iter().enumerate() {
            assert!(
                phrases.iter().all(|phrase| (1..=MAX_PHRASE).contains(&phrase.len())),
                "concept {line}: {phrases:?}"
            );
        }
        for phrase in Related::get().foreign.keys() {
            assert!(phrase.split(' ').count() <= MAX_PHRASE, "{phrase}");
        }
    }

    #[test]
    fn words_lead_to_their_concepts() {
        assert!(related(&["pr"]).contains(&"pull request".into()));
        assert!(related(&["pull", "request"]).contains(&"pr".into()));
        assert!(related(&["rechnung"]).contains(&"invoic".into()));
        assert!(related(&["数据", "据库"]).contains(&"databas".into()));
        assert!(related(&["invoic"]).iter().all(|phrase| phrase != "rechnung"), "only to English");
        let inflected: Vec<String> =
            Related::get().to_similar("rechnungen").map(|(phrase, _)| phrase.join(" ")).collect();
        assert!(inflected.contains(&"invoic".into()), "{inflected:?}");
    }

    #[test]
    fn the_language_of_a_query_decides_on_its_function_words() {
        let roles = |query: &str| roles(&words_of(query));
        use Role::{Content, Foreign, Function};
        assert_eq!(roles("an ai that reads"), [Function, Content, Function, Content]);
        assert_eq!(roles("die Rechnung für den Kunden"), [Foreign, Content, Foreign, Foreign, Content]);
        assert_eq!(roles("die cast models"), [Content, Content, Content]);
    }
}
