//! The word that was probably meant.

/// Farther apart than this, two words are not a slip of the fingers.
const MAX_DISTANCE: usize = 2;

/// The nearest of `candidates`, when it is near enough to be worth naming.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances over hostile lengths are slow to compute and never small.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, candidate), candidate))
        // A short word is near to everything: at most half of it may differ.
        .filter(|(distance, candidate)| *distance <= MAX_DISTANCE.min(candidate.len() / 2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

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
