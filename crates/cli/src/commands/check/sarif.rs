//! Check results as SARIF 2.1.0, for code scanning.

use std::collections::BTreeSet;

use prowess_catalog::check::CheckReport;
use prowess_catalog::{Code, Diagnostic, Severity};
use serde_json::{Value as Json, json};

use super::severity;

/// One log with one run for all reports.
pub(crate) fn log(reports: &[CheckReport]) -> Json {
    let codes: BTreeSet<Code> =
        reports.iter().flat_map(|report| &report.diagnostics).map(|found| found.code).collect();
    let rules: Vec<Json> = codes
        .iter()
        .map(|code| json!({ "id": code, "shortDescription": { "text": code.explanation() } }))
        .collect();
    let results: Vec<Json> = reports
        .iter()
        .flat_map(|report| report.diagnostics.iter().map(move |found| result(report, found)))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "prowess", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(report: &CheckReport, found: &Diagnostic) -> Json {
    let level = match severity(report, found) {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let hint = found.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let mut location = json!({ "artifactLocation": { "uri": uri(&found.file) } });
    if let Some(span) = &found.span {
        location["region"] = json!({ "startLine": span.line, "startColumn": span.column });
    }
    json!({
        "ruleId": found.code,
        "level": level,
        "message": { "text": format!("{}{hint}", found.message) },
        "locations": [{ "physicalLocation": location }],
    })
}

/// A path as a relative reference or a file URI.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.strip_prefix("./").unwrap_or(path).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte))
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("./a b/SKILL.md"), "a%20b/SKILL.md");
        assert_eq!(uri("/x/é"), "file:///x/%C3%A9");
    }
}
