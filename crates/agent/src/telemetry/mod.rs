//! What an agent tells of its work: a span for every turn, every call of a model and every call of a tool.
//!
//! Names and fields are those of OpenTelemetry's semantic conventions for generative AI; what they do not have begins
//! with `prowess.`. What is said, thought, handed to a tool or answered by one is in no span.

#[cfg(feature = "otel")]
mod export;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::Span;
use tracing::field::Empty;

#[cfg(feature = "otel")]
pub use self::export::{ExportError, Exporter};
use crate::agent::{AgentError, TurnStatus};
use crate::id::ThreadId;
use crate::message::ToolCall;
use crate::model::{Finish, ModelError, ModelErrorKind, ModelResponse};
use crate::thread_state::TurnOutcome;
use crate::tool::{ToolAnswer, ToolOutput};

/// The most bytes of a name that a provider gives.
const MAX_NAME: usize = 256;

/// The span of a turn, or of what is left of one.
pub(crate) fn turn(thread: &ThreadId, agent: Option<&str>, model: &str) -> Span {
    let (provider, model) = parted(model);
    tracing::info_span!(
        "invoke_agent",
        otel.name = agent.map(|agent| format!("invoke_agent {agent}")),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.conversation.id = thread.as_str(),
        prowess.outcome = Empty,
    )
}

/// Tells how far a turn came.
pub(crate) fn turned(span: &Span, turn: &Result<TurnStatus, AgentError>) {
    let (outcome, error) = match turn {
        Ok(TurnStatus::Ended(outcome)) => ended(outcome),
        Ok(TurnStatus::Waiting(_)) => ("waiting", None),
        Ok(TurnStatus::Idle) => ("idle", None),
        Err(error) => ("broken_off", Some(broken_off(error))),
    };
    span.record("prowess.outcome", outcome);
    if let Some(kind) = error {
        failed(span, kind);
    }
}

fn ended(outcome: &TurnOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        TurnOutcome::Answered => ("answered", None),
        TurnOutcome::Silent => ("silent", None),
        TurnOutcome::CutOff => ("cut_off", None),
        TurnOutcome::Refused => ("refused", None),
        TurnOutcome::TooManySteps { .. } => ("too_many_steps", Some("too_many_steps")),
        TurnOutcome::TooManyTokens { .. } => ("too_many_tokens", Some("too_many_tokens")),
        TurnOutcome::WindowFull { .. } => ("window_full", Some("window_full")),
        TurnOutcome::Failed { error } => ("failed", Some(kind(error.kind))),
        TurnOutcome::Cancelled => ("cancelled", None),
        TurnOutcome::Stopped { .. } => ("stopped", None),
    }
}

fn broken_off(error: &AgentError) -> &'static str {
    match error {
        AgentError::Thread(_) | AgentError::Reopen => "thread",
        AgentError::Misplaced(_) | AgentError::Answered(_) => "misplaced",
        AgentError::Part { .. } => "part",
        AgentError::TwoOfOneName(_) | AgentError::TwoParts(_) => "two_of_one_name",
    }
}

/// The span of a call of a model.
pub(crate) fn chat(thread: &ThreadId, model: &str) -> Span {
    let (provider, model) = parted(model);
    tracing::info_span!(
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.conversation.id = thread.as_str(),
    )
}

/// Tells what a model's answer cost, and why it said no more.
pub(crate) fn answered(span: &Span, answer: &Result<ModelResponse, ModelError>) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return failed(span, kind(error.kind)),
    };
    let calls = answer.message.tool_calls().next().is_some();
    if let Some(finish) = answer.finish {
        let reason = match finish {
            Finish::Stop if calls => "tool_calls",
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Refused => "content_filter",
        };
        span.record("gen_ai.response.finish_reasons", reason);
    }
    let usage = answer.usage;
    let count = |name, tokens: u64| {
        if tokens > 0 {
            span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
        }
    };
    count("gen_ai.usage.input_tokens", usage.input);
    count("gen_ai.usage.output_tokens", usage.output);
    count("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    count("gen_ai.usage.cache_creation.input_tokens", usage.cache_written);
}

/// Tells which model answers, as its provider calls it, in the span of the call that is being made: for a
/// [`Model`](crate::Model) that is told. Elsewhere it does nothing.
pub fn response_model(name: &str) {
    if !name.is_empty() {
        Span::current().record("gen_ai.response.model", short(name));
    }
}

/// The span of a call of a tool.
pub(crate) fn tool(thread: &ThreadId, call: &ToolCall) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {}", call.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.type = "function",
        gen_ai.tool.call.id = short(call.id.as_str()),
        gen_ai.conversation.id = thread.as_str(),
        prowess.outcome = Empty,
    )
}

/// Tells what came of a call, once that is known. Work that is left for later is done in the same span; `none` is the
/// answer of one that panics.
pub(crate) fn called(span: Span, output: ToolOutput, none: fn() -> ToolAnswer) -> ToolOutput {
    let tell = |span: &Span, answer: &ToolAnswer| {
        if answer.is_error {
            failed(span, "tool_error");
        }
    };
    match output {
        ToolOutput::InOrder(finish) => ToolOutput::InOrder(Box::new(move |states| {
            let finish = AssertUnwindSafe(|| finish(states));
            let answer = span.in_scope(|| catch_unwind(finish));
            let answer = answer.unwrap_or_else(|_| none());
            tell(&span, &answer);
            answer
        })),
        ToolOutput::Done(answer) => {
            tell(&span, &answer);
            ToolOutput::Done(answer)
        }
        ToolOutput::Ask(question) => {
            span.record("prowess.outcome", "waiting");
            ToolOutput::Ask(question)
        }
        ToolOutput::Unstored(error) => {
            failed(&span, "store_error");
            ToolOutput::Unstored(error)
        }
    }
}

/// The beginning of a name that a provider gives, which can be anything.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

fn failed(span: &Span, kind: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", kind);
}

fn kind(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Auth => "auth",
        ModelErrorKind::RateLimited => "rate_limited",
        ModelErrorKind::Overloaded => "overloaded",
        ModelErrorKind::ContextTooLong => "context_too_long",
        ModelErrorKind::Refused => "refused",
        ModelErrorKind::Invalid => "invalid",
        ModelErrorKind::Malformed => "malformed",
        ModelErrorKind::Unreachable => "unreachable",
        ModelErrorKind::TimedOut => "timeout",
    }
}

/// A model's provider and its own name: `anthropic:claude-sonnet` has both.
fn parted(name: &str) -> (&str, &str) {
    match name.split_once(':') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => (provider, model),
        _ => ("_OTHER", name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_provider_before_the_first_colon() {
        assert_eq!(parted("openai:qwen3:8b"), ("openai", "qwen3:8b"));
        assert_eq!(parted("scripted"), ("_OTHER", "scripted"));
        assert_eq!(parted(":x"), ("_OTHER", ":x"));
    }
}
