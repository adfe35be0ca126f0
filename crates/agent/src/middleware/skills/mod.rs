//! Skills: their overview in the prompt, their tools, and what is loaded, kept through compaction and restarts.

mod choice;
mod state;
mod tool;

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use prowess_permission::{NoAsker, Permissions, Replies};
use prowess_skills::allowed_tools::{ToolCall, ToolVerdict};
use prowess_skills::context::LoadedSection;
use prowess_skills::delta::UnloadReason;
use prowess_skills::secret::Secret;
use prowess_skills::{
    AllowedTools, Operation, SessionBuilder, SkillDelta, SkillError, SkillService, SkillState, SkillView,
    ToolSpec,
};
use serde_json::Value;

use self::choice::Models;
use self::state::Delta;
pub use self::state::{SkillUse, SkillsState};
use self::tool::SkillTool;
use super::SubAgents;
use crate::agent::{NextModel, NextTool};
use crate::id::ThreadId;
use crate::message::{Content, Message, ToolResult};
use crate::middleware::{
    Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, MiddlewareFactory, Sections,
};
use crate::model::{Model, ModelError, ModelResponse, PromptSection, ToolDefinition};
use crate::state::{AnyState, States};
use crate::thread_state::{NextStep, StateChange, TurnOutcome};
use crate::tool::{Tool, ToolAnswer, ToolKind, ToolOutput};

const NAME: &str = "skills";
/// The names that a call's argument has in common tools: what a scope such as `Bash(git:*)` is compared with.
const ARGUMENTS: [&str; 4] = ["command", "file_path", "path", "url"];
/// The names that a file's path has in common tools.
const FILES: [&str; 2] = ["file_path", "path"];

/// Skills as a part of an agent: a session of `prowess-skills` for each thread.
///
/// ```
/// use prowess_agent::middleware::Skills;
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_skills::SkillSession;
///
/// let catalog = Catalog::discover(&[Root::explicit("/srv/skills")], &ScanOptions::default());
/// let skills = Skills::new(move |_| SkillSession::builder(catalog.clone()));
/// ```
#[derive(Clone)]
pub struct Skills {
    builder: Arc<dyn Fn(&ThreadId) -> SessionBuilder + Send + Sync>,
    models: Option<Models>,
    forks: Option<SubAgents>,
    permissions: Option<Permissions>,
}

impl Skills {
    /// Skills whose session for a thread begins as `builder` says: its catalog, options, permissions, runs. What was
    /// loaded before is restored by the part.
    ///
    /// What the session has to ask and nobody is there to answer waits in the thread, as what
    /// [`Approval`](super::Approval) asks does.
    pub fn new(builder: impl Fn(&ThreadId) -> SessionBuilder + Send + Sync + 'static) -> Self {
        Self { builder: Arc::new(builder), models: None, forks: None, permissions: None }
    }

    /// A person's own wish to have a skill unloaded, for [`Thread::change`](crate::Thread::change). One that is not
    /// loaded stays so.
    pub fn unload(name: &str) -> StateChange {
        let reason = UnloadReason::Asked;
        Delta::Skill(SkillDelta::Unloaded { name: name.to_owned(), reason }).change()
    }

    /// A thread's skills at a moment, if its agent has some: for parts that have to know what is loaded.
    ///
    /// ```
    /// use prowess_agent::middleware::Skills;
    /// use prowess_agent::MiddlewareContext;
    ///
    /// /// Whether the model has words of skills that came from servers.
    /// fn is_led(moment: MiddlewareContext<'_>) -> bool {
    ///     Skills::at(moment).is_some_and(|skills| !skills.server_skills_in_context().is_empty())
    /// }
    /// ```
    pub fn at(moment: MiddlewareContext<'_>) -> Option<SkillView> {
        at(moment)
    }

