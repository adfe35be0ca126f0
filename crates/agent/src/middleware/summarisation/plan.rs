//! When a conversation is too long, and where it is cut. Nothing here asks or writes anything.

use std::sync::Arc;

use crate::message::{Content, Message};
use crate::model::ModelLimits;

/// When something is too long.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Trigger {
    /// It takes this part of what the agent's model can read beside what it says; [`Trigger::UNKNOWN`] where that is not known.
    Fraction(f64),
    /// It takes so many tokens.
    Tokens(u64),
    /// It has so many messages.
    Messages(usize),
}

/// How much of the end stays as it is. The last message stays in any case, with the call that it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Keep {
    /// This part of what the agent's model can read beside what it says; [`Keep::UNKNOWN`] where that is not known.
    Fraction(f64),
    /// So many tokens.
    Tokens(u64),
    /// So many messages.
    Messages(usize),
}

impl Trigger {
    /// When nobody says otherwise.
    pub const DEFAULT: Self = Self::Fraction(0.85);
    /// In place of a part of what is not known.
    pub const UNKNOWN: Self = Self::Tokens(170_000);

    /// Whether so many messages are too many, or so many tokens too much. Tokens are counted only if they matter.
    pub(super) fn is_due(self, room: Option<u64>, messages: usize, tokens: impl FnOnce() -> u64) -> bool {
        match self {
            Self::Messages(most) => messages >= most,
            Self::Tokens(most) => tokens() >= most,
            Self::Fraction(part) => match room {
                Some(room) => tokens() >= share(room, part),
                None => Self::UNKNOWN.is_due(room, messages, tokens),
            },
        }
    }
}

impl Keep {
    /// When nobody says otherwise.
    pub const DEFAULT: Self = Self::Fraction(0.10);
    /// In place of a part of what is not known.
    pub const UNKNOWN: Self = Self::Messages(6);

    /// Where the part begins that stays: so much of the end, at least the last message, and no result without its
    /// call. `fitting` says how many messages of the end take no more than so many tokens.
    pub(super) fn cut(
        self,
        room: Option<u64>,
        messages: &[Arc<Message>],
        fitting: impl FnOnce(u64) -> usize,
    ) -> usize {
        let stays = match self {
            Self::Messages(most) => most,
            Self::Tokens(most) => fitting(most),
            Self::Fraction(part) => match room {
                Some(room) => fitting(share(room, part)),
                None => return Self::UNKNOWN.cut(room, messages, fitting),
            },
        };
        // Back to the answer that made the calls.
        let is_result = |message: &Arc<Message>| matches!(message.content, Content::Tool(_));
        let mut cut = messages.len().saturating_sub(stays.max(1));
        while cut > 0 && is_result(&messages[cut]) {
            cut -= 1;
        }
        cut
    }
}

/// How much a model can read in one call, in tokens: what it says has to fit beside it.
pub(super) fn room(limits: ModelLimits) -> Option<u64> {
    let window = limits.context?;
    Some(window - limits.output.unwrap_or_default().min(window / 2))
}

/// A part of what a model can read.
fn share(room: u64, part: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a window is a window's size"
    )]
    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^52 tokens")]
    let share = (room as f64 * part.clamp(0.0, 1.0)) as u64;
    share
}
