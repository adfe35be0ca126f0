//! Check results as JSON: one object per skill.

use prowess_catalog::Code;
use prowess_catalog::check::CheckReport;
use prowess_catalog::diagnostic::CodeClass;
use prowess_catalog::yaml::Value;
use serde_json::{Map, Value as Json, json};

use super::severity;

/// The report as an object. `diagnostics` has the codes that break the rules, `advice` the other codes, and
/// `findings` everything with its place.
pub(crate) fn object(report: &CheckReport) -> Json {
    let skill = report.skill.as_ref();
    let texts = |codes: Vec<Code>| codes.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    let mut breaches = report.codes(CodeClass::Breach);
    breaches.extend(report.codes(CodeClass::Discovery).into_iter().filter(|code| code.fails_strict()));
    let metadata: Option<Map<String, Json>> =
        skill.map(|skill| skill.metadata.iter().map(|(key, value)| (key.clone(), json(value))).collect());
    let findings: Vec<Json> = report
        .diagnostics
        .iter()
        .map(|found| {
            json!({
                "code": found.code, "severity": severity(report, found), "message": found.message, "hint": found.hint,
                "file": found.file, "line": found.span.as_ref().map(|span| span.line),
                "column": found.span.as_ref().map(|span| span.column), "fixable": found.fix.is_some(),
            })
        })
        .collect();
    json!({
        "id": report.id,
        "valid_strict": report.is_valid(),
        "loads_lenient": skill.is_some(),
        "name": skill.map(|skill| skill.name.as_str()),
        "description": skill.map(|skill| skill.description.as_str()),
        "diagnostics": texts(breaches),
        "advice": texts(report.codes(CodeClass::Advice)),
        "allowed_tools": skill.map(|skill| &skill.allowed_tools),
        "metadata": metadata,
        "model_visible": skill.is_some_and(prowess_catalog::Skill::is_model_invocable),
        "findings": findings,
    })
}

fn json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}
