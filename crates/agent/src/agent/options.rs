//! How much an agent may do.

use std::time::Duration;

use super::lease::DEFAULT_LEASE;
use super::tool_calls::DEFAULT_PARALLEL_CALLS;
use crate::thread_state::TurnLimits;

/// How much an agent may do.
///
/// ```
/// use prowess_agent::thread_state::DEFAULT_MAX_MODEL_CALLS;
/// use prowess_agent::AgentOptions;
///
/// let mut options = AgentOptions::default();
/// assert_eq!(options.limits.model_calls, DEFAULT_MAX_MODEL_CALLS);
/// options.limits.tokens = Some(500_000);
/// options.parallel_calls = 1;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentOptions {
    /// The limits of one turn.
    pub limits: TurnLimits,
    /// How many tool calls of one response run at the same time.
    pub parallel_calls: usize,
    /// How long a thread stays leased to a process that died.
    pub lease: Duration,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { limits: TurnLimits::default(), parallel_calls: DEFAULT_PARALLEL_CALLS, lease: DEFAULT_LEASE }
    }
}
