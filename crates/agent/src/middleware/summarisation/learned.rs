//! The context window that a thread learned from errors of a provider.

use serde::{Deserialize, Serialize};

use crate::model::{ModelError, ModelLimits};

/// The smallest context window that is learned, in tokens. An error about a smaller request has another cause.
const MIN_WINDOW: u64 = 1000;

/// The context window of a model, as far as errors of its provider say. A request that failed is too long, so its size is
/// an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LearnedWindow {
    /// In tokens as the provider counts them; `None` if it neither named the window nor counts tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<u64>,
    /// In tokens as prowess estimates them. It counts while the provider has not counted the conversation.
    pub(super) estimated: u64,
}

impl LearnedWindow {
    /// What an error says about the window. `counted` and `estimated` are the size of the failed request, as the provider
    /// and as prowess count.
    pub(super) fn from_error(
        error: &ModelError,
        counted: Option<u64>,
        estimated: u64,
        limits: ModelLimits,
    ) -> Option<Self> {
        if estimated.max(counted.unwrap_or_default()) < MIN_WINDOW && error.window.is_none() {
            return None;
        }
        // Some providers count the longest response as a part of the request.
        let output = limits.output.unwrap_or_default();
        let with_output = |tokens: u64| tokens.saturating_add(output).max(MIN_WINDOW);
        let window = error.window.into_iter().chain(counted.map(with_output)).min();
        Some(Self { window, estimated: with_output(estimated) })
    }

    /// What both say together.
    pub(super) fn and(self, other: Self) -> Self {
        let window = self.window.into_iter().chain(other.window).min();
        Self { window, estimated: self.estimated.min(other.estimated) }
    }

    /// The limits of a model with what the thread learned. `is_counted` says whether sizes are in the provider's tokens.
    pub(super) fn applied(learned: Option<&Self>, mut limits: ModelLimits, is_counted: bool) -> ModelLimits {
        let Some(learned) = learned else { return limits };
        let estimated = (!is_counted).then_some(learned.estimated);
        limits.context = [limits.context, learned.window, estimated].into_iter().flatten().min();
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelErrorKind;

    fn learned(named: Option<u64>, counted: Option<u64>, estimated: u64) -> Option<(Option<u64>, u64)> {
        let mut error = ModelError::new("m", ModelErrorKind::ContextTooLong, "too long");
        error.window = named;
        let limits = ModelLimits { output: Some(500), ..ModelLimits::default() };
        LearnedWindow::from_error(&error, counted, estimated, limits)
            .map(|learned| (learned.window, learned.estimated))
    }

    #[test]
    fn a_named_window_counts_and_else_the_size_of_the_failed_request() {
        assert_eq!(learned(Some(20_000), None, 30_000), Some((Some(20_000), 30_500)));
        // prowess counts less than the provider does.
        assert_eq!(learned(Some(20_000), None, 9_000), Some((Some(20_000), 9_500)));
        assert_eq!(learned(None, None, 9_000), Some((None, 9_500)));
        assert_eq!(learned(None, Some(15_000), 9_000), Some((Some(15_500), 9_500)));
        assert_eq!(learned(Some(20_000), Some(15_000), 9_000), Some((Some(15_500), 9_500)));
        assert_eq!(learned(None, None, 900), None, "a short request has another problem");
    }

    #[test]
    fn later_errors_only_make_it_smaller() {
        let one = LearnedWindow { window: Some(20_000), estimated: 9_000 };
        let other = LearnedWindow { window: None, estimated: 8_000 };
        assert_eq!(one.and(other), LearnedWindow { window: Some(20_000), estimated: 8_000 });
        assert_eq!(other.and(one), one.and(other));
    }
}
