//! The outputs of runs, as MCP resources of the client that started them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use prowess_base::hex;
use rmcp::model::Resource;
use serde_json::Value;

use crate::uri;

/// How many outputs the server keeps for a client, and how many bytes. It drops the oldest first.
const MAX_OUTPUTS: usize = 256;
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The names of the two lists of files in the report of a run.
const TEXTS: &str = "output_files";
const ARTIFACTS: &str = "artifact_files";

/// The outputs so far.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    list: Mutex<OutputList>,
    /// Whether clients share it that must not see each other's outputs.
    is_shared: bool,
}

/// The outputs that the server keeps, oldest first, and the number of runs so far.
#[derive(Debug, Default)]
struct OutputList {
    runs: u64,
    outputs: VecDeque<Output>,
}

/// A file that a run wrote.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) resource: Resource,
    pub(crate) content: OutputContent,
}

/// Where the content of an output is.
#[derive(Clone, Debug)]
pub(crate) enum OutputContent {
    /// In memory.
    Text(String),
    /// In the store of artifacts, in this scope.
    Artifact { scope: Option<OutputScope>, name: String, version: u64 },
}

/// The scope in which a run saves its artifacts.
#[cfg(feature = "run")]
pub(crate) type OutputScope = prowess_workspace::Scope;
/// Without runs there is no scope.
#[cfg(not(feature = "run"))]
pub(crate) type OutputScope = std::convert::Infallible;

/// The unguessable key of a scope, if it has one.
#[cfg(feature = "run")]
fn key_of(scope: &OutputScope) -> Option<&str> {
    scope.session_id()
}

#[cfg(not(feature = "run"))]
fn key_of(scope: &OutputScope) -> Option<&str> {
    match *scope {}
}

impl Outputs {
    /// Outputs that many clients share: each has an unguessable name, and no list contains it.
    #[cfg(feature = "http")]
    pub(crate) fn shared() -> Self {
        Self { is_shared: true, ..Self::default() }
    }

    /// Keeps the files in the report of a run that saves artifacts in `scope`, and adds their addresses to the report.
    /// Returns them as resources; none if the value is not the report of a run.
    pub(crate) fn keep(&self, report: &mut Value, scope: Option<&OutputScope>) -> Vec<Resource> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let run = list.runs + 1;
        let (key, before) = if self.is_shared {
            // With the key of its scope, a later request can also use an artifact as an input.
            let key = scope.and_then(key_of).map(ToOwned::to_owned).or_else(random_id);
            let Some(key) = key else { return Vec::new() };
            (key.clone(), format!("{key}/"))
        } else {
            (run.to_string(), String::new())
        };
        let mut new: Vec<Output> = Vec::new();
        for file in files(report, TEXTS) {
            let (Some(name), Some(text)) = (file["name"].as_str(), file["content"].as_str()) else {
                continue;
            };
            let mut resource = Resource::new(format!("run://{key}/{}", uri::escaped(name)), file_name(name));
            resource.size = Some(text.len() as u64);
            resource.mime_type = file["mime_type"].as_str().map(ToOwned::to_owned);
            if file["truncated"] == true {
                resource.description = Some("only the beginning was collected".to_owned());
            }
            let text = text.to_owned();
            file["uri"] = resource.uri.clone().into();
            new.push(Output { resource, content: OutputContent::Text(text) });
        }
        for file in files(report, ARTIFACTS) {
            let (Some(name), Some(version)) = (file["name"].as_str(), file["version"].as_u64()) else {
                continue;
            };
            let name = name.to_owned();
            let resource = Resource::new(
                format!("artifact://{before}{}@{version}", uri::escaped(&name)),
                file_name(&name),
            );
            file["uri"] = resource.uri.clone().into();
            new.push(Output {
                resource,
                content: OutputContent::Artifact { scope: scope.map(ToOwned::to_owned), name, version },
            });
        }
        if new.is_empty() {
            return Vec::new();
        }
        list.runs = run;
        let resources = new.iter().map(|output| output.resource.clone()).collect();
        for output in new {
            list.outputs.retain(|known| known.resource.uri != output.resource.uri);
            list.outputs.push_back(output);
        }
        let mut bytes: usize = list.outputs.iter().map(Output::bytes).sum();
        while list.outputs.len() > MAX_OUTPUTS || bytes > MAX_BYTES {
            bytes -= list.outputs.pop_front().map_or(0, |output| output.bytes());
        }
        resources
    }

    /// All outputs, unless clients share them.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        if self.is_shared {
            return Vec::new();
        }
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.outputs.iter().map(|output| output.resource.clone()).collect()
    }

    /// The output at an address.
    pub(crate) fn get(&self, address: &str) -> Option<Output> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.outputs.iter().find(|output| output.resource.uri == address).cloned()
    }
}

impl Output {
    fn bytes(&self) -> usize {
        match &self.content {
            OutputContent::Text(text) => text.len(),
            OutputContent::Artifact { .. } => 0,
        }
    }
}

fn files<'a>(report: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    report.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// An unguessable id.
pub(crate) fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(&bytes))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outputs_are_kept_within_bounds() {
        let outputs = Outputs::default();
        let keep = |mut report: Value| outputs.keep(&mut report, None);
        assert!(keep(json!({"docs": []})).is_empty());
        let file =
            json!({"name": "out/a b.txt", "content": "x", "mime_type": "text/plain", "truncated": false});
        let report = json!({"output_files": [file], "artifact_files": [{"name": "plot.png", "version": 3}]});
        let uris: Vec<String> = keep(report).into_iter().map(|resource| resource.uri).collect();
        assert_eq!(uris, ["run://1/out/a%20b.txt", "artifact://plot.png@3"]);
        let large = json!({"name": "l", "content": "x".repeat(MAX_BYTES / 2)});
        for _ in 0..4 {
            keep(json!({"output_files": [large]}));
        }
        assert!(outputs.get("run://1/out/a%20b.txt").is_none());
        assert_eq!(outputs.resources().len(), 2);
        for _ in 0..=MAX_OUTPUTS {
            keep(json!({"output_files": [{"name": "s", "content": ""}]}));
        }
        assert_eq!(outputs.resources().len(), MAX_OUTPUTS);
    }

    #[cfg(feature = "run")]
    #[test]
    fn reports_say_where_outputs_are() {
        let content = "x".repeat(2 * prowess_skills::run::MAX_SHOWN_FILES);
        let mut report = json!({"output_files": [{"name": "a", "content": content}], "artifact_files": []});
        Outputs::default().keep(&mut report, None);
        assert_eq!(report["output_files"][0]["uri"], "run://1/a");
        let shown: Value = serde_json::from_str(&prowess_skills::run::report_text(report)).unwrap();
        let file = &shown["output_files"][0];
        assert_eq!(
            (&file["name"], &file["uri"], &file["truncated"]),
            (&json!("a"), &json!("run://1/a"), &json!(true))
        );
        assert!(file["content"].as_str().is_some_and(|shown| shown.len() < content.len()));
    }
}
