//! The size of the next request in the provider's tokens: what prowess counts, times the learned factor, or what the
//! provider counted itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::factor::TokenFactor;
use super::in_thread::ThreadSummarisation;
use super::learned::LearnedWindow;
use super::state::{SummarisationDelta, state};
use super::window_use::{Counting, WindowUse};
use super::{fit, trigger};
use crate::agent::next_request::{self, NextRequest};
use crate::message::Message;
use crate::middleware::{MiddlewareContext, MiddlewareError};
use crate::model::{Model, ModelLimits, ModelRequest, message_tokens};

/// The provider's count of a request also holds for requests whose size differs by at most this part.
const SAME_SIZE: u64 = 50;
/// How long the provider may take to count a request.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// A provider that reports less than this part of the expected tokens leaves something out, such as cached tokens.
const LEAST_REPORTED: u64 = 2;
/// A provider that reports more than this many times the expected tokens counts something else.
const MOST_REPORTED: u64 = 5;

/// The last model call of this process.
#[derive(Clone, Debug)]
pub(super) struct LastCall {
    pub(super) model: Arc<dyn Model>,
    /// The tokens of its request, as prowess counts, with whole arguments of old calls.
    pub(super) counted: u64,
    /// The same with truncated arguments, as they were sent.
    pub(super) sent: u64,
    /// The tokens that the provider reported for the request; 0 if it reported none.
    pub(super) reported: u64,
}

/// A request that the provider counted.
#[derive(Clone, Debug)]
pub(super) struct ProviderCount {
    model: String,
    /// As prowess counts.
    counted: u64,
    /// As the provider counts.
    tokens: u64,
    /// Whether the provider answered. Otherwise `tokens` is an estimate.
    is_exact: bool,
}

/// Which number the parts of a request add up to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Total {
    /// What prowess counts, times the learned factor. Right after a compaction, requests are measured so: what the provider
    /// reported about earlier requests no longer counts.
    Counted,
    /// What the provider counts, if it can, or else the number that decides whether the next request is sent.
    Exact,
    /// The number that decided that the request does not fit. A message must not explain the decision with another one.
    Decided(u64),
}

/// The size of the next request.
pub(super) struct Measured {
    pub(super) made: NextRequest,
    /// As prowess counts.
    pub(super) counted: u64,
    /// As the provider counts, as far as known.
    pub(super) tokens: u64,
}

impl ThreadSummarisation {
    /// The model that was called last; the agent's own before the first call. A loaded skill or the definition of a
    /// sub-agent can choose another model than the agent's own.
    pub(super) fn called_model(&self, context: MiddlewareContext<'_>) -> Arc<dyn Model> {
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.as_ref().map_or_else(|| Arc::clone(context.model), |called| Arc::clone(&called.model))
    }

    /// The limits of the agent's own model, with what the thread learned. Only they decide that a turn cannot go on: a
    /// request that is too long for another model goes to the own one.
    pub(super) fn limits(&self, context: MiddlewareContext<'_>) -> ModelLimits {
        Self::limits_of(context, &**context.model)
    }

    /// The limits of a model, with what the thread learned.
    pub(super) fn limits_of(context: MiddlewareContext<'_>, model: &dyn Model) -> ModelLimits {
        let learned = state(context).ok().and_then(|state| state.learned.get(model.name()));
        let is_counted =
            known_factor(context, model).is_some() || context.thread_state.counted_by(model.name()).is_some();
        LearnedWindow::applied(learned, model.limits(), is_counted)
    }

    /// How many tokens both the agent's own model and the one that was called last can read in one call. It decides when a
    /// conversation is summarised.
    pub(super) fn room(&self, context: MiddlewareContext<'_>) -> Option<u64> {
        let called = trigger::room(Self::limits_of(context, &*self.called_model(context)));
        trigger::room(self.limits(context)).into_iter().chain(called).min()
    }

    /// Measures the next request, for the agent's own model.
    pub(super) async fn measure(&self, context: MiddlewareContext<'_>) -> Result<Measured, MiddlewareError> {
        self.measure_for(context, &**context.model).await
    }

    /// Measures the next request, for one model.
    pub(super) async fn measure_for(
        &self,
        context: MiddlewareContext<'_>,
        model: &dyn Model,
    ) -> Result<Measured, MiddlewareError> {
        let made = next_request::make(context).await;
        let made = made.map_err(|error| MiddlewareError::new("count the next request", error))?;
        self.sizes.forget_old(made.request.messages.len());
        let counted = self.sizes.request(&**context.model, &made.request);
        let added = added(context, &made);
        let tokens = self.tokens(context, model, counted, added);
        Ok(Measured { made, counted, tokens })
    }

    /// The tokens of a request, as this model's provider counts. prowess counts `counted` in it, and `added` of these in
    /// messages that the thread does not have.
    pub(super) fn tokens(
        &self,
        context: MiddlewareContext<'_>,
        model: &dyn Model,
        counted: u64,
        added: u64,
    ) -> u64 {
        let factor = factor(context, model);
        let scaled = factor.apply(counted);
        let Some((reported, messages)) = context.thread_state.counted_by(model.name()) else { return scaled };
        let later = messages..context.thread_state.messages().len();
        let later: Vec<Arc<Message>> = next_request::shown(context, later).collect();
        let since = added + self.sizes.messages(&**context.model, &later);
        let expected = factor.apply(counted.saturating_sub(since));
        if reported < expected / LEAST_REPORTED || reported > expected.saturating_mul(MOST_REPORTED) {
            return scaled;
        }
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        let response = next_request::shown(context, messages.checked_sub(1).into_iter()).next();
        match called.as_ref().filter(|called| called.model.name() == model.name() && called.reported > 0) {
            // A skill that was loaded since may have its text in the prompt, and unloaded text is gone.
            Some(called) => {
                let before =
                    called.counted + response.map_or(0, |last| self.sizes.message(&**context.model, &last));
                reported.saturating_add_signed(factor.apply_signed(signed(counted) - signed(before)))
            }
            // In another process, the prompt and the tools may have been different.
            None => scaled.max(reported + factor.apply(since)),
        }
    }

