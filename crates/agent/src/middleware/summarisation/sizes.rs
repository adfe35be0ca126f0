//! How many tokens messages and requests have, as prowess counts. Each message is counted once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::Message;
use crate::model::{Model, ModelRequest, ToolDefinition, message_tokens, tool_tokens};

/// How many messages are remembered beyond those of the present request.
const MAX_OLD: usize = 4096;

/// The tokens of the messages and tools of one thread.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// By the address of the message, which cannot be used again while the message is here.
    messages: Mutex<HashMap<usize, (Arc<Message>, u64)>>,
    /// The tokens of each tool in the last counted request.
    tools: Mutex<Vec<(Arc<ToolDefinition>, u64)>>,
}

impl Sizes {
    /// The tokens of a request.
    pub(super) fn request(&self, model: &dyn Model, request: &ModelRequest) -> u64 {
        let system: u64 = request.system.iter().map(|section| model.count_tokens(&section.text)).sum();
        system + self.tools(model, request) + self.messages(model, &request.messages)
    }

    /// The tokens of messages.
    pub(super) fn messages<'a>(
        &self,
        model: &dyn Model,
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
    ) -> u64 {
        messages.into_iter().map(|message| self.message(model, message)).sum()
    }

    /// The tokens of a message.
    pub(super) fn message(&self, model: &dyn Model, message: &Arc<Message>) -> u64 {
        let mut known = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(message) as usize;
        if let Some((_, tokens)) = known.get(&address) {
            return *tokens;
        }
        let tokens = message_tokens(model, message);
        known.insert(address, (Arc::clone(message), tokens));
        tokens
    }

    /// Forgets messages that requests no longer have, if there are many.
    pub(super) fn forget_old(&self, messages: usize) {
        let mut known = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > messages + MAX_OLD {
            known.clear();
        }
    }

    fn tools(&self, model: &dyn Model, request: &ModelRequest) -> u64 {
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |(index, tool): (usize, &Arc<ToolDefinition>)| match known.get(index) {
            Some((same, tokens)) if Arc::ptr_eq(same, tool) => (Arc::clone(tool), *tokens),
            _ => (Arc::clone(tool), tool_tokens(model, tool)),
        };
        *known = request.tools.iter().enumerate().map(counted).collect();
        known.iter().map(|(_, tokens)| *tokens).sum()
    }
}
