//! What a request leaves for later ones.

use std::sync::Arc;

use crate::consent::WaitingQuestions;
use crate::outputs::Outputs;

/// Questions that wait for an answer, and outputs of commands. Clones are handles on the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarryOver {
    pub(crate) waiting: Arc<WaitingQuestions>,
    pub(crate) outputs: Arc<Outputs>,
}

impl CarryOver {
    /// What clients share that cannot be told apart: each finds what it was given the name of, and nothing else.
    #[cfg(feature = "http")]
    pub(crate) fn shared() -> Self {
        Self { waiting: Arc::default(), outputs: Arc::new(Outputs::shared()) }
    }
}
