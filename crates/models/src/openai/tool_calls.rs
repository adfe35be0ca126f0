//! Tool calls that arrive in fragments, even if a server leaves out ids or numbers.

use std::collections::VecDeque;

use prowess_agent::ModelDelta;
use serde_json::Value;

use crate::http::{Failure, MAX_CALLS};

/// The tool calls of one response.
#[derive(Debug, Default)]
pub(super) struct CallFragments(Vec<PartialCall>);

/// A call of which fragments have arrived.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Nesting,
}

impl PartialCall {
    /// Whether a fragment with this name and without an id continues this call. Some servers repeat the name in every
    /// fragment.
    fn continues_with(&self, name: &str) -> bool {
        name.is_empty() || self.name.is_empty() || (self.name == name && !self.arguments.is_complete())
    }
}

/// How deep the text of a JSON object is nested so far.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    has_begun: bool,
    in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn add(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = self.in_text,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => (self.depth, self.has_begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether all brackets are closed.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_text
    }
}

impl CallFragments {
    /// Adds a fragment.
    pub(super) fn add(&mut self, fragment: &Value, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let function = &fragment["function"];
        let (id, name) = (text(&fragment["id"]), text(&function["name"]));
        let number = self.number(fragment["index"].as_u64(), &id, &name);
        let call = self.0.get_mut(number).ok_or_else(Failure::too_many_calls)?;
        let is_news = (call.id.is_empty() && !id.is_empty()) || (call.name.is_empty() && !name.is_empty());
        if is_news {
            deltas.push_back(ModelDelta::ToolCall { index: number, id: id.clone(), name: name.clone() });
        }
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        let piece = match &function["arguments"] {
            Value::String(piece) => piece.clone(),
            // Some servers send an object instead of its text.
            whole @ Value::Object(_) => whole.to_string(),
            _ => String::new(),
        };
        if !piece.is_empty() {
            call.arguments.add(&piece);
            deltas.push_back(ModelDelta::Arguments { index: number, piece });
        }
        Ok(())
    }

