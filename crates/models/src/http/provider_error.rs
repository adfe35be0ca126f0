//! The error that a provider reports, and the kind of failure that it means.

use prowess_agent::model::ModelErrorKind;
use reqwest::StatusCode;
use serde_json::Value;

use super::failure::Failure;

/// An error that a provider reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// Its HTTP status; `None` in the middle of a response.
    status: Option<StatusCode>,
    /// The provider's error codes, in lower case.
    codes: Vec<String>,
    message: String,
    /// The context window, if the error has a field for it.
    window: Option<u64>,
    /// The tokens of the request, if the error has a field for them.
    tokens: Option<u64>,
}

impl ProviderError {
    /// The error in a JSON value: an object with `error`, which is an object or a text, or another form that servers use.
    pub(crate) fn in_json(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|values| values.first()).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::Null) | None => value,
            Some(Value::String(message)) => {
                let codes = codes(value);
                return Some(Self { message: message.clone(), codes, ..Self::default() });
            }
            Some(inner) => inner,
        };
        let message = ["message", "detail", "msg", "error_description"].iter().find_map(|key| {
            inner.get(key).filter(|value| !value.is_null()).map(|value| match value {
                Value::String(text) => text.clone(),
                // Other fields can quote the request, which must not be taken for the server's words.
                Value::Array(problems) if problems.iter().any(|problem| problem.get("msg").is_some()) => {
                    let said = problems.iter().filter_map(|problem| problem.get("msg")?.as_str());
                    said.collect::<Vec<_>>().join("; ")
                }
                other => other.to_string(),
            })
        });
        let is_error = value.get("error").is_some_and(|error| !error.is_null());
        if message.is_none() && !is_error {
            return None;
        }
        // Some servers put the HTTP status here.
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let status = ["code", "status"].iter().find_map(|key| number(inner.get(key)?));
        let status = status.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        let message = message.unwrap_or_else(|| inner.to_string());
        let status = status.filter(|status| !status.is_success());
        let window = WINDOW_FIELDS.iter().find_map(|key| inner.get(key)?.as_u64());
        let tokens = TOKENS_FIELDS.iter().find_map(|key| inner.get(key)?.as_u64());
        Some(Self { status, codes: codes(inner), message, window, tokens })
    }

    /// The error in an HTTP response, whose body is JSON, a web page or anything else.
    pub(super) fn in_response(status: StatusCode, body: &[u8]) -> Self {
        let json = serde_json::from_slice::<Value>(body).ok();
        let found = json.as_ref().and_then(Self::in_json);
        let mut error = found.unwrap_or_else(|| {
            let message = readable(&String::from_utf8_lossy(body));
            Self { message, ..Self::default() }
        });
        error.message = match error.message.trim() {
            "" => format!("HTTP {status}"),
            message => format!("HTTP {}: {message}", status.as_u16()),
        };
        error.status = Some(status);
        error
    }

    /// The failure that it means.
    pub(crate) fn into_failure(self) -> Failure {
        let (kind, is_lasting) = self.kind();
        let window = self.window.or_else(|| named_window(&self.message));
        let tokens = self.tokens.or_else(|| named_tokens(&self.message));
        let mut failure = Failure::new(kind, self.message);
        if kind == ModelErrorKind::ContextTooLong {
            failure.window = window.filter(|window| *window >= MIN_WINDOW);
            failure.tokens = tokens;
        }
        if is_lasting { failure.lasting() } else { failure }
    }

    /// The kind of failure, and whether a retry is useless although failures of this kind usually pass.
    fn kind(&self) -> (ModelErrorKind, bool) {
        let is = |words: &[&str]| self.codes.iter().any(|code| words.contains(&code.as_str()));
        let message = self.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
        let status = self.status.map(|status| status.as_u16());
        let may_be_about_content = matches!(status, None | Some(400 | 413 | 422 | 500));
        if is(TOO_LONG_CODES) || (may_be_about_content && says(TOO_LONG) && !says(TOO_FAST)) {
            return (ModelErrorKind::ContextTooLong, false);
        }
        // A key without access to a model gives 403.
        let may_be_about_the_model = matches!(status, None | Some(400 | 403 | 404 | 422));
        if is(NO_SUCH_MODEL) || (may_be_about_the_model && self.denies_the_model(&message)) {
            return (ModelErrorKind::NoSuchModel, false);
        }
        if is(&["content_filter", "content_policy_violation", "responsibleaipolicyviolation"]) {
            return (ModelErrorKind::Refused, false);
        }
        if is(&["insufficient_quota", "billing_error", "billing_hard_limit_reached"])
            || status == Some(402)
            || says(&["credit balance is too low"])
        {
            return (ModelErrorKind::RateLimited, true);
        }
        let kind = match status {
            Some(401 | 403) => ModelErrorKind::Auth,
            Some(408 | 504) => ModelErrorKind::TimedOut,
            Some(413) => ModelErrorKind::ContextTooLong,
            Some(429) => ModelErrorKind::RateLimited,
            Some(409 | 425 | 500..=599) => ModelErrorKind::Overloaded,
            Some(_) => ModelErrorKind::Invalid,
            None if is(&["rate_limit_error", "rate_limit_exceeded", "too_many_requests"]) => {
                ModelErrorKind::RateLimited
            }
            None if is(&["authentication_error", "permission_error", "invalid_api_key"]) => {
                ModelErrorKind::Auth
            }
            None if is(&["invalid_request_error", "not_found_error", "badrequesterror"]) => {
                ModelErrorKind::Invalid
            }
            None if is(&["timeout_error", "timeout"]) => ModelErrorKind::TimedOut,
            None => ModelErrorKind::Overloaded,
        };
        (kind, false)
    }

    /// Whether a message in lower case says that there is no such model. Other requests can also miss something, so a
    /// message has to be about a model. Only Anthropic's names just the model: `model: claude-0`.
    fn denies_the_model(&self, message: &str) -> bool {
        let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
        let is_not_found = self.codes.iter().any(|code| code == "not_found_error")
            || self.status == Some(StatusCode::NOT_FOUND);
        says(INVALID_MODEL)
            || (says(&["the model ", "model '", "model \"", "model `"]) && says(ABSENT))
            || (is_not_found && (says(&["model: "]) || (says(&["model"]) && says(ABSENT))))
    }
}

