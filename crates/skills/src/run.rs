//! Layer 3: a skill's commands, in the session's workspace and behind the gate.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use prowess_catalog::{Digest, Place, one_line};
use prowess_permission::{Decision, Kind, Permissions, Request};
use prowess_workspace::{
    ExecuteError, HostGate, Limits, NoSink, OutputSink, RunContext, RunError, RunReport, RunRequest, Runner,
    StageSource,
};
use serde_json::json;

use crate::error::SkillError;
use crate::session::{Answer, SkillSession};

/// How much of each output stream a model reads, in bytes: its beginning and its end.
pub const MAX_SHOWN_OUTPUT: usize = 16 * 1024;

/// What a session runs commands with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Runs {
    /// Stages, runs and collects.
    pub runner: Runner,
    /// Whose workspace is used: the same word finds the same files again, in another process too.
    pub workspace: String,
    /// How much a command may use.
    pub limits: Limits,
}

impl Runs {
    /// Runs in the workspace of this session, with the usual limits.
    pub fn new(runner: Runner, workspace: impl Into<String>) -> Self {
        Self { runner, workspace: workspace.into(), limits: Limits::default() }
    }
}

impl SkillSession {
    /// Runs a command of a skill, once the gate has let it pass. A command that fails or takes too long has an
    /// answer like any other.
    ///
    /// The gate is asked with kind `run`; the subject is the skill's name and the command, and whatever else
    /// could change what the command does is part of it as a digest. Files of the host are asked about with
    /// kind `read`.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run(&self, request: RunRequest) -> Result<Answer, SkillError> {
        let report = self.run_watched(request, &NoSink).await?;
        let data = serde_json::to_value(&report).unwrap_or_default();
        let mut shown = data.clone();
        for stream in ["stdout", "stderr"] {
            if let Some(text) = shown[stream].as_str().map(shortened) {
                shown[stream] = text.into();
            }
        }
        Ok(Answer { text: shown.to_string(), deltas: Vec::new(), data: Some(data) })
    }

    /// [`SkillSession::run`] for a host: the report itself, and its output while it is written.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run_watched(
        &self,
        request: RunRequest,
        output: &dyn OutputSink,
    ) -> Result<RunReport, SkillError> {
        let failed = |error: RunError| SkillError::Run { name: request.skill.clone(), error };
        let entry = self.visible_to_model(&request.skill)?;
        let runs = self.runs().ok_or_else(|| failed(ExecuteError::NotConfigured.into()))?;
        self.pass_run_gate(&request).await?;
        let sources = |name: &str| {
            let entry = self.visible_to_model(name).ok()?;
            let directory = || PathBuf::from(entry.skill.location.directory());
            (entry.root.place == Place::Local).then(|| StageSource::Directory(directory()))
        };
        let host = AskedHost(self.permissions());
        let mut context = RunContext::new(&sources);
        context.host = &host;
        context.output = output;
        context.limits = runs.limits.clone();
        context.shell = entry.skill.extensions.shell.as_deref().and_then(shell);
        runs.runner.run(&runs.workspace, request.clone(), context).await.map_err(failed)
    }

    async fn pass_run_gate(&self, request: &RunRequest) -> Result<(), SkillError> {
        let subject = subject(request);
        let title = format!("run in skill '{}': {}", one_line(&request.skill), one_line(&request.command));
        let mut asked = Request::new(Kind::RUN, subject)
            .titled(title)
            .with_details(serde_json::to_value(request).unwrap_or_default());
        if self.permissions().policy().evaluate(&asked).decision == Decision::Ask {
            // Another document under the same name is another skill.
            let entry = self.visible_to_model(&request.skill)?;
            let text = self.read(&entry).await?;
            asked = asked.bound_to(text.identity().to_string());
        }
        let refused = |refusal| SkillError::RunRefused { name: request.skill.clone(), refusal };
        self.permissions().request(asked).await.map_err(refused)?;
        Ok(())
    }
}

/// What a rule or an approval is about: the skill and the command, and a digest of what else was asked for, so
/// that an approval of the command alone does not cover it with other surroundings.
fn subject(request: &RunRequest) -> String {
    let plain = RunRequest::new(request.skill.clone(), request.command.clone());
    let RunRequest { cwd, env, stdin, inputs, .. } = request;
    let has_more = (cwd, env, stdin, inputs) != (&plain.cwd, &plain.env, &plain.stdin, &plain.inputs);
    let subject = format!("{} {}", request.skill, request.command);
    if !has_more {
        return subject;
    }
    let more = json!({"cwd": cwd, "env": env, "stdin": stdin, "inputs": inputs}).to_string();
    let digest = Digest::of(more.as_bytes()).to_string();
    format!("{subject} # with {}", &digest[..digest.len().min(23)])
}

/// A shell that a skill may name.
fn shell(name: &str) -> Option<String> {
    match name {
        "bash" | "/bin/bash" => Some("/bin/bash".to_owned()),
        "sh" | "/bin/sh" => Some("/bin/sh".to_owned()),
        _ => None,
    }
}

/// The beginning and the end of a long output.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_SHOWN_OUTPUT {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(MAX_SHOWN_OUTPUT / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - MAX_SHOWN_OUTPUT / 2)..];
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

/// Files of the host come in when the gate lets them be read.
struct AskedHost<'a>(&'a Permissions);

#[async_trait]
impl HostGate for AskedHost<'_> {
    async fn allow_host(&self, path: &Path) -> bool {
        self.0.request(Request::new(Kind::READ, path.to_string_lossy())).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_of_a_command_does_not_cover_other_surroundings() {
        let plain = RunRequest::new("a", "make");
        assert_eq!(subject(&plain), "a make");
        let changed = [
            RunRequest { cwd: Some("x".into()), ..plain.clone() },
            RunRequest { stdin: Some("x".into()), ..plain.clone() },
            RunRequest { env: [("A".to_owned(), "b".to_owned())].into(), ..plain.clone() },
        ];
        let mut subjects: Vec<String> = changed.iter().map(subject).collect();
        subjects.dedup();
        assert_eq!(subjects.len(), 3);
        assert!(subjects.iter().all(|subject| subject.starts_with("a make # with sha256:")), "{subjects:?}");
    }

    #[test]
    fn long_output_keeps_both_ends() {
        let long = format!("begin{}end", "é".repeat(MAX_SHOWN_OUTPUT));
        let shown = shortened(&long);
        assert!(shown.starts_with("begin") && shown.ends_with("end") && shown.len() < MAX_SHOWN_OUTPUT + 60);
    }
}
