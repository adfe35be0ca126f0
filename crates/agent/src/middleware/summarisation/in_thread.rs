//! Summarisation in a thread: when it is due, what it would free, and its steps.

use async_trait::async_trait;
use prowess_backend::VirtualPath;

use super::learned::LearnedWindow;
use super::sizes::MessageSizes;
use super::state::{DecidedCompaction, NAME, SummarisationDelta, SummarisationState};
use super::trigger::{self, Keep, Trigger};
use super::truncate_arguments::TruncatedMessages;
use super::window_use::WindowUse;
use super::{Summarisation, history, summary};
use crate::agent::{NextModel, next_request};
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError,
};
use crate::model::{ModelError, ModelErrorKind, ModelLimits, ModelResponse};
use crate::thread_state::{NextStep, TurnOutcome};

/// A compaction must free this part of the context window. Otherwise the next one would follow soon.
const LEAST_FREED: u64 = 10;

/// How full the context window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fullness {
    /// There is room.
    Roomy,
    /// The trigger says that the conversation is due.
    Due,
    /// The next request has this many tokens, and does not fit.
    Full(u64),
}

/// Summarisation in a thread.
#[derive(Debug)]
pub(super) struct ThreadSummarisation {
    settings: Summarisation,
    sizes: MessageSizes,
    truncated: Option<TruncatedMessages>,
}

impl ThreadSummarisation {
    pub(super) fn new(settings: Summarisation) -> Self {
        let truncated = settings.options.truncate_arguments.clone().map(TruncatedMessages::new);
        Self { settings, sizes: MessageSizes::default(), truncated }
    }

    fn trigger(&self) -> Trigger {
        self.settings.options.trigger.unwrap_or(Trigger::DEFAULT)
    }

    fn keep(&self) -> Keep {
        self.settings.options.keep.unwrap_or(Keep::DEFAULT)
    }

    async fn is_due(
        &self,
        context: MiddlewareContext<'_>,
        trigger: Trigger,
    ) -> Result<bool, MiddlewareError> {
        Ok(match trigger.in_window(room(context)) {
            Trigger::Messages(most) => {
                context.thread_state.messages().len() - context.thread_state.cut() >= most
            }
            Trigger::Tokens(most) => self.sizes.request(context).await? >= most,
            Trigger::Fraction(_) => false,
        })
    }

    async fn fullness(&self, context: MiddlewareContext<'_>) -> Result<Fullness, MiddlewareError> {
        if let Some(window) = limits(context).context {
            let size = self.sizes.request(context).await?;
            // A provider that just read more than that has a larger window.
            let was_read = context.thread_state.counted().is_some_and(|(tokens, _)| tokens >= window);
            if size >= window && !was_read {
                return Ok(Fullness::Full(size));
            }
        }
        Ok(if self.is_due(context, self.trigger()).await? { Fullness::Due } else { Fullness::Roomy })
    }

    /// The first message of the thread that stays.
    fn cut(&self, context: MiddlewareContext<'_>, keep: Keep) -> usize {
        let seen = &context.thread_state.messages()[context.thread_state.cut()..];
        context.thread_state.cut() + keep.cut(room(context), seen, |most| self.sizes.fitting(context, most))
    }

