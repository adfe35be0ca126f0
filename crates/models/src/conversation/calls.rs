//! Ids, names and arguments of tool calls, as every provider accepts them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use prowess_agent::{ToolCall, ToolResult};
use serde_json::{Value, json};

use super::ProviderRules;

/// The longest name of a tool that every provider accepts.
const MAX_TOOL_NAME: usize = 64;

/// Gives each call an id that is unique in the whole conversation.
pub(super) struct CallIds<'a> {
    rules: ProviderRules,
    used: BTreeSet<String>,
    /// The ids of the calls in the last response.
    current: BTreeMap<&'a str, String>,
}

impl<'a> CallIds<'a> {
    pub(super) fn new(rules: ProviderRules) -> Self {
        Self { rules, used: BTreeSet::new(), current: BTreeMap::new() }
    }

    pub(super) fn forget_calls(&mut self) {
        self.current.clear();
    }

    pub(super) fn of_call(&mut self, call: &'a ToolCall) -> String {
        let wanted = (self.rules.call_id)(call.id.as_str());
        let with_end = |end: &str| {
            let room = self.rules.longest_call_id.saturating_sub(end.len());
            wanted.chars().take(room).chain(end.chars()).collect::<String>()
        };
        let mut id = with_end("");
        let mut number = 2;
        while id.is_empty() || !self.used.insert(id.clone()) {
            id = with_end(&format!("_{number}"));
            number += 1;
        }
        self.current.insert(call.id.as_str(), id.clone());
        id
    }

    pub(super) fn of_answer(&mut self, result: &ToolResult) -> Option<String> {
        self.current.remove(result.call.as_str())
    }
}

/// A tool's name as every provider accepts it, even if the model made it up.
pub(super) fn tool_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().take(MAX_TOOL_NAME).map(allowed).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// The arguments of a call as an object, even if the model wrote something else.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    call.parsed().unwrap_or_else(|_| json!({"invalid_arguments": call.arguments}))
}

/// The arguments of a call as the text of an object: as the model wrote them, if that is an object.
pub(crate) fn arguments_text(call: &ToolCall) -> Cow<'_, str> {
    let is_object = call.arguments.trim_start().starts_with('{') && call.parsed().is_ok();
    if is_object { call.arguments.as_str().into() } else { arguments(call).to_string().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_tool_names_can_be_sent_back() {
        assert_eq!(tool_name("functions.ls:0"), "functions_ls_0");
        assert_eq!(tool_name(""), "unknown");
        assert_eq!(tool_name(&"ä".repeat(100)), "_".repeat(64));
    }

    #[test]
    fn arguments_are_objects_whatever_the_model_wrote() {
        let written = |arguments: &str| {
            let call = ToolCall { id: "a".into(), name: "ls".to_owned(), arguments: arguments.to_owned() };
            arguments_text(&call).into_owned()
        };
        assert_eq!(written("{\"b\": 1, \"a\": 2}"), "{\"b\": 1, \"a\": 2}");
        assert_eq!(written(""), "{}");
        assert_eq!(written("null"), "{}");
        assert_eq!(written("{oops"), "{\"invalid_arguments\":\"{oops\"}");
    }
}
