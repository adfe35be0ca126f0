//! Suggestions for words that do not exist: "did you mean …?"
//!
//! [`nearest`] is for names, of which people often type only a part. `did_you_mean` is for the few fixed words of a
//! configuration file, where only typing mistakes count.

/// The least similarity of two words that counts as a typing mistake.
const MIN_SIMILARITY: f64 = 0.8;

/// The shortest word that may match inside another one, in characters.
const MIN_CHARS_WITHIN: usize = 3;

/// The longest name to compare, in bytes: longer ones are slow to compare and never a mistake.
const MAX_NAME_BYTES: usize = 256;

/// The longest fixed word to compare, in bytes.
const MAX_WORD_BYTES: usize = 64;

/// The most edits between a fixed word and a misspelling of it.
const MAX_EDITS: usize = 2;

/// How near a known word is to what was typed, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// Only the letter case differs.
    Same,
    /// The known word begins with what was typed.
    Begins,
    /// A part of the known word begins with what was typed.
    WordBegins,
    /// The known word contains what was typed.
    Contains,
    /// What was typed begins with the known word.
    GoesOn,
    /// The spelling is similar.
    Alike,
}

/// The known word that was probably meant, if one is near. Of equally near words, the most similar one wins. Letter case
/// does not count.
///
/// ```
/// use prowess_permission::nearest::nearest;
///
/// assert_eq!(nearest("timeout_secs", ["command", "timeout"]), Some("timeout"));
/// assert_eq!(nearest("zebra", ["command", "timeout"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_first(word, known).into_iter().next()
}

/// The known words that were probably meant, the nearest first.
///
/// ```
/// use prowess_permission::nearest::nearest_first;
///
/// assert_eq!(nearest_first("chart", ["sea-chart", "anchor", "charts"]), ["charts", "sea-chart"]);
/// ```
pub fn nearest_first<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if word.is_empty() || word.len() > MAX_NAME_BYTES {
        return Vec::new();
    }
    let wanted = word.to_lowercase();
    let near = known.into_iter().filter(|known| known.len() <= MAX_NAME_BYTES).filter_map(|known| {
        let lower = known.to_lowercase();
        let likeness = strsim::jaro_winkler(&lower, &wanted);
        Some((nearness(&lower, &wanted, likeness)?, likeness, known))
    });
    let mut near: Vec<(Nearness, f64, &str)> = near.collect();
    near.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
    near.into_iter().map(|(_, _, known)| known).collect()
}

fn nearness(known: &str, wanted: &str, likeness: f64) -> Option<Nearness> {
    let is_word = |word: &str| word.chars().count() >= MIN_CHARS_WITHIN;
    let mut words = known.split(['-', '_', '.', ' ', ':']);
    if known == wanted {
        Some(Nearness::Same)
    } else if known.starts_with(wanted) {
        Some(Nearness::Begins)
    } else if words.any(|word| word.starts_with(wanted)) {
        Some(Nearness::WordBegins)
    } else if is_word(wanted) && known.contains(wanted) {
        Some(Nearness::Contains)
    } else if is_word(known) && wanted.starts_with(known) {
        Some(Nearness::GoesOn)
    } else {
        (likeness > MIN_SIMILARITY).then_some(Nearness::Alike)
    }
}

/// The candidate that `word` is probably a misspelling of.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances of long hostile words are slow to compute and never small.
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, candidate), candidate))
        // A short word is near to many: at most half of it may differ.
        .filter(|(distance, candidate)| *distance <= MAX_EDITS.min(candidate.len() / 2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_seen_through_and_nonsense_is_not() {
        let known = ["context", "compact", "csv-report"];
        assert_eq!(nearest("contxt", known), Some("context"));
        assert_eq!(nearest("REPORT", known), Some("csv-report"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"context".repeat(1 << 20), known), None);
    }

    #[test]
    fn beginnings_come_before_words_within() {
        let known = ["spdx", "update", "pdf-forms", "pdf", "to-pdf"];
        assert_eq!(nearest("pd", known), Some("pdf"));
        assert_eq!(nearest("forms", known), Some("pdf-forms"));
        assert_eq!(nearest("pdx", known), Some("spdx"));
        assert_eq!(nearest("pdfs", known), Some("pdf"));
        assert_eq!(nearest("fdp", known), None);
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let words = ["allow", "ask", "deny"];
        assert_eq!(did_you_mean("alow", words), Some("allow"));
        assert_eq!(did_you_mean("Deny", words), Some("deny"));
        assert_eq!(did_you_mean("aks", words), Some("ask"));
        assert_eq!(did_you_mean("yes", words), None);
        assert_eq!(did_you_mean("", words), None);
        assert_eq!(did_you_mean(&"a".repeat(1 << 20), words), None);
    }
}
