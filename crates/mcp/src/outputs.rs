//! What commands of skills put out, as resources of the connection that ran them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rmcp::model::Resource;
use serde_json::Value;

use crate::uri;

/// How many outputs a connection keeps, and how many bytes; the oldest go first.
const MAX_OUTPUTS: usize = 256;
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What was put out so far.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    kept: Mutex<Kept>,
    /// Whether clients share it that may not know of each other's.
    is_of_many: bool,
}

#[derive(Debug, Default)]
struct Kept {
    runs: u64,
    outputs: VecDeque<Output>,
}

/// A file that a command wrote.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) resource: Resource,
    pub(crate) kept: Content,
}

/// Where its content is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Here.
    Text(String),
    /// In the store of artifacts.
    Artifact { name: String, version: u64 },
}

impl Outputs {
    /// For many clients: what one's commands put out has a name that no other guesses, and is in no list.
    #[cfg(feature = "http")]
    pub(crate) fn of_many() -> Self {
        Self { is_of_many: true, ..Self::default() }
    }

    /// Keeps the files in a report, and gives them as resources. None, when it is no report of a run.
    pub(crate) fn keep(&self, report: &Value) -> Vec<Resource> {
        let list = |name: &str| report[name].as_array().into_iter().flatten();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let run = kept.runs + 1;
        let (key, before) = if self.is_of_many {
            let Some(key) = random() else { return Vec::new() };
            (key.clone(), format!("{key}/"))
        } else {
            (run.to_string(), String::new())
        };
        let texts = list("output_files").filter_map(|file| {
            let (name, text) = (file["name"].as_str()?, file["content"].as_str()?);
            let mut resource = Resource::new(format!("run://{key}/{}", uri::escaped(name)), last(name));
            resource.size = Some(text.len() as u64);
            resource.mime_type = file["mime_type"].as_str().map(ToOwned::to_owned);
            if file["truncated"] == true {
                resource.description = Some("only the beginning was collected".to_owned());
            }
            Some(Output { resource, kept: Content::Text(text.to_owned()) })
        });
        let artifacts = list("artifact_files").filter_map(|file| {
            let (name, version) = (file["name"].as_str()?, file["version"].as_u64()?);
            let resource =
                Resource::new(format!("artifact://{before}{}@{version}", uri::escaped(name)), last(name));
            Some(Output { resource, kept: Content::Artifact { name: name.to_owned(), version } })
        });
        let new: Vec<Output> = texts.chain(artifacts).collect();
        if new.is_empty() {
            return Vec::new();
        }
        kept.runs = run;
        let resources = new.iter().map(|output| output.resource.clone()).collect();
        for output in new {
            kept.outputs.retain(|known| known.resource.uri != output.resource.uri);
            kept.outputs.push_back(output);
        }
        let mut bytes: usize = kept.outputs.iter().map(Output::bytes).sum();
        while kept.outputs.len() > MAX_OUTPUTS || bytes > MAX_BYTES {
            bytes -= kept.outputs.pop_front().map_or(0, |output| output.bytes());
        }
        resources
    }

    /// All that are kept, if all are one client's.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        if self.is_of_many {
            return Vec::new();
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.outputs.iter().map(|output| output.resource.clone()).collect()
    }

    /// The one at an address.
    pub(crate) fn get(&self, address: &str) -> Option<Output> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.outputs.iter().find(|output| output.resource.uri == address).cloned()
    }
}

impl Output {
    fn bytes(&self) -> usize {
        match &self.kept {
            Content::Text(text) => text.len(),
            Content::Artifact { .. } => 0,
        }
    }
}

/// What nobody guesses.
pub(crate) fn random() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outputs_are_kept_within_bounds() {
        let outputs = Outputs::default();
        assert!(outputs.keep(&json!({"docs": []})).is_empty());
        let file =
            json!({"name": "out/a b.txt", "content": "x", "mime_type": "text/plain", "truncated": false});
        let report = json!({"output_files": [file], "artifact_files": [{"name": "plot.png", "version": 3}]});
        let uris: Vec<String> = outputs.keep(&report).into_iter().map(|resource| resource.uri).collect();
        assert_eq!(uris, ["run://1/out/a%20b.txt", "artifact://plot.png@3"]);
        let large = json!({"name": "l", "content": "x".repeat(MAX_BYTES / 2)});
        for _ in 0..4 {
            outputs.keep(&json!({"output_files": [large]}));
        }
        assert!(outputs.get("run://1/out/a%20b.txt").is_none());
        assert_eq!(outputs.resources().len(), 2);
        for _ in 0..=MAX_OUTPUTS {
            outputs.keep(&json!({"output_files": [{"name": "s", "content": ""}]}));
        }
        assert_eq!(outputs.resources().len(), MAX_OUTPUTS);
    }
}
