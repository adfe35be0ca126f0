//! Who sees an agent work.

use crate::id::CallId;
use crate::thread_state::Event;

/// Sees an agent work. It must not block.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use prowess_agent::{Agent, ThreadUpdate, ThreadId};
/// use prowess_models::{Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([ScriptedTurn::new().say("Hello!").in_pieces_of(2)]);
/// let agent = Agent::builder(Arc::new(model)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// let pieces = Mutex::new(Vec::new());
/// let watcher = |sight: ThreadUpdate<'_>| {
///     if let ThreadUpdate::Text(text) = sight {
///         pieces.lock().unwrap().push(text.to_owned()); // a front end prints it
///     }
/// };
/// thread.say("Hi.", &watcher).await?;
/// assert_eq!(*pieces.lock().unwrap(), ["He", "ll", "o!"]);
/// # Ok(())
/// # }
/// ```
pub trait Watcher: Send + Sync {
    /// Something can be seen.
    fn update(&self, update: ThreadUpdate<'_>);
}

/// What can be seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ThreadUpdate<'a> {
    /// Something happened, and is stored. That the model is asked is mostly stored, and seen, with its answer.
    Stored(&'a Event),
    /// The model says something. It is not stored yet, and said again if the call has to be made again.
    Text(&'a str),
    /// The model thinks something.
    Reasoning(&'a str),
    /// A tool says how far it is.
    Progress(&'a CallId, &'a str),
}

/// Sees nothing.
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
