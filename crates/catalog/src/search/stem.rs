//! Reduces English words to their stems, by the rules of the Snowball project's English stemmer ("Porter2").
//!
//! It is written here because the usual crate for it, `rust-stemmers`, brings seven other crates, more than this crate may
//! have.

/// Words whose stem the rules would get wrong.
const IRREGULAR: [(&str, &str); 11] = [
    ("dying", "die"),
    ("early", "earli"),
    ("gently", "gentl"),
    ("idly", "idl"),
    ("lying", "lie"),
    ("only", "onli"),
    ("singly", "singl"),
    ("skies", "sky"),
    ("skis", "ski"),
    ("tying", "tie"),
    ("ugly", "ugli"),
];
/// Words that are their own stems.
const INVARIANT: [&str; 7] = ["andes", "atlas", "bias", "cosmos", "howe", "news", "sky"];
/// Words that keep their endings once a plural is gone.
const KEPT: [&str; 9] =
    ["canning", "earring", "evening", "exceed", "herring", "inning", "outing", "proceed", "succeed"];
/// Beginnings after which the first region starts at once: otherwise `general` and `generate` would be one.
const BEGINNINGS: [&str; 9] =
    ["arsen", "commun", "emerg", "gener", "inter", "later", "organ", "past", "univers"];

/// Double letters that only an ending makes double.
const DOUBLES: [&str; 9] = ["bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"];
/// Endings that are replaced if they are in the first region. Of several that match, the longest counts.
const STEP_2: [(&str, &str); 23] = [
    ("ational", "ate"),
    ("fulness", "ful"),
    ("iveness", "ive"),
    ("ization", "ize"),
    ("ousness", "ous"),
    ("biliti", "ble"),
    ("lessli", "less"),
    ("tional", "tion"),
    ("alism", "al"),
    ("aliti", "al"),
    ("ation", "ate"),
    ("entli", "ent"),
    ("fulli", "ful"),
    ("iviti", "ive"),
    ("ogist", "og"),
    ("ousli", "ous"),
    ("abli", "able"),
    ("alli", "al"),
    ("anci", "ance"),
    ("ator", "ate"),
    ("enci", "ence"),
    ("izer", "ize"),
    ("bli", "ble"),
];
const STEP_3: [(&str, &str); 8] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("alize", "al"),
    ("icate", "ic"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ness", ""),
    ("ful", ""),
];
/// Endings that are removed if they are in the second region.
const STEP_4: [&str; 17] = [
    "ement", "able", "ance", "ence", "ible", "ment", "ant", "ate", "ent", "ism", "iti", "ive", "ize", "ous",
    "al", "er", "ic",
];

/// Replaces `word`, in lowercase, by its stem. Words with other characters than ASCII letters and digits stay as they are.
pub(super) fn stem(word: &mut String) {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return;
    }
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| irregular == word) {
        word.clear();
        word.push_str(stem);
        return;
    }
    if INVARIANT.contains(&word.as_str()) {
        return;
    }
    let mut stemmer = Stemmer::of(word);
    stemmer.plural();
    if !KEPT.contains(&stemmer.word.as_str()) {
        stemmer.verb();
        stemmer.final_y();
        stemmer.step_2();
        stemmer.step_3();
        stemmer.step_4();
        stemmer.step_5();
    }
    *word = stemmer.word;
    word.make_ascii_lowercase();
}

struct Stemmer {
    /// The word. A `Y` is a consonant.
    word: String,
    /// Where the first and the second region begin: after the first consonant that follows a vowel, and after the next one.
    first: usize,
    second: usize,
}

impl Stemmer {
    fn of(word: &str) -> Self {
        let mut marked = String::with_capacity(word.len() + 1);
        let mut after_vowel = true;
        for letter in word.chars() {
            let letter = if letter == 'y' && after_vowel { 'Y' } else { letter };
            after_vowel = is_vowel(letter as u8);
            marked.push(letter);
        }
        let region = |from: usize| {
            let bytes = marked.as_bytes();
            (from + 1..bytes.len())
                .find(|&at| is_vowel(bytes[at - 1]) && !is_vowel(bytes[at]))
                .map_or(bytes.len(), |at| at + 1)
        };
        let beginning = BEGINNINGS.iter().find(|beginning| marked.starts_with(**beginning));
        let first = beginning.map_or_else(|| region(0), |beginning| beginning.len());
        let second = region(first);
        Self { word: marked, first, second }
    }

    fn bytes(&self) -> &[u8] {
        self.word.as_bytes()
    }

    fn ends(&self, ending: &str) -> bool {
        self.word.ends_with(ending)
    }

    /// Whether an ending of this length is in the region that begins at `region`.
    fn is_in(&self, region: usize, ending: usize) -> bool {
        self.word.len() - ending >= region
    }

    fn replace(&mut self, ending: usize, by: &str) {
        self.word.truncate(self.word.len() - ending);
        self.word.push_str(by);
    }

    fn has_vowel(&self, end: usize) -> bool {
        self.bytes()[..end].iter().any(|&byte| is_vowel(byte))
    }

