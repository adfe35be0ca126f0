//! The factor between the tokens that a provider reports and the tokens that prowess counts.

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// The factor is stored in thousandths, so that it is an exact number.
const ONE: u64 = 1000;
/// The smallest and the largest factor. Tokenizers of known providers are well within them.
const BOUNDS: (u64, u64) = (500, 3000);
/// A report beyond these bounds says nothing about the tokenizer: the provider counts something else, or nothing.
const BELIEVED: (u64, u64) = (400, 4000);
/// The fewest counted tokens of a request from which a factor is learned. In a short request, rounding decides.
const MIN_COUNTED: u64 = 200;
/// A factor that differs less than this from the known one is not stored.
const MIN_CHANGE: u64 = 20;
/// How much a higher report counts: an underestimate leads to requests that are too long.
const WEIGHT_UP: u64 = 2;
/// How much a lower report counts. A provider may leave cached tokens out of some reports.
const WEIGHT_DOWN: u64 = 8;

/// The tokens that a provider reports, divided by the tokens that prowess counts, for one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TokenFactor(u64);

impl TokenFactor {
    /// prowess counts as the provider does, as far as known.
    pub(super) const NONE: Self = Self(ONE);

    /// A known factor, within the bounds. A store may contain any number.
    fn bounded(thousandths: u64) -> Self {
        Self(thousandths.clamp(BOUNDS.0, BOUNDS.1))
    }

    /// The factor that one request shows, unless the report is useless.
    pub(super) fn of(reported: u64, counted: u64) -> Option<Self> {
        if counted < MIN_COUNTED {
            return None;
        }
        let factor = reported.saturating_mul(ONE) / counted;
        (BELIEVED.0..=BELIEVED.1).contains(&factor).then(|| Self::bounded(factor))
    }

    /// Whether a provider may really count `reported` tokens where prowess counts `counted`.
    pub(super) fn may_be(reported: u64, counted: u64) -> bool {
        reported > 0 && (counted < MIN_COUNTED || Self::of(reported, counted).is_some())
    }

    /// What a model read, by its own report. A provider that reports more cached tokens than tokens counts them apart.
    pub(super) fn read(usage: Usage) -> u64 {
        let cached = usage.cache_read.saturating_add(usage.cache_written);
        if usage.input < cached { usage.input.saturating_add(cached) } else { usage.input }
    }

    /// The factor after one more request, if it differs from the known one.
    pub(super) fn after(known: Option<Self>, seen: Self) -> Option<Self> {
        let Some(Self(known)) = known else { return Some(seen) };
        let Self(seen) = seen;
        let next = if seen > known {
            known + (seen - known) / WEIGHT_UP
        } else {
            known - (known - seen) / WEIGHT_DOWN
        };
        (next.abs_diff(known) >= MIN_CHANGE).then(|| Self::bounded(next))
    }

    /// The provider's tokens for a number of tokens that prowess counted.
    pub(super) fn apply(self, counted: u64) -> u64 {
        let Self(thousandths) = Self::bounded(self.0);
        let tokens = u128::from(counted) * u128::from(thousandths) / u128::from(ONE);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// The same for a difference.
    pub(super) fn apply_signed(self, counted: i64) -> i64 {
        let tokens = i64::try_from(self.apply(counted.unsigned_abs())).unwrap_or(i64::MAX);
        if counted < 0 { -tokens } else { tokens }
    }

    /// How many tokens prowess counts where the provider counts so many.
    pub(super) fn undo(self, tokens: u64) -> u64 {
        let Self(thousandths) = Self::bounded(self.0);
        let counted = u128::from(tokens) * u128::from(ONE) / u128::from(thousandths);
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// The factor in thousandths.
    pub(super) fn thousandths(self) -> u64 {
        Self::bounded(self.0).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn useless_reports_teach_nothing() {
        for (reported, counted) in
            [(0, 5_000), (100, 5_000), (1_900, 5_000), (25_000, 5_000), (u64::MAX, 5_000), (100, 100)]
        {
            assert_eq!(TokenFactor::of(reported, counted), None, "{reported} of {counted}");
        }
        assert_eq!(TokenFactor::of(9_000, 5_000), Some(TokenFactor(1_800)));
        assert_eq!(TokenFactor::of(2_200, 5_000), Some(TokenFactor(500)), "within the bounds");
        assert_eq!(TokenFactor::of(19_000, 5_000), Some(TokenFactor(3_000)));
    }

    #[test]
    fn cached_tokens_that_are_counted_apart_are_added() {
        assert_eq!(TokenFactor::read(Usage::new(5_000, 9).cache_read(4_000)), 5_000);
        assert_eq!(TokenFactor::read(Usage::new(200, 9).cache_read(4_800)), 5_000);
        assert_eq!(TokenFactor::read(Usage::new(u64::MAX - 1, 9).cache_read(u64::MAX)), u64::MAX);
    }

    #[test]
    fn it_rises_fast_and_falls_slowly() {
        let after = |known, seen| TokenFactor::after(Some(TokenFactor(known)), TokenFactor(seen));
        assert_eq!(TokenFactor::after(None, TokenFactor(1_800)), Some(TokenFactor(1_800)));
        assert_eq!(after(1_000, 1_800), Some(TokenFactor(1_400)));
        assert_eq!(after(1_800, 1_000), Some(TokenFactor(1_700)));
        assert_eq!(after(1_000, 1_030), None, "a small difference is not worth an event");
    }

    #[test]
    fn a_stored_factor_is_bounded() {
        let hostile: TokenFactor = serde_json::from_str("18446744073709551615").unwrap();
        assert_eq!(hostile.apply(1_000), 3_000);
        assert_eq!(serde_json::from_str::<TokenFactor>("0").unwrap().undo(1_000), 2_000);
        assert_eq!(TokenFactor(1_800).apply_signed(-100), -180);
    }
}
