//! The tools that run commands, which all dialects have under the same names: `skill_run`; and `skill_exec`,
//! `skill_write_stdin`, `skill_poll_session` and `skill_kill_session` for commands that ask.
//!
//! Descriptions are for models, who read them in every request.

use std::collections::BTreeMap;

use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::live::MAX_WAIT;
use prowess_workspace::{InputMode, RunInput, RunOutputs, RunRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Capabilities;
use super::arguments::Wanted;
use super::table::{Entry, RunSetting, Setting, Takes};
use crate::exec::{ExecRequest, PollRequest, WAIT, WriteRequest};
use crate::parameters::{self, WrongArguments, typed};

pub(super) const TOOLS: [Entry; 5] = [
    Entry { name: "skill_run", takes: Takes::Run, says: run_says, skill: None },
    Entry { name: "skill_exec", takes: Takes::Start, says: start_says, skill: None },
    Entry {
        name: "skill_write_stdin",
        takes: Takes::Write,
        says: |_| "Type into a command that skill_exec started.".to_owned(),
        skill: None,
    },
    Entry {
        name: "skill_poll_session",
        takes: Takes::Look,
        says: |_| "Get the new output of a command that skill_exec started.".to_owned(),
        skill: None,
    },
    Entry {
        name: "skill_kill_session",
        takes: Takes::End,
        says: |_| "End a command that skill_exec started.".to_owned(),
        skill: None,
    },
];

fn run_says(setting: &Setting<'_>) -> String {
    let hosts = setting.runs.map_or(&[][..], |runs| &runs.hosts);
    let network = if hosts.is_empty() {
        "without network".to_owned()
    } else {
        format!("with no network but the hosts in `network`, of {}", hosts.join(", "))
    };
    format!(
        "Run a command of a skill in a sandbox, {network}. It starts in the skill's directory, which is read-only: \
         write files to out/, and get them with output_files."
    )
}

fn start_says(setting: &Setting<'_>) -> String {
    let start = "Start a command of a skill that asks questions.";
    // What another tool says already is not said twice.
    let how = if setting.capabilities.run {
        format!("Takes all arguments of skill_run too; timeout is {} by default.", MAX_TIMEOUT.as_secs())
    } else {
        run_says(setting)
    };
    format!(
        "{start} {how} Gives its output so far and a session_id. If status is needs_input, answer with \
         skill_write_stdin; if running, wait with skill_poll_session."
    )
}

/// What to run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    #[schemars(description = "Name of a skill")]
    skill: String,
    #[schemars(description = "Run by bash -lc")]
    command: String,
    #[schemars(description = "Relative to the skill's directory")]
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
    inputs: Vec<Input>,
    #[schemars(description = "Globs of files to return, such as out/*.txt")]
    #[serde(default)]
    output_files: Vec<String>,
    #[schemars(description = "Like output_files, with limits")]
    #[serde(default)]
    outputs: Option<Outputs>,
    #[schemars(
        description = "Hosts to reach over HTTP(S), such as example.com, *.example.com or example.com:8080"
    )]
    #[serde(default)]
    network: Vec<String>,
    #[schemars(description = "Seconds")]
    #[serde(default)]
    timeout: Option<u64>,
    #[schemars(description = "Keep what output_files finds as artifacts")]
    #[serde(default)]
    save_as_artifacts: bool,
    #[schemars(description = "Return no content of files that are saved")]
    #[serde(default)]
    omit_inline_content: bool,
    #[schemars(description = "What names of artifacts begin with")]
    #[serde(default)]
    artifact_prefix: Option<String>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(
        description = "artifact://name[@version], host://abs/path, workspace://path or skill://name/path"
    )]
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
struct Outputs {
    globs: Vec<String>,
    #[schemars(description = "Return content")]
    inline: bool,
    #[schemars(description = "Keep as artifacts")]
    save: bool,
    #[schemars(description = "What names of artifacts begin with")]
    name_template: Option<String>,
    max_files: usize,
    max_file_bytes: u64,
    max_total_bytes: u64,
}

/// How a command that goes on is started, beside what to run.
#[derive(Deserialize, JsonSchema)]
struct Talk {
    #[schemars(description = "Give it a terminal")]
    #[serde(default)]
    tty: bool,
    #[schemars(description = "How long to wait for a question or the end")]
    #[serde(default = "wait")]
    yield_ms: u64,
}

