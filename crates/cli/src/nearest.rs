//! What was probably meant by a word that does not exist.

/// How like two words must be for one to be taken for the other.
const ALIKE: f64 = 0.8;

/// The word among those there are that was probably meant, if one is like it: one that has it within it, or is spelled
/// much as it is. Letter case does not count.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = word.to_lowercase();
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        if !wanted.is_empty() && known.contains(&wanted) {
            1.0
        } else {
            strsim::jaro_winkler(&known, &wanted)
        }
    };
    let scored = known.into_iter().map(|known| (likeness(known), known));
    scored
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .map(|(_, known)| known)
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
    }
}
