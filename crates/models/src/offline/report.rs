//! Reports a run to a person.

use prowess_agent::json::MODEL_JSON;
use prowess_agent::{ToolCall, ToolResult};
use serde_json::Value;

/// How many files are shown, and how much of each, in characters.
const MAX_FILES: usize = 5;
const MAX_CONTENT: usize = 2_000;

/// The report of a run.
pub(super) fn report(call: &ToolCall, result: Option<&ToolResult>) -> String {
    let arguments = call.parsed().unwrap_or_default();
    let text = |key: &str| arguments[key].as_str().unwrap_or_default();
    let report = result.map(|result| &result.text).filter(|text| MODEL_JSON.check(text.as_bytes()).is_ok());
    let report: Value = report.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let code = report["exit_code"].as_i64().filter(|_| result.is_some_and(|result| !result.is_error));
    let did = if result.is_some() && code.is_none() { "would have run" } else { "ran" };
    let mut said = format!(
        "I loaded the skill `{}` and {did} its first example:\n\n{}\n\n",
        text("skill"),
        fenced(text("command"))
    );
    let Some(result) = result else {
        said.push_str("The result is unknown.");
        return said;
    };
    let Some(code) = code else {
        said.push_str(&format!("It did not run:\n\n{}", fenced(&result.text)));
        return said;
    };
    said.push_str(&match report["timed_out"].as_bool() {
        Some(true) => "It took too long and was ended.".to_owned(),
        _ => format!("It ended with exit code {code}."),
    });
    for (stream, title) in [("stdout", "It wrote"), ("stderr", "It wrote to standard error")] {
        if let Some(output) = report[stream].as_str().filter(|output| !output.trim().is_empty()) {
            said.push_str(&format!("\n\n{title}:\n\n{}", fenced(output)));
        }
    }
    for file in report["output_files"].as_array().into_iter().flatten().take(MAX_FILES) {
        let name = file["name"].as_str().unwrap_or_default();
        match file["content"].as_str() {
            Some(content) => {
                let content = shortened(content);
                said.push_str(&format!("\n\nThere is the file `{name}`:\n\n{}", fenced(&content)));
            }
            None => said.push_str(&format!("\n\nThere is the file `{name}`.")),
        }
    }
    said
}

/// The beginning of a text, with a mark if it was cut.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CONTENT).collect();
    if shown.len() < text.len() {
        shown.push_str("\n…");
    }
    shown
}

/// The text as a block of code. The fence is longer than any in the text.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_closes_its_fence() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced("```\na\n```"), "````\n```\na\n```\n````");
    }
}
