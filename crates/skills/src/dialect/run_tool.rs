//! The tool `skill_run`, which has the same name in all dialects.
//!
//! Models read the descriptions in every request, so they are short.

use std::collections::BTreeMap;

use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::{InputMode, RunInput, RunOutputs, RunRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table::{RunToolInfo, Signature, ToolContext, ToolEntry};
use crate::parameters::{self, WrongArguments, typed};
use crate::run::RunCall;

pub(super) const TOOL: ToolEntry =
    ToolEntry { name: "skill_run", signature: Signature::Run, describe: describe_run, skill: None };

pub(super) fn describe_run(context: &ToolContext<'_>) -> String {
    let hosts = context.runs.map_or(&[][..], |runs| &runs.hosts);
    let network = if hosts.is_empty() {
        "without network".to_owned()
    } else {
        format!("which reaches only the hosts in `network`, of {}", hosts.join(", "))
    };
    let writable = context.runs.map_or(&[][..], |runs| &runs.writable);
    let writable = match writable {
        [] => String::new(),
        directories => format!(" It may also write {}.", directories.join(", ")),
    };
    format!(
        "Run a command of a skill in a sandbox, {network}. It starts in the skill's directory, which is read-only: \
         write files to out/, and get them with output_files.{writable}"
    )
}

/// The arguments of `skill_run`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunArguments {
    #[schemars(description = "Name of a skill")]
    skill: String,
    #[schemars(description = "Run by bash -lc")]
    command: String,
    #[schemars(description = "Absolute, or relative to the skill's directory")]
    #[serde(default)]
    cwd: Option<String>,
    #[schemars(
        description = "Added to WORKSPACE_DIR, SKILLS_DIR, WORK_DIR, OUTPUT_DIR, RUN_DIR and SKILL_NAME"
    )]
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[schemars(description = "Text for standard input")]
    #[serde(default)]
    stdin: Option<String>,
    #[schemars(description = "Files to bring into the workspace")]
    #[serde(default)]
    inputs: Vec<InputArgument>,
    #[schemars(description = "Globs of files to return, such as out/*.txt")]
    #[serde(default)]
    output_files: Vec<String>,
    #[schemars(description = "Like output_files, with limits")]
    #[serde(default)]
    outputs: Option<OutputsArgument>,
    #[schemars(
        description = "Hosts to reach over HTTP(S), such as example.com, *.example.com or example.com:8080"
    )]
    #[serde(default)]
    network: Vec<String>,
    #[schemars(description = "Seconds")]
    #[serde(default)]
    timeout: Option<u64>,
    #[schemars(description = "Save the files that output_files finds as artifacts")]
    #[serde(default)]
    save_as_artifacts: bool,
    #[schemars(description = "Do not return the content of saved files")]
    #[serde(default)]
    omit_inline_content: bool,
    #[schemars(description = "Prefix of artifact names")]
    #[serde(default)]
    artifact_prefix: Option<String>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InputArgument {
    #[schemars(description = "A path that you see, artifact://name[@version] or host://abs/path")]
    from: String,
    #[schemars(description = "Path in the workspace, work/inputs/<name> by default")]
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["copy", "link"]))]
    mode: InputMode,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OutputsArgument {
    globs: Vec<String>,
    #[schemars(description = "Return content")]
    inline: bool,
    #[schemars(description = "Keep as artifacts")]
    save: bool,
    #[schemars(description = "Prefix of artifact names")]
    name_template: Option<String>,
    max_files: usize,
    max_file_bytes: u64,
    max_total_bytes: u64,
}

impl Default for OutputsArgument {
    fn default() -> Self {
        let RunOutputs { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes } =
            RunOutputs::default();
        Self { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes }
    }
}

impl From<OutputsArgument> for RunOutputs {
    fn from(outputs: OutputsArgument) -> Self {
        let OutputsArgument {
            globs,
            inline,
            save,
            name_template,
            max_files,
            max_file_bytes,
            max_total_bytes,
        } = outputs;
        Self { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes }
    }
}

impl From<RunArguments> for RunRequest {
    fn from(run: RunArguments) -> Self {
        let input = |InputArgument { from, to, mode }| RunInput { from, to, mode };
        Self {
            skill: run.skill,
            command: run.command,
            cwd: run.cwd,
            env: run.env,
            stdin: run.stdin,
            inputs: run.inputs.into_iter().map(input).collect(),
            output_files: run.output_files,
            outputs: run.outputs.map(RunOutputs::from),
            network: run.network,
            timeout: run.timeout,
            save_as_artifacts: run.save_as_artifacts,
            omit_inline_content: run.omit_inline_content,
            artifact_prefix: run.artifact_prefix,
        }
    }
}

