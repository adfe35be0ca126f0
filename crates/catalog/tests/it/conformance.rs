//! Scores the conformance cases, diagnostic codes included, by the rules of their `check.py`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prowess_catalog::check::{CheckReport, Profile, check_directory};
use prowess_catalog::diagnostic::CodeClass;
use prowess_catalog::yaml::Value;
use serde_json::Value as Json;

fn cases() -> Vec<(String, PathBuf, Json)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases");
    let mut cases: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|case| {
            let case = case.unwrap();
            let expected: Json =
                serde_json::from_slice(&std::fs::read(case.path().join("expected.json")).unwrap()).unwrap();
            let directory = case.path().join(expected["skill_dir"].as_str().unwrap());
            (case.file_name().into_string().unwrap(), directory, expected)
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(value: &Value) -> Json {
    match value {
        Value::Text(text) => Json::String(text.clone()),
        Value::Null => Json::Null,
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}

/// Every difference between what is expected and what was reported.
fn differences(expected: &Json, report: &CheckReport) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, want: Json, have: Json| {
        if want != have {
            wrong.push(format!("{what}: want {want}, have {have}"));
        }
    };
    expect("valid_strict", expected["valid_strict"].clone(), report.is_valid().into());
    expect("loads_lenient", expected["loads_lenient"].clone(), report.skill.is_some().into());
    if let (Json::Bool(true), Some(skill)) = (&expected["loads_lenient"], &report.skill) {
        expect("name", expected["name"].clone(), skill.name.as_str().into());
        let description = expected["description"].as_str().map(collapse);
        expect("description", description.into(), collapse(&skill.description).into());
        if !expected["allowed_tools"].is_null() {
            expect("allowed_tools", expected["allowed_tools"].clone(), skill.allowed_tools.clone().into());
        }
        if !expected["metadata"].is_null() {
            let metadata = skill.metadata.iter().map(|(key, value)| (key.clone(), json(value))).collect();
            expect("metadata", expected["metadata"].clone(), metadata);
        }
        if !expected["model_visible"].is_null() {
            expect("model_visible", expected["model_visible"].clone(), skill.is_model_invocable().into());
        }
    }
    let set = |codes: &Json| -> BTreeSet<String> {
        codes.as_array().into_iter().flatten().map(|code| code.as_str().unwrap().to_owned()).collect()
    };
    let (required, optional) = (set(&expected["diagnostics"]), set(&expected["diagnostics_optional"]));
    let classes = [CodeClass::Breach, CodeClass::Advice, CodeClass::Discovery];
    let have: BTreeSet<String> =
        classes.into_iter().flat_map(|class| report.codes(class)).map(|code| code.to_string()).collect();
    for missing in required.difference(&have) {
        wrong.push(format!("missing code {missing}"));
    }
    for extra in have.iter().filter(|code| !required.contains(*code) && !optional.contains(*code)) {
        wrong.push(format!("extra code {extra}"));
    }
    wrong
}

#[test]
fn all_115_cases_are_right_with_their_codes() {
    let cases = cases();
    assert_eq!(cases.len(), 115);
    let (mut right, mut alternative, mut failures) = (0, 0, Vec::new());
    for (id, directory, expected) in cases {
        let report = check_directory(&directory, &id, Profile::Spec);
        let wrong = differences(&expected, &report);
        if wrong.is_empty() {
            right += 1;
            continue;
        }
        if let Json::Object(changes) = &expected["alt"] {
            let mut other = expected.clone();
            if !changes.contains_key("diagnostics") {
                let all: Vec<Json> = ["diagnostics", "diagnostics_optional"]
                    .iter()
                    .flat_map(|key| expected[*key].as_array().cloned().unwrap_or_default())
                    .collect();
                other["diagnostics"] = Json::Array(Vec::new());
                other["diagnostics_optional"] = all.into();
            }
            for (key, value) in changes {
                other[key] = value.clone();
            }
            if differences(&other, &report).is_empty() {
                alternative += 1;
                continue;
            }
        }
        failures.push(format!("{id}: {}", wrong.join("; ")));
    }
    println!("{right} right, {alternative} by the accepted alternative, {} wrong", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
