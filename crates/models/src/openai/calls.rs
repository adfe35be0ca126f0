//! Tool calls in fragments, told apart whatever a server leaves out.

use std::collections::VecDeque;

use prowess_agent::ModelDelta;
use serde_json::Value;

use crate::http::{Failure, MAX_CALLS};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Known>);

/// What is known of a call.
#[derive(Debug, Default)]
struct Known {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Nesting,
}

impl Known {
    /// Whether a fragment without an id that tells a name goes on with this call: some servers tell it with every
    /// piece.
    fn goes_on_with(&self, name: &str) -> bool {
        name.is_empty() || self.name.is_empty() || (self.name == name && !self.arguments.is_whole())
    }
}

/// How far the text of an object has come, piece by piece.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    has_begun: bool,
    in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn take(&mut self, piece: &str) {
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

    /// Whether all that was opened is closed.
    fn is_whole(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_text
    }
}

impl Calls {
    /// Takes a fragment.
    pub(super) fn read(
        &mut self,
        fragment: &Value,
        deltas: &mut VecDeque<ModelDelta>,
    ) -> Result<(), Failure> {
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
            // Some servers send them as what they mean.
            whole @ Value::Object(_) => whole.to_string(),
            _ => String::new(),
        };
        if !piece.is_empty() {
            call.arguments.take(&piece);
            deltas.push_back(ModelDelta::Arguments { index: number, piece });
        }
        Ok(())
    }

    /// Which call a fragment is of; a new one, if there may be more, when it is of none that is known.
    fn number(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let is_other = |call: &Known| match (id, call.id.as_str()) {
            (_, "") => !call.goes_on_with(name),
            ("", _) => false,
            (id, known) => id != known,
        };
        let found = match index {
            // Some servers number every call 0, and tell them apart by their ids, or by nothing but their names. Of
            // those that have the same number, the last goes on.
            Some(_) if id.is_empty() => {
                let last = self.0.iter().rposition(|call| call.index == index);
                last.filter(|last| !is_other(&self.0[*last]))
            }
            Some(_) => self.0.iter().rposition(|call| call.index == index && !is_other(call)),
            None if !id.is_empty() => self.0.iter().rposition(|call| call.id == id),
            // With neither, a name begins a call unless it is told again with every piece of one.
            None => self.0.len().checked_sub(1).filter(|last| self.0[*last].goes_on_with(name)),
        };
        found.unwrap_or_else(|| {
            let number = self.0.len();
            if number < MAX_CALLS {
                self.0.push(Known { index, ..Known::default() });
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
        let (mut calls, mut deltas) = (Calls::default(), VecDeque::new());
        fragments.iter().for_each(|fragment| calls.read(fragment, &mut deltas).unwrap());
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
    fn as_the_format_has_it() {
        let fragments = [
            json!({"index": 0, "id": "a", "function": {"name": "ls", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"x\""}}),
            json!({"index": 1, "id": "b", "function": {"name": "cat", "arguments": "{}"}}),
            json!({"index": 0, "function": {"arguments": ":1}"}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "ls", "{\"x\":1}"), call("b", "cat", "{}")]);
    }

    #[test]
    fn id_and_name_told_again_with_every_piece() {
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
    fn an_answer_has_only_so_many_calls() {
        let (mut calls, mut deltas) = (Calls::default(), VecDeque::new());
        let call = |number: usize| json!({"index": number, "function": {"name": "ls", "arguments": "{}"}});
        for number in 0..MAX_CALLS {
            calls.read(&call(number), &mut deltas).unwrap();
        }
        let refused = calls.read(&call(MAX_CALLS), &mut deltas).unwrap_err();
        assert!(refused.message.contains("128 calls") && !refused.is_passing, "{refused:?}");
        assert_eq!(calls.0.len(), MAX_CALLS);
    }

    #[test]
    fn arguments_in_many_pieces_are_read_once() {
        let mut nesting = Nesting::default();
        for piece in ["{\"a\": \"\\", "\"}", "\", \"b\": [{", "}]"] {
            nesting.take(piece);
            assert!(!nesting.is_whole(), "{piece}");
        }
        nesting.take("} ");
        assert!(nesting.is_whole());
    }

    #[test]
    fn no_numbers() {
        let fragments = [
            json!({"id": "a", "function": {"name": "ls", "arguments": "{"}}),
            json!({"function": {"arguments": "}"}}),
            json!({"id": "b", "function": {"name": "ls", "arguments": {"x": 1}}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "ls", "{}"), call("b", "ls", "{\"x\":1}")]);
    }

    #[test]
    fn neither_numbers_nor_names_of_calls() {
        let piece = |arguments: &str| json!({"function": {"name": "ls", "arguments": arguments}});
        let all = calls(&[piece("{\"x\":"), piece("1}"), piece("{}")]);
        assert_eq!(all, [call("call_0", "ls", "{\"x\":1}"), call("call_1", "ls", "{}")]);
    }

    #[test]
    fn nonsense_is_no_panic() {
        calls(&[json!(null), json!([]), json!({"index": -1}), json!({"index": 1e9, "function": 7})]);
    }
}
