//! Summarisation in a thread: when it is due, what it would free, and its steps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use prowess_backend::VirtualPath;

use super::factor::TokenFactor;
use super::learned::LearnedWindow;
use super::measure::{LastCall, ProviderCount, Total, factor, fits, known_factor};
use super::sizes::Sizes;
use super::state::{DecidedCompaction, NAME, SummarisationDelta, state};
use super::trigger::{Keep, Trigger};
use super::truncate_arguments::TruncatedMessages;
use super::{Summarisation, fit, history, summary};
use crate::agent::NextModel;
use crate::agent::next_request::shown;
use crate::message::Message;
use crate::middleware::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError,
};
use crate::model::{ModelError, ModelErrorKind, ModelResponse};
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
    /// The next request does not fit.
    Full,
}

/// Summarisation in a thread.
#[derive(Debug)]
pub(super) struct ThreadSummarisation {
    settings: Summarisation,
    pub(super) sizes: Sizes,
    /// The last model call of this process.
    pub(super) called: Mutex<Option<LastCall>>,
    /// Whether the thread has not yet learned from that call.
    is_unlearned: AtomicBool,
    /// The most tokens of a request that the agent's own model answered, as far as this process knows.
    answered: AtomicU64,
    /// The last request that the provider counted.
    pub(super) provider_count: Mutex<Option<ProviderCount>>,
    truncated: Option<TruncatedMessages>,
}

impl ThreadSummarisation {
    pub(super) fn new(settings: Summarisation) -> Self {
        let truncated = settings.options.truncate_arguments.clone().map(TruncatedMessages::new);
        Self {
            settings,
            sizes: Sizes::default(),
            called: Mutex::default(),
            is_unlearned: AtomicBool::default(),
            answered: AtomicU64::default(),
            provider_count: Mutex::default(),
            truncated,
        }
    }

    fn trigger(&self) -> Trigger {
        self.settings.options.trigger.unwrap_or(Trigger::DEFAULT)
    }

    fn keep(&self) -> Keep {
        self.settings.options.keep.unwrap_or(Keep::DEFAULT)
    }

    /// Whether a trigger says that the conversation is long. `tokens` is the size of the next request, if it is known.
    async fn is_due(
        &self,
        context: MiddlewareContext<'_>,
        trigger: Trigger,
        tokens: Option<u64>,
    ) -> Result<bool, MiddlewareError> {
        Ok(match trigger.in_window(self.room(context)) {
            Trigger::Messages(most) => {
                context.thread_state.messages().len() - context.thread_state.cut() >= most
            }
            Trigger::Tokens(most) => match tokens {
                Some(tokens) => tokens >= most,
                None => self.measure(context).await?.tokens >= most,
            },
            Trigger::Fraction(_) => false,
        })
    }

    /// Whether sizes matter: the window is known, or the trigger is a number of tokens.
    fn counts(&self, context: MiddlewareContext<'_>) -> bool {
        let room = self.room(context);
        room.is_some() || matches!(self.trigger().in_window(room), Trigger::Tokens(_))
    }

