//! Model calls that do not finish. A provider bills them, and no event has their tokens, so these are estimated.

use super::watcher::{ThreadUpdate, Watcher};
use crate::model::{Model, ModelDelta, ModelRequest, ModelUsage, Usage, request_tokens};

/// How many bytes of a response a token has, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// A model call that is under way. If it is dropped before its end, its watcher sees an estimate of what it took.
pub(super) struct UnfinishedCall<'a> {
    model: &'a dyn Model,
    request: ModelRequest,
    watcher: &'a dyn Watcher,
    /// What the provider has reported.
    reported: Usage,
    /// How many bytes of the response there are.
    bytes: u64,
    is_finished: bool,
}

impl<'a> UnfinishedCall<'a> {
    pub(super) fn new(model: &'a dyn Model, request: ModelRequest, watcher: &'a dyn Watcher) -> Self {
        Self { model, request, watcher, reported: Usage::default(), bytes: 0, is_finished: false }
    }

    /// Notes a piece of the response.
    pub(super) fn note(&mut self, delta: &ModelDelta) {
        match delta {
            ModelDelta::Usage(usage) => self.reported = *usage,
            delta => self.bytes = self.bytes.saturating_add(delta.weight() as u64),
        }
    }

    /// The call is over: an event has its tokens, or there are none.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for UnfinishedCall<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let mut usage = self.reported;
        if usage.input == 0 {
            usage.input = request_tokens(self.model, &self.request);
        }
        usage.output = usage.output.max(self.bytes / BYTES_PER_TOKEN);
        let spent = ModelUsage::on(self.model.name(), usage);
        self.watcher.update(ThreadUpdate::Paid { event: None, spent: &spent });
    }
}
