//! The tools that a server has.

use std::collections::HashSet;
use std::time::Instant;

use prowess_catalog::Digest;
use prowess_catalog::untrusted::{is_unprintable, one_line};
use prowess_permission::quote_name;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject, ListToolsRequest,
    PaginatedRequestParams, ServerResult,
};
use serde_json::Value;

use super::error::ServerError;
use super::label::ServerLabel;
use super::server::Server;
use super::shown::{cut, shown};

const LIST: &str = "tools/list";
const CALL: &str = "tools/call";
/// The longest name that providers take.
const MAX_NAME: usize = 64;
/// How much of a description a model reads, in characters.
const MAX_DESCRIPTION: usize = 1024;
/// The longest schema of arguments, in bytes of JSON.
const MAX_SCHEMA: usize = 16 * 1024;
/// The longest cursor that is handed back.
const MAX_CURSOR: usize = 4096;
/// The longest name of a server's, in bytes.
const MAX_THEIR_NAME: usize = 256;

/// A tool of a server, as it may be offered to a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerTool {
    /// What a model calls it: our label for the server, and what of its name providers take. No other tool has it.
    pub name: String,
    /// What the server calls it.
    pub their_name: String,
    /// What the server says that it does, on one line.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
}

impl ServerTool {
    /// The digest of all that the server says of it. An approval is bound to it: a tool that is described otherwise is
    /// another one.
    pub fn digest(&self) -> Digest {
        let Self { their_name, description, parameters, .. } = self;
        Digest::of(serde_json::json!([their_name, description, parameters]).to_string().as_bytes())
    }
}

/// The tools of a server, and what cannot be offered.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ToolList {
    /// The tools, in the server's order.
    pub tools: Vec<ServerTool>,
    /// What is left out, and why.
    pub left_out: Vec<String>,
}

impl ToolList {
    fn stop(&mut self, why: &str) {
        self.left_out.push(format!("the list is not read on: {why}"));
    }
}

impl Server {
    /// Its tools. A server without any is asked for none.
    ///
    /// # Errors
    ///
    /// It does not answer, or not with a list. When that happens after the first page, what there is is given, and
    /// [`ToolList::left_out`] tells.
    pub async fn tools(&self) -> Result<ToolList, ServerError> {
        let mut list = ToolList::default();
        if !self.has_tools() {
            return Ok(list);
        }
        let (limits, begun) = (*self.limits(), Instant::now());
        let (mut names, mut cursors) = (HashSet::new(), HashSet::new());
        let (mut entries, mut bytes) = (0_usize, 0_usize);
        let mut cursor: Option<String> = None;
        for page in 0_usize.. {
            if page == limits.pages {
                list.stop(&format!("it has more than {page} pages"));
                break;
            }
            if begun.elapsed() > limits.list {
                list.stop(&format!("it takes longer than {} seconds", limits.list.as_secs_f64()));
                break;
            }
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
            let request = ClientRequest::ListToolsRequest(request);
            let result = match self.request(LIST, request, limits.answer).await {
                Ok(ServerResult::ListToolsResult(result)) => result,
                Ok(_) if page == 0 => return Err(self.odd(LIST, "it has no list of tools")),
                Err(error) if page == 0 => return Err(error),
                Ok(_) => {
                    list.stop("a page has no list of tools");
                    break;
                }
                Err(error) => {
                    list.stop(&error.to_string());
                    break;
                }
            };
            for tool in result.tools {
                entries += 1;
                bytes =
                    bytes.saturating_add(serde_json::to_string(&tool).map_or(usize::MAX, |tool| tool.len()));
                if entries > limits.tools || bytes > limits.list_bytes {
                    list.stop(&format!("it has more than {} tools, or very long ones", limits.tools));
                    return Ok(list);
                }
                let description = tool.description.unwrap_or_default();
                match offered(self.label(), &tool.name, &description, &tool.input_schema) {
                    Ok(tool) if names.insert(tool.name.clone()) => list.tools.push(tool),
                    Ok(tool) => {
                        list.left_out.push(format!("{}: there is one of its name", quote_name(&tool.name)))
                    }
                    Err(why) => list.left_out.push(format!("{}: {why}", quote_name(&shown(&tool.name)))),
                }
            }
            cursor = match result.next_cursor {
                None => break,
                Some(next) if next.len() > MAX_CURSOR => {
                    list.stop("the cursor of its next page is none");
                    break;
                }
                Some(next) => Some(next),
            };
            if !cursors.insert(cursor.clone()) {
                list.stop("a page comes again");
                break;
            }
        }
        Ok(list)
    }

    /// Calls a tool, by the name that the server has for it. The server is told when nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// It does not answer in time, refuses, or wants something first that we do not offer.
    pub async fn call_tool(&self, name: &str, arguments: JsonObject) -> Result<CallToolResult, ServerError> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.request(CALL, request, self.limits().tool).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            ServerResult::InputRequiredResult(_) => {
                Err(self.odd(CALL, "it asks for input, which is not offered"))
            }
            ServerResult::CreateTaskResult(_) => {
                Err(self.odd(CALL, "it makes a task of it, which is not offered"))
            }
            _ => Err(self.odd(CALL, "it is an answer to something else")),
        }
    }
}

