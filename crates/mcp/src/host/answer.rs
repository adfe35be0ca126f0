//! Answers to methods that `rmcp` does not know.
//!
//! It tells answers apart by the fields that they have, and drops the others: a list of skills with
//! `resultType: "complete"` would be taken for the acknowledgment of a task. So what answers such a method is put into a
//! wrapping of ours when it arrives, and taken out again by whoever asked.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

const WRAPPING: &str = "io.prowess/answer";

/// The id of a message whose answer is to be wrapped.
pub(crate) fn is_asked_by(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => {
            matches!(request.request, ClientRequest::CustomRequest(_)).then(|| request.id.clone())
        }
        _ => None,
    }
}

/// The id of an answer.
pub(crate) fn id_of(message: &Value) -> Option<RequestId> {
    let is_answer = message.get("method").is_none();
    serde_json::from_value(message.get("id").filter(|_| is_answer)?.clone()).ok()
}

/// An answer in its wrapping; an error is left as it is.
pub(crate) fn wrapped(mut message: Value) -> Value {
    if let Some(result) = message.get_mut("result") {
        *result = json!({WRAPPING: result.take()});
    }
    message
}

/// What was in the wrapping.
pub(crate) fn unwrapped(mut result: Value) -> Value {
    result.get_mut(WRAPPING).map(Value::take).unwrap_or_default()
}

/// The message, as `rmcp` knows it. An answer that it does not know is an error: who waits for it is told.
pub(crate) fn message(message: Value) -> Option<ServerJsonRpcMessage> {
    let id = id_of(&message);
    let known = serde_json::from_value(message);
    known.ok().or_else(|| {
        let error = rmcp::ErrorData::internal_error("its answer is none that the protocol knows", None);
        Some(ServerJsonRpcMessage::error(error, Some(id?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ServerResult;

    #[test]
    fn an_answer_comes_through_whole() {
        let result = json!({"resultType": "complete", "skills": [1], "tools": [], "ttlMs": 1});
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": result.clone()});
        assert_eq!(id_of(&answer), Some(RequestId::Number(7)));
        let Some(JsonRpcMessage::Response(response)) = message(wrapped(answer)) else { unreachable!() };
        let ServerResult::CustomResult(got) = response.result else { unreachable!() };
        assert_eq!(unwrapped(got.0), result);
        assert_eq!(unwrapped(json!({"skills": []})), Value::Null, "nothing gets by without its wrapping");
    }

    #[test]
    fn what_is_no_answer_is_an_error_for_whoever_waits() {
        assert!(matches!(message(json!({"jsonrpc": "2.0", "id": 7})), Some(JsonRpcMessage::Error(_))));
        assert!(message(json!({"jsonrpc": "2.0"})).is_none());
        assert!(message(json!([])).is_none());
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
        assert_eq!(id_of(&request), None);
    }
}
