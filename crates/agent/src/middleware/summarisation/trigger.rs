//! When a conversation is summarised, and how much of it stays. This is pure computation.

use std::sync::Arc;

use crate::message::{Content, Message};
use crate::model::ModelLimits;

/// When a conversation is long enough to be summarised.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Trigger {
    /// It takes this fraction of the context window, without the room for the response. If the window is unknown,
    /// [`Trigger::UNKNOWN`] counts.
    Fraction(f64),
    /// It has this many tokens.
    Tokens(u64),
    /// It has this many messages.
    Messages(usize),
}

/// How much of the end of a conversation stays. The last message always stays, with the call that it answers. The request
/// of the turn under way also stays, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Keep {
    /// This fraction of the context window, without the room for the response. If the window is unknown,
    /// [`Keep::UNKNOWN`] counts.
    Fraction(f64),
    /// This many tokens.
    Tokens(u64),
    /// This many messages.
    Messages(usize),
}

impl Trigger {
    /// The default: 85 % of the context window.
    pub const DEFAULT: Self = Self::Fraction(0.85);
    /// What counts if the context window is unknown.
    pub const UNKNOWN: Self = Self::Tokens(170_000);

    /// The same as a number of tokens or messages.
    pub(super) fn in_window(self, room: Option<u64>) -> Self {
        match (self, room) {
            (Self::Fraction(fraction), Some(room)) => Self::Tokens(share(room, fraction)),
            (Self::Fraction(_), None) => Self::UNKNOWN,
            (trigger, _) => trigger,
        }
    }
}

impl Keep {
    /// The default: 10 % of the context window.
    pub const DEFAULT: Self = Self::Fraction(0.10);
    /// What counts if the context window is unknown.
    pub const UNKNOWN: Self = Self::Messages(6);

    /// The index of the first message that stays: at least the last message, and no answer without its call.
    ///
    /// `fitting` returns how many messages of the end fit into a number of tokens.
    pub(super) fn cut(
        self,
        room: Option<u64>,
        messages: &[Arc<Message>],
        fitting: impl FnOnce(u64) -> usize,
    ) -> usize {
        let stays = match self {
            Self::Messages(most) => most,
            Self::Tokens(most) => fitting(most),
            Self::Fraction(fraction) => match room {
                Some(room) => fitting(share(room, fraction)),
                None => return Self::UNKNOWN.cut(room, messages, fitting),
            },
        };
        // Back to the response that made the calls.
        let is_result = |message: &Arc<Message>| matches!(message.content, Content::Tool(_));
        let mut cut = messages.len().saturating_sub(stays.max(1));
        while cut > 0 && is_result(&messages[cut]) {
            cut -= 1;
        }
        cut
    }
}

/// How many tokens a model can read in one call, without the room for its response.
pub(super) fn room(limits: ModelLimits) -> Option<u64> {
    let window = limits.context?;
    Some(window - limits.output.unwrap_or_default().min(window / 2))
}

/// A fraction of what a model can read.
fn share(room: u64, fraction: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a window is no larger than the window"
    )]
    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^52 tokens")]
    let share = (room as f64 * fraction.clamp(0.0, 1.0)) as u64;
    share
}
