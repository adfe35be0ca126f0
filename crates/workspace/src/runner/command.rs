//! Makes the executor's command from a request: its skills, directory, input and limits.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use super::RunContext;
use crate::command::{Command, Input, Mount};
use crate::error::WorkspaceError;
use crate::input::{InputSource, StagedInputs};
use crate::limits::MAX_TIMEOUT;
use crate::path::{InnerPath, escaped_name, expand};
use crate::request::{RunInput, RunRequest};
use crate::stage::StagedSkill;
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// Points inputs from skills at the staged versions: a second version of a skill has its own directory.
pub(super) fn point_at_staged<'a>(
    inputs: &[RunInput],
    staged: impl Iterator<Item = &'a StagedSkill>,
) -> Vec<RunInput> {
    let mut inputs = inputs.to_vec();
    for skill in staged.filter(|skill| skill.directory != format!("skills/{}", skill.name)) {
        for input in &mut inputs {
            if let Ok(InputSource::Skill { name, path }) = InputSource::parse(&input.from)
                && name == skill.name
                && let Some(path) = path.as_str().strip_prefix(&format!("skills/{name}/"))
            {
                input.from = format!("workspace://{}/{path}", skill.directory);
            }
        }
    }
    inputs
}

/// Refuses inputs from staged skills that this run does not use.
pub(super) fn check_skill_inputs(inputs: &[RunInput], skills: &[String]) -> Result<(), WorkspaceError> {
    for input in inputs {
        if let Ok(InputSource::Workspace(path)) = InputSource::parse(&input.from)
            && path.top() == "skills"
            && !lies_in_skills(&path, skills)
        {
            let reason = "write inputs from other skills as skill://name/path".to_owned();
            return Err(WorkspaceError::Input { from: escaped_name(input.from.as_ref()), reason });
        }
    }
    Ok(())
}

/// Whether a path in the workspace lies in one of these skills.
fn lies_in_skills(path: &InnerPath, skills: &[String]) -> bool {
    let place = path.as_str().strip_prefix("skills/").and_then(|below| below.split('/').next());
    place.is_some_and(|place| skills.iter().any(|skill| skill == place))
}

/// The command for the executor.
pub(super) fn command(
    workspace: &Workspace,
    directory: String,
    inputs: &StagedInputs,
    request: &RunRequest,
    context: &RunContext<'_>,
    warnings: &mut Vec<RunWarning>,
) -> Command {
    let mut command = Command::new(workspace.path(), directory, &request.command);
    command.environment = request.env.clone();
    command.environment.insert("SKILL_NAME".to_owned(), request.skill.clone());
    let stdin = context.stdin.clone().or_else(|| request.stdin.clone().map(Bytes::from));
    command.stdin = stdin.map_or(Input::Closed, Input::Bytes);
    command.read_only = inputs.read_only.clone();
    command.mounts.clone_from(&context.mounts);
    command.aliases.clone_from(&context.aliases);
    command.limits = context.limits.clone();
    if let Some(shell) = &context.shell {
        command.shell.clone_from(shell);
    }
    if let Some(seconds) = request.timeout.filter(|seconds| *seconds > 0) {
        let asked = Duration::from_secs(seconds);
        if asked > MAX_TIMEOUT {
            warnings.push(RunWarning::TimeoutLowered { seconds: MAX_TIMEOUT.as_secs() });
        }
        command.limits.timeout = asked.min(MAX_TIMEOUT);
    }
    command
}

/// The directory to run in, relative to the workspace.
pub(super) fn directory(
    workspace: &Workspace,
    skill: &StagedSkill,
    skills: &[String],
    mounts: &[Mount],
    cwd: Option<&str>,
) -> Result<String, WorkspaceError> {
    let Some(cwd) = cwd.filter(|cwd| !matches!(*cwd, "" | "." | "./")) else {
        return Ok(skill.directory.clone());
    };
    let refused = |reason: String| WorkspaceError::Directory { path: escaped_name(cwd.as_ref()), reason };
    let expanded = expand(cwd);
    let is_mounted = || mounts.iter().any(|mount| Path::new(cwd).starts_with(&mount.at));
    if cwd.starts_with('/') && is_mounted() {
        return mounted_directory(cwd, mounts).map_err(|reason| refused(reason.to_owned()));
    }
    if expanded.starts_with('/') {
        return mounted_directory(&expanded, mounts).map_err(|reason| refused(reason.to_owned()));
    }
    // A directory of the workspace, or one of the skill.
    let inner = if expanded == "." {
        return Ok(String::new());
    } else if expanded != cwd {
        InnerPath::parse(&expanded)
    } else {
        InnerPath::parse(cwd).and_then(|cwd| InnerPath::parse(&format!("{}/{cwd}", skill.directory)))
    };
    let inner = inner.map_err(|problem| refused(problem.to_string()))?;
    if inner.top() == "skills" && inner.as_str() != "skills" && !lies_in_skills(&inner, skills) {
        return Err(refused("it is in a skill that this run does not use".to_owned()));
    }
    // Through links: `out` in a skill is one.
    match workspace.dir().dir_through_links(inner.as_str()) {
        Ok(_) => Ok(inner.to_string()),
        Err(error) => Err(refused(format!("it is not a directory that can be entered: {error}"))),
    }
}

/// An absolute directory to run in. It must be one that the command sees.
fn mounted_directory(path: &str, mounts: &[Mount]) -> Result<String, &'static str> {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return Err("it has a `..`");
    }
    let path = format!("/{}", names.join("/"));
    let is_seen = mounts.iter().any(|mount| Path::new(&path).starts_with(&mount.at));
    if is_seen { Ok(path) } else { Err("it is not a directory that this run sees") }
}