    /// The same with rules for sessions that have none of their own.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// The same with models that skills may choose by `model`. Without one of that name the agent's own stays.
    #[must_use]
    pub fn models(mut self, find: impl Fn(&str) -> Option<Arc<dyn Model>> + Send + Sync + 'static) -> Self {
        self.models = Some(Models::new(find));
        self
    }

    /// The same with sub-agents that follow skills with `context: fork`; without them such skills are loaded like any
    /// other.
    #[must_use]
    pub fn forks(mut self, sub_agents: SubAgents) -> Self {
        self.forks = Some(sub_agents);
        self
    }
}

/// A thread's skills at a moment, if its agent has some.
pub(crate) fn at(moment: MiddlewareContext<'_>) -> Option<SkillView> {
    Some(moment.part::<Opened>()?.at(moment.states))
}

/// What a thread's skills are read from and run by, if its agent has some.
pub(crate) fn service(moment: MiddlewareContext<'_>) -> Option<&SkillService> {
    moment.part::<Opened>().map(|opened| &opened.service)
}

impl Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skills").finish_non_exhaustive()
    }
}

#[async_trait]
impl MiddlewareFactory for Skills {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<SkillsState>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let kept = SkillsState::of(states).ok_or(MiddlewareError::NoState)?;
        let secret = kept.secret.map_or_else(Secret::random, Secret::from_bytes);
        let mut builder = (self.builder)(thread).secret(secret.clone());
        if let Some(permissions) = self.permissions.clone() {
            builder = builder.or_permissions(permissions);
        }
        Ok(Arc::new(Opened {
            service: builder.open().await,
            models: self.models.clone(),
            forks: self.forks.clone(),
            secret: *secret.as_bytes(),
            is_elsewhere: OnceLock::new(),
            tools: Mutex::default(),
        }))
    }
}

type MadeTools = (Arc<[ToolSpec]>, Vec<Arc<dyn Tool>>);

/// Skills in a thread, whose log has what is loaded.
#[derive(Debug)]
pub(crate) struct Opened {
    service: SkillService,
    models: Option<Models>,
    forks: Option<SubAgents>,
    /// The secret of the conversation.
    secret: [u8; 16],
    /// Whether text of what was loaded when the thread was opened is not in its conversation.
    is_elsewhere: OnceLock<bool>,
    /// The tools that there were last, and what they were made of.
    tools: Mutex<Option<MadeTools>>,
}

impl Opened {
    /// What can be seen and done when this is loaded.
    fn at(&self, states: &States) -> SkillView {
        let engine = self.service.engine();
        match SkillsState::of(states) {
            Some(kept) => engine.at_shared(&kept.state),
            None => engine.at(&SkillState::default()),
        }
    }

