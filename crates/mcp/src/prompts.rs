//! Skills that a person starts, as MCP has prompts.

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

/// The argument of a skill that names none.
const ARGUMENTS: &str = "arguments";

/// The skills that a person may start now.
pub(crate) fn list(session: &SkillSession) -> Vec<Prompt> {
    let (skills, view) = (session.view(), session.engine().catalog_view());
    let prompt = |command: SkillCommand| {
        let entry = view.get(&command.name)?;
        let names = names(entry);
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

/// What a skill's arguments are called.
fn names(entry: &SkillEntry) -> Vec<String> {
    let named = &entry.skill.extensions.arguments;
    if named.is_empty() { vec![ARGUMENTS.to_owned()] } else { named.clone() }
}

impl SkillServer {
    /// Starts a skill for a person: its text in its frame, with the arguments in it.
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
        let line = line(&entry, &given)?;
        let consent = Consent {
            permissions: session.permissions(),
            context,
            waiting: self.waiting(),
            call: CallIdentity::of(&("prompt", &name, &given)),
            state: request.request_state,
            responses: request.input_responses,
        };
        let attended = Box::pin(consent.attend(|answered| {
            let line = &line;
            async move { session.attempt_invoke(line, &answered).await }
        }));
        match progress::attended(context, self.stop(), &name, attended).await? {
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

/// What a person would have typed.
fn line(entry: &SkillEntry, given: &JsonObject) -> Result<String, ErrorData> {
    let names = names(entry);
    if let Some(other) = given.keys().find(|name| !names.contains(name)) {
        let known = names.join(", ");
        let message = format!("There is no argument `{other}`: it is one of {known}");
        return Err(ErrorData::invalid_params(message, None));
    }
    let mut line = format!("/{}", entry.skill.name);
    let is_whole = entry.skill.extensions.arguments.is_empty();
    // An argument that is left out keeps its place, if one follows.
    let last = names.iter().rposition(|name| given.contains_key(name)).map_or(0, |at| at + 1);
    for name in &names[..last] {
        let value = match given.get(name) {
            None => "",
            Some(Value::String(text)) => text,
            Some(_) => {
                return Err(ErrorData::invalid_params(format!("The argument `{name}` is no text"), None));
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