    /// The first of these cuts that takes messages out of the model's view and frees enough.
    async fn useful_cut(
        &self,
        context: MiddlewareContext<'_>,
        keeps: &[Keep],
        least: u64,
    ) -> Result<Option<usize>, MiddlewareError> {
        for keep in keeps {
            let cut = self.cut(context, *keep);
            if cut > context.thread_state.cut() && (least == 0 || self.freed(context, cut).await? >= least) {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    /// The fewest tokens that a compaction must free. If the window is unknown, the trigger stands in for it.
    fn least_freed(&self, context: MiddlewareContext<'_>) -> u64 {
        let window = limits(context).context.or_else(|| match self.trigger().in_window(None) {
            Trigger::Tokens(most) => Some(most),
            Trigger::Messages(_) | Trigger::Fraction(_) => None,
        });
        window.unwrap_or_default() / LEAST_FREED
    }

    /// Estimates how many tokens a compaction frees, if its summary is as long as the present one. Loaded skills whose text
    /// it takes out are put back, so their text frees nothing.
    async fn freed(&self, context: MiddlewareContext<'_>, cut: usize) -> Result<u64, MiddlewareError> {
        let after = context.thread_state.after_cut(cut);
        let before = self.sizes.estimate(context).await?;
        let after = self.sizes.estimate(MiddlewareContext { thread_state: &after, ..context }).await?;
        let freed = before.saturating_sub(after);
        // The provider may count more tokens for the same text, or fewer.
        Ok(match self.sizes.by_model(context) {
            Some(counted) => freed.saturating_mul(counted) / before.max(1),
            None => freed,
        })
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
        let model = &*self.settings.model;
        let mut limits = model.limits();
        limits.context = Summarisation::window(context.states, model);
        let summarised = summary::summarise(model, limits, context.thread, &earlier, &text).await;
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
    async fn failed(
        &self,
        context: MiddlewareContext<'_>,
        is_wanted: bool,
        why: String,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let mut actions: Vec<MiddlewareAction> =
            is_wanted.then(|| SummarisationDelta::Failed { why: why.clone() }.action()).into_iter().collect();
        let is_full = match room(context) {
            Some(room) => self.sizes.request(context).await? >= room,
            None => false,
        };
        if context.thread_state.next() != NextStep::Wait && is_full {
            actions.push(window_full(why));
        } else {
            tracing::warn!(thread = %context.thread, why, "The conversation could not be summarised");
        }
        Ok(actions)
    }

    /// What fills the window, for the person.
    async fn window_use(&self, context: MiddlewareContext<'_>) -> Result<WindowUse, MiddlewareError> {
        let made = next_request::make(context).await;
        let made = made.map_err(|error| MiddlewareError::new("count the next request", error))?;
        let current = context.thread_state.current_request();
        let mut used = WindowUse::of(&made.request, context.states, current, &**context.model);
        used.window = limits(context).context;
        Ok(used)
    }

    /// What follows if no compaction frees enough: the person is told once, and a request that does not fit is not sent.
    async fn nothing_to_free(
        &self,
        context: MiddlewareContext<'_>,
        fullness: Fullness,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let used = self.window_use(context).await?;
        let full = SummarisationDelta::Full(used).action();
        Ok(match fullness {
            Fullness::Full(size) if context.thread_state.next() != NextStep::Wait => {
                vec![full, window_full(too_long(size, used))]
            }
            _ if state(context)?.is_told => Vec::new(),
            _ => vec![full],
        })
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
            return match self.finish(context, decided).await {
                // The conversation may have grown meanwhile.
                Ok(compact) => Ok(vec![compact, MiddlewareAction::Jump(Jump::Again)]),
                Err(why) => self.failed(context, state.is_wanted, why).await,
            };
        }
        let fullness = self.fullness(context).await?;
        let cut = match fullness {
            // A person who asks for a summary wants a short conversation.
            _ if state.is_wanted => self.useful_cut(context, &[Keep::Messages(1)], 0).await?,
            Fullness::Roomy => return Ok(Vec::new()),
            // No summary is made in vain.
            Fullness::Full(_) if self.stays_too_long(context).await? => None,
            Fullness::Due => self.useful_cut(context, &[self.keep()], self.least_freed(context)).await?,
            Fullness::Full(_) => {
                let keeps = [self.keep(), Keep::Messages(1)];
                self.useful_cut(context, &keeps, self.least_freed(context)).await?
            }
        };
        let Some(cut) = cut else {
            let mut actions: Vec<MiddlewareAction> =
                state.is_wanted.then(|| SummarisationDelta::Dropped.action()).into_iter().collect();
            if fullness != Fullness::Roomy {
                actions.extend(self.nothing_to_free(context, fullness).await?);
            }
            return Ok(actions);
        };
        let (mut actions, decided) = self.decide(context, cut).await;
        match decided {
            Ok(decided) => actions
                .extend([SummarisationDelta::Decided(decided).action(), MiddlewareAction::Jump(Jump::Again)]),
            Err(why) => actions.extend(self.failed(context, state.is_wanted, why).await?),
        }
        Ok(actions)
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let error = match context.thread_state.next() {
            // The provider counts more tokens than we do.
            NextStep::End(TurnOutcome::Failed { error }) if error.kind == ModelErrorKind::ContextTooLong => {
                error
            }
            _ => return Ok(Vec::new()),
        };
        if let Some(decided) = state(context)?.pending(context) {
            return Ok(match self.finish(context, decided).await {
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Model(Vec::new()))],
                Err(why) => vec![window_full(why)],
            });
        }
        if let Some(learned) = self.learned(context, &error).await? {
            return Ok(vec![learned.action(), MiddlewareAction::Jump(Jump::Again)]);
        }
        // Cut as much as usual, or else as much as possible.
        let keeps = [self.keep(), Keep::Messages(1)];
        let Some(cut) = self.useful_cut(context, &keeps, self.least_freed(context)).await? else {
            let size = self.sizes.request(context).await?;
            return self.nothing_to_free(context, Fullness::Full(size)).await;
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
        self.sizes.note_call(context, &next.request);
        if let Some(truncated) = &self.truncated
            && self.is_due(context, truncated.options.trigger).await.unwrap_or_default()
            && let Some(stays) =
                context.thread_state.messages().get(self.cut(context, truncated.options.keep))
        {
            truncated.truncate(context, &mut next.request.messages, stays);
        }
        next.call().await
    }
}

impl ThreadSummarisation {
    /// Whether all that no compaction takes out is already too long: the prompt, the tools, the skills and the request.
    async fn stays_too_long(&self, context: MiddlewareContext<'_>) -> Result<bool, MiddlewareError> {
        let used = self.window_use(context).await?;
        Ok(used.window.is_some_and(|window| used.what_stays() >= window))
    }

    /// What an error teaches the thread about its model's window, if that is new.
    async fn learned(
        &self,
        context: MiddlewareContext<'_>,
        error: &ModelError,
    ) -> Result<Option<SummarisationDelta>, MiddlewareError> {
        let (counted, estimated) = (self.sizes.by_model(context), self.sizes.estimate(context).await?);
        let known = state(context)?.learned.get(&error.model).copied();
        let learned = LearnedWindow::from_error(error, counted, estimated, context.model.limits());
        let learned = learned.map(|learned| known.map_or(learned, |known| known.and(learned)));
        let new = learned.filter(|learned| Some(*learned) != known);
        Ok(new.map(|learned| SummarisationDelta::Learned { model: error.model.clone(), learned }))
    }
}

/// The limits of the agent's model, with what the thread learned.
fn limits(context: MiddlewareContext<'_>) -> ModelLimits {
    let learned = state(context).ok().and_then(|state| state.learned.get(context.model.name()));
    LearnedWindow::applied(learned, context)
}

/// How many tokens the agent's model can read in one call.
fn room(context: MiddlewareContext<'_>) -> Option<u64> {
    trigger::room(limits(context))
}

fn state(context: MiddlewareContext<'_>) -> Result<&SummarisationState, MiddlewareError> {
    context.states.get(NAME).ok_or(MiddlewareError::NoState)
}

/// Ends the turn because the request does not fit into the context window.
fn window_full(why: String) -> MiddlewareAction {
    MiddlewareAction::Jump(Jump::End(TurnOutcome::WindowFull { why }))
}

/// Why a request is not sent.
fn too_long(size: u64, used: WindowUse) -> String {
    let of_window = used.window.map(|window| format!(", and the window has {window}")).unwrap_or_default();
    match used.window {
        Some(window) if used.request >= window => {
            format!("the message alone has about {} tokens{of_window}", used.request)
        }
        _ => format!(
            "the messages that must stay are too long; the request has about {size} tokens{of_window}"
        ),
    }
}
