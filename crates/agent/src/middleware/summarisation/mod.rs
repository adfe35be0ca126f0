//! Summarisation: a conversation that grows too long is cut, and a summary stands for what was.
//!
//! The log keeps every message. What is taken out of the model's sight is first appended to a file that the model can
//! read; if that fails, nothing is taken out. It goes in steps, each of which finds out whether the one before was done:
//! the compaction is decided and stored with its summary, the history is written, the conversation is cut.

mod arguments;
mod compaction;
mod history;
mod plan;
mod sizes;
mod state;
mod summary;

use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::VirtualPath;

use self::arguments::Shortened;
pub use self::arguments::TruncateArguments;
pub use self::compaction::Compaction;
pub use self::plan::{Keep, Trigger};
use self::sizes::Sizes;
use self::state::{Decided, Delta, Kept, NAME};
use crate::agent::NextModel;
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, MiddlewareFactory,
};
use crate::model::{Model, ModelError, ModelErrorKind, ModelResponse};
use crate::state::{AnyState, States};
use crate::thread_state::{NextStep, StateChange, TurnOutcome};

/// When a conversation is summarised, and what stays of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SummarisationOptions {
    /// When, by the whole of what the model is to read; [`Trigger::DEFAULT`] otherwise.
    pub trigger: Option<Trigger>,
    /// What stays; [`Keep::DEFAULT`] otherwise.
    pub keep: Option<Keep>,
    /// Where histories are; `{prefix}/{thread}.md`.
    pub history_path_prefix: VirtualPath,
    /// How long arguments of old calls are shortened, if they are.
    pub truncate_arguments: Option<TruncateArguments>,
}

impl Default for SummarisationOptions {
    fn default() -> Self {
        let prefix = VirtualPath::parse("/conversation_history").unwrap_or_else(|_| VirtualPath::root());
        Self {
            trigger: None,
            keep: None,
            history_path_prefix: prefix,
            truncate_arguments: Some(TruncateArguments::default()),
        }
    }
}

/// Summarisation as a part of an agent.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{Keep, Summarisation, Trigger};
/// use prowess_backend::MemoryBackend;
/// use prowess_models::Offline;
///
/// let part = Summarisation::new(Arc::new(Offline), Arc::new(MemoryBackend::new())).with(|options| {
///     options.trigger = Some(Trigger::Tokens(100_000));
///     options.keep = Some(Keep::Messages(6));
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Summarisation {
    model: Arc<dyn Model>,
    backends: Backends,
    options: SummarisationOptions,
}

impl Summarisation {
    /// Summaries by this model, and histories in these files below `/conversation_history`.
    pub fn new(model: Arc<dyn Model>, backends: impl Into<Backends>) -> Self {
        Self { model, backends: backends.into(), options: SummarisationOptions::default() }
    }

    /// The same with other options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut SummarisationOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// A person's own wish to have the conversation summarised, for [`Thread::change`](crate::Thread::change). It is
    /// done before the model is asked next, whatever the trigger says; where it cannot be done, it is dropped.
    pub fn request() -> StateChange {
        Delta::Wanted.change()
    }

    /// The end of that wish, if it was not fulfilled yet.
    pub fn withdrawal() -> StateChange {
        Delta::Dropped.change()
    }
}

#[async_trait]
impl MiddlewareFactory for Summarisation {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Kept>::default())
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let shortened = self.options.truncate_arguments.clone().map(Shortened::new);
        Ok(Arc::new(Opened { part: self.clone(), sizes: Sizes::default(), shortened }))
    }
}

/// Summarisation in a thread.
#[derive(Debug)]
struct Opened {
    part: Summarisation,
    sizes: Sizes,
    shortened: Option<Shortened>,
}

impl Opened {
    fn is_due(&self, moment: MiddlewareContext<'_>, trigger: Trigger) -> bool {
        let messages = moment.run.messages().len() - moment.run.cut();
        trigger.is_due(room(moment), messages, || self.sizes.request(moment))
    }

    fn keep(&self) -> Keep {
        self.part.options.keep.unwrap_or(Keep::DEFAULT)
    }

    /// The first message of the thread that stays.
    fn cut(&self, moment: MiddlewareContext<'_>, keep: Keep) -> usize {
        let seen = &moment.run.messages()[moment.run.cut()..];
        moment.run.cut() + keep.cut(room(moment), seen, |most| self.sizes.fitting(moment, most))
    }

    fn history(&self, moment: MiddlewareContext<'_>) -> Result<VirtualPath, String> {
        let path = self.part.options.history_path_prefix.join(&format!("{}.md", moment.thread));
        path.map_err(|error| error.to_string())
    }

    /// Decides that all before `cut` is taken out, with a summary of it, if no part objects. The acts stand in any case.
    async fn decide(
        &self,
        moment: MiddlewareContext<'_>,
        cut: usize,
    ) -> (Vec<MiddlewareAction>, Result<Decided, String>) {
        let from = moment.run.cut();
        let heard = moment.announce(Announcement::Compacting { messages: cut - from }).await;
        let acts = heard.changes.into_iter().map(MiddlewareAction::Change).collect();
        if let Some(objection) = heard.objection {
            return (acts, Err(objection));
        }
        (acts, self.summarised(moment, cut).await)
    }