fn offered(
    server: &ServerLabel,
    their_name: &str,
    description: &str,
    schema: &JsonObject,
) -> Result<ServerTool, String> {
    if their_name.is_empty() || their_name.len() > MAX_THEIR_NAME || their_name.contains(is_unprintable) {
        return Err(format!("a name has 1 to {MAX_THEIR_NAME} bytes that can be seen"));
    }
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err("its arguments are no object".to_owned());
    }
    let mut parameters = Value::Object(schema.clone());
    clean(&mut parameters)?;
    if parameters.to_string().len() > MAX_SCHEMA {
        return Err(format!("the schema of its arguments has more than {MAX_SCHEMA} bytes"));
    }
    let description = cut(&one_line(description), MAX_DESCRIPTION);
    Ok(ServerTool {
        name: name(server, their_name),
        their_name: their_name.to_owned(),
        description,
        parameters,
    })
}

/// Takes out of a schema what cannot be seen, or turns the direction of what follows. Names stay as they are: one with
/// such characters would be another one without them.
fn clean(value: &mut Value) -> Result<(), String> {
    match value {
        Value::String(text) => text.retain(|c| matches!(c, '\n' | '\t') || !is_unprintable(c)),
        Value::Array(values) => values.iter_mut().try_for_each(clean)?,
        Value::Object(fields) => {
            for (name, value) in fields {
                if name.contains(is_unprintable) {
                    return Err("a name in the schema of its arguments cannot be seen".to_owned());
                }
                clean(value)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// A name that providers take. One that had to be changed has a mark in it that no other name of the server has.
fn name(server: &ServerLabel, their_name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = their_name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let name = format!("{server}__{plain}");
    if plain == their_name && name.len() <= MAX_NAME {
        return name;
    }
    let digest = Digest::of(their_name.as_bytes()).to_string();
    let mark = format!("_{}", &digest["sha256:".len()..][..8]);
    format!("{}{mark}", &name[..name.len().min(MAX_NAME - mark.len())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(label: &str, their_name: &str) -> String {
        name(&label.parse().unwrap(), their_name)
    }

    fn offer(their_name: &str, schema: &Value) -> Result<ServerTool, String> {
        offered(&"docs".parse().unwrap(), their_name, "Does\n\u{202e}it.", schema.as_object().unwrap())
    }

    #[test]
    fn names_are_those_that_providers_take() {
        assert_eq!(named("docs", "search"), "docs__search");
        assert_eq!(named("docs", "get-page_2"), "docs__get-page_2");
        let odd: Vec<String> =
            ["a b", "a/b", "a.b", "ä", "a_b"].iter().map(|odd| named("docs", odd)).collect();
        let different: HashSet<&String> = odd.iter().collect();
        assert_eq!(different.len(), odd.len(), "{odd:?}");
        let longest = "l".repeat(32);
        for (one, other) in [("n".repeat(200), "n".repeat(201)), ("é".repeat(40), "è".repeat(40))] {
            let names = [named(&longest, &one), named(&longest, &other)];
            assert_ne!(names[0], names[1]);
            for name in names {
                assert!(name.len() <= MAX_NAME && name.is_ascii(), "{name}");
            }
        }
    }

    #[test]
    fn what_cannot_be_offered_says_why() {
        let fine = json!({"type": "object"});
        assert_eq!(offer("x", &fine).unwrap().description, "Does it.");
        assert_eq!(offer("x", &json!({})).unwrap_err(), "its arguments are no object");
        assert_eq!(offer("x", &json!({"type": "string"})).unwrap_err(), "its arguments are no object");
        let wide = json!({"type": "object", "filler": "x".repeat(MAX_SCHEMA)});
        assert!(offer("x", &wide).unwrap_err().contains("more than 16384 bytes"));
        for name in ["", "a\nb", "\u{202e}", &"x".repeat(257)] {
            assert!(offer(name, &fine).unwrap_err().contains("1 to 256"), "{name}");
        }
        let hidden = json!({"type": "object", "properties": {"a": {
            "description": "One\n\u{202e}two\u{200b}.\u{e0041}", "enum": ["x\u{1b}[2J", 1, null],
        }}});
        let seen = json!({"description": "One\ntwo.", "enum": ["x[2J", 1, null]});
        assert_eq!(offer("x", &hidden).unwrap().parameters["properties"]["a"], seen);
        let odd = json!({"type": "object", "properties": {"a\u{202e}": {}}});
        assert!(offer("x", &odd).unwrap_err().contains("cannot be seen"));
        let other = ServerTool { description: "Does more.".to_owned(), ..offer("x", &fine).unwrap() };
        assert_ne!(other.digest(), offer("x", &fine).unwrap().digest());
    }
}