    /// Lets the provider count a request, if it can. It is not asked again about requests of about the same size.
    pub(super) async fn counted_by_provider(
        &self,
        model: &dyn Model,
        request: &ModelRequest,
        counted: u64,
        estimate: u64,
    ) -> Option<u64> {
        let known = self.provider_count.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_same = |known: &ProviderCount| {
            known.model == model.name() && known.counted.abs_diff(counted) <= known.counted / SAME_SIZE
        };
        if let Some(known) = known.filter(is_same) {
            let tokens = known.tokens.saturating_add_signed(signed(counted) - signed(known.counted));
            return known.is_exact.then_some(tokens);
        }
        let answer = tokio::time::timeout(MAX_WAIT, model.count_request(request)).await;
        let exact = match answer {
            // An answer that cannot be true must not make prowess send too much.
            Ok(Ok(tokens)) => tokens.filter(|tokens| TokenFactor::may_be(*tokens, counted)),
            Ok(Err(error)) => {
                tracing::debug!(model = model.name(), %error, "The provider could not count a request");
                None
            }
            Err(_) => None,
        };
        let model = model.name().to_owned();
        let count =
            ProviderCount { model, counted, tokens: exact.unwrap_or(estimate), is_exact: exact.is_some() };
        *self.provider_count.lock().unwrap_or_else(PoisonError::into_inner) = Some(count);
        exact
    }

    /// Measures the next request. If it is near a limit, the provider counts it, if it can.
    pub(super) async fn measure_near(
        &self,
        context: MiddlewareContext<'_>,
        limit: u64,
    ) -> Result<Measured, MiddlewareError> {
        let mut measured = self.measure(context).await?;
        if measured.tokens >= limit {
            let (counted, tokens) = (measured.counted, measured.tokens);
            let model = &**context.model;
            let exact = self.counted_by_provider(model, &measured.made.request, counted, tokens).await;
            measured.tokens = exact.unwrap_or(tokens);
        }
        Ok(measured)
    }

    /// What fills the window.
    pub(super) async fn window_use(
        &self,
        context: MiddlewareContext<'_>,
        total: Total,
    ) -> Result<WindowUse, MiddlewareError> {
        let made = next_request::make(context).await;
        let made = made.map_err(|error| MiddlewareError::new("count the next request", error))?;
        let model = Arc::clone(context.model);
        let current: &[Arc<Message>] = context.thread_state.current_request();
        let used = WindowUse::count(&**context.model, &made, context.states, current, &self.sizes);
        let (counted, known) = (used.total(), known_factor(context, &*model));
        let scaled = known.unwrap_or(TokenFactor::NONE).apply(counted);
        let (estimate, exact) = match total {
            Total::Counted => (scaled, None),
            Total::Decided(tokens) => (tokens, None),
            Total::Exact => {
                let has_called = self.called.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                // Another process may have had another prompt, so its report does not say what fills the window now.
                let estimate = match has_called {
                    true => self.tokens(context, &*model, counted, added(context, &made)),
                    false => scaled,
                };
                (estimate, self.counted_by_provider(&*model, &made.request, counted, estimate).await)
            }
        };
        let mut used = used.scaled_to(exact.unwrap_or(estimate));
        let limits = self.limits(context);
        (used.window, used.response) = (limits.context, fit::response(limits));
        used.counting = match (exact, context.model.tokenizer(), known.map(TokenFactor::thousandths)) {
            (Some(_), ..) => Counting::Provider,
            (None, Some(name), factor) => Counting::Tokenizer { name: name.to_owned(), factor },
            (None, None, factor) => Counting::Estimate { factor },
        };
        Ok(used)
    }

    /// What the last model call teaches about the provider's tokenizer, if that is new.
    pub(super) fn learned_factor(&self, context: MiddlewareContext<'_>) -> Option<SummarisationDelta> {
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let seen = TokenFactor::of(called.reported, called.sent)?;
        let model = called.model.name().to_owned();
        let factor = TokenFactor::after(known_factor(context, &*called.model), seen)?;
        Some(SummarisationDelta::Factor { model, factor })
    }
}

/// The tokens of the messages of a request that the thread does not have yet, as prowess counts.
fn added(context: MiddlewareContext<'_>, made: &NextRequest) -> u64 {
    made.added.iter().map(|message| message_tokens(&**context.model, message)).sum()
}

/// The factor of a model, if the thread learned one.
pub(super) fn known_factor(context: MiddlewareContext<'_>, model: &dyn Model) -> Option<TokenFactor> {
    state(context).ok()?.factors.get(model.name()).copied()
}

/// The factor of a model.
pub(super) fn factor(context: MiddlewareContext<'_>, model: &dyn Model) -> TokenFactor {
    known_factor(context, model).unwrap_or(TokenFactor::NONE)
}

/// Whether a request of so many tokens leaves room for a response.
pub(super) fn fits(limits: ModelLimits, tokens: u64) -> bool {
    fit::most(limits).is_none_or(|most| tokens <= most)
}

/// A number of tokens with a sign.
fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
