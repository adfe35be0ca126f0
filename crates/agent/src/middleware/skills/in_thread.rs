//! Skills in a thread: their tools, their prompt sections, and what they do during a turn.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use prowess_permission::Replies;
use prowess_skills::allowed_tools::ToolVerdict;
use prowess_skills::options::Prompt;
use prowess_skills::prowess_catalog::untrusted::code_text;
use prowess_skills::told::NOTE;
use prowess_skills::{Outcome, SkillDelta, SkillService, SkillState, SkillView, ToolSpec};
use serde_json::Value;

use super::NAME;
use super::freed::removes_text;
use super::frozen::{MadePrompt, Matching};
use super::listed_call::ListedCall;
use super::model_choice::{self, SkillModels};
use super::put_back::{MissingTexts, after};
use super::state::{SkillsDelta, SkillsState};
use super::tool::SkillTool;
use super::typed_call::TypedCall;
use crate::agent::{NextModel, NextTool};
use crate::message::Message;
use crate::middleware::{
    Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, Sections, SubAgents,
};
use crate::model::{ModelError, ModelResponse, PromptSection, ToolDefinition};
use crate::state::States;
use crate::thread_state::{NextStep, TurnOutcome};
use crate::tool::{Tool, ToolAnswer, ToolOutput};

/// Arguments that are paths of files, by their names in common tools.
const FILE_ARGUMENTS: [&str; 4] = ["file_path", "path", "from", "to"];

/// The tools, and the specifications that they were made from.
type MadeTools = (Arc<[ToolSpec]>, Vec<Arc<dyn Tool>>);

/// Skills in a thread. The thread's state says which are loaded.
#[derive(Debug)]
pub(crate) struct ThreadSkills {
    pub(super) service: SkillService,
    pub(super) models: Option<SkillModels>,
    pub(super) forks: Option<SubAgents>,
    /// Whether spans of tool calls name skills.
    pub(super) are_in_spans: bool,
    /// The secret of the conversation's frames.
    pub(super) secret: [u8; 16],
    /// Whether the conversation lacked the text of a loaded skill when the thread was opened.
    pub(super) is_elsewhere: OnceLock<bool>,
    /// The tools of the last call of [`Middleware::tools`].
    pub(super) tools: Mutex<Option<MadeTools>>,
    /// The prompt that was frozen last by this process.
    pub(super) frozen: Mutex<Option<MadePrompt>>,
    /// The skills that match the message that was searched for last.
    pub(super) matching: Mutex<Option<Matching>>,
}

impl ThreadSkills {
    /// The view of the skills that these states have loaded.
    pub(super) fn at(&self, states: &States) -> SkillView {
        let engine = self.service.engine();
        match SkillsState::of(states) {
            Some(state) => engine.at_shared(&state.state),
            None => engine.at(&SkillState::default()),
        }
    }

    /// Starts a skill if the person typed `/name arguments`.
    async fn invoked(&self, context: MiddlewareContext<'_>, view: &SkillView) -> Vec<MiddlewareAction> {
        let said = context.thread_state.messages().last();
        let said = said.filter(|message| message.is_by_person());
        let Some(line) = said.map(|message| message.text()).filter(|text| text.starts_with('/')) else {
            return Vec::new();
        };
        let name = line[1..].split_whitespace().next().unwrap_or_default();
        if !view.commands().iter().any(|command| command.name == name) {
            return Vec::new();
        }
        if let Some(forks) = self.fork_typed(view, &line) {
            return forks;
        }
        let mut invoked = view.invoke(&line).drive(self.service.files(), &Replies::default()).await;
        // The person typed the skill's name. If nobody else can be asked, that counts as the reply.
        if let Outcome::Asks(question) = &invoked {
            let typed = Replies::once([question.fingerprint()]);
            invoked = view.invoke(&line).drive(self.service.files(), &typed).await;
        }
        let invoked = match invoked {
            Outcome::Done(prepared) if prepared.is_repeated(view.state()) => {
                let again = format!(
                    "The user started skill '{}' again. Its instructions are already active: follow them.",
                    code_text(name)
                );
                return vec![MiddlewareAction::AddMessages(vec![Message::user(again)])];
            }
            Outcome::Done(prepared) => prepared.finish(view.state()),
            Outcome::Refused(error) => Err(error),
            Outcome::Asks(_) => return Vec::new(),
        };
        match invoked {
            Ok(answer) => {
                let is_of_server = |delta: &SkillDelta| match delta {
                    SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } => {
                        skill.from.is_some()
                    }
                    _ => false,
                };
                // A person started the skill, but a server's text is not the person's text.
                let message = if answer.deltas.iter().any(is_of_server) {
                    Message::by_agent(answer.text)
                } else {
                    Message::user(answer.text)
                };
                let tell = MiddlewareAction::AddMessages(vec![message]);
                changes(answer.deltas).into_iter().chain([tell]).collect()
            }
            Err(error) => {
                vec![MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason: error.for_model() }))]
            }
        }
    }
}

