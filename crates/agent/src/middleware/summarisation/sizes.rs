//! How many tokens messages and requests take. What was counted once is not counted again.

use std::ops::RangeFrom;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::{AssistantPart, Content, Message, UserPart};
use crate::middleware::MiddlewareContext;
use crate::model::{Model, ModelRequest, ToolDefinition};

/// What a part of a message takes beside its text, in tokens.
const OVERHEAD: u64 = 4;
/// What a picture or a document is taken for, in tokens.
const MEDIA: u64 = 1500;

/// How many tokens the messages of one thread take.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// By the places of the messages in the thread; 0 where nobody has counted.
    messages: Mutex<Vec<u64>>,
    /// What prompt and tools took in the last request that was counted.
    frame: AtomicU64,
    /// What each tool of that request took.
    tools: Mutex<Vec<(Arc<ToolDefinition>, u64)>>,
}

impl Sizes {
    /// About how many tokens the next request takes, all in all: what the model itself counted last and what came since,
    /// or else what is counted here.
    pub(super) fn request(&self, moment: MiddlewareContext<'_>) -> u64 {
        let run = moment.run;
        match run.counted() {
            Some((tokens, messages)) => tokens + self.total(moment, messages..),
            None => {
                let summary = run.summary().map_or(0, |message| tokens(&**moment.model, message));
                self.frame.load(Ordering::Relaxed) + summary + self.total(moment, run.cut()..)
            }
        }
    }

    /// Notes what stands in a request beside its messages, where the model does not count itself.
    pub(super) fn note(&self, moment: MiddlewareContext<'_>, request: &ModelRequest) {
        if moment.run.counted().is_some() {
            return;
        }
        let count = |text: &str| moment.model.count_tokens(text);
        let system = request.system.iter().map(|section| count(&section.text));
        let of_tool = |tool: &ToolDefinition| {
            count(&tool.name) + count(&tool.description) + count(&tool.parameters.to_string()) + OVERHEAD
        };
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |(place, tool): (usize, &Arc<ToolDefinition>)| match known.get(place) {
            Some((same, tokens)) if Arc::ptr_eq(same, tool) => (Arc::clone(tool), *tokens),
            _ => (Arc::clone(tool), of_tool(tool)),
        };
        *known = request.tools.iter().enumerate().map(counted).collect();
        let tools = known.iter().map(|(_, tokens)| *tokens);
        self.frame.store(system.chain(tools).sum(), Ordering::Relaxed);
    }

    /// How many messages of the end take no more than `most` tokens together, of those that the model sees.
    pub(super) fn fitting(&self, moment: MiddlewareContext<'_>, most: u64) -> usize {
        let mut total = 0;
        let seen = (moment.run.cut()..moment.run.messages().len()).rev();
        self.counted(moment, |size| {
            seen.take_while(|index| {
                total += size(*index);
                total <= most
            })
            .count()
        })
    }

    fn total(&self, moment: MiddlewareContext<'_>, from: RangeFrom<usize>) -> u64 {
        self.counted(moment, |size| (from.start..moment.run.messages().len()).map(size).sum())
    }

    fn counted<T>(
        &self,
        moment: MiddlewareContext<'_>,
        work: impl FnOnce(&mut dyn FnMut(usize) -> u64) -> T,
    ) -> T {
        let messages = moment.run.messages();
        let mut sizes = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.resize(messages.len(), 0);
        work(&mut |index| {
            if sizes[index] == 0 {
                sizes[index] = tokens(&**moment.model, &messages[index]);
            }
            sizes[index]
        })
    }
}

/// About how many tokens a message takes; never none.
fn tokens(model: &dyn Model, message: &Message) -> u64 {
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
