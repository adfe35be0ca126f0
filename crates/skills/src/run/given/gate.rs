//! The gate of files that a run is given.

use prowess_catalog::untrusted::one_line;
use prowess_permission::{Action, Kind, Question, quote_name};
use prowess_workspace::RunRequest;

use super::blocked::BlockedGiven;
use super::layout::AskedFile;
use crate::error::SkillError;
use crate::load::Caller;
use crate::operation::Halt;
use crate::run::RunDriver;
use crate::run::gates::refused_run;

impl RunDriver<'_> {
    /// The error for something that a run cannot be given. A person also learns what a model must not know.
    pub(in super::super) fn blocked(self, name: &str, why: &BlockedGiven) -> SkillError {
        let is_person = self.caller == Caller::Person;
        let why = if is_person { why.for_person() } else { why.to_string() };
        refused_run(name, &why)
    }

    /// Passes the gate of a file that a run is given and about which rules ask.
    pub(in super::super) async fn pass_given_gate(
        self,
        request: &RunRequest,
        asked: &AskedFile,
    ) -> Result<(), Halt> {
        let action = if asked.left_out.is_empty() {
            Action::AddInput {
                skill: request.skill.clone(),
                command: request.command.clone(),
                is_directory: asked.is_directory,
                with_secrets: Vec::new(),
            }
        } else {
            partly(request, asked)
        };
        let mut question = Question::about_file(Kind::READ, asked.file.clone());
        if let Some(entry) = &asked.entry {
            question = question.subject(entry);
        }
        self.pass(&request.skill, question.action(action).always([])).await
    }
}

/// Reading a directory of which something is left out.
fn partly(request: &RunRequest, asked: &AskedFile) -> Action {
    let path = one_line(asked.file.real());
    let left_out = serde_json::to_string(&asked.left_out).unwrap_or_default();
    let details = [("command", request.command.clone()), ("left out", left_out)];
    Action::Other {
        title: format!("let skill {} read files in {path}", quote_name(&request.skill)),
        details: details.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
    }
}