    /// Whether the first `end` letters end with a short syllable.
    fn ends_short(&self, end: usize) -> bool {
        match &self.bytes()[..end] {
            [a, b] => is_vowel(*a) && !is_vowel(*b),
            [.., a, b, c] => {
                !is_vowel(*a) && is_vowel(*b) && !is_vowel(*c) && !matches!(c, b'w' | b'x' | b'Y')
            }
            _ => false,
        }
    }

    fn plural(&mut self) {
        let length = self.word.len();
        if self.ends("sses") {
            self.replace(2, "");
        } else if self.ends("ied") || self.ends("ies") {
            self.replace(if length > 4 { 2 } else { 1 }, "");
        } else if self.ends("s") && !self.ends("us") && !self.ends("ss") && self.has_vowel(length - 2) {
            self.replace(1, "");
        }
    }

    fn verb(&mut self) {
        for ending in ["eedly", "eed"] {
            if self.ends(ending) {
                if self.is_in(self.first, ending.len()) {
                    self.replace(ending.len(), "ee");
                }
                return;
            }
        }
        let endings = ["ingly", "edly", "ing", "ed"];
        let Some(ending) = endings.into_iter().find(|ending| self.ends(ending)) else { return };
        if !self.has_vowel(self.word.len() - ending.len()) {
            return;
        }
        self.replace(ending.len(), "");
        let length = self.word.len();
        if self.ends("at") || self.ends("bl") || self.ends("iz") {
            self.word.push('e');
        } else if DOUBLES.iter().any(|double| self.ends(double)) {
            // `add`, `egg` and `off` are whole words.
            if length > 3 || !matches!(self.bytes().first(), Some(b'a' | b'e' | b'o')) {
                self.replace(1, "");
            }
        } else if self.first >= length && self.ends_short(length) {
            self.word.push('e');
        }
    }

    fn final_y(&mut self) {
        if let [_, .., before, b'y' | b'Y'] = self.bytes()
            && !is_vowel(*before)
        {
            self.replace(1, "i");
        }
    }

    fn step_2(&mut self) {
        if let Some((ending, by)) = STEP_2.iter().find(|(ending, _)| self.ends(ending)) {
            if self.is_in(self.first, ending.len()) {
                self.replace(ending.len(), by);
            }
        } else if self.ends("ogi") {
            if self.ends("logi") && self.is_in(self.first, 3) {
                self.replace(1, "");
            }
        } else if let [.., before, b'l', b'i'] = self.bytes()
            && b"cdeghkmnrt".contains(before)
            && self.is_in(self.first, 2)
        {
            self.replace(2, "");
        }
    }

    fn step_3(&mut self) {
        if self.ends("ative") {
            if self.is_in(self.second, 5) {
                self.replace(5, "");
            }
        } else if let Some((ending, by)) = STEP_3.iter().find(|(ending, _)| self.ends(ending))
            && self.is_in(self.first, ending.len())
        {
            self.replace(ending.len(), by);
        }
    }

    fn step_4(&mut self) {
        if let Some(ending) = STEP_4.iter().find(|ending| self.ends(ending)) {
            if self.is_in(self.second, ending.len()) {
                self.replace(ending.len(), "");
            }
        } else if (self.ends("sion") || self.ends("tion")) && self.is_in(self.second, 3) {
            self.replace(3, "");
        }
    }

    fn step_5(&mut self) {
        let length = self.word.len();
        if self.ends("e") {
            if self.is_in(self.second, 1) || (self.is_in(self.first, 1) && !self.ends_short(length - 1)) {
                self.replace(1, "");
            }
        } else if self.ends("ll") && self.is_in(self.second, 1) {
            self.replace(1, "");
        }
    }
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

#[cfg(test)]
mod tests {
    use super::stem;

    fn stemmed(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn words_of_one_family_have_one_stem() {
        for family in [
            &["analyse", "analysed", "analysing"][..],
            &["deploy", "deploys", "deployed", "deploying", "deployment"],
            &["generate", "generates", "generated", "generating", "generator", "generation"],
            &["hop", "hops", "hopped", "hopping"],
            &["query", "queries", "querying"],
            &["review", "reviews", "reviewer", "reviewing"],
            &["secure", "securely", "secured"],
            &["vulnerability", "vulnerabilities", "vulnerable"],
        ] {
            let stems: Vec<String> = family.iter().map(|word| stemmed(word)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{family:?}: {stems:?}");
        }
    }

    #[test]
    fn different_words_keep_different_stems() {
        for [a, b] in [["general", "generate"], ["news", "new"], ["plane", "plan"], ["hoping", "hopping"]] {
            assert_ne!(stemmed(a), stemmed(b));
        }
    }

    #[test]
    fn other_words_stay() {
        for word in ["", "a", "s", "ss", "潮汐", "naïve", "kubernetes-", "y", "yy", "1s", "eed", "ing", "sky"]
        {
            assert_eq!(stemmed(word), word);
        }
    }
}
