//! A summary at once, because a person wants it.

use super::Summarisation;
use super::state::{Kept, NAME};
use crate::agent::{AgentError, Thread, Watcher};
use crate::thread_state::NextStep;

/// What came of a wish to have the conversation summarised.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compaction {
    /// It was summarised.
    Done {
        /// How many messages the model no longer sees since, beyond those that it did not see before.
        messages: usize,
    },
    /// There was nothing to summarise: the last message stays in any case, with the call that it answers.
    Nothing,
    /// It could not be done.
    Failed {
        /// Why.
        why: String,
    },
}

impl Summarisation {
    /// Has the conversation of a thread summarised now, as a person wishes, and says what came of it. In the middle of a
    /// turn, and by an agent without this part, it cannot be done.
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
    /// let part = Summarisation::new(model.clone(), Arc::new(MemoryBackend::new()));
    /// let mut thread = Agent::builder(model).with(part).build()?.open(ThreadId::new()).await?;
    /// thread.say("Hi.", &NoWatcher).await?;
    /// assert_eq!(Summarisation::compact(&mut thread, &NoWatcher).await?, Compaction::Done { messages: 1 });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What happened could not be stored.
    pub async fn compact(thread: &mut Thread, watcher: &dyn Watcher) -> Result<Compaction, AgentError> {
        thread.catch_up_if_ahead().await?;
        let failed = |why: &str| Ok(Compaction::Failed { why: why.to_owned() });
        if thread.states().get::<Kept>(NAME).is_none() {
            return failed("this agent does not summarise");
        }
        if thread.run().next() != NextStep::Wait {
            return failed("a turn is going on");
        }
        let cut = thread.run().cut();
        thread.change(Self::request()).await?;
        thread.ask_one(NAME, watcher).await?;
        let why = thread.states().get::<Kept>(NAME).and_then(|kept| kept.failure.as_deref());
        match (thread.run().cut() - cut, why) {
            (0, Some(why)) => failed(why),
            (0, None) => Ok(Compaction::Nothing),
            (messages, _) => Ok(Compaction::Done { messages }),
        }
    }
}