    /// The number of the call that a fragment belongs to. If it belongs to none, this starts a new call, up to the limit.
    fn number(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let is_other = |call: &PartialCall| match (id, call.id.as_str()) {
            (_, "") => !call.continues_with(name),
            ("", _) => false,
            (id, known) => id != known,
        };
        let found = match index {
            // Some servers give every call the number 0, and only the ids or the names differ. A fragment continues the last
            // call with its number.
            Some(_) if id.is_empty() => {
                let last = self.0.iter().rposition(|call| call.index == index);
                last.filter(|last| !is_other(&self.0[*last]))
            }
            Some(_) => self.0.iter().rposition(|call| call.index == index && !is_other(call)),
            None if !id.is_empty() => self.0.iter().rposition(|call| call.id == id),
            // Without number and id, a name starts a call, unless the server repeats it in every fragment.
            None => self.0.len().checked_sub(1).filter(|last| self.0[*last].continues_with(name)),
        };
        found.unwrap_or_else(|| {
            let number = self.0.len();
            if number < MAX_CALLS {
                self.0.push(PartialCall { index, ..PartialCall::default() });
            }
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use prowess_agent::model::ResponseAssembly;
    use serde_json::json;

    use super::*;

    /// The calls that fragments come to: name, tool and arguments of each.
    fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
        let (mut calls, mut deltas) = (CallFragments::default(), VecDeque::new());
        fragments.iter().for_each(|fragment| calls.add(fragment, &mut deltas).unwrap());
        let mut assembly = ResponseAssembly::new("test");
        deltas.into_iter().for_each(|delta| assembly.push(delta));
        let message = assembly.finish().message;
        message
            .tool_calls()
            .map(|call| (call.id.to_string(), call.name.clone(), call.arguments.clone()))
            .collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn fragments_as_the_format_defines_them() {
        let fragments = [
            json!({"index": 0, "id": "a", "function": {"name": "ls", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"x\""}}),
            json!({"index": 1, "id": "b", "function": {"name": "cat", "arguments": "{}"}}),
            json!({"index": 0, "function": {"arguments": ":1}"}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "ls", "{\"x\":1}"), call("b", "cat", "{}")]);
    }

    #[test]
    fn id_and_name_in_every_fragment() {
        let piece = |arguments: &str| json!({"index": 0, "id": "a", "function": {"name": "ls", "arguments": arguments}});
        assert_eq!(calls(&[piece("{"), piece("}")]), [call("a", "ls", "{}")]);
        let empty = json!({"index": 0, "id": "", "function": {"name": null, "arguments": "}"}});
        assert_eq!(calls(&[piece("{"), empty]), [call("a", "ls", "{}")]);
    }

    #[test]
    fn every_call_numbered_zero() {
        let whole = |id: &str| json!({"index": 0, "id": id, "function": {"name": "ls", "arguments": "{}"}});
        assert_eq!(calls(&[whole("a"), whole("b")]), [call("a", "ls", "{}"), call("b", "ls", "{}")]);
    }

    #[test]
    fn every_call_numbered_zero_and_without_ids() {
        let piece = |name: &str, arguments: &str| json!({"index": 0, "function": {"name": name, "arguments": arguments}});
        let all =
            calls(&[piece("ls", "{}"), piece("cat", "{\"x\":"), piece("cat", "\"}\"}"), piece("cat", "{}")]);
        let expected =
            [call("call_0", "ls", "{}"), call("call_1", "cat", "{\"x\":\"}\"}"), call("call_2", "cat", "{}")];
        assert_eq!(all, expected);
        // One that is told in the usual way is one, whatever its arguments are.
        let bare = json!({"index": 0, "function": {"arguments": "{}"}});
        assert_eq!(calls(&[piece("ls", ""), bare.clone(), bare]), [call("call_0", "ls", "{}{}")]);
    }

    #[test]
    fn a_response_has_a_limit_of_calls() {
        let (mut calls, mut deltas) = (CallFragments::default(), VecDeque::new());
        let call = |number: usize| json!({"index": number, "function": {"name": "ls", "arguments": "{}"}});
        for number in 0..MAX_CALLS {
            calls.add(&call(number), &mut deltas).unwrap();
        }
        let refused = calls.add(&call(MAX_CALLS), &mut deltas).unwrap_err();
        assert!(refused.message.contains("128 calls") && !refused.is_passing, "{refused:?}");
        assert_eq!(calls.0.len(), MAX_CALLS);
    }

    #[test]
    fn arguments_in_many_pieces_are_read_once() {
        let mut nesting = Nesting::default();
        for piece in ["{\"a\": \"\\", "\"}", "\", \"b\": [{", "}]"] {
            nesting.add(piece);
            assert!(!nesting.is_complete(), "{piece}");
        }
        nesting.add("} ");
        assert!(nesting.is_complete());
    }

    #[test]
    fn calls_without_numbers() {
        let fragments = [
            json!({"id": "a", "function": {"name": "ls", "arguments": "{"}}),
            json!({"function": {"arguments": "}"}}),
            json!({"id": "b", "function": {"name": "ls", "arguments": {"x": 1}}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "ls", "{}"), call("b", "ls", "{\"x\":1}")]);
    }

    #[test]
    fn calls_without_numbers_and_ids() {
        let piece = |arguments: &str| json!({"function": {"name": "ls", "arguments": arguments}});
        let all = calls(&[piece("{\"x\":"), piece("1}"), piece("{}")]);
        assert_eq!(all, [call("call_0", "ls", "{\"x\":1}"), call("call_1", "ls", "{}")]);
    }

    #[test]
    fn nonsense_is_no_panic() {
        calls(&[json!(null), json!([]), json!({"index": -1}), json!({"index": 1e9, "function": 7})]);
    }
}
