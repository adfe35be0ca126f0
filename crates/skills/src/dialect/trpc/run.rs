//! `skill_run`, `skill_exec`, `skill_write_stdin`, `skill_poll_session` and `skill_kill_session`.

use prowess_workspace::RunRequest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::{Act, ToolSpec, parsed, schema};
use crate::error::SkillError;
use crate::exec::{ExecRequest, PollRequest, WriteRequest};

pub(super) const RUN: &str = "skill_run";
pub(super) const EXEC: &str = "skill_exec";
pub(super) const WRITE: &str = "skill_write_stdin";
pub(super) const POLL: &str = "skill_poll_session";
pub(super) const KILL: &str = "skill_kill_session";
pub(super) const TOOLS: [&str; 5] = [RUN, EXEC, WRITE, POLL, KILL];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kill {
    /// The session, as `skill_exec` named it.
    session_id: String,
}

pub(super) fn tools(names: &[String], hosts: &[String]) -> [ToolSpec; 5] {
    let mut run = schema::<RunRequest>("skill", names);
    let mut exec = schema::<ExecRequest>("skill", names);
    let mut network = "without network".to_owned();
    if hosts.is_empty() {
        for parameters in [&mut run, &mut exec] {
            let properties = parameters.get_mut("properties").and_then(Value::as_object_mut);
            properties.and_then(|properties| properties.remove("network"));
        }
    } else {
        network = format!("reaching no host but those that network names, of {}", hosts.join(", "));
    }
    let tool = |name, description: &str, parameters| ToolSpec {
        name,
        description: description.to_owned(),
        parameters,
    };
    [
        tool(
            RUN,
            &format!(
                "Run a command of a skill in its own workspace, isolated and {network}. The working directory is \
                 the skill's, which is read-only: write files to out/ and ask for them with output_files or outputs."
            ),
            run,
        ),
        tool(
            EXEC,
            "Start a command of a skill that asks questions while it runs; otherwise as skill_run. The answer has \
             its output so far and a session_id. With status needs_input, answer with skill_write_stdin; with \
             running, wait with skill_poll_session.",
            exec,
        ),
        tool(
            WRITE,
            "Write a line to a command started with skill_exec.",
            schema::<WriteRequest>("skill", &[]),
        ),
        tool(
            POLL,
            "Look at a command started with skill_exec: what it wrote since the last look, and whether it waits \
             for input or has ended.",
            schema::<PollRequest>("skill", &[]),
        ),
        tool(KILL, "End a command started with skill_exec.", schema::<Kill>("skill", &[])),
    ]
}

pub(super) fn act(tool: &str, arguments: Value) -> Result<Act, SkillError> {
    Ok(match tool {
        EXEC => Act::Exec(Box::new(parsed(tool, arguments)?)),
        WRITE => Act::Write(parsed(tool, arguments)?),
        POLL => Act::Poll(parsed(tool, arguments)?),
        KILL => {
            let Kill { session_id: id } = parsed(tool, arguments)?;
            Act::Kill { id }
        }
        _ => Act::Run(Box::new(parsed(tool, arguments)?)),
    })
}
