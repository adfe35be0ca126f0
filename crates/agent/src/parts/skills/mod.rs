//! Skills: their overview in the prompt, their tools, and what is loaded, kept through compaction and restarts.

mod choice;
mod state;
mod tool;

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use prowess_permission::{Permissions, Refusal};
use prowess_skills::{
    AllowedTools, SavedState, Secret, SessionBuilder, SkillDelta, SkillError, SkillSession, ToolCall,
    ToolSpec, ToolVerdict, UnloadReason,
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
use crate::middleware::{Act, Jump, Layer, Middleware, MiddlewareError, Moment, Sections};
use crate::model::{Assembled, Model, ModelError, PromptSection, ToolDefinition};
use crate::run::{Effect, Outcome, StateChange};
use crate::state::{AnyState, States};
use crate::tool::{Tool, ToolAct, ToolAnswer, ToolOutput};

const NAME: &str = "skills";
/// The names that a call's argument has in common tools: what a scope such as `Bash(git:*)` is compared with.
const ARGUMENTS: [&str; 4] = ["command", "file_path", "path", "url"];
/// The names that a file's path has in common tools.
const FILES: [&str; 2] = ["file_path", "path"];

/// Skills as a part of an agent: a session of `prowess-skills` for each thread.
///
/// ```
/// use prowess_agent::parts::Skills;
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

    /// The session of a thread, if its agent has skills: for parts that have to know what is loaded.
    ///
    /// ```
    /// use prowess_agent::{Moment, parts::Skills};
    ///
    /// /// Whether the model has words of skills that came from servers.
    /// fn is_led(moment: Moment<'_>) -> bool {
    ///     Skills::session(moment).is_some_and(|session| !session.servers_at_work().is_empty())
    /// }
    /// ```
    pub fn session(moment: Moment<'_>) -> Option<&SkillSession> {
        session(moment)
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

/// The session of a thread, if its agent has skills.
pub(crate) fn session(moment: Moment<'_>) -> Option<&SkillSession> {
    moment.part::<Opened>().map(|opened| &opened.session)
}

impl Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skills").finish_non_exhaustive()
    }
}

#[async_trait]
impl Layer for Skills {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<SkillsState>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let kept = SkillsState::of(states).ok_or(MiddlewareError::NoState)?;
        let secret = kept.secret.map_or_else(Secret::random, Secret::from_bytes);
        let saved = SavedState::new(kept.state.clone(), secret.clone());
        let mut builder = (self.builder)(thread).restore(saved);
        if let Some(permissions) = self.permissions.clone() {
            builder = builder.or_permissions(permissions);
        }
        // What a person allows in one thread is no word for another.
        let session = builder.apart().start().await;
        Ok(Arc::new(Opened {
            session,
            models: self.models.clone(),
            forks: self.forks.clone(),
            secret: *secret.as_bytes(),
            owed: Mutex::default(),
            definitions: Mutex::default(),
        }))
    }
}

/// Skills in a thread.
#[derive(Debug)]
pub(crate) struct Opened {
    session: SkillSession,
    models: Option<Models>,
    forks: Option<SubAgents>,
    /// The secret of the conversation.
    secret: [u8; 16],
    /// Changes that the session made while the prompt was, and that the log does not have yet.
    owed: Mutex<Vec<SkillDelta>>,
    /// What the model was told of the session's tools.
    definitions: Mutex<Vec<(ToolSpec, Arc<ToolDefinition>)>>,
}

impl Opened {
    fn owed(&self) -> MutexGuard<'_, Vec<SkillDelta>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes to where the thread stands: calls that were answered for another process, and what a person changed, take
    /// effect here.
    fn follow(&self, moment: Moment<'_>) {
        if let Some(kept) = SkillsState::of(moment.states)
            && self.owed().is_empty()
        {
            self.session.follow(&kept.state);
        }
    }

    /// The text of loaded skills that the conversation does not have: by the session's placement, or because they were
    /// loaded elsewhere, or compaction took it out.
    async fn loaded(&self, moment: Moment<'_>) -> Vec<String> {
        let loaded = self.session.loaded_section().await;
        let (mut deltas, mut texts) = (loaded.deltas, vec![loaded.text]);
        let inherited = SkillsState::of(moment.states).is_some_and(|kept| kept.inherited);
        if inherited || moment.run.cut() > 0 {
            let section = self.session.put_back(moment.run.view().flat_map(|message| message.texts()), None);
            let section = section.await;
            deltas.extend(section.deltas);
            texts.push(section.text);
        }
        self.owed().extend(deltas);
        texts
    }

    /// What `allowed-tools` says to a call.
    fn verdict(&self, name: &str, act: Option<ToolAct>, arguments: &Value) -> ToolVerdict {
        let mut scoped = ARGUMENTS.iter().filter_map(|name| arguments.get(name).and_then(Value::as_str));
        // With two of them nobody knows which one the tool goes by.
        let mut argument = scoped.next().filter(|_| scoped.next().is_none());
        if act == Some(ToolAct::Find) && arguments.get("path").is_none() {
            argument = arguments.get("pattern").and_then(Value::as_str);
        }
        self.session.check_tool(ToolCall { name, argument })
    }