    async fn summarised(&self, moment: MiddlewareContext<'_>, cut: usize) -> Result<Decided, String> {
        let from = moment.run.cut();
        let earlier = moment.run.summary().map(|message| summary::unframed(message)).unwrap_or_default();
        let text = history::written(&moment.run.messages()[from..cut]);
        let made = summary::made(&*self.part.model, moment.thread, &earlier, &text).await;
        let (summary, spent) = made.map_err(|error| format!("no summary: {error}"))?;
        let size = history::size(&*self.part.backends.at(moment), &self.history(moment)?).await;
        let size = size.map_err(|error| format!("the history cannot be read: {error}"))?;
        let (thread, since) =
            (moment.thread.clone(), kept(moment).map_err(|error| error.to_string())?.since(moment));
        let at = jiff::Timestamp::now().to_string();
        Ok(Decided { thread, since, from, cut, at, size, summary, spent })
    }

    /// Does what is decided: writes the history, unless that was done, and takes the messages out.
    async fn finish(
        &self,
        moment: MiddlewareContext<'_>,
        decided: &Decided,
    ) -> Result<MiddlewareAction, String> {
        let path = self.history(moment)?;
        let evicted = &moment.run.messages()[decided.since..decided.cut];
        if let Some(section) = history::section(&decided.at, evicted) {
            let backend = self.part.backends.at(moment);
            let appended = history::append_once(&*backend, &path, section, decided.size).await;
            appended.map_err(|error| format!("the history cannot be written: {error}"))?;
        }
        Ok(MiddlewareAction::Compact {
            cut: decided.cut,
            summary: summary::message(&path, &decided.summary),
            spent: decided.spent.clone(),
        })
    }

    /// What follows when nothing could be taken out: a person who wanted it is told, and if the model cannot go on, the
    /// turn ends. Without a turn there is none to end.
    fn failed(&self, moment: MiddlewareContext<'_>, is_wanted: bool, why: String) -> Vec<MiddlewareAction> {
        let mut acts: Vec<MiddlewareAction> =
            is_wanted.then(|| Delta::Failed { why: why.clone() }.act()).into_iter().collect();
        let is_full = || room(moment).is_some_and(|room| self.sizes.request(moment) >= room);
        if moment.run.next() != NextStep::Wait && is_full() {
            acts.push(full(why));
        } else {
            tracing::warn!(thread = %moment.thread, why, "Nothing is taken out");
        }
        acts
    }
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let kept = kept(moment)?;
        if let Some(decided) = kept.pending(moment) {
            return Ok(match self.finish(moment, decided).await {
                // More may have to go by now.
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Again)],
                Err(why) => self.failed(moment, kept.is_wanted, why),
            });
        }
        if !kept.is_wanted && !self.is_due(moment, self.part.options.trigger.unwrap_or(Trigger::DEFAULT)) {
            return Ok(Vec::new());
        }
        let cut = match kept.is_wanted {
            // Who wants it at once wants it to be short.
            true => self.cut(moment, Keep::Messages(1)),
            false => self.cut(moment, self.keep()),
        };
        let Some(cut) = Some(cut).filter(|cut| *cut > moment.run.cut()) else {
            return Ok(kept.is_wanted.then(|| Delta::Dropped.act()).into_iter().collect());
        };
        let (mut acts, decided) = self.decide(moment, cut).await;
        match decided {
            Ok(decided) => acts.extend([Delta::Decided(decided).act(), MiddlewareAction::Jump(Jump::Again)]),
            Err(why) => acts.extend(self.failed(moment, kept.is_wanted, why)),
        }
        Ok(acts)
    }

    async fn after_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        match moment.run.next() {
            // The provider counts otherwise than we do.
            NextStep::End(TurnOutcome::Failed { error }) if error.kind == ModelErrorKind::ContextTooLong => {}
            _ => return Ok(Vec::new()),
        }
        if let Some(decided) = kept(moment)?.pending(moment) {
            return Ok(match self.finish(moment, decided).await {
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Model(Vec::new()))],
                Err(why) => vec![full(why)],
            });
        }
        // As much as usual, or else all that can be.
        let mut cuts = [self.keep(), Keep::Messages(1)].into_iter().map(|keep| self.cut(moment, keep));
        let Some(cut) = cuts.find(|cut| *cut > moment.run.cut()) else {
            return Ok(vec![full("what stays is too long by itself".to_owned())]);
        };
        let (mut acts, decided) = self.decide(moment, cut).await;
        match decided {
            Ok(decided) => acts.extend([Delta::Decided(decided).act(), MiddlewareAction::Jump(Jump::Again)]),
            Err(why) => acts.push(full(why)),
        }
        Ok(acts)
    }

    async fn wrap_model_call(
        &self,
        moment: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.sizes.note(moment, &next.request);
        if let Some(shortened) = &self.shortened
            && self.is_due(moment, shortened.options.trigger)
            && let Some(stays) = moment.run.messages().get(self.cut(moment, shortened.options.keep))
        {
            shortened.shorten(moment, &mut next.request.messages, stays);
        }
        next.ask().await
    }
}

/// How much the agent's model can read.
fn room(moment: MiddlewareContext<'_>) -> Option<u64> {
    plan::room(moment.model.limits())
}

fn kept(moment: MiddlewareContext<'_>) -> Result<&Kept, MiddlewareError> {
    moment.states.get(NAME).ok_or(MiddlewareError::NoState)
}

/// The model cannot go on.
fn full(why: String) -> MiddlewareAction {
    MiddlewareAction::Jump(Jump::End(TurnOutcome::WindowFull { why }))
}
