//! Reduces a client's message to the fields that the server reads, before `rmcp` builds a tree of it.
//!
//! `rmcp` copies a message several times until it knows its kind. It keeps the metadata of a request until the answer, which
//! can be as long as a person thinks. So this drops the fields that nobody reads, and refuses a message that still has too
//! many small values.

use std::borrow::Cow;

use prowess_catalog::json_cost::{JsonRoom, JsonTooLarge};

use crate::json_fields::{Fields, fields, text};

/// The memory that a message may take as a tree. `rmcp` takes four times as much for a moment, and holds the message itself
/// three times. Together that is at most ten times its length, or 2 MiB.
const ROOM: JsonRoom = JsonRoom::new(256 * 1024, 125);
/// The most bytes of a request's metadata, which the server keeps until the answer.
const MAX_META: usize = 16 * 1024;
/// The most bytes of a client's handshake, which its MCP session keeps.
const MAX_HELLO: usize = 64 * 1024;

/// The fields of a message.
const MESSAGE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The fields of a handshake.
const HELLO: [&str; 4] = ["protocolVersion", "capabilities", "clientInfo", META];
const META: &str = "_meta";
/// The fields of a request's metadata that the server reads.
const META_FIELDS: [&str; 4] = [
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
];

/// Why the server refuses a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("The message takes too much memory: {0}")]
    Costly(#[from] JsonTooLarge),
    #[error("The metadata of the request has more than {MAX_META} bytes")]
    LongMeta,
    #[error("The client's handshake has more than {MAX_HELLO} bytes")]
    LongHello,
}

/// A message without the fields that nobody reads. The text must be valid JSON.
pub(crate) fn lean(message: &[u8]) -> Result<Cow<'_, [u8]>, Unfit> {
    let lean = match fields(message) {
        Some(fields) => lean_fields(fields)?,
        None => None,
    };
    let lean = lean.map_or(Cow::Borrowed(message), Cow::Owned);
    ROOM.check(&lean)?;
    Ok(lean)
}

/// The message without other fields. `None` if it has no others.
fn lean_fields(message: Fields<'_>) -> Result<Option<Vec<u8>>, Unfit> {
    let is_hello = message.get("method").and_then(text).is_some_and(|method| method == "initialize");
    let mut lean = Object::default();
    for (name, value) in message {
        match &*name {
            "params" => lean.push(name, value, params(value, is_hello)?),
            known if MESSAGE.contains(&known) => lean.push(name, value, None),
            _ => lean.skip(),
        }
    }
    Ok(lean.end())
}

/// The parameters without fields that nobody reads. `None` if nothing changes.
fn params(text: &[u8], is_hello: bool) -> Result<Option<Vec<u8>>, Unfit> {
    let Some(params) = fields(text) else { return Ok(None) };
    let mut lean = Object::default();
    for (name, value) in params {
        match &*name {
            META => lean.push(name, value, meta(value)?),
            other if is_hello && !HELLO.contains(&other) => lean.skip(),
            _ => lean.push(name, value, None),
        }
    }
    if is_hello && lean.len() > MAX_HELLO {
        return Err(Unfit::LongHello);
    }
    Ok(lean.end())
}

/// The metadata without fields that nobody reads. `None` if nothing changes.
fn meta(text: &[u8]) -> Result<Option<Vec<u8>>, Unfit> {
    let Some(meta) = fields(text) else { return Ok(None) };
    let mut lean = Object::default();
    for (name, value) in meta {
        if META_FIELDS.contains(&&*name) {
            lean.push(name, value, None);
        } else {
            lean.skip();
        }
    }
    if lean.len() > MAX_META {
        return Err(Unfit::LongMeta);
    }
    Ok(lean.end())
}

/// An object, field by field. It is written as text only if it changed, so that a long message is not copied for nothing.
#[derive(Default)]
struct Object<'a> {
    fields: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
    is_changed: bool,
}

