//! What OpenAI's clients send. Fields that the agent does not use, such as a temperature, are ignored.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::ApiError;
use crate::elsewhere::{Elsewhere, quoting};

/// A request for a chat completion.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// The agent.
    pub(crate) model: String,
    /// The conversation. The last message is one of the user. Those before are quoted in it.
    #[schema(min_items = 1)]
    pub(crate) messages: Vec<InputMessage>,
    /// Whether pieces of the answer are sent as the agent speaks.
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    /// What a stream has beside the answer.
    #[serde(default)]
    pub(crate) stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(crate) other: Unusable,
}

/// What a stream has beside the answer.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// Whether the last piece has the tokens.
    #[serde(default)]
    pub(crate) include_usage: Option<bool>,
}

/// A request for a response.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ResponseRequest {
    /// The agent.
    pub(crate) model: String,
    /// A text, or messages of which the last one is one of the user.
    #[schema(value_type = Object)]
    pub(crate) input: Input,
    /// Words of the program to the agent. They are quoted in the message.
    #[serde(default)]
    pub(crate) instructions: Option<String>,
    /// The response that this one follows. Its thread goes on; from an earlier response of a thread, a copy goes on.
    #[serde(default)]
    pub(crate) previous_response_id: Option<String>,
    /// Whether events are sent as the agent speaks.
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    /// Values of the program, which the response repeats.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<Value>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(crate) other: Unusable,
}

/// What an agent cannot do, and a client would miss.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Unusable {
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    functions: Option<Value>,
    #[serde(default)]
    n: Option<Value>,
    #[serde(default)]
    background: Option<Value>,
    #[serde(default)]
    conversation: Option<Value>,
}

/// The input of a response.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "it is neither a text nor an array of messages")]
pub(crate) enum Input {
    Text(String),
    Messages(Vec<InputMessage>),
}

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct InputMessage {
    /// `user`, `assistant`, `system` or `developer`.
    #[serde(default)]
    pub(crate) role: Option<String>,
    /// A text, or parts with texts.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) content: Option<Value>,
}

impl Unusable {
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        let is_empty = |value: &Option<Value>| match value {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        if !is_empty(&self.tools) || !is_empty(&self.functions) {
            return Err(ApiError::bad_request(
                "`tools` cannot be used: the agent calls its own tools. Send the request without them.",
            ));
        }
        if !matches!(&self.n, None | Some(Value::Null)) && self.n != Some(1.into()) {
            return Err(ApiError::bad_request("`n` must be 1: there is one answer."));
        }
        if !is_empty(&self.background) || !is_empty(&self.conversation) {
            return Err(ApiError::bad_request("`background` and `conversation` cannot be used."));
        }
        Ok(())
    }
}

impl InputMessage {
    fn text(&self) -> Result<String, ApiError> {
        match &self.content {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Array(parts)) => {
                let text = |part: &Value| match part["type"].as_str() {
                    Some("text" | "input_text" | "output_text") => part["text"].as_str().map(str::to_owned),
                    Some("refusal") => part["refusal"].as_str().map(str::to_owned),
                    _ => None,
                };
                let texts: Option<Vec<String>> = parts.iter().map(text).collect();
                let texts =
                    texts.ok_or_else(|| ApiError::bad_request("The agent reads only text in `content`."))?;
                Ok(texts.join("\n"))
            }
            Some(_) => Err(ApiError::bad_request("`content` must be a text or an array of parts.")),
        }
    }
}

/// What is said to the agent: the last message, with those before as quotations.
pub(crate) fn said(instructions: Option<&str>, messages: &[InputMessage]) -> Result<String, ApiError> {
    let no_user = || ApiError::bad_request("The last message must be one of the user, with a text.");
    let (last, before) = messages.split_last().ok_or_else(no_user)?;
    let text = last.text()?;
    if last.role.as_deref() != Some("user") || text.trim().is_empty() {
        return Err(no_user());
    }
    let mut quoted = Vec::new();
    if let Some(text) = instructions {
        quoted.push(Elsewhere { who: "system".to_owned(), text: text.to_owned() });
    }
    for message in before {
        // A call of another agent's tools means nothing here, but its answer may.
        let who = prowess_base::text::escaped_start(message.role.as_deref().unwrap_or("tool"));
        quoted.push(Elsewhere { who, text: message.text()? });
    }
    Ok(quoting(&quoted, &text))
}

impl Input {
    pub(crate) fn said(self, instructions: Option<&str>) -> Result<String, ApiError> {
        match self {
            Self::Text(text) => {
                let message = InputMessage { role: Some("user".to_owned()), content: Some(text.into()) };
                said(instructions, &[message])
            }
            Self::Messages(messages) => said(instructions, &messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_message_is_said_and_others_are_quoted() {
        let messages = |value: Value| serde_json::from_value::<Vec<InputMessage>>(value).unwrap();
        let one = messages(json!([{"role": "user", "content": "Hello"}]));
        assert_eq!(said(None, &one).unwrap(), "Hello");
        let two = messages(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        ]));
        let text = said(None, &two).unwrap();
        assert!(text.contains("> system:\n> Be brief.\n") && text.ends_with("\n\nHello"), "{text}");
        assert_eq!(Input::Text("Hi".to_owned()).said(None).unwrap(), "Hi");
        for wrong in [json!([]), json!([{"role": "assistant", "content": "x"}]), json!([{"role": "user"}])] {
            assert!(said(None, &messages(wrong)).is_err());
        }
        let image = json!([{"role": "user", "content": [{"type": "image_url"}]}]);
        assert!(said(None, &messages(image)).is_err());
    }

    #[test]
    fn what_a_client_would_miss_is_refused() {
        let unusable = |value: Value| serde_json::from_value::<Unusable>(value).unwrap().check().is_err();
        assert!(!unusable(json!({"tools": [], "n": 1, "temperature": 1})));
        assert!(unusable(json!({"tools": [{"type": "function"}]})));
        assert!(unusable(json!({"n": 2})));
        assert!(unusable(json!({"background": true})));
    }
}