    /// The text of loaded skills that the conversation does not have: by the session's placement, or because they were
    /// loaded elsewhere, or compaction took it out. With it comes what changes, and the moment after that.
    async fn loaded(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<(Vec<String>, Vec<SkillDelta>, SkillView), SkillError> {
        let mut view = self.at(moment.states);
        let mut sections = vec![self.section(view.loaded_section()).await?];
        let inherited = SkillsState::of(moment.states).is_some_and(|kept| kept.inherited);
        let texts = || moment.run.view().flat_map(|message| message.texts());
        // Whoever opened the thread before may have put text elsewhere.
        let is_elsewhere = *self.is_elsewhere.get_or_init(|| !view.has_all_texts(texts()));
        if inherited || is_elsewhere || moment.run.cut() > 0 {
            view = after(&view, &sections[0].deltas);
            sections.push(self.section(view.put_back(texts(), None)).await?);
        }
        let view = after(&view, &sections[sections.len() - 1].deltas);
        let (texts, deltas): (Vec<String>, Vec<Vec<SkillDelta>>) =
            sections.into_iter().map(|section| (section.text, section.deltas)).unzip();
        Ok((texts, deltas.concat(), view))
    }

    async fn section(&self, operation: Operation<LoadedSection>) -> Result<LoadedSection, SkillError> {
        match operation.drive(self.service.files(), &NoAsker).await {
            prowess_skills::Outcome::Done(section) => Ok(section),
            prowess_skills::Outcome::Refused(error) => Err(error),
            // It asks nobody: what is loaded was approved.
            prowess_skills::Outcome::Asks(_) => Ok(LoadedSection::default()),
        }
    }

    /// What `allowed-tools` says to a call.
    fn verdict(
        &self,
        moment: MiddlewareContext<'_>,
        name: &str,
        act: Option<ToolKind>,
        arguments: &Value,
    ) -> ToolVerdict {
        let mut scoped = ARGUMENTS.iter().filter_map(|name| arguments.get(name).and_then(Value::as_str));
        // With two of them nobody knows which one the tool goes by.
        let mut argument = scoped.next().filter(|_| scoped.next().is_none());
        if act == Some(ToolKind::Find) && arguments.get("path").is_none() {
            argument = arguments.get("pattern").and_then(Value::as_str);
        }
        self.at(moment.states).check_tool(ToolCall { name, argument })
    }

    /// What `/name arguments` of a person comes to.
    async fn invoked(&self, moment: MiddlewareContext<'_>, view: &SkillView) -> Vec<MiddlewareAction> {
        let said = moment.run.messages().last();
        let said = said.filter(|message| message.is_by_person());
        let Some(line) = said.map(|message| message.text()).filter(|text| text.starts_with('/')) else {
            return Vec::new();
        };
        let name = line[1..].split_whitespace().next().unwrap_or_default();
        if !view.commands().iter().any(|command| command.name == name) {
            return Vec::new();
        }
        let mut invoked = view.invoke(&line).drive(self.service.files(), &Replies::default()).await;
        // Who types a skill's name wants it loaded: where nobody else can be asked, that was the answer.
        if let prowess_skills::Outcome::Asks(question) = &invoked {
            let typed = Replies::allowing([question.fingerprint()]);
            invoked = view.invoke(&line).drive(self.service.files(), &typed).await;
        }
        let invoked = match invoked {
            prowess_skills::Outcome::Done(prepared) => prepared.finish(view.state()),
            prowess_skills::Outcome::Refused(error) => Err(error),
            prowess_skills::Outcome::Asks(_) => return Vec::new(),
        };
        match invoked {
            Ok(answer) => {
                let is_servers = |delta: &SkillDelta| matches!(delta, SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } if skill.from.is_some());
                // The person called for it; a server's words are not the person's.
                let told = if answer.deltas.iter().any(is_servers) {
                    Message::by_agent(answer.text)
                } else {
                    Message::user(answer.text)
                };
                let told = MiddlewareAction::Tell(vec![told]);
                changes(answer.deltas).into_iter().chain([told]).collect()
            }
            Err(error) => {
                vec![MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason: error.for_model() }))]
            }
        }
    }
}

