//! Wraps answers to methods that `rmcp` does not know.
//!
//! `rmcp` tells answers apart by their fields, and drops unknown ones. It would take a list of skills with
//! `resultType: "complete"` for the acknowledgment of a task. So the client wraps the answer to such a method when it
//! arrives, and unwraps it for the caller.

use prowess_catalog::json_cost::{JsonRoom, JsonTooLarge};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::json_fields::fields;

/// The field of a wrapped answer, and of one that is wrapped as text.
const WRAPPING: &str = "io.prowess/answer";
const WRAPPED_TEXT: &str = "io.prowess/answer-text";
/// The memory that a message may take as a tree. `rmcp` takes four times as much for a moment. The minimum is larger than
/// the tree of any answer that a model reads whole.
const ROOM: JsonRoom = JsonRoom::new(8 << 20, 150);
/// The same for a wrapped answer, which is parsed only once. Lists of skills have many small values.
const WRAPPED_ROOM: JsonRoom = JsonRoom::new(8 << 20, 400);

/// The id of a request whose answer must be wrapped.
pub(crate) fn wrapped_request(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => {
            matches!(request.request, ClientRequest::CustomRequest(_)).then(|| request.id.clone())
        }
        _ => None,
    }
}

/// Unwraps an answer.
pub(crate) fn unwrap_result(mut result: Value) -> Value {
    if let Some(Value::String(text)) = result.get(WRAPPED_TEXT) {
        return serde_json::from_str(text).unwrap_or_default();
    }
    result.get_mut(WRAPPING).map(Value::take).unwrap_or_default()
}

/// The fields of a message that can be read without building a tree.
struct MessageHead<'a> {
    /// The id of an answer.
    id: Option<RequestId>,
    result: Option<&'a [u8]>,
}

impl<'a> MessageHead<'a> {
    /// Reads the fields. `None` if the text is not JSON.
    fn of(text: &'a [u8]) -> Option<Self> {
        serde_json::from_slice::<IgnoredAny>(text).ok()?;
        let fields = fields(text);
        let field = |wanted: &str| fields.as_ref()?.get(wanted);
        let id = field("id").filter(|_| field("method").is_none());
        Some(Self { id: id.and_then(|id| serde_json::from_slice(id).ok()), result: field("result") })
    }
}

/// Parses a message, and wraps it if it answers a method that `rmcp` does not know.
///
/// An answer that the protocol does not know, or that would take too much memory, becomes an error for the caller.
pub(crate) fn message(
    text: &[u8],
    is_wrapped: impl FnOnce(&RequestId) -> bool,
) -> Option<ServerJsonRpcMessage> {
    let MessageHead { id, result } = MessageHead::of(text)?;
    let is_wrapped = id.as_ref().is_some_and(is_wrapped);
    let room = if is_wrapped { WRAPPED_ROOM } else { ROOM };
    if let Err(costly) = room.check(text) {
        return Some(ServerJsonRpcMessage::error(too_costly(costly), Some(id?)));
    }
    if let (true, Some(id), Some(result)) = (is_wrapped, &id, result) {
        let result = serde_json::from_slice::<Value>(result).ok()?;
        let result = ServerResult::CustomResult(CustomResult(json!({ WRAPPING: result })));
        return Some(ServerJsonRpcMessage::response(result, id.clone()));
    }
    let known = serde_json::from_slice(text);
    known.ok().or_else(|| {
        let error = ErrorData::internal_error("its answer is not part of the protocol", None);
        Some(ServerJsonRpcMessage::error(error, Some(id?)))
    })
}

/// Prepares a text that `rmcp` parses itself. Wraps the answer to `asked` as text, and replaces an answer that would take too
/// much memory by an error. `None` if no caller waits for that error.
pub(crate) fn text(text: String, asked: Option<&RequestId>) -> Option<String> {
    let Some(MessageHead { id, result }) = MessageHead::of(text.as_bytes()) else { return Some(text) };
    let is_wrapped = asked.is_some() && id.as_ref() == asked;
    let room = if is_wrapped { WRAPPED_ROOM } else { ROOM };
    let instead = match (room.check(text.as_bytes()), result) {
        (Ok(_), Some(result)) if is_wrapped => {
            let result = Value::from(String::from_utf8_lossy(result));
            json!({"jsonrpc": "2.0", "id": id, "result": {WRAPPED_TEXT: result}})
        }
        (Ok(_), _) => return Some(text),
        (Err(costly), _) => json!({"jsonrpc": "2.0", "id": id?, "error": too_costly(costly)}),
    };
    Some(instead.to_string())
}

fn too_costly(costly: JsonTooLarge) -> ErrorData {
    ErrorData::internal_error(format!("its answer takes too much memory: {costly}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ServerResult;

    #[test]
    fn a_wrapped_answer_arrives_whole() {
        let result = json!({"resultType": "complete", "skills": [1], "tools": [], "ttlMs": 1});
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": result.clone()}).to_string();
        let asked = RequestId::Number(7);
        let whole = message(answer.as_bytes(), |id| *id == asked);
        let as_text = text(answer.clone(), Some(&asked)).unwrap();
        for answer in [whole, message(as_text.as_bytes(), |_| false)] {
            let Some(JsonRpcMessage::Response(response)) = answer else { unreachable!() };
            let ServerResult::CustomResult(got) = response.result else { unreachable!() };
            assert_eq!(unwrap_result(got.0), result);
        }
        assert_eq!(text(answer.clone(), Some(&RequestId::Number(8))), Some(answer.clone()));
        assert_eq!(text(answer.clone(), None), Some(answer));
        assert_eq!(
            unwrap_result(json!({"skills": []})),
            Value::Null,
            "an answer that was not wrapped is not used"
        );
    }

    #[test]
    fn an_unknown_answer_is_an_error_for_the_caller() {
        let message = |value: Value| message(value.to_string().as_bytes(), |_| false);
        assert!(matches!(message(json!({"jsonrpc": "2.0", "id": 7})), Some(JsonRpcMessage::Error(_))));
        assert!(message(json!({"jsonrpc": "2.0"})).is_none());
        assert!(message(json!([])).is_none());
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
        assert!(matches!(message(request), Some(JsonRpcMessage::Request(_))));
    }

    #[test]
    fn an_answer_of_many_small_values_is_an_error_for_the_caller() {
        let bomb = format!("[{}1]", "{},".repeat(1 << 20));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":{bomb}}}}}"#);
        let asked = RequestId::Number(7);
        for is_wrapped in [false, true] {
            let Some(JsonRpcMessage::Error(error)) = message(answer.as_bytes(), |_| is_wrapped) else {
                panic!("it was taken")
            };
            assert_eq!(error.id, Some(asked.clone()));
            assert!(error.error.message.contains("too many small values"), "{error:?}");
            let told = text(answer.clone(), Some(&asked).filter(|_| is_wrapped)).unwrap();
            assert!(told.len() < 300 && told.contains("too many small values"), "{told}");
        }
        let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{bomb}}}"#);
        assert!(message(told.as_bytes(), |_| false).is_none());
        assert_eq!(text(told, None), None);
    }
}
