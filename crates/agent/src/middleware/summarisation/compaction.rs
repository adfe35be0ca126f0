//! A summary at once, because a person asks for it.

use super::Summarisation;
use super::state::{NAME, SummarisationState};
use crate::agent::{AgentError, Thread, Watcher};
use crate::thread_state::NextStep;

/// The outcome of a person's request for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compaction {
    /// The conversation was summarised.
    Done {
        /// How many messages the model no longer sees because of it.
        messages: usize,
    },
    /// There was nothing to summarise: the last message always stays, with the call that it answers.
    Nothing,
    /// The conversation could not be summarised.
    Failed {
        /// Why.
        why: String,
    },
}

impl Summarisation {
    /// Summarises the conversation of a thread now. This fails during a turn, and in an agent without this middleware.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use prowess_agent::middleware::{Compaction, Summarisation};
    /// use prowess_agent::{Agent, NoWatcher, ThreadId};
    /// use prowess_backend::MemoryBackend;
    /// use prowess_models::{Scripted, ScriptedTurn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Scripted::new([ScriptedTurn::new().say("Hello!"), ScriptedTurn::new().say("They greeted each other.")]);
    /// let model = Arc::new(model);
    /// let summarisation = Summarisation::new(model.clone(), Arc::new(MemoryBackend::new()));
    /// let mut thread = Agent::builder(model).middleware(summarisation).build()?.open(ThreadId::new()).await?;
    /// thread.say("Hi.", &NoWatcher).await?;
    /// assert_eq!(Summarisation::compact(&mut thread, &NoWatcher).await?, Compaction::Done { messages: 1 });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn compact(thread: &mut Thread, watcher: &dyn Watcher) -> Result<Compaction, AgentError> {
        thread.catch_up_if_ahead().await?;
        let failed = |why: &str| Ok(Compaction::Failed { why: why.to_owned() });
        if thread.states().get::<SummarisationState>(NAME).is_none() {
            return failed("this agent has no summarisation");
        }
        if thread.state().next() != NextStep::Wait {
            return failed("a turn is in progress");
        }
        let cut = thread.state().cut();
        thread.change(Self::request()).await?;
        thread.call_by_name(NAME, watcher).await?;
        let why = thread.states().get::<SummarisationState>(NAME).and_then(|state| state.failure.as_deref());
        match (thread.state().cut() - cut, why) {
            (0, Some(why)) => failed(why),
            (0, None) => Ok(Compaction::Nothing),
            (messages, _) => Ok(Compaction::Done { messages }),
        }
    }
}
