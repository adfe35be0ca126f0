//! What tools did, in a file that no kill takes back: a line when a call begins, and one when it is done.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use prowess_agent::model::ToolDefinition;
use prowess_agent::{Tool, ToolAnswer, ToolContext, ToolOutput};
use serde_json::{Value, json};

use super::moments::Moments;

/// A tool that writes down what it does. Only `look` may be called again when a call was cut off.
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    pub(super) moments: Moments,
}

impl Pen {
    async fn write(&self, what: &str, thread: &str, token: &str) {
        let (path, line) = (self.path.clone(), format!("{what} {thread} {token}\n"));
        let written = tokio::task::spawn_blocking(move || {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(line.as_bytes())?;
            file.sync_all()
        });
        written.await.unwrap().unwrap();
        self.moments.pass(&format!("{what} {token}")).await;
    }
}

#[async_trait]
impl Tool for Pen {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object", "properties": {"token": {"type": "string"}}});
        ToolDefinition::new(self.name, "Writes down what it does.", parameters).into()
    }

    fn is_idempotent(&self) -> bool {
        is_idempotent(self.name)
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        let token = arguments["token"].as_str().unwrap();
        self.write("begun", context.thread.as_str(), token).await;
        self.write("finished", context.thread.as_str(), token).await;
        ToolAnswer::text(format!("done {token}")).into()
    }
}

pub(super) fn is_idempotent(tool: &str) -> bool {
    tool == "look"
}

/// How often a call was begun, and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) begun: usize,
    pub(super) finished: usize,
}

/// What was done, by thread and token.
pub(super) type Ledger = BTreeMap<(String, String), Done>;

pub(super) fn read(path: &Path) -> Ledger {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut ledger = Ledger::new();
    for line in text.lines() {
        let [what, thread, token] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let done = ledger.entry((thread.to_owned(), token.to_owned())).or_default();
        match what {
            "begun" => done.begun += 1,
            "finished" => done.finished += 1,
            _ => panic!("{line:?}"),
        }
    }
    ledger
}
