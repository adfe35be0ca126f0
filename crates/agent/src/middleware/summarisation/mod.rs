//! Summarisation: once a conversation is long, a summary replaces its oldest messages.
//!
//! The log keeps every message. Messages that the model no longer sees are first appended to a history file that the model
//! can read. If that fails, the model keeps seeing them.
//!
//! A compaction has three steps, and each checks whether the one before was done: store the decision with its summary, write
//! the history, cut the conversation. Afterwards the middleware `skills` puts the text of loaded skills back
//! (`skills/put_back.rs`).

mod compaction;
mod history;
mod sizes;
mod state;
mod summary;
mod trigger;
mod truncate_arguments;

use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::VirtualPath;

pub use self::compaction::Compaction;
use self::sizes::MessageSizes;
use self::state::{DecidedCompaction, NAME, SummarisationDelta, SummarisationState};
pub use self::trigger::{Keep, Trigger};
pub use self::truncate_arguments::TruncateArguments;
use self::truncate_arguments::TruncatedMessages;
use crate::agent::NextModel;
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, MiddlewareFactory,
};
use crate::model::{Model, ModelError, ModelErrorKind, ModelResponse};
use crate::state::{AnyState, States};
use crate::thread_state::{NextStep, StateChange, TurnOutcome};

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
        let truncated = self.options.truncate_arguments.clone().map(TruncatedMessages::new);
        Ok(Arc::new(ThreadSummarisation {
            settings: self.clone(),
            sizes: MessageSizes::default(),
            truncated,
        }))
    }
}

/// Summarisation in a thread.
#[derive(Debug)]
struct ThreadSummarisation {
    settings: Summarisation,
    sizes: MessageSizes,
    truncated: Option<TruncatedMessages>,
}

impl ThreadSummarisation {
    fn is_due(&self, context: MiddlewareContext<'_>, trigger: Trigger) -> bool {
        let messages = context.thread_state.messages().len() - context.thread_state.cut();
        trigger.is_due(room(context), messages, || self.sizes.request(context))
    }

    fn keep(&self) -> Keep {
        self.settings.options.keep.unwrap_or(Keep::DEFAULT)
    }

    /// The first message of the thread that stays.
    fn cut(&self, context: MiddlewareContext<'_>, keep: Keep) -> usize {
        let seen = &context.thread_state.messages()[context.thread_state.cut()..];
        context.thread_state.cut() + keep.cut(room(context), seen, |most| self.sizes.fitting(context, most))
    }

    fn history(&self, context: MiddlewareContext<'_>) -> Result<VirtualPath, String> {
        let path = self.settings.options.history_path_prefix.join(&format!("{}.md", context.thread));
        path.map_err(|error| error.to_string())
    }

    /// Decides to replace all messages before `cut` by a summary, unless a middleware objects. The actions are to be done
    /// in any case.
    async fn decide(
        &self,
        context: MiddlewareContext<'_>,
        cut: usize,
    ) -> (Vec<MiddlewareAction>, Result<DecidedCompaction, String>) {
        let from = context.thread_state.cut();
        let reaction = context.announce(Announcement::Compacting { messages: cut - from }).await;
        let actions = reaction.changes.into_iter().map(MiddlewareAction::Change).collect();
        if let Some(objection) = reaction.objection {
            return (actions, Err(objection));
        }
        (actions, self.summarise(context, cut).await)
    }

    async fn summarise(
        &self,
        context: MiddlewareContext<'_>,
        cut: usize,
    ) -> Result<DecidedCompaction, String> {
        let from = context.thread_state.cut();
        let earlier =
            context.thread_state.summary().map(|message| summary::without_frame(message)).unwrap_or_default();
        let text = history::as_text(&context.thread_state.messages()[from..cut]);
        let summarised = summary::summarise(&*self.settings.model, context.thread, &earlier, &text).await;
        let (summary, spent) = summarised.map_err(|error| format!("no summary: {error}"))?;
        let size = history::size(&*self.settings.backends.at(context), &self.history(context)?).await;
        let size = size.map_err(|error| format!("the history cannot be read: {error}"))?;
        let (thread, since) =
            (context.thread.clone(), state(context).map_err(|error| error.to_string())?.since(context));
        let at = jiff::Timestamp::now().to_string();
        Ok(DecidedCompaction { thread, since, from, cut, at, size, summary, spent })
    }

