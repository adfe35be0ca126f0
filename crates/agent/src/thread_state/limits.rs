//! The limits of a turn.

/// How many model calls one turn may have, unless the options say otherwise.
pub const DEFAULT_MAX_MODEL_CALLS: u32 = 100;

/// The limits of one turn.
///
/// ```
/// use prowess_agent::thread_state::NextStep;
/// use prowess_agent::{Event, Message, ThreadState, TurnLimits};
///
/// let mut state = ThreadState::new(TurnLimits { model_calls: 0, tokens: Some(50_000) });
/// state.apply(&Event::TurnStarted { messages: vec![Message::user("Hi.")] })?;
/// assert!(matches!(state.next(), NextStep::End(_)), "no model call is allowed");
/// # Ok::<(), prowess_agent::thread_state::MisplacedEvent>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// How many model calls the turn may have.
    pub model_calls: u32,
    /// How many tokens its models may read and write, sub-agents and summaries included. `None`: no limit.
    pub tokens: Option<u64>,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { model_calls: DEFAULT_MAX_MODEL_CALLS, tokens: None }
    }
}
