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
}

impl ProviderError {
    /// The error in a JSON value: an object with `error`, which is an object or a text, or another form that servers use.
    pub(crate) fn in_json(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|values| values.first()).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::Null) | None => value,
            Some(Value::String(message)) => {
                let codes = codes(value);
                return Some(Self { message: message.clone(), codes, status: None });
            }
            Some(inner) => inner,
        };
        let message = ["message", "detail", "msg", "error_description"].iter().find_map(|key| {
            inner.get(key).filter(|value| !value.is_null()).map(|value| match value {
                Value::String(text) => text.clone(),
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
        Some(Self { status: status.filter(|status| !status.is_success()), codes: codes(inner), message })
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
        let failure = Failure::new(kind, self.message);
        if is_lasting { failure.lasting() } else { failure }
    }

    /// The kind of failure, and whether a retry is useless although failures of this kind usually pass.
    fn kind(&self) -> (ModelErrorKind, bool) {
        let is = |words: &[&str]| self.codes.iter().any(|code| words.contains(&code.as_str()));
        let message = self.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
        let status = self.status.map(|status| status.as_u16());
        let may_be_about_content = matches!(status, None | Some(400 | 413 | 422 | 500));
        if is(&["context_length_exceeded", "request_too_large", "string_above_max_length"])
            || (may_be_about_content && says(TOO_LONG))
        {
            return (ModelErrorKind::ContextTooLong, false);
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
}

/// How providers say that a request is too long.
const TOO_LONG: &[&str] = &[
    "maximum context length",
    "context length exceeded",
    "context window",
    "prompt is too long",
    "input is too long",
    "exceeds the available context size",
    "exceed context limit",
];

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
    use ModelErrorKind::{Auth, ContextTooLong, Invalid, Overloaded, RateLimited, Refused, TimedOut};
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
            (404, r#"{"error": {"message": "no such model"}}"#, Invalid),
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
            (500, "", Overloaded),
            (503, "<html><head><title> Try\nlater </title></head></html>", Overloaded),
            (529, r#"{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}"#, Overloaded),
            (422, r#"{"detail": [{"msg": "field required"}]}"#, Invalid),
        ] {
            assert_eq!(failure(status, body).kind, kind, "{status} {body}");
        }
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