/// The schema of `skill_run`, as a model reads it.
pub(super) fn schema(runs: Option<&RunToolInfo>) -> Value {
    let mut schema = Value::clone(&parameters::schema::<RunArguments>());
    set_limits(&mut schema, runs, runs.map(|runs| runs.timeout));
    schema
}

/// Sets the default time limit and its maximum, and removes `network` if no host can be reached.
pub(super) fn set_limits(schema: &mut Value, runs: Option<&RunToolInfo>, timeout: Option<u64>) {
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    if let (Some(property), Some(timeout)) = (properties.get_mut("timeout"), timeout) {
        property["default"] = timeout.into();
        property["maximum"] = MAX_TIMEOUT.as_secs().into();
    }
    if runs.is_some_and(|runs| runs.hosts.is_empty()) {
        properties.retain(|name, _| name != "network");
    }
}

/// Parses a call with checked arguments.
pub(super) fn parse(given: Map<String, Value>) -> Result<RunCall, WrongArguments> {
    Ok(RunCall::Run(Box::new(typed::<RunArguments>(given)?.into())))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::dialect) fn properties(schema: &Value) -> &Map<String, Value> {
        schema["properties"].as_object().unwrap()
    }

    /// A request with every field.
    pub(in crate::dialect) fn whole_request() -> RunRequest {
        RunRequest {
            skill: "kit".into(),
            command: "true".into(),
            cwd: Some("scripts".into()),
            env: BTreeMap::from([("A".into(), "b".into())]),
            stdin: Some("x".into()),
            inputs: vec![RunInput {
                from: "artifact://a".into(),
                to: Some("work/a".into()),
                mode: InputMode::Link,
            }],
            output_files: vec!["out/*".into()],
            outputs: Some(RunOutputs { name_template: Some("a/".into()), ..RunOutputs::default() }),
            network: vec!["example.com".into()],
            timeout: Some(7),
            save_as_artifacts: true,
            omit_inline_content: true,
            artifact_prefix: Some("a/".into()),
        }
    }

    /// The defaults of a schema, by their paths.
    pub(in crate::dialect) fn defaults(schema: &Value) -> Value {
        let of = |(name, field): (&String, &Value)| {
            let inner = if field["properties"].is_object() { Some(defaults(field)) } else { None };
            Some((name.clone(), inner.or_else(|| field.get("default").cloned())?))
        };
        properties(schema).iter().filter_map(of).collect::<Map<_, _>>().into()
    }

    #[test]
    fn the_schema_describes_every_field_without_references() {
        let schema = schema(None);
        let whole = serde_json::to_value(whole_request()).unwrap();
        let names = |value: &Value| {
            value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names(&schema["properties"]), names(&whole));
        for (name, field) in properties(&schema) {
            assert!(field["description"].is_string(), "{name}");
        }
        let inner = |name: &str| &schema["properties"][name];
        assert_eq!(names(&inner("inputs")["items"]["properties"]), names(&whole["inputs"][0]));
        assert_eq!(names(&inner("outputs")["properties"]), names(&whole["outputs"]));
        assert_eq!(schema["required"], json!(["skill", "command"]));
        assert!(!schema.to_string().contains("$ref"), "{schema}");
    }

    #[test]
    fn a_model_can_use_every_field() {
        let given = serde_json::to_value(whole_request()).unwrap();
        let Value::Object(given) = given else { panic!("it is an object") };
        assert_eq!(parse(given), Ok(RunCall::Run(Box::new(whole_request()))));
    }

    #[test]
    fn the_defaults_of_the_schema_are_those_of_the_code() {
        let runs = RunToolInfo { hosts: Vec::new(), writable: Vec::new(), timeout: 42 };
        let limits = RunOutputs::default();
        assert_eq!(
            defaults(&schema(Some(&runs))),
            json!({"timeout": 42, "save_as_artifacts": false, "omit_inline_content": false, "outputs": {
                "inline": limits.inline, "save": limits.save, "max_files": limits.max_files,
                "max_file_bytes": limits.max_file_bytes, "max_total_bytes": limits.max_total_bytes}})
        );
        let input = &schema(None)["properties"]["inputs"]["items"];
        assert_eq!(defaults(input), json!({"mode": InputMode::default()}));
        // Empty outputs are the default ones.
        let given = json!({"skill": "kit", "command": "true", "outputs": {}});
        let Ok(RunCall::Run(run)) = parse(given.as_object().unwrap().clone()) else { panic!("it runs") };
        assert_eq!(run.outputs, Some(RunOutputs::default()));
    }
}
