//! `[limits]`

use prowess_agent::thread_state::DEFAULT_MAX_MODEL_CALLS;

use super::read::section;
use super::setting::{Amount, Whole, Whole32};

section! {
    /// What a conversation may use.
    pub(crate) struct LimitSettings {
        /// How many model calls a turn may have.
        User model_calls: Whole32 = DEFAULT_MAX_MODEL_CALLS,
        /// How many tokens a turn may use, read and written together. Without it, there is no limit.
        User tokens: Option<Whole>,
        /// How many dollars a thread may cost, with its sub-agents. Without it, there is no limit. It needs a `price`
        /// for the model.
        User cost: Option<Amount>,
    }
}