    /// Finishes a decided compaction: writes the history, unless that was done, and cuts the conversation.
    async fn finish(
        &self,
        context: MiddlewareContext<'_>,
        decided: &DecidedCompaction,
    ) -> Result<MiddlewareAction, String> {
        let path = self.history(context)?;
        let evicted = &context.thread_state.messages()[decided.since..decided.cut];
        if let Some(section) = history::section(&decided.at, evicted) {
            let backend = self.settings.backends.at(context);
            let appended = history::append_once(&*backend, &path, section, decided.size).await;
            appended.map_err(|error| format!("the history cannot be written: {error}"))?;
        }
        Ok(MiddlewareAction::Compact {
            cut: decided.cut,
            summary: summary::message(&path, &decided.summary),
            spent: decided.spent.clone(),
        })
    }

    /// What follows if the conversation could not be summarised: a person who asked for it is told. If the request no
    /// longer fits into the context window, the turn ends.
    fn failed(&self, context: MiddlewareContext<'_>, is_wanted: bool, why: String) -> Vec<MiddlewareAction> {
        let mut actions: Vec<MiddlewareAction> =
            is_wanted.then(|| SummarisationDelta::Failed { why: why.clone() }.action()).into_iter().collect();
        let is_full = || room(context).is_some_and(|room| self.sizes.request(context) >= room);
        if context.thread_state.next() != NextStep::Wait && is_full() {
            actions.push(window_full(why));
        } else {
            tracing::warn!(thread = %context.thread, why, "The conversation could not be summarised");
        }
        actions
    }
}

#[async_trait]
impl Middleware for ThreadSummarisation {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let state = state(context)?;
        if let Some(decided) = state.pending(context) {
            return Ok(match self.finish(context, decided).await {
                // The conversation may have grown meanwhile.
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Again)],
                Err(why) => self.failed(context, state.is_wanted, why),
            });
        }
        if !state.is_wanted
            && !self.is_due(context, self.settings.options.trigger.unwrap_or(Trigger::DEFAULT))
        {
            return Ok(Vec::new());
        }
        let cut = match state.is_wanted {
            // A person who asks for a summary wants a short conversation.
            true => self.cut(context, Keep::Messages(1)),
            false => self.cut(context, self.keep()),
        };
        let Some(cut) = Some(cut).filter(|cut| *cut > context.thread_state.cut()) else {
            return Ok(state.is_wanted.then(|| SummarisationDelta::Dropped.action()).into_iter().collect());
        };
        let (mut actions, decided) = self.decide(context, cut).await;
        match decided {
            Ok(decided) => actions
                .extend([SummarisationDelta::Decided(decided).action(), MiddlewareAction::Jump(Jump::Again)]),
            Err(why) => actions.extend(self.failed(context, state.is_wanted, why)),
        }
        Ok(actions)
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        match context.thread_state.next() {
            // The provider counts more tokens than we do.
            NextStep::End(TurnOutcome::Failed { error }) if error.kind == ModelErrorKind::ContextTooLong => {}
            _ => return Ok(Vec::new()),
        }
        if let Some(decided) = state(context)?.pending(context) {
            return Ok(match self.finish(context, decided).await {
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Model(Vec::new()))],
                Err(why) => vec![window_full(why)],
            });
        }
        // Cut as much as usual, or else as much as possible.
        let mut cuts = [self.keep(), Keep::Messages(1)].into_iter().map(|keep| self.cut(context, keep));
        let Some(cut) = cuts.find(|cut| *cut > context.thread_state.cut()) else {
            return Ok(vec![window_full("the messages that must stay are too long".to_owned())]);
        };
        let (mut actions, decided) = self.decide(context, cut).await;
        match decided {
            Ok(decided) => actions
                .extend([SummarisationDelta::Decided(decided).action(), MiddlewareAction::Jump(Jump::Again)]),
            Err(why) => actions.push(window_full(why)),
        }
        Ok(actions)
    }

    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.sizes.note(context, &next.request);
        if let Some(truncated) = &self.truncated
            && self.is_due(context, truncated.options.trigger)
            && let Some(stays) =
                context.thread_state.messages().get(self.cut(context, truncated.options.keep))
        {
            truncated.truncate(context, &mut next.request.messages, stays);
        }
        next.call().await
    }
}

/// How many tokens the agent's model can read in one call.
fn room(context: MiddlewareContext<'_>) -> Option<u64> {
    trigger::room(context.model.limits())
}

fn state(context: MiddlewareContext<'_>) -> Result<&SummarisationState, MiddlewareError> {
    context.states.get(NAME).ok_or(MiddlewareError::NoState)
}

/// Ends the turn because the request does not fit into the context window.
fn window_full(why: String) -> MiddlewareAction {
    MiddlewareAction::Jump(Jump::End(TurnOutcome::WindowFull { why }))
}