/// The error codes of a missing model.
const NO_SUCH_MODEL: &[&str] = &[
    "model_not_found",
    "invalid_model",
    "unknown_model",
    "model_not_available",
    "model_not_supported",
    "deploymentnotfound",
];

/// How providers say that a name is not that of a model.
const INVALID_MODEL: &[&str] = &[
    "invalid model",
    "unknown model",
    "no such model",
    "model not found",
    "model not exist",
    "model does not exist",
    "not a valid model",
    "model identifier is invalid",
    "no endpoints found for",
];

/// How providers say that something is not there.
const ABSENT: &[&str] =
    &["not found", "does not exist", "doesn't exist", "not exist", "not available", "unable to access"];
/// The codes of errors about a request that is too long.
const TOO_LONG_CODES: &[&str] =
    &["context_length_exceeded", "request_too_large", "string_above_max_length", "exceed_context_size_error"];

/// How providers say that a request is too long.
const TOO_LONG: &[&str] = &[
    "maximum context length",
    "max context length",
    "context length exceeded",
    "exceeds the context length",
    "context length is only",
    "context length of only",
    "context window",
    "maximum model length",
    "maximum number of tokens allowed",
    "prompt is too long",
    "input is too long",
    "exceeds the available context size",
    "exceed context limit",
    "too many tokens",
    "too many input tokens",
    "reduce the length of the",
];

/// How providers say that there were too many requests. Bedrock writes "Too many tokens, please wait before trying again."
const TOO_FAST: &[&str] = &["please wait", "trying again", "rate limit", "throttl", "per minute", "per day"];

/// The fields of errors that have the context window: llama.cpp.
const WINDOW_FIELDS: &[&str] = &["n_ctx"];

/// The fields of errors that have the tokens of the request: llama.cpp.
const TOKENS_FIELDS: &[&str] = &["n_prompt_tokens"];

/// The words before the tokens of the request in a message, without those of the longest response.
const BEFORE_TOKENS: &[&str] = &[
    "messages resulted in ",
    "you passed ",
    "your request has ",
    "prompt is too long: ",
    "exceed context limit: ",
    "request (",
    "input token count (",
];

/// The words after the tokens of the messages in OpenAI's message, if it also counts the longest response.
const IN_MESSAGES: &str = " in the messages";

