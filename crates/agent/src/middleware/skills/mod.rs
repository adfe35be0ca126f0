//! Skills: their overview in the prompt, their tools, and the loaded skills, which survive compaction and restarts.

mod freed;
mod frozen;
mod in_thread;
mod listed_call;
mod model_choice;
mod put_back;
mod restriction;
mod state;
mod tool;
mod typed_call;

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use prowess_permission::{NoAsker, Permissions};
use prowess_skills::delta::UnloadReason;
use prowess_skills::secret::Secret;
use prowess_skills::{SkillDelta, SkillService, SkillSessionBuilder, SkillView};

use self::in_thread::ThreadSkills;
pub(crate) use self::listed_call::preapproving_skill;
pub use self::model_choice::{SkillModel, SkillModels, SubAgentModel};
pub(crate) use self::restriction::InheritedRestriction;
use self::state::SkillsDelta;
pub use self::state::{SkillUse, SkillsState};
use super::SubAgents;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareContext, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};
use crate::thread_state::StateChange;

const NAME: &str = "skills";

/// Skills for an agent: a skill session for each thread.
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
    builder: Arc<dyn Fn(&ThreadId) -> SkillSessionBuilder + Send + Sync>,
    models: Option<SkillModels>,
    forks: Option<SubAgents>,
    permissions: Option<Permissions>,
    are_in_spans: bool,
}

impl Skills {
    /// Skills whose session for a thread `builder` sets up: its catalog, options, permissions and runs. The middleware
    /// restores the loaded skills of the thread.
    ///
    /// If the session has nobody to ask, its questions wait in the thread, like those of [`ToolPermissions`](super::ToolPermissions).
    pub fn new(builder: impl Fn(&ThreadId) -> SkillSessionBuilder + Send + Sync + 'static) -> Self {
        Self { builder: Arc::new(builder), models: None, forks: None, permissions: None, are_in_spans: false }
    }

    /// A person's request to unload a skill, for [`Thread::change`](crate::Thread::change). It does nothing if the skill is
    /// not loaded.
    pub fn unload(name: &str) -> StateChange {
        let reason = UnloadReason::Person;
        SkillsDelta::Skill(SkillDelta::Unloaded { name: name.to_owned(), reason }).change()
    }

    /// A thread's skills, if its agent has some. For middleware that need to know which skills are loaded.
    ///
    /// ```
    /// use prowess_agent::middleware::Skills;
    /// use prowess_agent::MiddlewareContext;
    ///
    /// /// Whether the conversation has text of skills from MCP servers.
    /// fn is_led(context: MiddlewareContext<'_>) -> bool {
    ///     Skills::at(context).is_some_and(|skills| !skills.server_skills_in_context().is_empty())
    /// }
    /// ```
    pub fn at(context: MiddlewareContext<'_>) -> Option<SkillView> {
        at(context)
    }

    /// Sets the permissions for sessions that have none.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Sets the models that skills can choose with `model`. If there is none of that name, or its provider does not have
    /// it, the agent's own model stays, and a notice says so.
    #[must_use]
    pub fn models(mut self, models: SkillModels) -> Self {
        self.models = Some(models);
        self
    }

    /// Adds attributes about skills to the spans of tool calls: `gen_ai.skill.name`, `gen_ai.skill.operation` and
    /// `gen_ai.skill.digest`. OpenTelemetry has not settled on these names, so they can change.
    #[must_use]
    pub fn in_spans(mut self) -> Self {
        self.are_in_spans = true;
        self
    }

    /// Sets the sub-agents that follow skills with `context: fork`. Without them such skills are loaded like any other.
    #[must_use]
    pub fn sub_agents(mut self, sub_agents: SubAgents) -> Self {
        self.forks = Some(sub_agents);
        self
    }
}

/// A thread's skills, if its agent has some.
pub(crate) fn at(context: MiddlewareContext<'_>) -> Option<SkillView> {
    Some(context.find::<ThreadSkills>()?.at(context.states))
}

/// The skill service of a thread, which reads files and runs commands, if its agent has skills.
pub(crate) fn service(context: MiddlewareContext<'_>) -> Option<&SkillService> {
    context.find::<ThreadSkills>().map(|skills| &skills.service)
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
        let state = SkillsState::of(states).ok_or(MiddlewareError::NoState)?;
        let secret = state.secret.map_or_else(Secret::random, Secret::from_bytes);
        let mut builder = (self.builder)(thread).secret(secret.clone());
        if let Some(permissions) = self.permissions.clone() {
            builder = builder.default_permissions(permissions);
        }
        let service = builder.build_service().await;
        // Skills may have changed since another process or an earlier catalog loaded them.
        let loaded = service.engine().at_shared(&state.state);
        loaded.note_changed().drive(service.files(), &NoAsker).await;
        Ok(Arc::new(ThreadSkills {
            service,
            models: self.models.clone(),
            forks: self.forks.clone(),
            are_in_spans: self.are_in_spans,
            secret: *secret.as_bytes(),
            is_elsewhere: OnceLock::new(),
            tools: Mutex::default(),
            frozen: Mutex::default(),
            matching: Mutex::default(),
        }))
    }
}
