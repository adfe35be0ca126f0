//! Writes a conversation as Markdown or JSON.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::message::Content;
use prowess_agent::{ThreadId, ThreadState};

use crate::terminal::{printable, printable_lines};

/// Writes a conversation to a new file, and returns its path.
pub(crate) fn export(id: &ThreadId, run: &ThreadState, file: Option<PathBuf>) -> Result<PathBuf> {
    let path = file.unwrap_or_else(|| PathBuf::from(format!("prowess-{id}.md")));
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let text = if is_json { serde_json::to_string_pretty(run.messages())? + "\n" } else { markdown(id, run) };
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut opened = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow!("{} already exists: choose another name", path.display())
        }
        _ => anyhow!(error).context(format!("{} cannot be written", path.display())),
    })?;
    let written = opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all());
    if written.is_err() {
        // An incomplete file is removed.
        let _ = std::fs::remove_file(&path);
    }
    written.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

/// The conversation as Markdown.
pub(crate) fn markdown(id: &ThreadId, run: &ThreadState) -> String {
    let mut text = format!("# Thread {id}\n");
    for message in run.messages() {
        match &message.content {
            Content::User { .. } if message.is_by_person() => section(&mut text, "You", &message.text()),
            Content::User { .. } => section(&mut text, "For the model", &message.text()),
            Content::Assistant { .. } => {
                let said = message.text();
                if !said.is_empty() {
                    section(&mut text, "Model", &said);
                }
                for call in message.tool_calls() {
                    section(
                        &mut text,
                        &format!("Tool call: `{}`", printable(&call.name)),
                        &fenced(&call.arguments),
                    );
                }
            }
            Content::Tool(result) => {
                let heading = if result.is_error { "Tool error" } else { "Tool answer" };
                section(&mut text, heading, &fenced(&result.text));
            }
        }
    }
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    text.push_str(&format!("\n## {heading}\n\n{}\n", printable_lines(body).trim_end()));
}

/// A text as a code block that it cannot close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
