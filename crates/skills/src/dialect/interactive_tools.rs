//! The tools for interactive commands, which have the same names in all dialects: `skill_exec`, `skill_write_stdin`,
//! `skill_poll_session` and `skill_kill_session`.
//!
//! Models read the descriptions in every request, so they are short.

use std::time::Duration;

use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::live::MAX_WAIT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Capabilities;
use super::run_tool::{RunArguments, describe_run, set_limits};
use super::table::{RunToolInfo, Signature, ToolContext, ToolEntry};
use crate::parameters::{self, WrongArguments, typed};
use crate::run::RunCall;
use crate::run::interactive::{DEFAULT_WAIT, PollRequest, StartRequest, TypeRequest};

pub(super) const TOOLS: [ToolEntry; 4] = [
    ToolEntry { name: "skill_exec", signature: Signature::Start, describe: describe_start, skill: None },
    ToolEntry {
        name: "skill_write_stdin",
        signature: Signature::Write,
        describe: |_| "Type into a command that skill_exec started.".to_owned(),
        skill: None,
    },
    ToolEntry {
        name: "skill_poll_session",
        signature: Signature::Poll,
        describe: |_| "Get the new output of a command that skill_exec started.".to_owned(),
        skill: None,
    },
    ToolEntry {
        name: "skill_kill_session",
        signature: Signature::End,
        describe: |_| "End a command that skill_exec started.".to_owned(),
        skill: None,
    },
];

fn describe_start(context: &ToolContext<'_>) -> String {
    let start = "Start an interactive command of a skill.";
    // Do not repeat the description of skill_run.
    let how = if context.capabilities.run {
        format!("Also takes all arguments of skill_run; timeout is {} by default.", MAX_TIMEOUT.as_secs())
    } else {
        describe_run(context)
    };
    format!(
        "{start} {how} Returns its output so far and a session_id. If status is needs_input, type with \
         skill_write_stdin; if running, wait with skill_poll_session."
    )
}

/// The arguments of `skill_exec` that `skill_run` does not have.
#[derive(Deserialize, JsonSchema)]
struct StartArguments {
    #[schemars(description = "Give it a terminal")]
    #[serde(default)]
    tty: bool,
    #[schemars(description = "How long to wait until it asks or ends")]
    #[serde(default = "default_wait_ms")]
    yield_ms: u64,
}

/// The names of [`StartArguments`].
const START_ARGUMENTS: &[&str] = &["tty", "yield_ms"];

/// The arguments of `skill_write_stdin`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    session_id: String,
    #[serde(default)]
    chars: String,
    #[schemars(description = "Press Enter after chars; true unless only close is given")]
    #[serde(default)]
    submit: Option<bool>,
    #[schemars(description = "Close its standard input after this")]
    #[serde(default)]
    close: bool,
    #[serde(default = "default_wait_ms")]
    yield_ms: u64,
}

/// The arguments of `skill_poll_session`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PollArguments {
    session_id: String,
    #[schemars(description = "First byte to show; by default the one after the last answer")]
    #[serde(default)]
    offset: Option<u64>,
    #[serde(default = "default_wait_ms")]
    yield_ms: u64,
}

/// The arguments of `skill_kill_session`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    session_id: String,
}

fn default_wait_ms() -> u64 {
    u64::try_from(DEFAULT_WAIT.as_millis()).unwrap_or(u64::MAX)
}

/// The schema of one of these tools, as a model reads it.
pub(super) fn schema(signature: Signature, capabilities: Capabilities, runs: Option<&RunToolInfo>) -> Value {
    let mut schema = match signature {
        Signature::Write => Value::clone(&parameters::schema::<WriteArguments>()),
        Signature::Poll => Value::clone(&parameters::schema::<PollArguments>()),
        Signature::End => Value::clone(&parameters::schema::<KillArguments>()),
        _ => {
            let mut start = start_schema();
            // Do not repeat the arguments of skill_run.
            if capabilities.run
                && let Some(properties) = start["properties"].as_object_mut()
            {
                let named = [&["skill", "command"], START_ARGUMENTS].concat();
                properties.retain(|name, _| named.contains(&name.as_str()));
                start["additionalProperties"] = true.into();
            }
            start
        }
    };
    set_limits(&mut schema, runs, runs.map(|_| MAX_TIMEOUT.as_secs()));
    if let Some(wait) = schema.pointer_mut("/properties/yield_ms") {
        wait["maximum"] = json!(MAX_WAIT.as_millis());
    }
    schema
}

