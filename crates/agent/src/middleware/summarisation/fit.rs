//! Whether a request fits into a context window.

use crate::model::{ModelError, ModelErrorKind, ModelLimits};

/// The tokens that a response must be able to have. A model that can write less than this does not respond.
const MIN_RESPONSE: u64 = 256;
/// In a small window, the response needs only this part of it.
const MIN_SHARE: u64 = 8;

/// The most tokens of a request that leave room for a response, if the window is known.
pub(super) fn most(limits: ModelLimits) -> Option<u64> {
    Some(limits.context? - response(limits))
}

/// The tokens that a request must leave for the response; 0 if the window is unknown.
pub(super) fn response(limits: ModelLimits) -> u64 {
    let window = limits.context.unwrap_or_default();
    limits.output.unwrap_or(MIN_RESPONSE).min(MIN_RESPONSE).min(window / MIN_SHARE)
}

/// The longest response after a request of so many tokens. Many providers reject a request if its tokens and the longest
/// response together exceed the window.
pub(super) fn max_output(limits: ModelLimits, wanted: Option<u64>, tokens: u64) -> Option<u64> {
    let wanted = wanted.into_iter().chain(limits.output).min();
    match (wanted, limits.context) {
        (Some(wanted), Some(window)) => Some(wanted.min(window.saturating_sub(tokens)).max(1)),
        (wanted, _) => wanted,
    }
}

/// The error of a request that is not sent.
pub(super) fn unsent(model: &str, tokens: u64, limits: ModelLimits) -> ModelError {
    let (response, window) = (response(limits), limits.context.unwrap_or_default());
    let message = format!(
        "it was not sent, because it has about {tokens} tokens, a response needs at least {response}, and the window has \
         {window}"
    );
    let mut error = ModelError::new(model, ModelErrorKind::ContextTooLong, message);
    (error.is_unsent, error.tokens) = (true, Some(tokens));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(context: Option<u64>, output: Option<u64>) -> ModelLimits {
        ModelLimits { context, output }
    }

    #[test]
    fn a_request_leaves_room_for_a_response() {
        assert_eq!((most(limits(None, Some(500))), response(limits(None, Some(500)))), (None, 0));
        assert_eq!(most(limits(Some(10_000), None)), Some(9_744));
        assert_eq!(most(limits(Some(10_000), Some(9_999))), Some(9_744));
        assert_eq!(most(limits(Some(10_000), Some(10))), Some(9_990));
        assert_eq!(most(limits(Some(1_000), None)), Some(875), "a small window");
    }

    #[test]
    fn the_response_gets_what_is_left() {
        let of = |output, wanted, tokens| max_output(limits(Some(10_000), output), wanted, tokens);
        assert_eq!(of(Some(4_000), None, 5_000), Some(4_000));
        assert_eq!(of(Some(4_000), None, 9_000), Some(1_000));
        assert_eq!(of(Some(4_000), Some(500), 9_000), Some(500));
        assert_eq!(of(None, None, 9_000), None, "the server decides");
        assert_eq!(max_output(limits(None, Some(4_000)), None, 9_000), Some(4_000));
    }
}
