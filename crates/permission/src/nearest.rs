//! What was probably meant by a word that does not exist.

/// How like two words must be for one to be taken for the other.
const ALIKE: f64 = 0.8;

/// A word that is shorter is not looked for within others.
const SHORTEST_WITHIN: usize = 3;

/// A word that is longer is nothing that somebody meant, and slow to compare.
const LONGEST: usize = 256;

/// How near a known word is to what was typed, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// It differs in letter case.
    Same,
    /// It begins as what was typed.
    Begins,
    /// One of its words does.
    WordBegins,
    /// It has what was typed within it.
    Contains,
    /// What was typed begins as it does, and goes on.
    GoesOn,
    /// It is spelled much as what was typed.
    Alike,
}

/// The word among those there are that was probably meant, if one is near. Of those that are as near as each other it is
/// the one most like what was typed. Letter case does not count.
///
/// ```
/// use prowess_permission::nearest::nearest;
///
/// assert_eq!(nearest("timeout_secs", ["command", "timeout"]), Some("timeout"));
/// assert_eq!(nearest("zebra", ["command", "timeout"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let wanted = word.to_lowercase();
    let near = known.into_iter().filter_map(|known| {
        let lower = known.to_lowercase();
        let likeness = strsim::jaro_winkler(&lower, &wanted);
        Some((nearness(&lower, &wanted, likeness)?, likeness, known))
    });
    let best = near.min_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
    best.map(|(_, _, known)| known)
}

fn nearness(known: &str, wanted: &str, likeness: f64) -> Option<Nearness> {
    let is_word = |word: &str| word.chars().count() >= SHORTEST_WITHIN;
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
        (likeness > ALIKE).then_some(Nearness::Alike)
    }
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
}
