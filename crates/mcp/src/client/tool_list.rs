//! Lists and calls the tools of a server.

use std::collections::HashSet;
use std::time::Duration;

use prowess_base::text::cut;
use prowess_catalog::Digest;
use prowess_catalog::untrusted::{is_unprintable, one_line};
use prowess_permission::quote_name;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject, ListToolsRequest,
    ListToolsResult, PaginatedRequestParams, ServerResult,
};
use serde_json::Value;

use super::error::ServerError;
use super::label::ServerLabel;
use super::pages::Pages;
use super::server::Server;
use super::short_line::short_line;

const LIST: &str = "tools/list";
const CALL: &str = "tools/call";
/// The most tools of a server, by default.
pub(super) const DEFAULT_TOOLS: usize = 128;
/// The time for a tool call, by default.
pub(super) const DEFAULT_TOOL_TIME: Duration = Duration::from_secs(300);
/// The longest tool name that model providers accept.
const MAX_NAME: usize = 64;
/// How many characters of a description the model reads.
const MAX_DESCRIPTION: usize = 1024;
/// The most bytes of the schema of a tool's arguments, as JSON.
const MAX_SCHEMA: usize = 16 * 1024;
/// The most bytes of a server's name for a tool.
const MAX_THEIR_NAME: usize = 256;

/// A tool of a server that a model can call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerTool {
    /// The unique name for the model: the server's label, and the server's name without characters that providers refuse.
    pub name: String,
    /// The server's name for the tool.
    pub their_name: String,
    /// The server's description, on one line.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
}

impl ServerTool {
    /// The digest of the name, description and schema. An approval is bound to it, so it ends if the server changes any of
    /// them.
    pub fn digest(&self) -> Digest {
        let Self { their_name, description, parameters, .. } = self;
        Digest::of(serde_json::json!([their_name, description, parameters]).to_string().as_bytes())
    }
}

/// The tools of a server, and those that cannot be offered.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ToolList {
    /// The tools, in the server's order.
    pub tools: Vec<ServerTool>,
    /// The tools that are left out, and why.
    pub left_out: Vec<String>,
}

impl ToolList {
    fn stop(&mut self, why: &str) {
        self.left_out.push(format!("the list was not read to its end: {why}"));
    }
}

impl Server {
    /// Lists the tools of the server. Sends no request to a server that declared none.
    ///
    /// # Errors
    ///
    /// The server does not answer, or not with a list. If that happens after the first page, the result has the tools so
    /// far, and [`ToolList::left_out`] says why.
    pub async fn tools(&self) -> Result<ToolList, ServerError> {
        let mut list = ToolList::default();
        if !self.has_tools() {
            return Ok(list);
        }
        let max_tools = self.limits().tools;
        let mut pages = Pages::new(*self.limits());
        let (mut names, mut entries) = (HashSet::new(), 0_usize);
        while pages.has_next() {
            let cursor = match pages.begin() {
                Ok(cursor) => cursor,
                Err(why) => {
                    list.stop(&why);
                    break;
                }
            };
            let page = match self.tool_page(cursor).await {
                Ok(page) => page,
                Err(error) if pages.is_first() => return Err(error),
                Err(error) => {
                    list.stop(&error.to_string());
                    break;
                }
            };
            for tool in page.tools {
                entries += 1;
                let bytes = serde_json::to_string(&tool).map_or(usize::MAX, |tool| tool.len());
                if !pages.count(bytes) || entries > max_tools {
                    list.stop(&format!("it has more than {max_tools} tools, or very long ones"));
                    return Ok(list);
                }
                let description = tool.description.unwrap_or_default();
                match offered(self.label(), &tool.name, &description, &tool.input_schema) {
                    Ok(tool) if names.insert(tool.name.clone()) => list.tools.push(tool),
                    Ok(tool) => {
                        list.left_out.push(format!("{}: another tool has this name", quote_name(&tool.name)))
                    }
                    Err(why) => list.left_out.push(format!("{}: {why}", quote_name(&short_line(&tool.name)))),
                }
            }
            if let Err(why) = pages.end(page.next_cursor.into()) {
                list.stop(why);
            }
        }
        Ok(list)
    }

    /// Asks for one page of the list.
    async fn tool_page(&self, cursor: Option<String>) -> Result<ListToolsResult, ServerError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        match self.request(LIST, ClientRequest::ListToolsRequest(request), self.limits().answer).await? {
            ServerResult::ListToolsResult(result) => Ok(result),
            _ => Err(self.odd(LIST, "it has no list of tools")),
        }
    }

    /// Calls a tool by the server's name for it. Cancels the call at the server if this future is dropped.
    ///
    /// # Errors
    ///
    /// The server does not answer in time, refuses, or asks for something that this client does not offer.
    pub async fn call_tool(&self, name: &str, arguments: JsonObject) -> Result<CallToolResult, ServerError> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.request(CALL, request, self.limits().tool).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            ServerResult::InputRequiredResult(_) => {
                Err(self.odd(CALL, "it asks for input, which prowess does not support"))
            }
            ServerResult::CreateTaskResult(_) => {
                Err(self.odd(CALL, "it starts a task, which prowess does not support"))
            }
            _ => Err(self.odd(CALL, "it answers another request")),
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
        return Err(format!("its name must have 1 to {MAX_THEIR_NAME} bytes, all printable"));
    }
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err("its arguments are not an object".to_owned());
    }
    let mut parameters = Value::Object(schema.clone());
    clean(&mut parameters)?;
    if parameters.to_string().len() > MAX_SCHEMA {
        return Err(format!("the schema of its arguments has more than {MAX_SCHEMA} bytes"));
    }
    let description = cut(&one_line(description), MAX_DESCRIPTION).into_owned();
    Ok(ServerTool {
        name: name(server, their_name),
        their_name: their_name.to_owned(),
        description,
        parameters,
    })
}

/// Removes unprintable characters from the texts of a schema, including those that change the direction of text. Refuses them
/// in names: without them, a name would be another name.
fn clean(value: &mut Value) -> Result<(), String> {
    match value {
        Value::String(text) => text.retain(|c| matches!(c, '\n' | '\t') || !is_unprintable(c)),
        Value::Array(values) => values.iter_mut().try_for_each(clean)?,
        Value::Object(fields) => {
            for (name, value) in fields {
                if name.contains(is_unprintable) {
                    return Err("a name in the schema of its arguments has unprintable characters".to_owned());
                }
                clean(value)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// A name that model providers accept. A name that had to be changed gets a part of its digest, which makes it unique.
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
    fn names_are_unique_and_accepted_by_providers() {
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
    fn a_tool_that_cannot_be_offered_says_why() {
        let fine = json!({"type": "object"});
        assert_eq!(offer("x", &fine).unwrap().description, "Does it.");
        assert_eq!(offer("x", &json!({})).unwrap_err(), "its arguments are not an object");
        assert_eq!(offer("x", &json!({"type": "string"})).unwrap_err(), "its arguments are not an object");
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
        assert!(offer("x", &odd).unwrap_err().contains("unprintable characters"));
        let other = ServerTool { description: "Does more.".to_owned(), ..offer("x", &fine).unwrap() };
        assert_ne!(other.digest(), offer("x", &fine).unwrap().digest());
    }
}
