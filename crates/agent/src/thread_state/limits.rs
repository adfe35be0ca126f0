//! The limits of a turn.

/// How many model calls one turn may have, unless the options say otherwise.
pub const DEFAULT_MAX_MODEL_CALLS: u32 = 100;

/// The limits of one turn.
///
/// ```
/// use prowess_agent::thread_state::NextStep;
/// use prowess_agent::{Event, Message, ThreadState, TurnLimits};
///
/// let mut state = ThreadState::new(TurnLimits::new(0).tokens(50_000));
/// state.apply(&Event::TurnStarted { messages: vec![Message::user("Hi.")] })?;
/// assert!(matches!(state.next(), NextStep::End(_)), "no model call is allowed");
/// # Ok::<(), prowess_agent::thread_state::MisplacedEvent>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnLimits {
    /// How many model calls the turn may have.
    pub model_calls: u32,
    /// How many tokens its models may read and write, sub-agents and summaries included. `None`: no limit.
    pub tokens: Option<u64>,
}

impl TurnLimits {
    /// Allows this many model calls, and any number of tokens.
    pub fn new(model_calls: u32) -> Self {
        Self { model_calls, tokens: None }
    }

    /// Sets how many tokens the turn may take.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_MODEL_CALLS)
    }
}