    /// What `/name arguments` of a person comes to.
    async fn invoked(&self, moment: Moment<'_>) -> Vec<Act> {
        let said = moment.run.messages().last();
        let said = said.filter(|message| message.is_by_person());
        let Some(line) = said.map(|message| message.text()).filter(|text| text.starts_with('/')) else {
            return Vec::new();
        };
        let name = line[1..].split_whitespace().next().unwrap_or_default();
        if !self.session.commands().iter().any(|command| command.name == name) {
            return Vec::new();
        }
        let mut invoked = self.session.invoke(&line).await;
        // Who types a skill's name wants it loaded: where the rules would ask, that was the answer.
        if let Err(SkillError::Refused { refusal: Refusal::NobodyToAsk { request, .. }, .. }) = &invoked {
            let allowed = self.session.permissions().allow_once(request.fingerprint());
            invoked = self.session.invoke(&line).await;
            drop(allowed);
        }
        match invoked {
            Ok(answer) => {
                let is_servers = |delta: &SkillDelta| matches!(delta, SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } if skill.from.is_some());
                // The person called for it; a server's words are not the person's.
                let told = if answer.deltas.iter().any(is_servers) {
                    Message::by_agent(answer.text)
                } else {
                    Message::user(answer.text)
                };
                let told = Act::Tell(vec![told]);
                changes(answer.deltas).into_iter().chain([told]).collect()
            }
            Err(error) => {
                vec![Act::Jump(Jump::End(Outcome::Stopped { reason: error.for_model() }))]
            }
        }
    }
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self, _: Moment<'_>) -> Vec<Arc<dyn Tool>> {
        let mut known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let specs = self.session.tools();
        // Those that are as they were are shared with the steps before.
        let same = |spec: &ToolSpec| known.iter().find(|(known, _)| known == spec).cloned();
        let new = |spec: &ToolSpec| {
            let ToolSpec { description, parameters, .. } = spec.clone();
            (spec.clone(), Arc::new(ToolDefinition { name: spec.name.to_owned(), description, parameters }))
        };
        *known = specs.iter().map(|spec| same(spec).unwrap_or_else(|| new(spec))).collect();
        let tool = |(spec, (_, definition)): (ToolSpec, &(ToolSpec, Arc<ToolDefinition>))| SkillTool {
            session: self.session.clone(),
            spec,
            definition: Arc::clone(definition),
            forks: self.forks.clone(),
        };
        specs.into_iter().zip(&*known).map(|tools| Arc::new(tool(tools)) as Arc<dyn Tool>).collect()
    }

    async fn sections(&self, moment: Moment<'_>) -> Result<Sections, MiddlewareError> {
        self.follow(moment);
        // By now all parts have had their say about what the model sees.
        let loaded = self.loaded(moment).await;
        // It changes only when something is loaded, unloaded or refreshed.
        let section = |text: String| PromptSection { owner: NAME.to_owned(), text, is_stable: false };
        let texts = std::iter::once(self.session.prompt().text).chain(loaded);
        Ok(texts.filter(|text| !text.is_empty()).map(section).collect::<Vec<_>>().into())
    }

    async fn before_agent(&self, moment: Moment<'_>) -> Result<Vec<Act>, MiddlewareError> {
        let is_kept = SkillsState::of(moment.states).is_some_and(|kept| kept.secret.is_some());
        let secret = (!is_kept).then(|| Act::Change(Delta::Secret(self.secret).change()));
        Ok(secret.into_iter().collect())
    }

    async fn before_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, MiddlewareError> {
        self.follow(moment);
        // By now all parts have had their say about what was said.
        if moment.run.steps() == 0 { Ok(self.invoked(moment).await) } else { Ok(Vec::new()) }
    }

    async fn wrap_model_call(&self, _: Moment<'_>, mut next: NextModel<'_>) -> Result<Assembled, ModelError> {
        choice::apply(&self.session, self.models.as_ref(), &mut next);
        // The text of unloaded skills goes, where the session is set so.
        for message in &mut next.request.messages {
            let Content::Tool(result) = &message.content else { continue };
            if let Some(text) = self.session.without_unloaded(&result.text) {
                let mut shorter = (**message).clone();
                shorter.content = Content::Tool(ToolResult { text, ..result.clone() });
                *message = Arc::new(shorter);
            }
        }
        next.ask().await
    }

    async fn after_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, MiddlewareError> {
        let mut deltas = std::mem::take(&mut *self.owed());
        deltas.extend(self.session.after_model_call());
        let mut acts = changes(deltas);
        if self.session.options().allowed_tools == AllowedTools::Preapprove
            && let Effect::CallTools(calls) = moment.run.next()
        {
            let listed = calls.into_iter().filter(|call| !call.approved).filter(|call| {
                let arguments = call.call.parsed().unwrap_or_default();
                matches!(
                    self.verdict(&call.call.name, moment.act(&call.call.name), &arguments),
                    ToolVerdict::Preapproved { .. }
                )
            });
            acts.extend(listed.map(|call| Act::Approve { call: call.call.id }));
        }
        Ok(acts)
    }

    async fn wrap_tool_call(&self, _: Moment<'_>, next: NextTool<'_>) -> ToolOutput {
        if let ToolVerdict::Blocked { message } =
            self.verdict(&next.call.name, Some(next.act()), next.arguments)
        {
            return ToolAnswer::error(message).into();
        }
        let files = FILES.iter().filter_map(|name| next.arguments.get(name).and_then(Value::as_str));
        match next.call().await {
            ToolOutput::Done(mut answer) if !answer.is_error => {
                // Files are in play that a skill may be for.
                let offered = self.session.note_files(files.map(|file| file.trim_start_matches('/')));
                answer.changes.extend(offered.into_iter().map(|delta| Delta::Skill(delta).change()));
                answer.into()
            }
            output => output,
        }
    }

    async fn after_agent(&self, _: Moment<'_>, _: &Outcome) -> Result<Vec<Act>, MiddlewareError> {
        let mut deltas = std::mem::take(&mut *self.owed());
        deltas.extend(self.session.end_turn());
        Ok(changes(deltas))
    }
}

fn changes(deltas: Vec<SkillDelta>) -> Vec<Act> {
    deltas.into_iter().map(|delta| Act::Change(Delta::Skill(delta).change())).collect()
}