#[async_trait]
impl Middleware for ThreadSkills {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, context: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let specs = self.service.tools(&self.view(context));
        let mut made = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        // While the specifications stay the same, model calls share the tools.
        if let Some((of, tools)) = &*made
            && Arc::ptr_eq(of, &specs)
        {
            return tools.clone();
        }
        let tool = |spec: &ToolSpec| {
            let ToolSpec { description, parameters, .. } = spec.clone();
            let definition = ToolDefinition { name: spec.name.to_owned(), description, parameters };
            let (service, forks) = (self.service.clone(), self.forks.clone());
            let (spec, definition) = (spec.clone(), Arc::new(definition));
            Arc::new(SkillTool { service, spec, definition, forks, are_in_spans: self.are_in_spans })
        };
        let tools: Vec<Arc<dyn Tool>> = specs.iter().map(|spec| tool(spec) as Arc<dyn Tool>).collect();
        *made = Some((specs, tools.clone()));
        tools
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        // The model cannot use skills. They still guard their files.
        if !context.selection.has_skills() {
            return Ok(Sections::default());
        }
        // All middleware have finished `before_model`, so the messages that the model sees are final.
        let missing = self.missing_texts(context).await;
        let MissingTexts { in_prompt, put_back, deltas, view } =
            missing.map_err(|error| MiddlewareError::new("read loaded skills", error))?;
        let is_stable = view.engine().options().prompt == Prompt::Frozen;
        let prompt = match self.frozen(context, &view) {
            Some((prompt, _)) => view.clone().with_frozen(prompt).prompt(),
            None => view.prompt(),
        };
        let section = |text: String, is_stable| PromptSection { owner: NAME.to_owned(), text, is_stable };
        let mut sections = Sections {
            sections: vec![section(prompt.text, is_stable), section(in_prompt, false)],
            ..Sections::default()
        };
        sections.sections.retain(|section| !section.text.is_empty());
        sections.changes = deltas.into_iter().map(|delta| SkillsDelta::Skill(delta).change()).collect();
        if !put_back.is_empty() {
            sections.messages.push(Message::by_agent(format!("{NOTE}\n\n{put_back}")));
        }
        self.add_news(context, &view, &mut sections).await;
        self.note_freed(context, &view, &mut sections);
        Ok(sections)
    }

    fn shown(&self, context: MiddlewareContext<'_>, index: usize, message: &Message) -> Option<Message> {
        self.without_freed(context, index, message)
    }

    async fn before_agent(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let is_stored = SkillsState::of(context.states).is_some_and(|state| state.secret.is_some());
        let secret =
            (!is_stored).then(|| MiddlewareAction::Change(SkillsDelta::Secret(self.secret).change()));
        Ok(secret.into_iter().chain(TypedCall::forgotten(context)).collect())
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let view = self.at(context.states);
        // The text of a skill that is gone must not stay, if it can be removed.
        let mut dropped = if removes_text(view.engine()) { view.gone() } else { Vec::new() };
        // The budget may be lower than when the skills were loaded, here or in a parent's thread.
        dropped.extend(after(&view, &dropped).over_budget());
        // All middleware have finished `before_agent`, so hooks have seen the message.
        let invoked = if context.thread_state.model_calls() == 0 {
            self.invoked(context, &after(&view, &dropped)).await
        } else {
            Vec::new()
        };
        Ok(changes(dropped).into_iter().chain(invoked).collect())
    }

    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let view = self.at(context.states);
        next.request.effort = model_choice::effort(&view).or(next.request.effort);
        match (model_choice::wanted(&view), &self.models) {
            (Some(wanted), Some(models)) => model_choice::call(wanted, models, next).await,
            _ => next.call().await,
        }
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        // A failed call may be repeated with a shorter conversation, which needs the same skills.
        if matches!(context.thread_state.next(), NextStep::End(TurnOutcome::Failed { .. })) {
            return Ok(Vec::new());
        }
        let mut actions = changes(self.at(context.states).after_model_call());
        actions.extend(TypedCall::approved(context));
        Ok(actions)
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let call = ListedCall::new(context, &next.call.name, Some(next.kind()), next.arguments);
        if let ToolVerdict::Blocked { message } = call.verdict(&self.at(context.states)) {
            return ToolAnswer::error(message).into();
        }
        let files = FILE_ARGUMENTS.iter().filter_map(|name| next.arguments.get(name).and_then(Value::as_str));
        match next.call().await {
            ToolOutput::Done(mut answer) if !answer.is_error => {
                // A skill may be for these files.
                let deltas = self.at(context.states).note_files(files);
                answer.changes.extend(deltas.into_iter().map(|delta| SkillsDelta::Skill(delta).change()));
                answer.into()
            }
            output => output,
        }
    }

    async fn after_agent(
        &self,
        context: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(changes(self.at(context.states).end_turn()))
    }
}

fn changes(deltas: Vec<SkillDelta>) -> Vec<MiddlewareAction> {
    deltas.into_iter().map(|delta| MiddlewareAction::Change(SkillsDelta::Skill(delta).change())).collect()
}