/// The words before the context window in a message.
///
/// OpenAI and vLLM write "maximum context length is N", other versions of vLLM "context length is only N" and "maximum
/// model length of N", llama.cpp "available context size (N", Python's llama.cpp "context window of N", LM Studio "context
/// length of only N", Google "tokens allowed (N", Anthropic "A tokens > N" and "A + B > N".
const BEFORE_WINDOW: &[&str] = &[
    "maximum context length is ",
    "context length is only ",
    "context length of only ",
    "maximum model length of ",
    "available context size (",
    "context window of ",
    "number of tokens allowed (",
    " tokens > ",
    "exceed context limit: ",
];

/// The smallest context window that is believed. Some versions of vLLM name the room that `max_tokens` leaves instead.
const MIN_WINDOW: u64 = 1000;

/// The context window that a message names.
fn named_window(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    BEFORE_WINDOW.iter().find_map(|before| {
        let (_, after) = message.split_once(before)?;
        // Anthropic writes a sum before the window.
        let after =
            after.split_once(" > ").filter(|_| before.ends_with(": ")).map_or(after, |(_, last)| last);
        first_number(after)
    })
}

/// The tokens of the request that a message names.
fn named_tokens(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    if let Some((before, _)) = message.split_once(IN_MESSAGES) {
        let start = before.rfind(|c: char| !c.is_ascii_digit() && c != ',').map_or(0, |at| at + 1);
        return before.get(start..).and_then(first_number);
    }
    BEFORE_TOKENS.iter().find_map(|words| first_number(message.split_once(words)?.1))
}

/// The number at the beginning of a text, perhaps with commas.
fn first_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
    text[..digits].replace(',', "").parse().ok()
}

/// The error codes in an error.
fn codes(error: &Value) -> Vec<String> {
    let inner = error.pointer("/innererror/code");
    let values = ["code", "type", "status"].iter().filter_map(|key| error.get(key)).chain(inner);
    values.filter_map(Value::as_str).map(str::to_lowercase).collect()
}