    /// How full the window is, and the tokens of the next request, if they decided that.
    async fn fullness(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<(Fullness, Option<u64>), MiddlewareError> {
        let limits = self.limits(context);
        let most = match self.trigger().in_window(self.room(context)) {
            Trigger::Tokens(most) => Some(most),
            Trigger::Messages(_) | Trigger::Fraction(_) => None,
        };
        // The provider counts only a request that would be summarised or not sent.
        let limit = most.into_iter().chain(fit::most(limits)).min();
        let tokens = match limit {
            Some(limit) => Some(self.measure_near(context, limit).await?.tokens),
            None => None,
        };
        if tokens.is_some_and(|tokens| !fits(limits, tokens)) {
            return Ok((Fullness::Full, tokens));
        }
        let is_due = self.is_due(context, self.trigger(), tokens).await?;
        Ok((if is_due { Fullness::Due } else { Fullness::Roomy }, tokens))
    }

    /// The first message of the thread that stays.
    fn cut(&self, context: MiddlewareContext<'_>, keep: Keep) -> usize {
        let from = context.thread_state.cut();
        let seen: Vec<Arc<Message>> = shown(context, from..context.thread_state.messages().len()).collect();
        let factor = factor(context, &**context.model);
        let fitting = |most: u64| {
            let (most, mut total) = (factor.undo(most), 0);
            let is_in = |message: &&Arc<Message>| {
                total += self.sizes.message(&**context.model, message);
                total <= most
            };
            seen.iter().rev().take_while(is_in).count()
        };
        from + keep.cut(self.room(context), &seen, fitting)
    }

    /// The first of these cuts that takes messages out of the model's view and frees enough. If the next request does not
    /// fit, a cut after which it fits is also enough: without it the thread could not go on.
    async fn useful_cut(
        &self,
        context: MiddlewareContext<'_>,
        keeps: &[Keep],
        least: u64,
        fullness: Fullness,
    ) -> Result<Option<usize>, MiddlewareError> {
        for keep in keeps {
            let cut = self.cut(context, *keep);
            if cut <= context.thread_state.cut() {
                continue;
            }
            if least == 0 {
                return Ok(Some(cut));
            }
            let (freed, left) = self.freed(context, cut).await?;
            if freed >= least || (fullness == Fullness::Full && fits(self.limits(context), left)) {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    /// The fewest tokens that a compaction must free. If the window is unknown, the trigger stands in for it.
    fn least_freed(&self, context: MiddlewareContext<'_>) -> u64 {
        let window = self.limits(context).context.or_else(|| match self.trigger().in_window(None) {
            Trigger::Tokens(most) => Some(most),
            Trigger::Messages(_) | Trigger::Fraction(_) => None,
        });
        window.unwrap_or_default() / LEAST_FREED
    }

    /// Estimates how many tokens a compaction frees, if its summary is as long as the present one. Loaded skills whose text
    /// it takes out are put back, so their text frees nothing. The second number is the size of the request after it.
    async fn freed(&self, context: MiddlewareContext<'_>, cut: usize) -> Result<(u64, u64), MiddlewareError> {
        let after = context.thread_state.after_cut(cut);
        let before = self.measure(context).await?;
        let after = self.measure(MiddlewareContext { thread_state: &after, ..context }).await?;
        let freed = before.counted.saturating_sub(after.counted);
        // The provider may count more tokens for the same text, or fewer.
        Ok((freed.saturating_mul(before.tokens) / before.counted.max(1), after.tokens))
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
        let text = history::as_text(shown(context, from..cut));
        let model = &*self.settings.model;
        let mut limits = model.limits();
        limits.context = Summarisation::window(context.states, model);
        let factor = factor(context, model);
        let most = context.thread_state.tokens_left();
        let summarised = summary::summarise(model, limits, factor, most, context, &earlier, &text).await;
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
        let evicted: Vec<Arc<Message>> = shown(context, decided.since..decided.cut).collect();
        if let Some(section) = history::section(&decided.at, &evicted) {
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
        let is_full = match self.room(context) {
            Some(room) => self.measure(context).await?.tokens >= room,
            None => false,
        };
        if context.thread_state.next() != NextStep::Wait && is_full {
            actions.push(window_full(why));
        } else {
            tracing::warn!(thread = %context.thread, why, "The conversation could not be summarised");
        }
        Ok(actions)
    }

    /// What follows if no compaction frees enough: the person is told once, and a request that does not fit is not sent.
    /// `tokens` is the size of the request that decided that, if a size did.
    async fn nothing_to_free(
        &self,
        context: MiddlewareContext<'_>,
        fullness: Fullness,
        tokens: Option<u64>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let used = self.window_use(context, tokens.map_or(Total::Counted, Total::Decided)).await?;
        let full = SummarisationDelta::Full(used.stored()).action();
        Ok(match fullness {
            Fullness::Full if context.thread_state.next() != NextStep::Wait => {
                vec![full, window_full(used.to_string())]
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
        let (fullness, tokens) = self.fullness(context).await?;
        let cut = match fullness {
            // A person who asks for a summary wants a short conversation.
            _ if state.is_wanted => self.useful_cut(context, &[Keep::Messages(1)], 0, fullness).await?,
            Fullness::Roomy => return Ok(Vec::new()),
            // No summary is made in vain.
            Fullness::Full if self.stays_too_long(context).await? => None,
            Fullness::Due => {
                self.useful_cut(context, &[self.keep()], self.least_freed(context), fullness).await?
            }
            Fullness::Full => {
                let keeps = [self.keep(), Keep::Messages(1)];
                self.useful_cut(context, &keeps, self.least_freed(context), fullness).await?
            }
        };
        let Some(cut) = cut else {
            let mut actions: Vec<MiddlewareAction> =
                state.is_wanted.then(|| SummarisationDelta::Dropped.action()).into_iter().collect();
            if fullness != Fullness::Roomy {
                actions.extend(self.nothing_to_free(context, fullness, tokens).await?);
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
            _ => {
                let is_unlearned = self.is_unlearned.swap(false, Ordering::Relaxed);
                let learned = is_unlearned.then(|| self.learned_factor(context)).flatten();
                return Ok(learned.map(|learned| learned.action()).into_iter().collect());
            }
        };
        if let Some(decided) = state(context)?.pending(context) {
            return Ok(match self.finish(context, decided).await {
                Ok(compact) => vec![compact, MiddlewareAction::Jump(Jump::Model(Vec::new()))],
                Err(why) => vec![window_full(why)],
            });
        }
        let learned = if error.is_unsent { Vec::new() } else { self.learned(context, &error).await? };
        if !learned.is_empty() {
            let changes = learned.iter().map(SummarisationDelta::action);
            return Ok(changes.chain([MiddlewareAction::Jump(Jump::Again)]).collect());
        }
        let responses = context.thread_state.responses();
        let is_again = state(context)?.sent_again.is_some_and(|again| again + 1 == responses);
        if !error.is_unsent && !is_again && self.fits_now(context, &error).await? {
            let again = SummarisationDelta::SentAgain { responses }.action();
            return Ok(vec![again, MiddlewareAction::Jump(Jump::Model(Vec::new()))]);
        }
        // A request that is too long even after a compaction is not sent a third time. And no summary is made in vain.
        let tokens = self.too_many(context, &error).await?;
        let is_retried = state(context)?.retried.is_some_and(|retried| retried + 1 == responses);
        if is_retried || self.stays_too_long(context).await? {
            return self.nothing_to_free(context, Fullness::Full, Some(tokens)).await;
        }
        // Cut as much as usual, or else as much as possible.
        let keeps = [self.keep(), Keep::Messages(1)];
        // Our measure says nothing about a request that the provider rejected.
        let fullness = if error.is_unsent { Fullness::Full } else { Fullness::Due };
        let Some(cut) = self.useful_cut(context, &keeps, self.least_freed(context), fullness).await? else {
            return self.nothing_to_free(context, Fullness::Full, Some(tokens)).await;
        };
        let (mut actions, decided) = self.decide(context, cut).await;
        match decided {
            Ok(decided) => actions.extend([
                SummarisationDelta::Retried { responses }.action(),
                SummarisationDelta::Decided(decided).action(),
                MiddlewareAction::Jump(Jump::Again),
            ]),
            Err(why) => actions.push(window_full(why)),
        }
        Ok(actions)
    }

    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let counts = self.counts(context);
        let counted = if counts { self.sizes.request(&**context.model, &next.request) } else { 0 };
        let mut sent = counted;
        if let Some(truncated) = &self.truncated
            && self.is_due(context, truncated.options.trigger, None).await.unwrap_or_default()
            && let Some(stays) =
                context.thread_state.messages().get(self.cut(context, truncated.options.keep))
        {
            truncated.truncate(context, &mut next.request.messages, stays);
            sent = if counts { self.sizes.request(&**context.model, &next.request) } else { 0 };
        }
        if !counts {
            return next.call().await;
        }
        let model = Arc::clone(&next.model);
        let note = |reported| {
            let call = LastCall { model: Arc::clone(&model), counted, sent, reported };
            *self.called.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
        };
        let limits = Self::limits_of(context, &*model);
        if limits.context.is_some() {
            let mut tokens = self.tokens(context, &*model, counted, 0);
            if sent < counted {
                tokens = tokens.min(factor(context, &*model).apply(sent));
            }
            if !fits(limits, tokens) {
                let exact = self.counted_by_provider(&*model, &next.request, sent, tokens).await;
                tokens = exact.unwrap_or(tokens);
            }
            if !fits(limits, tokens) {
                note(0);
                return Err(fit::unsent(model.name(), tokens, limits));
            }
            next.request.max_output = fit::max_output(limits, next.request.max_output, tokens);
        }
        note(0);
        let response = next.call().await?;
        let reported = TokenFactor::read(response.usage);
        note(reported);
        if model.name() == context.model.name() {
            // Without a report that can be true, the provider may count half of what we count.
            let answered = if TokenFactor::may_be(reported, sent) { reported } else { sent / 2 };
            self.answered.fetch_max(answered, Ordering::Relaxed);
        }
        self.is_unlearned.store(true, Ordering::Relaxed);
        Ok(response)
    }
}

impl ThreadSummarisation {
    /// Whether all that no compaction takes out is already too long: the prompt, the tools, the skills and the request.
    /// They are measured as after a compaction.
    async fn stays_too_long(&self, context: MiddlewareContext<'_>) -> Result<bool, MiddlewareError> {
        let used = self.window_use(context, Total::Counted).await?;
        Ok(!fits(self.limits(context), used.what_stays()))
    }

    /// The tokens of a request that was not sent or that the provider rejected. They are more than fit, whatever we count.
    async fn too_many(
        &self,
        context: MiddlewareContext<'_>,
        error: &ModelError,
    ) -> Result<u64, MiddlewareError> {
        let called = self.called_model(context);
        let measured = self.measure_for(context, &*called).await?;
        // A provider can name any number.
        let is_believed =
            |tokens: &u64| error.is_unsent || TokenFactor::of(*tokens, measured.counted).is_some();
        let named = error.tokens.filter(is_believed).unwrap_or_default();
        let least = fit::most(Self::limits_of(context, &*called)).map_or(0, |most| most.saturating_add(1));
        Ok(measured.tokens.max(named).max(least))
    }

    /// Whether a rejected request fits with what the thread learned from the error: it goes to the own model now, or asks for
    /// a shorter response.
    async fn fits_now(
        &self,
        context: MiddlewareContext<'_>,
        error: &ModelError,
    ) -> Result<bool, MiddlewareError> {
        let (limits, tokens) = (self.limits(context), self.measure(context).await?.tokens);
        if error.model != context.model.name() {
            return Ok(fits(limits, tokens));
        }
        // Only a request whose tokens the provider named can be known to fit.
        let Some(tokens) = error.tokens.map(|named| named.max(tokens)) else { return Ok(false) };
        let (output, window) = (limits.output.unwrap_or_default(), limits.context.unwrap_or_default());
        Ok(fits(limits, tokens) && tokens.saturating_add(output) > window)
    }

    /// What an error teaches the thread about its model's window and tokenizer, as far as that is new.
    async fn learned(
        &self,
        context: MiddlewareContext<'_>,
        error: &ModelError,
    ) -> Result<Vec<SummarisationDelta>, MiddlewareError> {
        let model = self.called_model(context);
        let measured = self.measure_for(context, &*model).await?;
        let (known_factor, name) = (known_factor(context, &*model), error.model.clone());
        let is_counted = known_factor.is_some() || context.thread_state.counted_by(&name).is_some();
        let (counted, estimated) = (is_counted.then_some(measured.tokens), measured.counted);
        let known = state(context)?.learned.get(&name).copied();
        // A model that answered a longer request has a larger window, whatever an error says. It may quote any text.
        let answered = context.thread_state.counted_by(&name).map_or(0, |(reported, _)| reported);
        let is_own = name == context.model.name();
        let answered = if is_own { answered.max(self.answered.load(Ordering::Relaxed)) } else { answered };
        if error.window.unwrap_or(measured.tokens) < answered {
            return Ok(Vec::new());
        }
        let learned = LearnedWindow::from_error(error, counted, estimated, model.limits());
        let learned = learned.map(|learned| known.map_or(learned, |known| known.and(learned)));
        let learned = learned.filter(|learned| Some(*learned) != known);
        // Without the longest response, the request has at least this many tokens.
        let output = model.limits().output.unwrap_or_default();
        let least = || error.window.map(|window| window.saturating_sub(output));
        let seen = error.tokens.or_else(least).and_then(|tokens| TokenFactor::of(tokens, estimated));
        let factor = seen.filter(|seen| *seen > known_factor.unwrap_or(TokenFactor::NONE));
        let learned = learned.map(|learned| SummarisationDelta::Learned { model: name.clone(), learned });
        let factor = factor.map(|factor| SummarisationDelta::Factor { model: name, factor });
        Ok(learned.into_iter().chain(factor).collect())
    }
}

/// Ends the turn because the request does not fit into the context window.
fn window_full(why: String) -> MiddlewareAction {
    MiddlewareAction::Jump(Jump::End(TurnOutcome::WindowFull { why }))
}