/// The moment after changes that were made for it.
fn after(view: &SkillView, deltas: &[SkillDelta]) -> SkillView {
    let mut state = SkillState::clone(view.state());
    // What does not fit was refused when it was made.
    let _ = state.replay(deltas);
    view.engine().at(&state)
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, moment: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let specs = self.service.tools(&self.at(moment.states));
        let mut made = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        // As long as they are the same, they are shared with the steps before.
        if let Some((of, tools)) = &*made
            && Arc::ptr_eq(of, &specs)
        {
            return tools.clone();
        }
        let tool = |spec: &ToolSpec| {
            let ToolSpec { description, parameters, .. } = spec.clone();
            let definition = ToolDefinition { name: spec.name.to_owned(), description, parameters };
            let (service, forks) = (self.service.clone(), self.forks.clone());
            Arc::new(SkillTool { service, spec: spec.clone(), definition: Arc::new(definition), forks })
        };
        let tools: Vec<Arc<dyn Tool>> = specs.iter().map(|spec| tool(spec) as Arc<dyn Tool>).collect();
        *made = Some((specs, tools.clone()));
        tools
    }

    async fn sections(&self, moment: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        // By now all parts have had their say about what the model sees.
        let loaded = self.loaded(moment).await;
        let (texts, deltas, view) =
            loaded.map_err(|error| MiddlewareError::new("read loaded skills", error))?;
        // It changes only when something is loaded, unloaded or refreshed.
        let section = |text: String| PromptSection { owner: NAME.to_owned(), text, is_stable: false };
        let texts = std::iter::once(view.prompt().text).chain(texts);
        let mut sections: Sections =
            texts.filter(|text| !text.is_empty()).map(section).collect::<Vec<_>>().into();
        sections.changes = deltas.into_iter().map(|delta| Delta::Skill(delta).change()).collect();
        Ok(sections)
    }

    async fn before_agent(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let is_kept = SkillsState::of(moment.states).is_some_and(|kept| kept.secret.is_some());
        let secret = (!is_kept).then(|| MiddlewareAction::Change(Delta::Secret(self.secret).change()));
        Ok(secret.into_iter().collect())
    }

    async fn before_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let view = self.at(moment.states);
        // The budget may be lower than it was when they were loaded, here or in the thread of a parent.
        let dropped = view.over_budget();
        // By now all parts have had their say about what was said.
        let invoked = if moment.run.steps() == 0 {
            self.invoked(moment, &after(&view, &dropped)).await
        } else {
            Vec::new()
        };
        Ok(changes(dropped).into_iter().chain(invoked).collect())
    }

    async fn wrap_model_call(
        &self,
        moment: MiddlewareContext<'_>,
        mut next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let view = self.at(moment.states);
        choice::apply(&view, self.models.as_ref(), &mut next);
        // The text of unloaded skills goes, where the session is set so.
        for message in &mut next.request.messages {
            let Content::Tool(result) = &message.content else { continue };
            if let Some(text) = view.without_unloaded(&result.text) {
                let mut shorter = (**message).clone();
                shorter.content = Content::Tool(ToolResult { text, ..result.clone() });
                *message = Arc::new(shorter);
            }
        }
        next.ask().await
    }

    async fn after_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let view = self.at(moment.states);
        let mut acts = changes(view.after_model_call());
        if view.engine().options().allowed_tools == AllowedTools::Preapprove
            && let NextStep::CallTools(calls) = moment.run.next()
        {
            let listed = calls.into_iter().filter(|call| !call.approved).filter(|call| {
                let arguments = call.call.parsed().unwrap_or_default();
                matches!(
                    self.verdict(moment, &call.call.name, moment.act(&call.call.name), &arguments),
                    ToolVerdict::Preapproved { .. }
                )
            });
            acts.extend(listed.map(|call| MiddlewareAction::Approve { call: call.call.id }));
        }
        Ok(acts)
    }

    async fn wrap_tool_call(&self, moment: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        if let ToolVerdict::Blocked { message } =
            self.verdict(moment, &next.call.name, Some(next.act()), next.arguments)
        {
            return ToolAnswer::error(message).into();
        }
        let files = FILES.iter().filter_map(|name| next.arguments.get(name).and_then(Value::as_str));
        match next.call().await {
            ToolOutput::Done(mut answer) if !answer.is_error => {
                // Files are in play that a skill may be for.
                let files = files.map(|file| file.trim_start_matches('/'));
                let offered = self.at(moment.states).note_files(files);
                answer.changes.extend(offered.into_iter().map(|delta| Delta::Skill(delta).change()));
                answer.into()
            }
            output => output,
        }
    }

    async fn after_agent(
        &self,
        moment: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(changes(self.at(moment.states).end_turn()))
    }
}

fn changes(deltas: Vec<SkillDelta>) -> Vec<MiddlewareAction> {
    deltas.into_iter().map(|delta| MiddlewareAction::Change(Delta::Skill(delta).change())).collect()
}
