//! Questions that version 1 stored: JSON values that contain the text for a person.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Question;
use crate::{Action, Fingerprint, Kind, Pattern, RealPath};

/// The part of such a value that describes the question, if prowess itself asked it.
#[derive(Deserialize)]
struct StoredRequest {
    kind: Kind,
    patterns: Vec<String>,
    always: Vec<Pattern>,
    binding: Option<String>,
    title: String,
    details: Value,
    #[serde(default)]
    each_time: bool,
    #[serde(default)]
    place: Option<RealPath>,
}

/// The question in a value of version 1. It shows everything in the value, and offers no more than the value did.
pub(super) fn question(value: &Value) -> Question {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let request = value.get("request").and_then(|request| StoredRequest::deserialize(request).ok());
    if let Some(StoredRequest { kind, patterns, always, binding, title, details, each_time, place }) = request
    {
        let title = text("title").unwrap_or(title);
        let mut question = Question { always, binding, each_time, file: place, ..Question::new(kind, "") };
        question.subjects = patterns;
        let fingerprint = Fingerprint::of_parts(&question, question.binding.as_deref(), &details);
        question.stored_fingerprint = Some(fingerprint);
        let mut details = details_of(&details);
        // The person sees every subject, even if the title leaves it out.
        let unsaid: Vec<&str> =
            question.subjects.iter().map(String::as_str).filter(|subject| !title.contains(subject)).collect();
        if !unsaid.is_empty() {
            details.insert("about".to_owned(), unsaid.join("\n"));
        }
        return question.action(Action::Other { title, details });
    }
    if let Some(tool) = text("tool") {
        let arguments = text("arguments").unwrap_or_default();
        let question = Question::new(Kind::TOOL, tool.clone());
        // The title of a sub-agent's question names the sub-agent.
        let title = text("title").filter(|_| value.get("sub_agent").is_some());
        let details = BTreeMap::from([("arguments".to_owned(), arguments.clone())]);
        return question.action(match title {
            Some(title) => Action::Other { title, details },
            None => Action::CallTool { tool, arguments },
        });
    }
    let title = text("title").unwrap_or_else(|| "go on?".to_owned());
    let mut details = value.clone();
    if let Some(details) = details.as_object_mut() {
        details.retain(|name, _| !matches!(name.as_str(), "title" | "sub_agent" | "allowed"));
    }
    let question = Question::new(Kind::TOOL, title.clone()).always([]);
    question.action(Action::Other { title, details: details_of(&details) })
}

fn details_of(details: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_said = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    match details {
        Value::Object(fields) => {
            let said = fields.iter().filter(|(_, value)| is_said(value));
            said.map(|(name, value)| (name.clone(), text(value))).collect()
        }
        other if is_said(other) => BTreeMap::from([("about".to_owned(), text(other))]),
        _ => BTreeMap::new(),
    }
}
