//! What an AG-UI client sends.

use prowess_agent::ThreadId;
use prowess_base::hex;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::{ApiError, NewReply, ReplyKind};
use crate::elsewhere::Elsewhere;

/// The longest id of a message that is used as it is, in bytes.
const MAX_ID: usize = 64;

/// The input of a run, as AG-UI 1.0 defines it. Fields that the agent does not use are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAgentInput {
    /// The thread: an id of one of your threads, or any text of your own, which then always means the same thread of yours.
    #[schema(min_length = 1)]
    pub(crate) thread_id: String,
    /// The run. The events of the run repeat it.
    pub(crate) run_id: String,
    /// The conversation as the client has it. User messages after the last message that the thread has are said.
    pub(crate) messages: Vec<AgUiMessage>,
    /// Tools of the client. The agent does not call them.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) tools: Option<Vec<Value>>,
    /// Facts from the client. The agent does not read them.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) context: Option<Vec<Value>>,
    /// Replies to interrupts. Those without an entry stay open.
    #[serde(default)]
    pub(crate) resume: Option<Vec<ResumeEntry>>,
}

/// A message of the client.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AgUiMessage {
    /// Its id.
    #[schema(min_length = 1)]
    pub(crate) id: String,
    /// Who says it: `user`, `assistant`, `system`, `developer`, `tool`, `activity` or `reasoning`.
    pub(crate) role: String,
    /// A text, or parts.
    #[serde(default)]
    pub(crate) content: Value,
}

/// A reply to an interrupt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeEntry {
    /// The id of the interrupt: the number of the question.
    pub(crate) interrupt_id: String,
    /// `resolved` with a payload, or `cancelled`, which rejects the call.
    pub(crate) status: ResumeStatus,
    /// The reply, as the interrupt's `responseSchema` describes it: `{"reply": "reject", "message": "Not now."}`.
    #[serde(default)]
    pub(crate) payload: Option<Value>,
}

/// What became of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResumeStatus {
    /// There is a reply.
    Resolved,
    /// There is none, and there will be none.
    Cancelled,
}

impl AgUiMessage {
    /// The id that the message has in a thread.
    pub(crate) fn own_id(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !self.id.is_empty() && self.id.len() <= MAX_ID && self.id.chars().all(is_plain) {
            return self.id.clone();
        }
        hex::encode(&hmac_sha256::Hash::hash(self.id.as_bytes())[..16])
    }

    pub(crate) fn is_user(&self) -> bool {
        self.role == "user"
    }

    /// The text of what a person says.
    pub(crate) fn said(&self) -> Result<String, ApiError> {
        let text = match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let text = |part: &Value| match part["type"].as_str() {
                    Some("text") => part["text"].as_str().map(str::to_owned),
                    _ => None,
                };
                let texts: Option<Vec<String>> = parts.iter().map(text).collect();
                texts
                    .ok_or_else(|| ApiError::bad_request("The agent reads only text in messages."))?
                    .join("\n")
            }
            _ => String::new(),
        };
        if text.trim().is_empty() {
            return Err(ApiError::bad_request("A message of the user has no text."));
        }
        Ok(text)
    }

    pub(crate) fn elsewhere(&self) -> Elsewhere {
        let text = self.said().unwrap_or_default();
        Elsewhere { who: self.role.clone(), text }
    }
}

