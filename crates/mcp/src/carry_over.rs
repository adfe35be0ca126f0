//! The state that one request leaves for later requests.

use std::sync::Arc;

use crate::consent::ElicitedQuestions;
use crate::outputs::Outputs;

/// Questions that wait for a reply, and outputs of runs. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarryOver {
    pub(crate) waiting: Arc<ElicitedQuestions>,
    pub(crate) outputs: Arc<Outputs>,
}

impl CarryOver {
    /// The state of all sessionless clients. A client reaches an entry only by its unguessable name.
    #[cfg(feature = "http")]
    pub(crate) fn shared() -> Self {
        Self { waiting: Arc::default(), outputs: Arc::new(Outputs::shared()) }
    }
}
