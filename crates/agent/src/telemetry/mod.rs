//! Telemetry: a span for every turn, every model call and every tool call.
//!
//! Names and attributes follow OpenTelemetry's semantic conventions for generative AI. Attributes that the conventions lack
//! begin with `prowess.`. Spans contain no messages, no reasoning, and no arguments or answers of tools. They name skills only
//! if [`Skills::in_spans`](crate::middleware::Skills::in_spans) says so.

#[cfg(feature = "otel")]
mod export;

use std::panic::{AssertUnwindSafe, catch_unwind};

use prowess_skills::SkillToolKind;
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

/// The longest name of a provider's, in bytes. Longer ones are cut.
const MAX_NAME: usize = 256;

/// The span of a turn, or of the rest of a resumed turn.
pub(crate) fn turn(thread: &ThreadId, agent: Option<&str>, model: &str) -> Span {
    let (provider, model) = split_name(model);
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

/// Records how far a turn came.
pub(crate) fn record_turn(span: &Span, turn: &Result<TurnStatus, AgentError>) {
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

/// The outcome of a turn and the type of its error. Outcomes have the names that threads and `prowess chat --json` use.
fn ended(outcome: &TurnOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        TurnOutcome::Responded => ("answered", None),
        TurnOutcome::Silent => ("silent", None),
        TurnOutcome::CutOff => ("cut_off", None),
        TurnOutcome::Refused => ("refused", None),
        TurnOutcome::TooManyModelCalls { .. } => ("too_many_steps", Some("too_many_steps")),
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
        AgentError::Misplaced(_) | AgentError::AlreadyReplied(_) => "misplaced",
        AgentError::Middleware { .. } => "middleware",
        AgentError::DuplicateTool(_) | AgentError::DuplicateMiddleware(_) => "duplicate_name",
    }
}

/// The span of a model call.
pub(crate) fn model_call(thread: &ThreadId, model: &str) -> Span {
    let (provider, model) = split_name(model);
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

/// Records the tokens of a response, and why it ended.
pub(crate) fn record_response(span: &Span, response: &Result<ModelResponse, ModelError>) {
    let response = match response {
        Ok(response) => response,
        Err(error) => return failed(span, kind(error.kind)),
    };
    let calls = response.message.tool_calls().next().is_some();
    if let Some(finish) = response.finish {
        let reason = match finish {
            Finish::Stop if calls => "tool_calls",
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Refused => "content_filter",
        };
        span.record("gen_ai.response.finish_reasons", reason);
    }
    let usage = response.usage;
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

/// Records the provider's name for the model that responds, in the span of the current model call.
///
/// A [`Model`](crate::Model) calls this when its provider reports the name. Outside of a model call it does nothing.
pub fn response_model(name: &str) {
    if !name.is_empty() {
        Span::current().record("gen_ai.response.model", shorten(name));
    }
}

/// The span of a tool call.
pub(crate) fn tool_call(thread: &ThreadId, call: &ToolCall) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {}", call.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.type = "function",
        gen_ai.tool.call.id = shorten(call.id.as_str()),
        gen_ai.skill.name = Empty,
        gen_ai.skill.operation = Empty,
        gen_ai.skill.digest = Empty,
        gen_ai.conversation.id = thread.as_str(),
        prowess.outcome = Empty,
    )
}

/// Records in the span of the current tool call what it does with a skill. OpenTelemetry has not settled on these names.
pub(crate) fn record_skill(kind: SkillToolKind, skill: Option<&str>) {
    let operation = match kind {
        SkillToolKind::Load => "load",
        SkillToolKind::Unload => "unload",
        SkillToolKind::Search => "search",
        SkillToolKind::ListDocuments => "list_documents",
        SkillToolKind::SelectDocuments => "select_documents",
        SkillToolKind::Run => "run",
        SkillToolKind::Start => "start",
        SkillToolKind::Write => "write",
        SkillToolKind::Poll => "poll",
        SkillToolKind::End => "end",
        _ => return,
    };
    let span = Span::current();
    span.record("gen_ai.skill.operation", operation);
    if let Some(skill) = skill {
        span.record("gen_ai.skill.name", shorten(skill));
    }
}

/// Records in the span of the current tool call which version of a skill was loaded: the digest of its manifest.
pub(crate) fn record_loaded_skill(digest: &str) {
    Span::current().record("gen_ai.skill.digest", digest);
}

/// Records the outcome of a tool call. If the call is finished later, that happens in the same span. `crashed` is the
/// answer if finishing panics.
pub(crate) fn record_output(span: Span, output: ToolOutput, crashed: fn() -> ToolAnswer) -> ToolOutput {
    let record = |span: &Span, answer: &ToolAnswer| {
        if answer.is_error {
            failed(span, "tool_error");
        }
    };
    match output {
        ToolOutput::InOrder(finish) => ToolOutput::InOrder(Box::new(move |states| {
            let finish = AssertUnwindSafe(|| finish(states));
            let answer = span.in_scope(|| catch_unwind(finish));
            let answer = answer.unwrap_or_else(|_| crashed());
            record(&span, &answer);
            answer
        })),
        ToolOutput::Done(answer) => {
            record(&span, &answer);
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

/// The beginning of a name that comes from outside and can have any length.
fn shorten(name: &str) -> &str {
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
        ModelErrorKind::NoSuchModel => "no_such_model",
        ModelErrorKind::Malformed => "malformed",
        ModelErrorKind::Unreachable => "unreachable",
        ModelErrorKind::TimedOut => "timeout",
    }
}

/// Splits a model's name into provider and model: `anthropic:claude-sonnet` has both.
fn split_name(name: &str) -> (&str, &str) {
    match name.split_once(':') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => (provider, model),
        _ => ("_OTHER", name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_before_the_first_colon() {
        assert_eq!(split_name("openai:qwen3:8b"), ("openai", "qwen3:8b"));
        assert_eq!(split_name("scripted"), ("_OTHER", "scripted"));
        assert_eq!(split_name(":x"), ("_OTHER", ":x"));
    }
}