/// The schema of all arguments of `skill_exec`.
pub(super) fn start_schema() -> Value {
    let mut schema = Value::clone(&parameters::schema::<RunArguments>());
    let start = parameters::schema::<StartArguments>();
    for name in START_ARGUMENTS {
        schema["properties"][name] = start["properties"][name].clone();
    }
    schema
}

/// Parses a call with checked arguments.
pub(super) fn parse(signature: Signature, mut given: Map<String, Value>) -> Result<RunCall, WrongArguments> {
    Ok(match signature {
        Signature::Write => {
            let WriteArguments { session_id: run_id, chars, submit, close, yield_ms } = typed(given)?;
            let wait = Duration::from_millis(yield_ms);
            RunCall::Type(TypeRequest { run_id, chars, submit, close, wait })
        }
        Signature::Poll => {
            let PollArguments { session_id: run_id, offset, yield_ms } = typed(given)?;
            RunCall::Poll(PollRequest { run_id, offset, wait: Duration::from_millis(yield_ms) })
        }
        Signature::End => RunCall::Kill { run_id: typed::<KillArguments>(given)?.session_id },
        _ => {
            let own =
                START_ARGUMENTS.iter().filter_map(|name| Some(((*name).to_owned(), given.remove(*name)?)));
            let StartArguments { tty, yield_ms } = typed(own.collect())?;
            let run = typed::<RunArguments>(given)?.into();
            let wait = Duration::from_millis(yield_ms);
            RunCall::Start(Box::new(StartRequest { run, tty, wait }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::run_tool::tests::{defaults, properties, whole_request};
    use super::*;

    const NO_HOSTS: RunToolInfo = RunToolInfo { hosts: Vec::new(), writable: Vec::new(), timeout: 60 };

    #[test]
    fn a_model_can_use_every_argument_of_a_run() {
        let given = serde_json::to_value(whole_request()).unwrap();
        let Value::Object(mut given) = given else { panic!("it is an object") };
        given.insert("tty".into(), true.into());
        given.insert("yield_ms".into(), 5.into());
        let request = StartRequest { run: whole_request(), tty: true, wait: Duration::from_millis(5) };
        assert_eq!(parse(Signature::Start, given), Ok(RunCall::Start(Box::new(request))));
    }

    #[test]
    fn the_defaults_of_schemas_are_those_of_the_code() {
        let default = |signature| defaults(&schema(signature, Capabilities::all(), Some(&NO_HOSTS)));
        let wait = json!(DEFAULT_WAIT.as_millis());
        assert_eq!(default(Signature::Start), json!({"tty": false, "yield_ms": wait}));
        assert_eq!(default(Signature::Write), json!({"close": false, "yield_ms": wait}));
        assert_eq!(default(Signature::Poll), json!({"yield_ms": wait}));
        // A missing argument is the same as the default.
        let parsed = |signature, mut given: Value, more: Value| {
            given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            parse(signature, given.as_object().unwrap().clone()).unwrap()
        };
        for (signature, given) in [
            (Signature::Poll, json!({"session_id": "x"})),
            (Signature::Start, json!({"skill": "kit", "command": "true"})),
        ] {
            assert_eq!(
                parsed(signature, given.clone(), json!({})),
                parsed(signature, given, default(signature))
            );
        }
    }

    #[test]
    fn skill_exec_does_not_repeat_skill_run() {
        let mut capabilities = Capabilities::all();
        let short = schema(Signature::Start, capabilities, Some(&NO_HOSTS));
        assert_eq!(properties(&short).len(), 4);
        assert_eq!(short["additionalProperties"], true);
        capabilities.run = false;
        let whole = schema(Signature::Start, capabilities, Some(&NO_HOSTS));
        assert_eq!(properties(&whole).len(), 14);
        assert_eq!(whole["properties"]["timeout"]["default"], MAX_TIMEOUT.as_secs());
        assert_eq!(whole["additionalProperties"], false);
    }
}
