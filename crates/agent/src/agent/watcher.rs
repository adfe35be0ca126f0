//! Watchers: they see an agent work.

use crate::id::{CallId, ThreadId};
use crate::model::ModelUsage;
use crate::thread_state::Event;
use crate::tool::ToolAnswer;

/// Sees an agent work, to show it to a person for example. It must not block.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use prowess_agent::{Agent, ThreadUpdate, ThreadId};
/// use prowess_models::{Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([ScriptedTurn::new().say("Hello!").piece(2)]);
/// let agent = Agent::builder(Arc::new(model)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// let pieces = Mutex::new(Vec::new());
/// let watcher = |update: ThreadUpdate<'_>| {
///     if let ThreadUpdate::Text(text) = update {
///         pieces.lock().unwrap().push(text.to_owned()); // a front end prints it
///     }
/// };
/// thread.say("Hi.", &watcher).await?;
/// assert_eq!(*pieces.lock().unwrap(), ["He", "ll", "o!"]);
/// # Ok(())
/// # }
/// ```
pub trait Watcher: Send + Sync {
    /// Called for each update.
    fn update(&self, update: ThreadUpdate<'_>);
}

/// Something that a watcher sees.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ThreadUpdate<'a> {
    /// An event was stored. The start of a model call is usually stored, and seen, together with the response.
    Stored(&'a Event),
    /// A piece of the response. It is not stored yet, and comes again if the model call has to be repeated.
    Text(&'a str),
    /// A piece of the model's reasoning.
    Reasoning(&'a str),
    /// A tool reports its progress, such as the output of a command: one or more lines, without the last line break. They
    /// are not stored, and can have control characters.
    Progress(&'a CallId, &'a str),
    /// A middleware or a tool tells the person something. It is not stored.
    Notice(&'a str),
    /// A sub-agent that works on this call got the answer of one of its own tools. The answer is in the sub-agent's thread.
    SubAgentTool(&'a CallId, &'a ToolAnswer),
    /// Models were paid, in this thread or in the thread of a sub-agent. A watcher that adds these up counts everything once,
    /// as it happens.
    Paid {
        /// The thread and the number of the stored event that has the tokens. `None` if no event has them: a model call was cut
        /// off or failed, so they are an estimate, or a tool paid a model without a sub-agent.
        event: Option<(&'a ThreadId, u64)>,
        /// The tokens.
        spent: &'a ModelUsage,
    },
}

/// A watcher that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatcher;

impl Watcher for NoWatcher {
    fn update(&self, _: ThreadUpdate<'_>) {}
}

impl<F: Fn(ThreadUpdate<'_>) + Send + Sync> Watcher for F {
    fn update(&self, update: ThreadUpdate<'_>) {
        self(update);
    }
}
