//! Hooks: commands, texts and agents that have a say when something happens.
//!
//! A hook can keep something from being done, and can tell the model something. It can never allow what the rules or a
//! person did not.

mod active;
mod config;
mod event;
mod fire;
mod matcher;
mod notice;
mod part;
mod run;
#[cfg(feature = "run")]
mod sandbox;
mod state;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::{
    DEFAULT_HOOK_TIMEOUT, HookConfigError, HookProblem, HookSet, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
pub use self::event::HookEvent;
use self::part::Opened;
pub use self::run::{HookCommand, HookCommands, HookExit, HookRan, HookSkill, MAX_HOOK_OUTPUT};
#[cfg(feature = "run")]
pub use self::sandbox::SandboxedHooks;
use self::state::Kept;
use crate::agent::Agent;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};

const NAME: &str = "hooks";

/// Hooks as a part of an agent: the user's own, and those of loaded skills.
///
/// It stands after `Skills`, `Summarisation` and `Approval`, so that it sees what they did. The user's own hooks run
/// without being asked about. Those of a skill run while it is loaded, if the rules of the session of skills allow
/// kind `hook` for `<skill> <Event>`, and do not deny its command.
///
/// ```
/// use prowess_agent::middleware::{HookSet, Hooks};
/// use serde_json::json;
///
/// let own = HookSet::parse(&json!({
///     "UserPromptSubmit": [{"hooks": [{"type": "prompt", "prompt": "Answer in German."}]}]
/// }))?;
/// let hooks = Hooks::new(own); // `.commands(…)` for hooks that are commands, `.agent(…)` for those that are agents
/// # Ok::<(), prowess_agent::middleware::HookConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hooks(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    own: HookSet,
    commands: Option<Arc<dyn HookCommands>>,
    agents: BTreeMap<String, Agent>,
}

impl Hooks {
    /// The user's own hooks; those of skills need no mention.
    pub fn new(own: HookSet) -> Self {
        Self(Arc::new(Inner { own, commands: None, agents: BTreeMap::new() }))
    }

    /// The same with what runs commands. Without it a hook that is a command does not answer.
    #[must_use]
    pub fn commands(mut self, commands: impl HookCommands + 'static) -> Self {
        Arc::make_mut(&mut self.0).commands = Some(Arc::new(commands));
        self
    }

    /// The same with an agent that hooks can ask; one that names none asks `general-purpose`.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: Agent) -> Self {
        Arc::make_mut(&mut self.0).agents.insert(name.into(), agent);
        self
    }
}

#[async_trait]
impl MiddlewareFactory for Hooks {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Kept>::default())
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        Ok(Arc::new(Opened::new(Arc::clone(&self.0))))
    }
}