impl<'a> Object<'a> {
    /// Adds a field with its old value, or with a changed one.
    fn push(&mut self, name: Cow<'a, str>, value: &'a [u8], changed: Option<Vec<u8>>) {
        self.is_changed |= changed.is_some();
        self.fields.push((name, changed.map_or(Cow::Borrowed(value), Cow::Owned)));
    }

    /// Leaves a field out.
    fn skip(&mut self) {
        self.is_changed = true;
    }

    /// The approximate length of its text.
    fn len(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum()
    }

    /// The text of the object, if it has changed.
    fn end(self) -> Option<Vec<u8>> {
        if !self.is_changed {
            return None;
        }
        let mut text = Vec::with_capacity(self.len() + 2);
        text.push(b'{');
        for (name, value) in self.fields {
            if text.len() > 1 {
                text.push(b',');
            }
            text.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(&value);
        }
        text.push(b'}');
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn leaned(message: &Value) -> Option<Value> {
        let text = message.to_string();
        match lean(text.as_bytes()).unwrap() {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(serde_json::from_slice(&text).unwrap()),
        }
    }

    #[test]
    fn what_is_read_goes_on_as_it_is() {
        let meta = json!({
            "progressToken": 7,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"b": [1]}, "_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "anything": 1}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": null}}),
            json!([1]),
        ] {
            assert_eq!(leaned(&message), None, "{message}");
        }
    }

    #[test]
    fn what_nobody_reads_is_left_out() {
        let message = json!({
            "jsonrpc": "2.0", "id": "a\"b", "method": "tools/call", "more": [{}, {}],
            "params": {"name": "x", "arguments": {"_meta": {"mine": 1}}, "_meta": {"mine": {"much": []}, "progressToken": "t"}},
        });
        let expected = json!({
            "jsonrpc": "2.0", "id": "a\"b", "method": "tools/call",
            "params": {"name": "x", "arguments": {"_meta": {"mine": 1}}, "_meta": {"progressToken": "t"}},
        });
        assert_eq!(leaned(&message), Some(expected));
        let escaped = br#"{"jsonrpc":"2.0","params":{"\u005fmeta":{"mine":1}},"result":{}}"#;
        let lean: Value = serde_json::from_slice(&lean(escaped).unwrap()).unwrap();
        assert_eq!(lean, json!({"jsonrpc": "2.0", "params": {"_meta": {}}, "result": {}}));
        let hello = json!({"method": "initialize", "params": {"clientInfo": {"name": "x"}, "more": 1}});
        assert_eq!(
            leaned(&hello),
            Some(json!({"method": "initialize", "params": {"clientInfo": {"name": "x"}}}))
        );
    }

    #[test]
    fn what_would_be_kept_is_bounded() {
        let long = "x".repeat(MAX_HELLO);
        let token = json!({"method": "tools/call", "params": {"_meta": {"progressToken": long}}}).to_string();
        assert_eq!(lean(token.as_bytes()), Err(Unfit::LongMeta));
        let hello = json!({"method": "initialize", "params": {"clientInfo": {"name": long}}}).to_string();
        assert_eq!(lean(hello.as_bytes()), Err(Unfit::LongHello));
        let hidden = hello.replace("initialize", "\\u0069nitialize");
        assert_eq!(lean(hidden.as_bytes()), Err(Unfit::LongHello));
        let values = format!("{{\"params\":[{}1]}}", "{},".repeat(100_000));
        assert!(matches!(lean(values.as_bytes()), Err(Unfit::Costly(_))));
        let dropped = format!("{{\"params\":{{\"_meta\":{{\"x\":{}}}}}}}", &values[10..values.len() - 1]);
        assert_eq!(*lean(dropped.as_bytes()).unwrap(), *br#"{"params":{"_meta":{}}}"#);
        let text = json!({"params": {"arguments": {"stdin": "x\n".repeat(1 << 20)}}}).to_string();
        assert!(matches!(lean(text.as_bytes()), Ok(Cow::Borrowed(_))));
    }
}
