//! Summarisation: once a conversation is long, a summary replaces its oldest messages.
//!
//! The log keeps every message. Messages that the model no longer sees are first appended to a history file that the model
//! can read. If that fails, the model keeps seeing them.
//!
//! A compaction has three steps, and each checks whether the one before was done: store the decision with its summary, write
//! the history, cut the conversation. Afterwards the middleware `skills` puts the text of loaded skills back
//! (`skills/put_back.rs`). The request of the turn under way stays word for word, wherever the cut is
//! (`ThreadState::view`).

mod compaction;
mod factor;
mod fit;
mod history;
mod in_thread;
mod learned;
mod measure;
mod notice;
mod sizes;
mod state;
mod summary;
mod trigger;
mod truncate_arguments;
mod window_use;

use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::{MemoryBackend, VirtualPath};

pub use self::compaction::Compaction;
use self::in_thread::ThreadSummarisation;
use self::measure::Total;
pub use self::notice::SummarisationNotice;
use self::state::{NAME, SummarisationDelta, SummarisationState};
pub use self::trigger::{Keep, Trigger};
pub use self::truncate_arguments::TruncateArguments;
pub use self::window_use::{Counting, WindowPart, WindowPartKind, WindowUse};
use crate::agent::{AgentError, Thread};
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::model::Model;
use crate::state::{AnyState, States};
use crate::thread_state::StateChange;

/// The default directory of history files.
const HISTORY: &str = "/conversation_history";

/// When a conversation is summarised, and how much of it stays.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SummarisationOptions {
    /// When to summarise, by the size of the whole request. `None`: [`Trigger::DEFAULT`].
    pub trigger: Option<Trigger>,
    /// How much of the end stays. `None`: [`Keep::DEFAULT`].
    pub keep: Option<Keep>,
    /// The directory of history files. Their paths are `{prefix}/{thread}.md`.
    pub history_path_prefix: VirtualPath,
    /// How to shorten long arguments of old tool calls. `None`: not at all.
    pub truncate_arguments: Option<TruncateArguments>,
}

impl Default for SummarisationOptions {
    fn default() -> Self {
        let prefix = VirtualPath::parse(HISTORY).unwrap_or_else(|_| VirtualPath::root());
        Self {
            trigger: None,
            keep: None,
            history_path_prefix: prefix,
            truncate_arguments: Some(TruncateArguments::default()),
        }
    }
}

/// Replaces the oldest messages of a long conversation by a summary.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{Keep, Summarisation, Trigger};
/// use prowess_backend::MemoryBackend;
/// use prowess_models::Offline;
///
/// let summarisation = Summarisation::new(Arc::new(Offline), Arc::new(MemoryBackend::new()))
///     .trigger(Trigger::Tokens(100_000))
///     .keep(Keep::Messages(6));
/// ```
#[derive(Clone, Debug)]
pub struct Summarisation {
    model: Arc<dyn Model>,
    backends: Backends,
    options: SummarisationOptions,
}

impl Summarisation {
    /// Lets this model write summaries, and puts history files into these files, below `/conversation_history`.
    pub fn new(model: Arc<dyn Model>, backends: impl Into<Backends>) -> Self {
        Self { model, backends: backends.into(), options: SummarisationOptions::default() }
    }

    /// Sets all options.
    #[must_use]
    pub fn options(mut self, options: SummarisationOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets when to summarise. Default: [`Trigger::DEFAULT`].
    #[must_use]
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.options.trigger = Some(trigger);
        self
    }

    /// Sets how much of the end stays. Default: [`Keep::DEFAULT`].
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.options.keep = Some(keep);
        self
    }

    /// Sets the directory of history files.
    #[must_use]
    pub fn history_path_prefix(mut self, prefix: VirtualPath) -> Self {
        self.options.history_path_prefix = prefix;
        self
    }

    /// Sets how to shorten long arguments of old tool calls. With `None` they stay whole.
    #[must_use]
    pub fn truncate_arguments(mut self, truncate: impl Into<Option<TruncateArguments>>) -> Self {
        self.options.truncate_arguments = truncate.into();
        self
    }

    /// A person's request for a summary, for [`Thread::change`](crate::Thread::change).
    ///
    /// The conversation is summarised before the next model call, whatever the trigger says. If that is not possible, the
    /// request is dropped.
    pub fn request() -> StateChange {
        SummarisationDelta::Wanted.change()
    }

    /// The context window that compactions respect, in tokens: the model's own, or a smaller one that the thread learned
    /// from an error of the provider. `None` if it is unknown.
    pub fn window(states: &States, model: &dyn Model) -> Option<u64> {
        let learned =
            states.get::<SummarisationState>(NAME).and_then(|state| state.learned.get(model.name()));
        let learned = learned.map(|learned| learned.window.unwrap_or(learned.estimated));
        model.limits().context.into_iter().chain(learned).min()
    }

    /// What fills the context window of a thread: the parts of its next request, with their tokens.
    ///
    /// With `is_exact`, the provider counts the request, if it can. That is a request over the network.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use prowess_agent::middleware::{Summarisation, WindowPartKind};
    /// use prowess_agent::{Agent, NoWatcher, ThreadId};
    /// use prowess_backend::MemoryBackend;
    /// use prowess_models::{Scripted, ScriptedTurn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Arc::new(Scripted::new([ScriptedTurn::new().say("Hello!")]));
    /// let summarisation = Summarisation::new(model.clone(), Arc::new(MemoryBackend::new()));
    /// let agent = Agent::builder(model).prompt("Be polite.").middleware(summarisation).build()?;
    /// let mut thread = agent.open(ThreadId::new()).await?;
    /// thread.say("Hi.", &NoWatcher).await?;
    /// let used = Summarisation::window_use(&mut thread, false).await?;
    /// assert_eq!(used.of_kind(WindowPartKind::Prompt) + used.of_kind(WindowPartKind::Message), used.total());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A middleware or the store failed.
    pub async fn window_use(thread: &mut Thread, is_exact: bool) -> Result<WindowUse, AgentError> {
        thread.catch_up_if_ahead().await?;
        let context = thread.context();
        let total = if is_exact { Total::Exact } else { Total::Counted };
        let used = match context.find::<ThreadSummarisation>() {
            Some(own) => own.window_use(context, total).await,
            // An agent without this middleware learns nothing.
            None => {
                let none = Self::new(Arc::clone(context.model), Arc::new(MemoryBackend::new()));
                ThreadSummarisation::new(none).window_use(context, total).await
            }
        };
        used.map_err(AgentError::of(NAME))
    }

    /// The changes that tell another thread what this one learned about models.
    pub(crate) fn inheritance(states: &States) -> Vec<StateChange> {
        states.get::<SummarisationState>(NAME).map(SummarisationState::inheritance).unwrap_or_default()
    }

    /// Withdraws such a request.
    pub fn withdrawal() -> StateChange {
        SummarisationDelta::Dropped.change()
    }
}

#[async_trait]
impl MiddlewareFactory for Summarisation {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<SummarisationState>::default())
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        Ok(Arc::new(ThreadSummarisation::new(self.clone())))
    }
}