impl ResumeEntry {
    /// The reply that the entry stands for.
    pub(crate) fn reply(&self) -> Result<NewReply, ApiError> {
        let reply = |reply| NewReply { reply, message: None, arguments: None };
        if self.status == ResumeStatus::Cancelled {
            return Ok(reply(ReplyKind::Reject));
        }
        match self.payload.clone() {
            Some(Value::Bool(true)) => Ok(reply(ReplyKind::Approve)),
            Some(Value::Bool(false)) => Ok(reply(ReplyKind::Reject)),
            Some(kind @ Value::String(_)) => {
                let kind = serde_json::from_value(kind);
                kind.map(reply).map_err(|_| ApiError::bad_request("A `payload` of `resume` is no reply."))
            }
            // Components that know nothing about prowess answer like this.
            Some(Value::Object(fields)) if !fields.contains_key("reply") => match fields.get("approved") {
                Some(Value::Bool(is_approved)) => {
                    let kind = if *is_approved { ReplyKind::Approve } else { ReplyKind::Reject };
                    let message = fields.get("message").and_then(Value::as_str).map(str::to_owned);
                    Ok(NewReply { message, ..reply(kind) })
                }
                _ => Err(ApiError::bad_request("A `payload` of `resume` needs `reply`.")),
            },
            Some(fields @ Value::Object(_)) => serde_json::from_value(fields).map_err(|error| {
                ApiError::bad_request(format!("A `payload` of `resume` is no reply to a question: {error}."))
            }),
            _ => Err(ApiError::bad_request("An entry of `resume` that is `resolved` needs a `payload`.")),
        }
    }
}

/// The thread that a client's own id means. Each user has their own threads.
pub(crate) fn derived_thread(user: &str, id: &str) -> ThreadId {
    let mut hash = hmac_sha256::Hash::new();
    // The length keeps the two apart.
    hash.update(format!("ag-ui thread {} {user} ", user.len()));
    hash.update(id.as_bytes());
    let name = hex::encode(&hash.finalize()[..16]);
    // 32 letters and digits are a valid name.
    name.parse().unwrap_or_else(|_| ThreadId::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: Value) -> AgUiMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn texts_and_ids_of_messages() {
        let plain = message(json!({"id": "a-1", "role": "user", "content": "Hello"}));
        assert_eq!((plain.own_id(), plain.said().unwrap()), ("a-1".to_owned(), "Hello".to_owned()));
        let parts = json!([{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]);
        let parts = message(json!({"id": "msg:1", "role": "user", "content": parts}));
        assert_eq!((parts.own_id().len(), parts.said().unwrap()), (32, "One\ntwo".to_owned()));
        let image = message(json!({"id": "1", "role": "user", "content": [{"type": "image"}]}));
        assert!(image.said().is_err());
    }

    #[test]
    fn a_clients_thread_is_the_same_each_time_and_another_for_each_user() {
        assert_eq!(derived_thread("ada", "t"), derived_thread("ada", "t"));
        assert_ne!(derived_thread("ada", "t"), derived_thread("bob", "t"));
        assert_ne!(derived_thread("ada", "t"), derived_thread("ada", "u"));
        assert_ne!(derived_thread("a", "b c"), derived_thread("a b", "c"));
    }

    #[test]
    fn replies_in_all_their_forms() {
        let reply = |entry: Value| serde_json::from_value::<ResumeEntry>(entry).unwrap().reply();
        let resolved = |payload: Value| {
            reply(json!({"interruptId": "1", "status": "resolved", "payload": payload}))
                .map(|new| (new.reply, new.message))
        };
        assert_eq!(resolved(json!({"reply": "always"})).unwrap(), (ReplyKind::Always, None));
        assert_eq!(resolved(json!("approve")).unwrap(), (ReplyKind::Approve, None));
        assert_eq!(resolved(json!(false)).unwrap(), (ReplyKind::Reject, None));
        let rejected = (ReplyKind::Reject, Some("No.".to_owned()));
        assert_eq!(resolved(json!({"approved": false, "message": "No."})).unwrap(), rejected);
        assert_eq!(resolved(json!({"reply": "reject", "message": "No."})).unwrap(), rejected);
        for wrong in [json!({}), json!("perhaps"), json!(1), json!({"reply": "approve", "more": 1})] {
            assert!(resolved(wrong.clone()).is_err(), "{wrong}");
        }
        let cancelled = reply(json!({"interruptId": "1", "status": "cancelled"})).unwrap();
        assert_eq!(cancelled.reply, ReplyKind::Reject);
    }
}
