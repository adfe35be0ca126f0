//! When a conversation is too long, and where it is cut. Nothing here asks or writes anything.

use std::sync::Arc;

use crate::message::{AssistantPart, Content, Message, UserPart};
use crate::model::Model;

/// When something is too long.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Trigger {
    /// It takes this part of what the model can read.
    Fraction(f64),
    /// It takes so many tokens.
    Tokens(u64),
    /// It has so many messages.
    Messages(usize),
}

/// How much of the end stays as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Keep {
    /// This part of what the model can read.
    Fraction(f64),
    /// So many tokens.
    Tokens(u64),
    /// So many messages.
    Messages(usize),
}

/// What a part of a message takes beside its text, in tokens.
const OVERHEAD: u64 = 4;
/// What a picture or a document is taken for, in tokens.
const MEDIA: u64 = 1500;

/// About how many tokens a message takes.
pub(super) fn tokens(model: &dyn Model, message: &Message) -> u64 {
    let count = |text: &str| model.count_tokens(text);
    let parts: u64 = match &message.content {
        Content::User { parts } => parts
            .iter()
            .map(|part| match part {
                UserPart::Text { text } => count(text),
                UserPart::Image(_) | UserPart::File(_) => MEDIA,
            })
            .sum(),
        Content::Assistant { parts } => parts
            .iter()
            .map(|part| match part {
                AssistantPart::Text { text } => count(text),
                AssistantPart::Reasoning(thought) => count(&thought.text),
                AssistantPart::ToolCall(call) => count(&call.name) + count(&call.arguments) + OVERHEAD,
            })
            .sum(),
        Content::Tool(result) => count(&result.text),
    };
    parts + OVERHEAD
}

/// What a part of the model's window is in tokens. Without a window nothing is a part of it.
fn fraction(model: &dyn Model, part: f64) -> Option<u64> {
    let window = model.limits().context?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a window is a window's size"
    )]
    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^52 tokens")]
    Some((window as f64 * part.clamp(0.0, 1.0)) as u64)
}

/// Whether these messages, of these sizes, are too long.
pub(super) fn is_due(trigger: Trigger, model: &dyn Model, sizes: &[u64]) -> bool {
    let total = || sizes.iter().sum::<u64>();
    match trigger {
        Trigger::Fraction(part) => fraction(model, part).is_some_and(|most| total() >= most),
        Trigger::Tokens(most) => total() >= most,
        Trigger::Messages(most) => sizes.len() >= most,
    }
}

/// Where the part begins that stays: so much of the end, and no result without its call.
pub(super) fn cut(keep: Keep, model: &dyn Model, messages: &[Arc<Message>], sizes: &[u64]) -> usize {
    let wanted = match keep {
        Keep::Messages(most) => messages.len().saturating_sub(most),
        Keep::Tokens(most) => fitting(sizes, most),
        Keep::Fraction(part) => match fraction(model, part) {
            Some(most) => fitting(sizes, most),
            None => messages.len(),
        },
    };
    // Back to the answer that made the calls.
    let is_result =
        |index: &usize| messages.get(*index).is_some_and(|it| matches!(it.content, Content::Tool(_)));
    let mut cut = wanted;
    while is_result(&cut) {
        cut -= 1;
    }
    cut
}

/// The first message of the longest end that takes no more than `most` tokens.
fn fitting(sizes: &[u64], most: u64) -> usize {
    let mut total = 0;
    let fits = sizes.iter().rev().take_while(|size| {
        total += **size;
        total <= most
    });
    sizes.len() - fits.count()
}
