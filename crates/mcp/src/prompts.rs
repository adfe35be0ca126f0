//! The skills that a person can start, as MCP prompts.

use std::fmt::Write as _;

use prowess_catalog::SkillEntry;
use prowess_skills::{SkillCommand, SkillSession};
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, Prompt, PromptArgument,
    PromptMessage, Role,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use crate::consent::{CallIdentity, Consent, ConsentOutcome};
use crate::progress;
use crate::server::SkillServer;

/// The argument of a skill that names no arguments.
const ARGUMENTS: &str = "arguments";

/// The skills that a person can start now.
pub(crate) fn list(session: &SkillSession) -> Vec<Prompt> {
    let (skills, view) = (session.view(), session.engine().catalog_view());
    let prompt = |command: SkillCommand| {
        let entry = view.get(&command.name)?;
        let names = argument_names(entry);
        let arguments = names.into_iter().map(|name| {
            let argument = PromptArgument::new(name).with_required(false);
            match &command.hint {
                Some(hint) => argument.with_description(hint.as_str()),
                None => argument,
            }
        });
        Some(Prompt::new(command.name, Some(command.description), Some(arguments.collect())))
    };
    skills.commands().into_iter().filter_map(prompt).collect()
}

/// The names of a skill's arguments.
fn argument_names(entry: &SkillEntry) -> Vec<String> {
    let names = &entry.skill.extensions.arguments;
    if names.is_empty() { vec![ARGUMENTS.to_owned()] } else { names.clone() }
}

impl SkillServer {
    /// Starts a skill for a person: returns its framed text with the arguments inserted.
    pub(crate) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let session = self.session().await;
        let given = request.arguments.unwrap_or_default();
        let name = request.name;
        let command = session.view().commands().into_iter().find(|command| command.name == name);
        let entry = session.engine().catalog_view().get(&name).cloned();
        let (Some(command), Some(entry)) = (command, entry) else {
            return Err(ErrorData::invalid_params(format!("Unknown prompt: {name}"), None));
        };
        let line = typed_line(&entry, &given)?;
        let consent = Consent {
            permissions: session.permissions(),
            context,
            waiting: self.waiting(),
            call: CallIdentity::of(&("prompt", &name, &given)),
            state: request.request_state,
            responses: request.input_responses,
        };
        let call = Box::pin(consent.attend(|replies| {
            let line = &line;
            async move { session.attempt_invoke(line, &replies).await }
        }));
        match progress::report(context, self.stop(), &name, call).await? {
            ConsentOutcome::Done(answer) => {
                let message = PromptMessage::new_text(Role::User, answer.text);
                Ok(GetPromptResult::new(vec![message]).with_description(command.description).into())
            }
            ConsentOutcome::Failed(error) => Err(ErrorData::invalid_request(error.to_string(), None)),
            ConsentOutcome::Refused(refusal) => Err(ErrorData::invalid_request(refusal.to_string(), None)),
            ConsentOutcome::Asks(question) => Ok(question.into()),
        }
    }
}

/// The line that a person would have typed.
fn typed_line(entry: &SkillEntry, given: &JsonObject) -> Result<String, ErrorData> {
    let names = argument_names(entry);
    if let Some(other) = given.keys().find(|name| !names.contains(name)) {
        let known = names.join(", ");
        let message = format!("Unknown argument `{other}`; this prompt has: {known}");
        return Err(ErrorData::invalid_params(message, None));
    }
    let mut line = format!("/{}", entry.skill.name);
    let is_whole = entry.skill.extensions.arguments.is_empty();
    // A missing argument keeps its place if another one follows.
    let last = names.iter().rposition(|name| given.contains_key(name)).map_or(0, |at| at + 1);
    for name in &names[..last] {
        let value = match given.get(name) {
            None => "",
            Some(Value::String(text)) => text,
            Some(_) => {
                return Err(ErrorData::invalid_params(format!("The argument `{name}` must be text"), None));
            }
        };
        if is_whole {
            // Writing to a string does not fail.
            let _ = write!(line, " {value}");
        } else {
            let _ = write!(line, " \"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
        }
    }
    Ok(line)
}