/// A body that is not JSON, for a person: a web page's title, or the text.
fn readable(body: &str) -> String {
    let lower = body.to_ascii_lowercase();
    let is_page = ["<!doctype", "<html", "<head"].iter().any(|tag| lower.contains(tag));
    if !is_page {
        return body.to_owned();
    }
    let title = lower.find("<title>").and_then(|start| {
        let (start, rest) = (start + "<title>".len(), &lower[start + "<title>".len()..]);
        rest.find("</title>").map(|end| body[start..start + end].trim().to_owned())
    });
    match title {
        Some(title) => format!("a web page, \"{title}\""),
        None => "a web page".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ModelErrorKind::{
        Auth, ContextTooLong, Invalid, NoSuchModel, Overloaded, RateLimited, Refused, TimedOut,
    };
    use serde_json::json;

    use super::*;

    fn failure(status: u16, body: &str) -> Failure {
        ProviderError::in_response(StatusCode::from_u16(status).unwrap(), body.as_bytes()).into_failure()
    }

    #[test]
    fn statuses_and_codes_have_their_kinds() {
        for (status, body, kind) in [
            (401, r#"{"error": {"message": "bad key", "code": "invalid_api_key"}}"#, Auth),
            (403, "", Auth),
            (402, "", RateLimited),
            (404, r#"{"error": {"message": "no such page"}}"#, Invalid),
            (408, "", TimedOut),
            (400, r#"{"error": {"message": "bad", "type": "invalid_request_error"}}"#, Invalid),
            (400, r#"{"error": {"message": "x", "code": "context_length_exceeded"}}"#, ContextTooLong),
            (
                400,
                r#"{"type": "error", "error": {"type": "invalid_request_error",
                   "message": "prompt is too long: 208310 tokens > 200000 maximum"}}"#,
                ContextTooLong,
            ),
            (413, r#"{"error": {"type": "request_too_large", "message": "big"}}"#, ContextTooLong),
            (400, r#"{"error": {"message": "filtered", "code": "content_filter"}}"#, Refused),
            (
                400,
                r#"{"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}"#,
                Refused,
            ),
            (429, r#"{"error": {"message": "context window"}}"#, RateLimited),
            (500, r#"{"message": "Too many tokens, please wait before trying again."}"#, Overloaded),
            (400, r#"{"error": {"message": "too many tokens in the input"}}"#, ContextTooLong),
            (500, "", Overloaded),
            (503, "<html><head><title> Try\nlater </title></head></html>", Overloaded),
            (529, r#"{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}"#, Overloaded),
            (422, r#"{"detail": [{"msg": "field required"}]}"#, Invalid),
        ] {
            assert_eq!(failure(status, body).kind, kind, "{status} {body}");
        }
    }

    /// What common providers and compatible servers say.
    #[test]
    fn a_missing_model_is_known_by_codes_and_messages() {
        for (status, body) in [
            (
                404,
                r#"{"error": {"message": "The model `x` does not exist or you do not have access to it.",
                    "type": "invalid_request_error", "param": null, "code": "model_not_found"}}"#,
            ),
            (
                403,
                r#"{"error": {"message": "Project has no access to model `x`", "code": "model_not_found"}}"#,
            ),
            (400, r#"{"error": {"message": "invalid model ID", "type": "invalid_request_error"}}"#),
            (404, r#"{"type": "error", "error": {"type": "not_found_error", "message": "model: claude-0"}}"#),
            (
                404,
                r#"{"error": {"code": "DeploymentNotFound", "message": "The deployment does not exist."}}"#,
            ),
            (
                404,
                r#"{"error": {"message": "model \"x\" not found, try pulling it first", "type": "api_error"}}"#,
            ),
            (404, r#"{"error": "model 'x' not found"}"#),
            (404, r#"{"object": "error", "message": "The model `x` does not exist.", "code": 404}"#),
            (400, r#"{"error": {"code": 400, "message": "model 'x' not found"}}"#),
            (400, r#"{"error": {"message": "Invalid model name passed in model=x"}}"#),
            (400, r#"{"error": {"message": "x is not a valid model ID", "code": 400}}"#),
            (404, r#"{"error": {"message": "No endpoints found for x.", "code": 404}}"#),
            (400, r#"{"object": "error", "message": "Invalid model: x", "type": "invalid_model"}"#),
            (400, r#"{"error": {"message": "Model Not Exist", "type": "invalid_request_error"}}"#),
            (
                404,
                r#"[{"error": {"code": 404, "message": "models/x is not found for API version v1main",
                     "status": "NOT_FOUND"}}]"#,
            ),
            (404, r#"{"error": {"message": "Unable to access model x.", "code": "model_not_available"}}"#),
            (400, r#"{"message": "The provided model identifier is invalid."}"#),
        ] {
            let failure = failure(status, body);
            assert_eq!((failure.kind, failure.is_passing), (NoSuchModel, false), "{status} {body}");
        }
        let in_stream = json!({"error": {"type": "not_found_error", "message": "model: claude-0"}});
        let in_stream = ProviderError::in_json(&in_stream).map(|error| error.into_failure().kind);
        assert_eq!(in_stream, Some(NoSuchModel));
    }

    #[test]
    fn other_failures_are_not_about_the_model() {
        for (status, body, kind) in [
            (404, "<html><head><title>404 Not Found</title></head></html>", Invalid),
            (404, r#"{"error": {"message": "Not Found"}}"#, Invalid),
            (400, r#"{"error": {"message": "tool_use ids were not found in the model's message"}}"#, Invalid),
            (400, r#"{"error": {"message": "this model does not support the parameter `effort`"}}"#, Invalid),
            (403, r#"{"error": {"message": "your key does not exist"}}"#, Auth),
            (503, r#"{"error": {"message": "the model 'x' is not available now"}}"#, Overloaded),
            (429, r#"{"error": {"message": "the model `x` does not exist"}}"#, RateLimited),
        ] {
            assert_eq!(failure(status, body).kind, kind, "{status} {body}");
        }
    }

    #[test]
    fn the_window_is_read_from_the_usual_messages() {
        let window = |message: &str| {
            let failure = failure(400, &json!({"error": {"message": message}}).to_string());
            assert_eq!(failure.kind, ContextTooLong, "{message}");
            failure.window
        };
        for (message, expected) in [
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.",
                Some(128_000),
            ),
            (
                "This model's maximum context length is 16,384 tokens. However, you requested 19591 tokens (9591 in the \
                 messages, 10000 in the completion).",
                Some(16_384),
            ),
            (
                "You passed 4097 input tokens and requested 1 output tokens. However, the model's context length is only \
                 4096 tokens, resulting in a maximum input length of 4095 tokens.",
                Some(4096),
            ),
            ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", Some(4096)),
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(200_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
                Some(200_000),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4096),
            ),
            ("Requested tokens (2285) exceed context window of 2048", Some(2048)),
            ("The model is loaded with context length of only 4096 tokens, which is not enough.", Some(4096)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            // Ollama names no window.
            ("prompt too long; exceeded max context length by 12 tokens", None),
            ("the input length exceeds the context length", None),
            // The room that `max_tokens` leaves is no window.
            (
                "This model's maximum context length is 3 tokens. However, your request has 8 input tokens.",
                None,
            ),
            ("Your input exceeds the context window of this model.", None),
        ] {
            assert_eq!(window(message), expected, "{message}");
        }
        let fields = json!({"error": {
            "code": 400, "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192,
        }});
        assert_eq!(failure(400, &fields.to_string()).window, Some(8192));
        // Another error may have the same words.
        let busy = r#"{"error": {"message": "maximum context length is 8192 tokens", "code": "slow_down"}}"#;
        assert_eq!((failure(429, busy).kind, failure(429, busy).window), (RateLimited, None));
    }

    #[test]
    fn the_tokens_of_a_request_are_read_from_the_usual_messages() {
        for (message, expected) in [
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.",
                Some(204_308),
            ),
            (
                "This model's maximum context length is 16,384 tokens. However, you requested 19591 tokens (9,591 in the \
                 messages, 10000 in the completion).",
                Some(9_591),
            ),
            ("You passed 4097 input tokens. The model's context length is only 4096 tokens.", Some(4_097)),
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(208_310)),
            ("request (5000 tokens) exceeds the available context size (4096 tokens)", Some(5_000)),
            ("Your input exceeds the context window of this model.", None),
            ("é in the messages: the context window is full", None),
        ] {
            let failure = failure(400, &json!({"error": {"message": message}}).to_string());
            assert_eq!((failure.kind, failure.tokens), (ContextTooLong, expected), "{message}");
        }
        let fields =
            json!({"error": {"message": "exceeds the available context size", "n_prompt_tokens": 14429}});
        assert_eq!(failure(400, &fields.to_string()).tokens, Some(14_429));
    }

    #[test]
    fn a_lack_of_credit_is_not_retried() {
        let body = r#"{"error": {"message": "quota", "code": "insufficient_quota"}}"#;
        assert!(!failure(429, body).is_passing);
        assert!(failure(429, r#"{"error": {"message": "slow down"}}"#).is_passing);
        let body =
            r#"{"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}"#;
        assert_eq!(failure(400, body).kind, RateLimited);
    }

    #[test]
    fn messages_are_what_a_person_needs() {
        assert_eq!(failure(404, r#"{"error": "model not found"}"#).message, "HTTP 404: model not found");
        assert_eq!(failure(400, r#"[{"error": {"message": "bad"}}]"#).message, "HTTP 400: bad");
        assert_eq!(failure(500, "").message, "HTTP 500 Internal Server Error");
        assert_eq!(failure(502, "upstream down").message, "HTTP 502: upstream down");
        let page = "<!DOCTYPE html><html><head><TITLE>Bad gateway</TITLE></head><body>…</body></html>";
        assert_eq!(failure(502, page).message, "HTTP 502: a web page, \"Bad gateway\"");
    }

    #[test]
    fn in_the_middle_of_a_response_there_is_no_status() {
        let kind = |value: Value| ProviderError::in_json(&value).map(|error| error.into_failure().kind);
        assert_eq!(kind(json!({"error": {"type": "overloaded_error", "message": "x"}})), Some(Overloaded));
        assert_eq!(kind(json!({"error": {"code": 429, "message": "x"}})), Some(RateLimited));
        assert_eq!(kind(json!({"error": {"code": "401", "message": "x"}})), Some(Auth));
        assert_eq!(kind(json!({"error": {"type": "authentication_error", "message": "x"}})), Some(Auth));
        assert_eq!(kind(json!({"error": {"message": "odd"}})), Some(Overloaded));
        assert_eq!(kind(json!({"error": null, "choices": []})), None);
        assert_eq!(kind(json!({"choices": []})), None);
    }
}