/// The arguments of [`Talk`].
const TALK: &[&str] = &["tty", "yield_ms"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    session_id: String,
    #[serde(default)]
    chars: String,
    #[schemars(description = "Press Enter after chars; true unless only close is given")]
    #[serde(default)]
    submit: Option<bool>,
    #[schemars(description = "End its input after this")]
    #[serde(default)]
    close: bool,
    #[serde(default = "wait")]
    yield_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Look {
    session_id: String,
    #[schemars(description = "First byte to show; else where the last answer ended")]
    #[serde(default)]
    offset: Option<u64>,
    #[serde(default = "wait")]
    yield_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct End {
    session_id: String,
}

fn wait() -> u64 {
    u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX)
}

impl Default for Outputs {
    fn default() -> Self {
        let RunOutputs { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes } =
            RunOutputs::default();
        Self { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes }
    }
}

impl From<Outputs> for RunOutputs {
    fn from(outputs: Outputs) -> Self {
        let Outputs { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes } =
            outputs;
        Self { globs, inline, save, name_template, max_files, max_file_bytes, max_total_bytes }
    }
}

impl From<Run> for RunRequest {
    fn from(run: Run) -> Self {
        let input = |Input { from, to, mode }| RunInput { from, to, mode };
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

/// The schema of what one of these tools takes, as a model reads it.
pub(super) fn schema(takes: Takes, capabilities: Capabilities, runs: Option<&RunSetting>) -> Value {
    let mut schema = match takes {
        Takes::Start => {
            let mut start = start_schema();
            // What the other tool says already is not said twice.
            if capabilities.run
                && let Some(properties) = start["properties"].as_object_mut()
            {
                properties.retain(|name, _| [&["skill", "command"], TALK].concat().contains(&name.as_str()));
                start["additionalProperties"] = true.into();
            }
            start
        }
        Takes::Write => Value::clone(&parameters::schema::<Write>()),
        Takes::Look => Value::clone(&parameters::schema::<Look>()),
        Takes::End => Value::clone(&parameters::schema::<End>()),
        _ => Value::clone(&parameters::schema::<Run>()),
    };
    let Some(properties) = schema["properties"].as_object_mut() else { return schema };
    if let (Some(timeout), Some(runs)) = (properties.get_mut("timeout"), runs) {
        let default = if takes == Takes::Start { MAX_TIMEOUT.as_secs() } else { runs.timeout };
        timeout["default"] = default.into();
        timeout["maximum"] = MAX_TIMEOUT.as_secs().into();
    }
    if let Some(wait) = properties.get_mut("yield_ms") {
        wait["maximum"] = json!(MAX_WAIT.as_millis());
    }
    if runs.is_some_and(|runs| runs.hosts.is_empty()) {
        properties.retain(|name, _| name != "network");
    }
    schema
}

/// The schema of everything that a command can be started with.
pub(super) fn start_schema() -> Value {
    let mut schema = Value::clone(&parameters::schema::<Run>());
    let talk = parameters::schema::<Talk>();
    for name in TALK {
        schema["properties"][name] = talk["properties"][name].clone();
    }
    schema
}

/// What a call with checked arguments wants.
pub(super) fn wanted(takes: Takes, mut given: Map<String, Value>) -> Result<Wanted, WrongArguments> {
    Ok(match takes {
        Takes::Start => {
            let talk = TALK.iter().filter_map(|name| Some(((*name).to_owned(), given.remove(*name)?)));
            let Talk { tty, yield_ms } = typed(talk.collect())?;
            let run = typed::<Run>(given)?.into();
            Wanted::Start(Box::new(ExecRequest { run, tty: Some(tty), yield_ms: Some(yield_ms) }))
        }
        Takes::Write => {
            let Write { session_id, chars, submit, close, yield_ms } = typed(given)?;
            Wanted::Write(WriteRequest {
                session_id,
                chars,
                submit,
                close: Some(close),
                yield_ms: Some(yield_ms),
            })
        }
        Takes::Look => {
            let Look { session_id, offset, yield_ms } = typed(given)?;
            Wanted::Look(PollRequest { session_id, offset, yield_ms: Some(yield_ms) })
        }
        Takes::End => Wanted::End { id: typed::<End>(given)?.session_id },
        _ => Wanted::Run(Box::new(typed::<Run>(given)?.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(schema: &Value) -> &Map<String, Value> {
        schema["properties"].as_object().unwrap()
    }

    /// Everything that a run can be asked for.
    fn whole() -> RunRequest {
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

    #[test]
    fn the_schema_describes_every_field_without_references() {
        let schema = schema(Takes::Run, Capabilities::all(), None);
        let whole = serde_json::to_value(whole()).unwrap();
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
    fn a_model_can_ask_for_everything_in_both_tools() {
        let given = serde_json::to_value(whole()).unwrap();
        let Value::Object(mut given) = given else { panic!("it is an object") };
        assert_eq!(wanted(Takes::Run, given.clone()), Ok(Wanted::Run(Box::new(whole()))));
        given.insert("tty".into(), true.into());
        given.insert("yield_ms".into(), 5.into());
        let request = ExecRequest { run: whole(), tty: Some(true), yield_ms: Some(5) };
        assert_eq!(wanted(Takes::Start, given), Ok(Wanted::Start(Box::new(request))));
    }

    /// The defaults of a schema, by their paths.
    fn defaults(schema: &Value) -> Value {
        let of = |(name, field): (&String, &Value)| {
            let inner = if field["properties"].is_object() { Some(defaults(field)) } else { None };
            Some((name.clone(), inner.or_else(|| field.get("default").cloned())?))
        };
        properties(schema).iter().filter_map(of).collect::<Map<_, _>>().into()
    }

    #[test]
    fn the_defaults_of_schemas_are_those_of_the_code() {
        let runs = RunSetting { hosts: Vec::new(), timeout: 42 };
        let given = |takes| defaults(&schema(takes, Capabilities::all(), Some(&runs)));
        let limits = RunOutputs::default();
        assert_eq!(
            given(Takes::Run),
            json!({"timeout": 42, "save_as_artifacts": false, "omit_inline_content": false, "outputs": {
                "inline": limits.inline, "save": limits.save, "max_files": limits.max_files,
                "max_file_bytes": limits.max_file_bytes, "max_total_bytes": limits.max_total_bytes}})
        );
        let input = &schema(Takes::Run, Capabilities::all(), None)["properties"]["inputs"]["items"];
        assert_eq!(defaults(input), json!({"mode": InputMode::default()}));
        let wait = json!(WAIT.as_millis());
        assert_eq!(given(Takes::Start), json!({"tty": false, "yield_ms": wait}));
        assert_eq!(given(Takes::Write), json!({"close": false, "yield_ms": wait}));
        assert_eq!(given(Takes::Look), json!({"yield_ms": wait}));
        // What was left out is the same as the default.
        let parsed = |takes, mut given: Value, more: Value| {
            given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            wanted(takes, given.as_object().unwrap().clone()).unwrap()
        };
        let id = json!({"session_id": "x"});
        assert_eq!(parsed(Takes::Look, id.clone(), json!({})), parsed(Takes::Look, id, given(Takes::Look)));
        let start = json!({"skill": "kit", "command": "true"});
        assert_eq!(
            parsed(Takes::Start, start.clone(), json!({})),
            parsed(Takes::Start, start.clone(), given(Takes::Start))
        );
        let Wanted::Run(run) = parsed(Takes::Run, start, json!({"outputs": {}})) else { panic!("it runs") };
        assert_eq!(run.outputs, Some(RunOutputs::default()));
    }

    #[test]
    fn what_another_tool_says_is_not_said_twice() {
        let runs = RunSetting { hosts: Vec::new(), timeout: 60 };
        let mut capabilities = Capabilities::all();
        let short = schema(Takes::Start, capabilities, Some(&runs));
        assert_eq!(properties(&short).len(), 4);
        assert_eq!(short["additionalProperties"], true);
        capabilities.run = false;
        let whole = schema(Takes::Start, capabilities, Some(&runs));
        assert_eq!(properties(&whole).len(), 14);
        assert_eq!(whole["properties"]["timeout"]["default"], MAX_TIMEOUT.as_secs());
        assert_eq!(whole["additionalProperties"], false);
    }
}
